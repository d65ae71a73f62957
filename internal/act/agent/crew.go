package agent

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/host/spawn"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// crew are processes that this agent has started, each with a number. They have its standard output and error.
type crew struct {
	by *spawn.Spawner
	wg sync.WaitGroup

	mu      sync.Mutex
	members map[int]*spawn.Process // that have not ended
	told    bool                   // they were sent a signal
}

func newCrew(by *spawn.Spawner) *crew { return &crew{by: by, members: map[int]*spawn.Process{}} }

// start starts one in a process group of its own, with our standard output and error before the files of the command; ended
// is told how it ends. It ends with this agent, also when that is killed while the kernel holds a thread of it up, and its sockets
// open, for a file system that hangs: others take the place of what it has started.
func (c *crew) start(number int, cmd spawn.Command, ended func(code, signal int)) error {
	cmd.Group, cmd.Death, cmd.Files = true, syscall.SIGKILL, append([]*os.File{os.Stdout, os.Stderr}, cmd.Files...)
	p, err := c.by.Start(cmd)
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	c.mu.Lock()
	c.members[number] = p
	c.mu.Unlock()
	c.wg.Go(func() {
		code, signal, err := p.Wait()
		c.mu.Lock()
		delete(c.members, number)
		c.mu.Unlock()
		switch {
		case err != nil:
			ui.Say(os.Stderr, err.Error())
			code = 1
		case signal != 0:
			code = 0
		}
		ended(code, signal)
	})
	return nil
}

// signal sends a signal to those that have not ended.
func (c *crew) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = true
	for _, p := range c.members {
		p.Signal(sig)
	}
}

// untold says whether nobody has been sent a signal yet: who ends by one does so by itself.
func (c *crew) untold() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.told
}

// end ends what is left, and returns when all have ended.
func (c *crew) end() {
	c.signal(syscall.SIGKILL)
	c.wg.Wait()
}
