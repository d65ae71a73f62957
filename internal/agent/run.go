package agent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/control"
	"github.com/byssus-hpc/byssus/internal/pmi"
	"github.com/byssus-hpc/byssus/internal/pmi/pmifd"
)

// family are ranks that this agent has started itself. They have its standard output and error, the job's rank 0 its
// standard input too.
type family struct {
	pmi *pmifd.Server
	wg  sync.WaitGroup

	mu      sync.Mutex
	members map[int]*os.Process // that have not ended
}

// run starts the node's ranks. Those that have been started when one cannot be are ended.
func (n *Node) run(number uint64, r control.Run) error {
	s := n.server(number)
	if s == nil {
		return fmt.Errorf("agent: start %d is over", number)
	}
	say := func(body any) { n.say(control.Message{Start: number, Body: body}) }
	server, err := pmifd.New(pmifd.Config{
		Config: pmi.Config{Ranks: s.cfg.Size, Local: s.cfg.Ranks, Job: fmt.Sprintf("byssus.%d", number), Mapping: r.Mapping, Universe: r.Universe},
		Up:     func(u pmi.Up) { say(u) },
		Event:  func(pmi.Event) {},
	})
	if err != nil {
		return err
	}
	f := &family{pmi: server, members: map[int]*os.Process{}}
	s.mu.Lock()
	s.family = f // before anybody can answer what the ranks say
	s.mu.Unlock()
	for _, rank := range s.cfg.Ranks {
		if err := f.start(s, rank, r, say); err != nil {
			f.signal(syscall.SIGKILL)
			return err
		}
	}
	return nil
}

// firstExtra is the number of the first descriptor that a process inherits beyond the standard ones.
const firstExtra = 3

func (f *family) start(s *Server, rank int, r control.Run, say func(any)) error {
	theirs, err := f.pmi.Open(rank)
	if err != nil {
		return err
	}
	defer theirs.Close()
	cmd := exec.Command(r.Command[0], r.Command[1:]...)
	cmd.Env = append(f.pmi.Env(r.Environ, rank, firstExtra), "BYSSUS_AGENT="+SocketPath(s.cfg.Dir), "BYSSUS_RUNDIR="+s.cfg.Dir)
	cmd.Dir, cmd.ExtraFiles = r.Dir, []*os.File{theirs}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if rank == 0 {
		cmd.Stdin = os.Stdin
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("agent: rank %d: %w", rank, err)
	}
	f.mu.Lock()
	f.members[rank] = cmd.Process
	f.mu.Unlock()
	f.wg.Go(func() {
		err := cmd.Wait()
		f.mu.Lock()
		delete(f.members, rank)
		f.mu.Unlock()
		say(exited(rank, cmd.ProcessState, err))
	})
	return nil
}

func exited(rank int, st *os.ProcessState, err error) control.Exited {
	out := control.Exited{Rank: rank, Code: st.ExitCode()}
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		out.Code, out.Signal = 0, int(ws.Signal())
	}
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		out.Code = 1 // what the rank printed could not all be handed on
	}
	return out
}

// signal sends a signal to those ranks that have not ended; a pid cannot be another's before Wait has returned.
func (f *family) signal(sig syscall.Signal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.members {
		_ = p.Signal(sig)
	}
}

// end ends what is left, and returns when all have ended.
func (f *family) end() {
	f.signal(syscall.SIGKILL)
	f.wg.Wait()
	f.pmi.Close()
}
