package agent

import (
	"fmt"
	"slices"
	"sync"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// pages are the shared pages of the ranks of this node. They can be read by any goroutine until they are closed.
type pages struct {
	ranks []int // ascending

	mu   sync.Mutex
	list []*page // as ranks; none: closed
}

// open makes the pages. What was made when one cannot be is closed by close.
func (p *pages) open(dir string, ranks []int) error {
	p.ranks = ranks
	for _, rank := range ranks {
		one, err := newPage(PagePath(dir, rank))
		if err != nil {
			return fmt.Errorf("agent: page of rank %d: %w", rank, err)
		}
		p.list = append(p.list, one)
	}
	return nil
}

// sample reads every page.
func (p *pages) sample() []node.Sample {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]node.Sample, len(p.list))
	for i, one := range p.list {
		out[i] = one.sample()
	}
	return out
}

// lost says how a rank ended.
func (p *pages) lost(rank int, untold bool) node.Lost {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, _ := slices.BinarySearch(p.ranks, rank)
	last := p.list[i].sample()
	ev := node.Lost{Rank: rank, Ended: last.Phase == abi.PhaseEnded, Untold: untold}
	if ev.Ended {
		ev.Code, ev.Ago = int(last.ExitCode), p.list[i].inPhase()
	}
	return ev
}

// close unmaps and removes the pages.
func (p *pages) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.list {
		one.close()
	}
	p.list = nil
}
