package control

import (
	"net"
	"syscall"
)

// What package syscall has no name for: tcp(7), since Linux 2.6.34.
const thinLinearTimeouts = 16 // TCP_THIN_LINEAR_TIMEOUTS

// linear has the kernel send again at even times what was not acknowledged, the first six times. It would wait twice as long each
// time, and a network that is back would be noticed late. A kernel that cannot do so does as ever.
func linear(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		if raw, err := t.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, thinLinearTimeouts, 1) })
		}
	}
}
