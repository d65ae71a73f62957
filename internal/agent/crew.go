package agent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// crew are processes that this agent has started, each with a number. They have its standard output and error.
type crew struct {
	wg sync.WaitGroup

	mu      sync.Mutex
	members map[int]*os.Process // that have not ended
}

func newCrew() *crew { return &crew{members: map[int]*os.Process{}} }

// start starts one; ended is told how it ends.
func (c *crew) start(number int, cmd *exec.Cmd, ended func(code, signal int)) error {
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	c.mu.Lock()
	c.members[number] = cmd.Process
	c.mu.Unlock()
	c.wg.Go(func() {
		err := cmd.Wait()
		c.mu.Lock()
		delete(c.members, number)
		c.mu.Unlock()
		ended(exitOf(cmd.ProcessState, err))
	})
	return nil
}

// exitOf is the exit code of a process, or the signal that ended it.
func exitOf(st *os.ProcessState, err error) (code, signal int) {
	code = st.ExitCode()
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 0, int(ws.Signal())
	}
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		code = 1 // what it printed could not all be handed on
	}
	return code, 0
}

// signal sends a signal to those that have not ended; a pid cannot be another's before Wait has returned.
func (c *crew) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.members {
		_ = p.Signal(sig)
	}
}

// end ends what is left, and returns when all have ended.
func (c *crew) end() {
	c.signal(syscall.SIGKILL)
	c.wg.Wait()
}
