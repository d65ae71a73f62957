package agent

import (
	"syscall"
	"unsafe"
)

// ended says whether the process behind a pidfd has ended.
func ended(pidfd uintptr) bool {
	const pollIn = 1
	p := struct {
		fd              int32
		events, revents int16
	}{fd: int32(pidfd), events: pollIn}
	n, _, _ := syscall.Syscall(syscall.SYS_POLL, uintptr(unsafe.Pointer(&p)), 1, 0)
	return n == 1
}
