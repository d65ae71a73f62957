package coordsrv

import (
	"cmp"
	"slices"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/timeline"
)

// survivors is what becomes of ranks that die while the others go on (byssus run --survivors keep).
type survivors struct{ *ranks }

// keeps says whether survivors of a death go on in the present start, as far as it depends on how it was started.
func (r *ranks) keeps() bool {
	return r.opt.Job.Meta.Survivors == dataset.SurvivorsRejoin && r.now.killed == 0 && r.now.spread != nil && r.now.spread.launcher == nil
}

// ended takes in how a rank has ended in a start whose survivors go on; false: it is to be taken as in others.
func (r survivors) ended(sp *spread, e control.Exited) bool {
	over, signal := r.written().memory.ending(), e.Signal
	if signal == 0 && e.Code > bySignal { // of a child, as a shell says it
		signal = e.Code - bySignal
	}
	switch {
	case signal != 0 && e.Untold && !over:
		sp.died = cmp.Or(sp.died, signal)
		sp.code = cmp.Or(sp.code, bySignal+signal)
		r.step(coord.RanksDied{Ranks: []int{e.Rank}, Signal: signal})
		r.emptied(sp)
		return true
	case signal == 0 && e.Code == 0:
		r.written().memory.shrunk(len(sp.left))
	}
	return false
}

// nodeDied: a node is gone, with its ranks, if it has any.
func (r survivors) nodeDied(p *peer, why string) {
	sp := r.now.spread
	if len(p.ranks) == 0 {
		return
	}
	for _, rank := range p.ranks {
		delete(sp.left, rank)
	}
	sp.code = cmp.Or(sp.code, bySignal+int(syscall.SIGKILL))
	if r.written().memory.ending() {
		r.step(coord.NodeLost{Name: "node " + p.name, Ranks: p.ranks, Why: why})
		r.emptied(sp)
		return
	}
	r.step(coord.RanksDied{Ranks: slices.Clone(p.ranks), Node: "node " + p.name, Why: why})
	r.emptied(sp)
}

// replace starts processes in the places of ranks that have died: on the same nodes, or where their parts of the newest snapshot are made
// again.
func (r survivors) replace(list []int) {
	sp := r.now.spread
	if sp == nil { // all have ended meanwhile, which is told
		return
	}
	sp.code, sp.died = 0, 0
	for _, rank := range list {
		sp.left[rank] = true
	}
	r.written().keeper.Settled(func() { // there are caches wherever survivors are kept
		switch {
		case r.now.spread != sp:
			return
		case r.now.killed != 0:
			r.unstarted(sp, list)
			return
		case len(r.agents.alive()) == 0:
			r.step(coord.Unreplaced{Why: "all nodes are lost"})
			r.unstarted(sp, list)
			return
		}
		r.settle(list)
		r.startAgain(sp, list)
	})
}

// settle gives ranks of lost nodes to others.
func (r survivors) settle(list []int) {
	w := r.written()
	wanted := map[int]int{} // the node of a rank's part
	if newest := guide(w, 0); newest != 0 {
		if plan, err := w.keeper.Resume(newest); err == nil {
			for node, ranks := range plan.Ranks {
				for _, rank := range ranks {
					wanted[rank] = node
				}
			}
		}
	}
	for _, p := range r.agents.list {
		for _, rank := range slices.Clone(p.ranks) {
			if !p.gone || !slices.Contains(list, rank) {
				continue
			}
			to := slices.MinFunc(r.agents.alive(), func(a, b *peer) int { return cmp.Compare(len(a.ranks), len(b.ranks)) })
			if node, ok := wanted[rank]; ok && !r.agents.list[node].gone {
				to = r.agents.list[node]
			}
			p.ranks = slices.DeleteFunc(p.ranks, func(other int) bool { return other == rank })
			to.ranks = slices.Sorted(slices.Values(append(to.ranks, rank)))
		}
	}
}

// startAgain has agents start processes for ranks.
func (r survivors) startAgain(sp *spread, list []int) {
	var to []*peer
	of := func(p *peer) []int {
		return slices.DeleteFunc(slices.Clone(p.ranks), func(rank int) bool { return !slices.Contains(list, rank) })
	}
	for _, p := range r.agents.engaged() {
		if len(of(p)) > 0 {
			to = append(to, p)
		}
	}
	spec := r.spec(0)
	r.story.log.Add(timeline.Event{Kind: timeline.Replaced, Start: r.agents.start, LostRanks: list})
	r.agents.order(to, func(p *peer, order uint64) any {
		return control.Replace{Order: order, Ranks: of(p), Size: spec.Ranks, Command: spec.RankCommand(), Environ: spec.Env(r.opt.Environ), Dir: r.opt.Dir}
	}, func(answers []control.Message) {
		for i, m := range answers {
			if why := failure([]control.Message{m}); why != "" && !to[i].gone && r.now.spread == sp { // the loss of a node is heard elsewhere
				r.step(coord.Unreplaced{Why: why})
				r.unstarted(sp, of(to[i]))
			}
		}
	})
}

// unstarted: there are no processes of these ranks.
func (r survivors) unstarted(sp *spread, list []int) {
	for _, rank := range list {
		delete(sp.left, rank)
	}
	r.emptied(sp)
}
