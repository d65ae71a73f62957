package sandbox

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dropAmbient keeps our capabilities from the programs that we start, on whatever thread we do. Those that are to have
// them are given them one by one.
func dropAmbient() error {
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
