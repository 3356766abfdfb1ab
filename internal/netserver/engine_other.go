//go:build !linux

package netserver

import "errors"

const epollSupported = false

func newEpollEngine(*Server, *boundListener) (engine, error) {
	return nil, errors.New("the epoll engine exists on Linux only")
}
