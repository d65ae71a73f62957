// Package reap starts child processes whose groups can be killed as long as they are there.
//
// It guarantees that a signal to the group of a child reaches no other: the number of a process belongs to another one as soon as it
// has been waited for, which may be hours before somebody makes sure that it has ended.
package reap

import (
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Child is a process, maybe the first of a process group.
type Child struct {
	cmd   *exec.Cmd
	group bool
	mu    sync.Mutex
	over  bool // it has ended, and its number may be another's at any moment
}

// Start starts it, in a group of its own if SysProcAttr says so (Setpgid).
func Start(cmd *exec.Cmd) (*Child, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Child{cmd: cmd, group: cmd.SysProcAttr != nil && cmd.SysProcAttr.Setpgid}, nil
}

// Wait waits for its end, as exec.Cmd does. It is called once.
func (c *Child) Wait() error {
	for {
		err := unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break // whatever comes, exec.Cmd waits
		}
	}
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	return c.cmd.Wait()
}

// Kill kills the child, with its group if it has one, unless it has ended.
func (c *Child) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	pid := c.cmd.Process.Pid
	if c.group {
		pid = -pid
	}
	if !c.over {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be dead, and not waited for
	}
}

// Signal sends a signal to the child alone, unless it has ended.
func (c *Child) Signal(sig syscall.Signal) { _ = c.cmd.Process.Signal(sig) }
