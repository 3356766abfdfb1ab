package netserver

import (
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The raw system calls of the loops. RawSyscall skips the scheduler's bookkeeping around a system call, which is more
// expensive than a read of a small request; that is right only for calls that can't block, and the sockets are
// non-blocking. This is the only file of the package that uses unsafe.

// epollPoll returns the events that are there now, without waiting.
func epollPoll(epfd int, events []unix.EpollEvent) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	return int(n), errno
}

// epollWait waits for events, ms milliseconds at most, -1 for ever. The scheduler gives the processor to others
// meanwhile.
func epollWait(epfd int, events []unix.EpollEvent, ms int) (int, syscall.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(ms), 0, 0)
	return int(n), errno
}

func sockRead(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return int(n), errno
}

// sockWrite sends without raising SIGPIPE.
func sockWrite(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

// rawAddr is a peer's address as accept gives it; turning it into text waits until somebody asks.
type rawAddr [unix.SizeofSockaddrInet6]byte

func sockAccept(fd int) (int, rawAddr, syscall.Errno) {
	var addr rawAddr
	size := uint32(len(addr))
	n, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&addr[0])), uintptr(unsafe.Pointer(&size)),
		unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	return int(n), addr, errno
}

func sockShutdownWrite(fd int) {
	// The only errors are those of a connection that has ended already.
	_, _, _ = unix.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), unix.SHUT_WR, 0)
}

// sockClose closes a socket or another descriptor of ours. There is nothing to be done about an error: the descriptor
// is gone in any case.
func sockClose(fd int) { _, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// eventfdSignal adds one to an eventfd counter, which wakes the loop that waits for it.
func eventfdSignal(fd int) {
	one := [8]byte{1} // any number but 0, in either byte order
	// It could fail only by overflow, with 2^64 - 1 signals that nobody waited for.
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one[0])), uintptr(len(one)))
}

func (a *rawAddr) String() string {
	switch family := *(*uint16)(unsafe.Pointer(&a[0])); family {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(a[4:8])), a.port()).String()
	case unix.AF_INET6:
		ip := netip.AddrFrom16([16]byte(a[8:24])).Unmap()
		return netip.AddrPortFrom(ip, a.port()).String()
	case unix.AF_UNIX:
		return "unix"
	default:
		return "family " + strconv.Itoa(int(family))
	}
}

func (a *rawAddr) port() uint16 { return uint16(a[2])<<8 | uint16(a[3]) }

// dupListener returns a descriptor of our own for a listening socket, non-blocking and with the options that accepted
// connections inherit: no delay for small answers, and probes that notice vanished peers.
func dupListener(l net.Listener) (int, error) {
	sc, ok := l.(syscall.Conn)
	if !ok {
		return -1, syscall.EINVAL
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	var dupErr error
	if err := rc.Control(func(orig uintptr) { fd, dupErr = unix.FcntlInt(orig, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return -1, err
	}
	if dupErr != nil {
		return -1, dupErr
	}
	err = unix.SetNonblock(fd, true)
	if _, tcp := l.Addr().(*net.TCPAddr); tcp && err == nil {
		err = setListenerOptions(fd)
	}
	if err != nil {
		sockClose(fd)
		return -1, err
	}
	return fd, nil
}

func setListenerOptions(fd int) error {
	for _, o := range []struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepAliveSeconds},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepAliveSeconds},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return err
		}
	}
	return nil
}

// keepAliveSeconds is the time of silence before a probe, and between probes.
const keepAliveSeconds = 30
