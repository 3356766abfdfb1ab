package netserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// boundListener is a listening socket and, for a Unix socket, the file that belongs to it.
type boundListener struct {
	net.Listener
	path string
	info fs.FileInfo // of path, as we made it
}

// Listen binds an address as a Server does, for a port that is served otherwise: "host:port" or "unix:/path", whose file is
// replaced when nobody listens there and removed at Close. option is for error messages.
func Listen(ctx context.Context, address, option string) (net.Listener, error) {
	return listen(ctx, &Config{Listen: address, Option: option, SocketMode: defaultSocketMode})
}

// listen binds an address. The error is one line that names the address and the option.
func listen(ctx context.Context, cfg *Config) (*boundListener, error) {
	l, err := bind(ctx, cfg)
	if err == nil {
		return l, nil
	}
	where := cfg.Listen
	if cfg.Option != "" {
		where += " (" + cfg.Option + ")"
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: %w: another program listens there; stop it or choose another address", where, syscall.EADDRINUSE)
	}
	// net.OpError repeats the address; what it wraps says what is wrong.
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return nil, fmt.Errorf("listen on %s: %w", where, err)
}

func bind(ctx context.Context, cfg *Config) (*boundListener, error) {
	var lc net.ListenConfig
	path, unix := strings.CutPrefix(cfg.Listen, "unix:")
	if !unix {
		l, err := lc.Listen(ctx, "tcp", cfg.Listen)
		if err != nil {
			return nil, err
		}
		return &boundListener{Listener: l}, nil
	}
	if path == "" {
		return nil, errors.New("no path after unix")
	}
	if err := removeStaleSocket(ctx, path); err != nil {
		return nil, err
	}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	// Removing the file is ours to do, and only while it is still the one that we made.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	b := &boundListener{Listener: l, path: path}
	b.info, err = os.Lstat(path)
	if err == nil {
		err = os.Chmod(path, cfg.SocketMode)
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// removeStaleSocket removes a socket file that nobody listens on any more, as a killed process leaves one.
func removeStaleSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("the file exists and is no socket")
	}
	d := net.Dialer{Timeout: 2 * time.Second}
	c, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close() // it was only to see whether somebody answers
		return syscall.EADDRINUSE
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// Close stops listening and removes the socket file.
func (b *boundListener) Close() error {
	err := b.Listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	if b.path == "" || b.info == nil {
		return err
	}
	if now, statErr := os.Lstat(b.path); statErr == nil && os.SameFile(now, b.info) {
		err = errors.Join(err, os.Remove(b.path))
	}
	b.info = nil
	return err
}
