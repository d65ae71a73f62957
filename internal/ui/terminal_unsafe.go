package ui

import (
	"os"
	"syscall"
	"unsafe"
)

// IsTerminal says whether a file is a terminal, by asking for its settings.
func IsTerminal(f *os.File) bool {
	var termios [64]byte
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	err = raw.Control(func(fd uintptr) {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TCGETS, uintptr(unsafe.Pointer(&termios[0])))
		ok = errno == 0
	})
	return ok && err == nil
}
