package sandbox

import (
	"fmt"
	"os"
	ossignal "os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/ui"
)

// initVerb is the argument after which a program hands the rest to Init.
const initVerb = "sandbox-init"

// Descriptors with which hub and nodes begin.
const (
	fdControl = 3 // to the creator, or to the hub
	fdLock    = 4 // the hub's: the lock of the sandbox
)

// Init is the hub or a node: what runs when this program has started itself as
//
//	byssus sandbox-init hub NAME DIRECTORY
//	byssus sandbox-init node NAME
//
// It returns the exit code when it is over.
func Init(args []string) int {
	if os.Getpid() != 1 || len(args) < 2 {
		fmt.Fprintln(os.Stderr, "byssus: sandbox-init: not for people: byssus sandbox create starts it")
		return 121
	}
	err := begin()
	switch {
	case err != nil:
	case args[0] == "hub" && len(args) == 3:
		err = runHub(&place{dir: args[2]})
	case args[0] == "node":
		err = runNode()
	default:
		err = fmt.Errorf("no part %q", args)
	}
	if err != nil {
		ui.Say(os.Stderr, fmt.Sprintf("%s %s: %v", args[0], args[1], err))
		return 1
	}
	return 0
}

// begin makes of a fresh process one that stays: without what it has inherited by accident.
func begin() error {
	if err := closeInherited(); err != nil {
		return err
	}
	unix.Umask(0o022)
	if err := os.Chdir("/"); err != nil {
		return err
	}
	// Nothing of the machine's mounts is to change with ours, or ours with the machine's.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts: private: %w", err)
	}
	return nil
}

// closeInherited closes what somebody above our creator has left open, as shells and make do. Go marks its own to be
// closed by exec, so that what has come through one without this mark is not ours, but for the first few.
func closeInherited() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if fd == fdControl || fd == fdLock {
			unix.CloseOnExec(fd)
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); fd > 2 && err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}

// control is the connection with which a hub or a node begins.
func control() *os.File { return os.NewFile(fdControl, "control") }

// reapAlways waits for children as they end, and takes all signals, so that nothing ends a first process but SIGKILL from
// around its namespace. They are caught and not ignored: children would inherit that.
func (c *children) reapAlways() {
	ch := make(chan os.Signal, 64)
	for sig := syscall.Signal(1); sig < 32; sig++ {
		if sig != syscall.SIGURG { // Go's own
			ossignal.Notify(ch, sig)
		}
	}
	go func() {
		for sig := range ch {
			if sig == syscall.SIGCHLD {
				c.reap()
			}
		}
	}()
}
