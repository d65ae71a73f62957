package agent

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/act/pmifd"
	"github.com/byssus-hpc/byssus/internal/decide/pmi"
	"github.com/byssus-hpc/byssus/internal/host/spawn"
)

// family are ranks that this agent has started itself, by their numbers.
type family struct {
	*crew
	pmi *pmifd.Server // nil: they are without MPI
}

// run starts the node's ranks. Those that have been started when one cannot be are ended.
func (n *Node) run(number uint64, r control.Run) error {
	s := n.server(number)
	if s == nil {
		return fmt.Errorf("agent: start %d is over", number)
	}
	return s.started.run(number, r, func(body any) { n.say(control.Message{Start: number, Body: body}) })
}

func (p *started) run(number uint64, r control.Run, say func(any)) error {
	server, err := pmifd.New(pmifd.Config{
		Config: pmi.Config{Ranks: p.cfg.Size, Local: p.cfg.Ranks, Job: fmt.Sprintf("byssus.%d", number), Mapping: r.Mapping, Universe: r.Universe},
		Up:     func(u pmi.Up) { say(u) },
		Event:  func(pmi.Event) {},
	})
	if err != nil {
		return err
	}
	f := &family{newCrew(p.cfg.Spawn), server}
	p.mu.Lock()
	p.family = f // before anybody can answer what the ranks say
	p.mu.Unlock()
	for _, rank := range p.cfg.Ranks {
		if err := f.start(p.cfg, rank, r, say); err != nil {
			f.signal(syscall.SIGKILL)
			return err
		}
	}
	return nil
}

// firstExtra is the number of the first descriptor that a process inherits beyond the standard ones.
const firstExtra = 3

func (f *family) start(cfg *Config, rank int, r control.Run, say func(any)) error {
	theirs, err := f.pmi.Open(rank)
	if err != nil {
		return err
	}
	defer theirs.Close()
	return f.startAs(cfg, rank, spawn.Command{Args: r.Command, Dir: r.Dir, Files: []*os.File{theirs}, Env: f.pmi.Env(r.Environ, rank, firstExtra)}, say)
}

// startAs starts a rank, and says how it ends.
func (f *family) startAs(cfg *Config, rank int, cmd spawn.Command, say func(any)) error {
	cmd.Args = cfg.routed(cmd.Args)
	cmd.Env = append(cmd.Env, "BYSSUS_AGENT="+SocketPath(cfg.Dir), "BYSSUS_RUNDIR="+cfg.Dir, ClientVariable+"="+cfg.Clients)
	return f.crew.start(rank, cmd, func(code, signal int) {
		say(control.Exited{Rank: rank, Code: code, Signal: signal, Untold: f.untold()})
	})
}

// replaceRanks starts processes in the places of ranks that have died, of a program without MPI. The node may have had no part in the start.
func replaceRanks(n *Node, number uint64, o control.Replace) error {
	if n.server(number) == nil {
		if err := n.begin(number, control.Begin{Order: o.Order, Ranks: o.Ranks, Size: o.Size, Writers: 1}); err != nil {
			return err
		}
	}
	return n.server(number).started.replace(o, func(body any) { n.say(control.Message{Start: number, Body: body}) })
}

func (p *started) replace(o control.Replace, say func(any)) error {
	p.mu.Lock()
	if p.family == nil {
		p.family = &family{crew: newCrew(p.cfg.Spawn)}
	}
	f := p.family
	p.mu.Unlock()
	for _, rank := range o.Ranks {
		env := slices.DeleteFunc(slices.Clone(o.Environ), func(e string) bool { return strings.HasPrefix(e, "PMI_") })
		env = append(env, fmt.Sprint("PMI_RANK=", rank), fmt.Sprint("PMI_SIZE=", o.Size))
		if err := f.startAs(p.cfg, rank, spawn.Command{Args: o.Command, Dir: o.Dir, Env: env}, say); err != nil {
			return err
		}
	}
	return nil
}

// end ends what is left, and returns when all have ended.
func (f *family) end() {
	f.crew.end()
	if f.pmi != nil {
		f.pmi.Close()
	}
}
