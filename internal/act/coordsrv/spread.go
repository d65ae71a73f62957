package coordsrv

import (
	"fmt"
	"slices"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/decide/pmi"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/timeline"
)

// lost: an agent is gone, and its node with it as far as the job is concerned. Nobody waits for its answers.
func (s *Server) lost(p *peer, why string) {
	if p.gone {
		return
	}
	p.gone, p.lost = true, why
	if s.caches != nil && s.caches.keeper != nil {
		s.caches.keeper.Lost(slices.Index(s.agents.list, p))
	}
	if s.written != nil {
		s.written.lost(slices.Index(s.agents.list, p))
	}
	s.story.nodeLost(p, s.agents.start)
	s.story.log.Add(timeline.Event{Kind: timeline.Lost, Start: s.agents.start, Node: p.name, LostRanks: slices.Clone(p.ranks),
		Noticed: time.Since(p.lastHeard()), Reason: why})
	if p.end != nil {
		p.end()
	}
	for order, a := range s.agents.waiting {
		if a.from == p {
			s.agents.answered(order, isLost(p, why))
		}
	}
	switch {
	case s.ranks.now.spread == nil:
	case s.ranks.now.spread.launcher == p:
		s.ranks.launched(control.Launched{Signal: 9})
	case s.ranks.now.spread.launcher != nil && s.opt.Job.Meta.Survivors == dataset.SurvivorsSpares && s.written.memory.lives(): // spares take the places of members that were there
		return
	case s.ranks.keeps():
		survivors{s.ranks}.nodeDied(p, why)
		return
	case s.ranks.now.spread.launcher == nil:
		for _, r := range p.ranks {
			s.ranks.exited(control.Exited{Rank: r, Signal: 9})
		}
	}
	s.step(coord.NodeLost{Name: "node " + p.name, Ranks: p.ranks, Why: why})
}

// spread is a start of ranks by agents.
type spread struct {
	nodes []*peer
	root  *pmi.Root
	left  map[int]bool // ranks that have not ended
	code  int          // of the first that ended with an error, as a shell says it
	died  int          // the signal by which that was, of a plain job

	launcher *peer    // an MPI's own launcher runs here, and has started the ranks; nil: the agents have, one by one
	environ  []string // of what it starts
}

// bySignal is what a shell adds to the number of a signal.
const bySignal = 128

// startSpread starts the ranks on their nodes.
func (r *ranks) startSpread(command, environ []string) {
	to := r.agents.engaged()
	at := make([]int, r.count)
	sp := &spread{nodes: to, root: pmi.NewRoot(len(to)), left: map[int]bool{}}
	for i, p := range to {
		for _, rank := range p.ranks {
			at[rank], sp.left[rank] = i, true
		}
	}
	r.now.spread = sp
	r.agents.order(to, func(_ *peer, order uint64) any {
		return control.Run{Order: order, Command: command, Environ: environ, Dir: r.opt.Dir, Mapping: pmi.Mapping(at), Universe: len(at)}
	}, func(answers []control.Message) {
		if why := failure(answers); why != "" && r.now.spread == sp {
			r.opt.Say(why)
			r.agents.tell(control.Kill{})
		}
	})
}

// meet takes in what the PMI of a node says to the others.
func (r *ranks) meet(p *peer, up pmi.Up) {
	if r.now.spread == nil || r.now.spread.root == nil {
		return
	}
	sends, events, err := r.now.spread.root.Step(slices.Index(r.now.spread.nodes, p), up)
	if err != nil {
		r.opt.Say(err.Error())
	}
	for _, send := range sends {
		for i, to := range r.now.spread.nodes {
			if !to.gone && (send.Node == pmi.All || send.Node == i) {
				to.hear(control.Message{Start: r.agents.start, Body: send.Down})
			}
		}
	}
	for _, ev := range events {
		if end, ok := ev.(pmi.End); ok && end.How != pmi.Lost {
			r.failed(max(end.Code, 1))
		}
	}
}

// failed: the first rank that ends with an error ends all, as launchers do.
func (r *ranks) failed(code int) {
	if r.now.spread.code == 0 {
		r.now.spread.code = code
		r.agents.tell(control.Kill{})
	}
}

// diedUntold says of a rank that has died before anybody was told to end that the others end because of it. Only where agents
// start the ranks: launchers end ranks by themselves.
func (r *ranks) diedUntold(report node.Report) {
	l, ok := report.(node.Lost)
	if ok && l.Untold && !l.Ended && r.now.spread != nil && r.now.spread.launcher == nil {
		r.step(coord.RankKilled{Rank: l.Rank})
	}
}

// exited: when the last rank has ended the start is over.
func (r *ranks) exited(e control.Exited) {
	sp := r.now.spread
	if sp == nil || !sp.left[e.Rank] {
		return
	}
	delete(sp.left, e.Rank)
	if r.keeps() && (survivors{r}).ended(sp, e) {
		return
	}
	if r.opt.Plain && e.Untold && sp.died == 0 { // others may have ended because of it, and their agents may have said so before
		sp.died = e.Signal
	}
	switch {
	case e.Signal != 0:
		r.failed(bySignal + e.Signal)
	case e.Code != 0:
		r.failed(e.Code)
	}
	r.emptied(sp)
}

// emptied: the start is over when no rank is left.
func (r *ranks) emptied(sp *spread) {
	if len(sp.left) == 0 && r.now.spread == sp {
		r.now.spread = nil
		r.wg.Go(func() { r.post(coord.LauncherExit{Code: sp.code, Died: sp.died}) })
	}
}

// startLauncher starts an MPI's own launcher on the first of the nodes.
func (r *ranks) startLauncher(command, environ []string) {
	to := r.agents.engaged()
	hosts := make([]string, r.count)
	for _, p := range to {
		for _, rank := range p.ranks {
			hosts[rank] = p.name
		}
	}
	if r.opt.Script {
		hosts = slices.Compact(hosts)
	}
	sp := &spread{nodes: to, launcher: to[0], environ: environ}
	r.now.spread = sp
	r.agents.order(to[:1], func(_ *peer, order uint64) any {
		return control.Launch{Order: order, Command: command, Environ: environ, Dir: r.opt.Dir, Hosts: hosts, Script: r.opt.Script}
	}, func(answers []control.Message) {
		if why := failure(answers); why != "" && r.now.spread == sp {
			r.opt.Say(why)
			r.launched(control.Launched{Code: 1})
		}
	})
}

// launched: the launcher has ended.
func (r *ranks) launched(l control.Launched) {
	if r.now.spread == nil || r.now.spread.launcher == nil {
		return
	}
	r.now.spread = nil
	if r.written().memory.spares.ended == r.agents.start { // what it says of those that have died means nothing
		l = control.Launched{}
	}
	r.wg.Go(func() { r.post(coord.LauncherExit{Code: l.Code, Signal: l.Signal, Died: r.died(l.Code)}) })
}

// spawn has something started on another node for the launcher.
func (r *ranks) spawn(from *peer, w control.Spawn) {
	const failed = 255
	sp := r.now.spread
	if sp == nil || sp.launcher != from {
		return
	}
	i := slices.IndexFunc(sp.nodes, func(p *peer) bool { return p.name == w.Node && !p.gone })
	if i < 0 {
		r.opt.Say(fmt.Sprintf("coordsrv: the launcher asks for node %q, which has no ranks", w.Node))
		from.hear(control.Message{Start: r.agents.start, Body: control.Spawned{Number: w.Number, Code: failed}})
		return
	}
	sp.nodes[i].hear(control.Message{Start: r.agents.start, Body: control.Exec{Number: w.Number, Command: w.Command, Environ: sp.environ, Dir: r.opt.Dir}})
}

// executed: what the launcher wanted on a node has ended.
func (r *ranks) executed(e control.Executed) {
	if r.now.spread != nil && r.now.spread.launcher != nil && !r.now.spread.launcher.gone {
		r.now.spread.launcher.hear(control.Message{Start: r.agents.start, Body: control.Spawned(e)})
	}
}

// meeting lets ranks go on when those of all nodes have come to it.
func (r *ranks) meeting(n uint64) {
	if r.now.met[n]++; r.now.met[n] == len(r.agents.engaged()) {
		r.agents.tell(control.AllHere{Meeting: n})
	}
}
