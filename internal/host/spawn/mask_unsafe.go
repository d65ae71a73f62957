package spawn

import (
	"syscall"
	"unsafe"
)

const (
	sigBlock   = 0
	sigSetMask = 2
)

// block adds a signal to the calling thread's mask, which processes inherit that it starts, and returns the mask before.
func block(sig syscall.Signal) uint64 {
	var was, set uint64
	if sig > 0 {
		set = uint64(1) << (sig - 1)
	}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigBlock, uintptr(unsafe.Pointer(&set)), uintptr(unsafe.Pointer(&was)), 8, 0, 0)
	return was
}

func setMask(set uint64) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetMask, uintptr(unsafe.Pointer(&set)), 0, 8, 0, 0)
}
