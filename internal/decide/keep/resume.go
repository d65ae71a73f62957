package keep

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/recovery"
)

// plan says how the job goes on from a checkpoint in the caches of these nodes.
func (k *Keeper) plan(checkpoint uint64, nodes []int) (*recovery.Plan, error) {
	var list []recovery.Node
	for _, n := range nodes {
		list = append(list, recovery.Node{Name: k.nodes[n].name, Held: k.nodes[n].held[checkpoint]})
	}
	ranks := k.cfg.Ranks
	if label := k.Label(checkpoint); label.Ranks > 0 {
		ranks = label.Ranks
	}
	return recovery.Decide(k.cfg.Job, checkpoint, ranks, list)
}

// Resume says at which node each rank goes on from a checkpoint: with an error when the caches do not have it any more. What is
// lost is to be made again before that, by Rebuild.
func (k *Keeper) Resume(checkpoint uint64) (*Resumption, error) {
	r := &Resumption{Checkpoint: checkpoint, nodes: k.alive()}
	plan, err := k.plan(checkpoint, r.nodes)
	if err != nil {
		return nil, err
	}
	r.left, r.Ranks = plan.Rebuild, make([][]int, len(k.nodes))
	for i, n := range r.nodes {
		r.Ranks[n] = plan.Ranks[i]
	}
	return r, nil
}

// Resumption is how a job goes on.
type Resumption struct {
	Checkpoint uint64
	Ranks      [][]int // by node
	nodes      []int   // the plan's
	left       []recovery.Rebuild
}

// Lost names the nodes whose parts are to be made again.
func (r *Resumption) Lost() []string {
	var names []string
	for _, b := range r.left {
		names = append(names, b.Header.Members[b.Header.Own].Node)
	}
	return names
}

// Settled calls when nothing is being made again, so that who calls Resume then knows what there is.
func (k *Keeper) Settled(then func()) {
	if k.making {
		k.settled = append(k.settled, then)
		return
	}
	then()
}

// Rebuild makes lost members again, one after the other. Nothing else is being made again when it is called.
func (k *Keeper) Rebuild(r *Resumption, then func(error)) {
	k.making = true
	k.rebuild(r, func(err error) {
		k.making = false
		then(err)
		for len(k.settled) > 0 && !k.making {
			next := k.settled[0]
			k.settled = k.settled[1:]
			next()
		}
	})
}

func (k *Keeper) rebuild(r *Resumption, then func(error)) {
	if len(r.left) == 0 {
		then(nil)
		return
	}
	b := r.left[0]
	r.left = r.left[1:]
	members, asked, own := make([]int, len(b.Members)), []int{}, []int{}
	for m, place := range b.Members {
		members[m] = -1
		if place >= 0 {
			members[m] = r.nodes[place]
			asked, own = append(asked, members[m]), append(own, m)
		}
	}
	transfer := k.transfer()
	rebuild := func(i int) Order {
		h := b.Header
		h.Own = own[i]
		return Rebuild{h, b.Header.Own, transfer, members}
	}
	k.ask(asked, rebuild, func(_ int, a Answer) { k.abandonOn(a, transfer, members) }, func(answers []Answer) {
		if why := failure(answers); why != "" {
			then(errors.New(why))
			return
		}
		k.enter(r, b, then)
	})
}

// enter makes what was made again count.
func (k *Keeper) enter(r *Resumption, b recovery.Rebuild, then func(error)) {
	to := r.nodes[b.To]
	held := &recovery.Held{ID: b.Header.ID, Label: k.Label(r.Checkpoint)}
	if old := k.nodes[to].held[r.Checkpoint]; old != nil && old.ID == held.ID {
		held.Members = slices.Clone(old.Members)
	}
	held.Members = append(held.Members, b.Header)
	record := Record{ID: held.ID, Label: held.Label, Members: held.Members}
	for _, h := range held.Members {
		m := h.Members[h.Own]
		record.Files = append(record.Files, m.Files...)
		held.Ranks = append(held.Ranks, m.Ranks()...)
	}
	slices.Sort(held.Ranks)
	k.ask([]int{to}, func(int) Order { return record }, nothing, func(answers []Answer) {
		if why := failure(answers); why != "" {
			then(errors.New(why))
			return
		}
		k.nodes[to].held[r.Checkpoint] = held
		lost := b.Header.Members[b.Header.Own]
		k.driver.Rebuilt(r.Checkpoint, lost.Node, to, lost.Bytes())
		k.rebuild(r, then)
	})
}

// flushSome begins a copy when it is time for one.
func (k *Keeper) flushSome(checkpoint uint64) {
	if k.cfg.Flush == 0 || k.commits%k.cfg.Flush != 0 || k.flushing != 0 {
		return
	}
	k.copyOrRepair(checkpoint, bringTries, func(err error) {
		if err != nil {
			k.driver.Say(fmt.Sprintf("%s was not copied to the store: %v", k.describe(checkpoint), err))
		}
	})
}

// flush copies a checkpoint to the store that all nodes see.
func (k *Keeper) flush(checkpoint uint64, then func(error)) {
	k.flushing = checkpoint
	k.driver.Store(Place{checkpoint}, func(err error) {
		if err != nil {
			k.flushed(checkpoint, err, then)
			return
		}
		k.copyParts(checkpoint, then)
	})
}

func (k *Keeper) copyParts(checkpoint uint64, then func(error)) {
	alive := k.alive()
	plan, err := k.plan(checkpoint, alive)
	if err == nil && len(plan.Rebuild) > 0 {
		err = errors.New("a part of it is lost, and not made again yet")
	}
	if err != nil {
		k.flushed(checkpoint, err, then)
		return
	}
	var nodes []int
	var ranks [][]int
	for i, n := range alive {
		if len(plan.Ranks[i]) > 0 {
			nodes, ranks = append(nodes, n), append(ranks, plan.Ranks[i])
		}
	}
	each := func(_ int, a Answer) {
		if a.Damaged {
			k.doubts++
		}
	}
	k.ask(nodes, func(i int) Order { return Flush{checkpoint, ranks[i]} }, each, func(answers []Answer) {
		if why := failure(answers); why != "" {
			k.flushed(checkpoint, errors.New(why), then)
			return
		}
		var files []holding.File
		for _, a := range answers {
			files = append(files, a.Files...)
		}
		k.driver.Store(Enter{checkpoint, k.Label(checkpoint), files}, func(err error) { k.flushed(checkpoint, err, then) })
	})
}

// flushed ends a copy, and drops what was to be dropped meanwhile.
func (k *Keeper) flushed(checkpoint uint64, err error, then func(error)) {
	if err != nil {
		k.driver.Store(Clear{checkpoint}, func(error) { // what it leaves is removed when the job is next run
			k.flushing = 0
			then(err)
			k.dropLate()
		})
		return
	}
	k.flushing, k.stored[checkpoint] = 0, true
	k.driver.Flushed(checkpoint)
	then(nil)
	k.dropLate()
}

// Scavenge copies, when a job leaves that may go on later, the newest checkpoint that can be, of each group that makes snapshots, since its
// nodes may be others then; what is lost of it is made again before. Then is told which was the newest that was copied, 0: the store has all
// already; and why newer ones could not be.
func (k *Keeper) Scavenge(then func(copied uint64, errs []error)) {
	held := k.Held()
	slices.SortFunc(held, func(a, b uint64) int { return cmp.Compare(b, a) })
	var errs []error
	var next func()
	copied, there := uint64(0), map[string]bool{}
	next = func() {
		if len(held) == 0 {
			then(copied, errs)
			return
		}
		n := held[0]
		group := k.Label(n).Group(n)
		held = held[1:]
		if there[group] = there[group] || k.stored[n]; there[group] {
			next()
			return
		}
		k.bring(n, bringTries, func(err error) {
			if there[group] = err == nil; err == nil {
				copied = max(copied, n)
			} else {
				errs = append(errs, fmt.Errorf("%s: %w", k.describe(n), err))
			}
			next()
		})
	}
	next()
}

// Fetch copies a checkpoint to the store that is not there, if any node has something of it.
func (k *Keeper) Fetch(checkpoint uint64, then func(error)) {
	if k.stored[checkpoint] || !slices.Contains(k.Held(), checkpoint) {
		then(nil)
		return
	}
	k.bring(checkpoint, bringTries, then)
}

// bringTries bounds how often a checkpoint turns out to be damaged while it is copied.
const bringTries = 3

// bring copies a checkpoint to the store when what is lost of it has been made again.
func (k *Keeper) bring(checkpoint uint64, tries int, then func(error)) {
	k.restore(checkpoint, func(err error) {
		if err != nil {
			then(err)
			return
		}
		k.copyOrRepair(checkpoint, tries, then)
	})
}

// copyOrRepair copies a checkpoint to the store. What turns out to be damaged of it is made again, and copied; so often at most.
func (k *Keeper) copyOrRepair(checkpoint uint64, tries int, then func(error)) {
	doubts := k.doubts
	k.flush(checkpoint, func(err error) {
		if err == nil || k.doubts == doubts || tries <= 1 {
			then(err)
			return
		}
		k.flushing = checkpoint
		k.Inspect(checkpoint, func() {
			k.flushing = 0
			k.bring(checkpoint, tries-1, then)
			k.dropLate()
		})
	})
}

// restore makes again what is lost of a checkpoint, which is not dropped meanwhile.
func (k *Keeper) restore(checkpoint uint64, then func(error)) {
	if k.making {
		then(errors.New("keep: something is being made again already"))
		return
	}
	r, err := k.Resume(checkpoint)
	if err != nil {
		then(err)
		return
	}
	k.flushing = checkpoint
	k.Rebuild(r, func(err error) {
		k.flushing = 0
		then(err)
		k.dropLate()
	})
}

// dropLate drops what was to be dropped, or evicted, while it was copied.
func (k *Keeper) dropLate() {
	late, evicted := k.dropped, k.evicted
	k.dropped, k.evicted = nil, nil
	for _, n := range late {
		k.Drop(n)
	}
	for _, n := range evicted {
		k.Evict(n)
	}
}
