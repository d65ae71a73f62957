package launch

import (
	"os"
	"syscall"
	"unsafe"
)

// tcgetpgrp returns the foreground process group of a terminal, 0 when f is none.
func tcgetpgrp(f *os.File) int {
	var pgrp int32
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	err = raw.Control(func(fd uintptr) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&pgrp))); errno != 0 {
			pgrp = 0
		}
	})
	if err != nil {
		return 0
	}
	return int(pgrp)
}
