package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// children are the processes that a first process of a pid namespace has to wait for: those that it starts, and the
// orphans of the others. One place waits for all, so that none is waited for twice or signalled after its number is free.
type children struct {
	mu    sync.Mutex
	ended map[int]chan syscall.WaitStatus // by pid, of those that were started and have not been waited for
}

// A child is a process that was started.
type child struct {
	pid   int
	ended chan syscall.WaitStatus // one value, then closed
}

// start starts a process, on the given processors if there are any. It has no capabilities of ours but those that attr
// gives it.
func (c *children) start(file string, argv []string, attr *syscall.ProcAttr, cpus []int) (child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pid int
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: what is set here is the thread's, which ends with this function
		if err = settle(cpus); err == nil {
			pid, err = syscall.ForkExec(file, argv, attr)
		}
	}()
	<-done
	if err != nil {
		return child{}, err
	}
	if c.ended == nil {
		c.ended = map[int]chan syscall.WaitStatus{}
	}
	ended := make(chan syscall.WaitStatus, 1)
	c.ended[pid] = ended
	return child{pid, ended}, nil
}

// settle gives this thread, and what it starts, its processors, and keeps our ambient capabilities from it.
func settle(cpus []int) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	if len(cpus) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("processors %v: %w", cpus, err)
	}
	return nil
}

// signal sends a signal to a child that has not been waited for, or with group to its process group.
func (c *children) signal(to child, sig syscall.Signal, group bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	pid := to.pid
	if c.ended[pid] == nil || c.ended[pid] != to.ended {
		return syscall.ESRCH
	}
	if group {
		pid = -pid
	}
	return syscall.Kill(pid, sig)
}

// reap waits for all that have ended.
func (c *children) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid == 0 {
			return
		}
		if ended := c.ended[pid]; ended != nil {
			ended <- status
			close(ended)
			delete(c.ended, pid)
		}
	}
}
