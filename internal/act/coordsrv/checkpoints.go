package coordsrv

import (
	"slices"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

// datasets are the job's checkpoints, as agents are to make and remove them: in their caches, or in the one store that all nodes see.
// It belongs to the loop's goroutine.
type datasets struct {
	*loop
	job     *dataset.Job
	say     func(text string)
	agents  *agents
	caches  *caches           // nil: the nodes have none
	step    func(coord.Event) // tells the machine what has come of what it ordered
	foreign []uint64          // checkpoints of an earlier job of this name
}

// keepers are the agents that make a place for a checkpoint: all that have ranks, in their caches; where there is one store,
// that all nodes see, one is enough.
func (d *datasets) keepers() []*peer {
	if d.caches != nil {
		return d.agents.engaged()
	}
	i := slices.IndexFunc(d.agents.list, func(p *peer) bool { return !p.gone })
	if i < 0 {
		return nil
	}
	return d.agents.list[i : i+1]
}

func (d *datasets) prepare(n uint64) {
	to := d.agents.engaged()
	d.agents.order(to, func(_ *peer, order uint64) any { return control.Look{Order: order} }, func(pages []control.Message) {
		d.survey(n, to, pages)
	})
}

// survey has agents look for processes that are not the job's, and then the store make a place for the images.
func (d *datasets) survey(n uint64, to []*peer, pages []control.Message) {
	ours := func(p *peer, order uint64) any {
		o := control.Survey{Order: order}
		for i, other := range to {
			if there, ok := pages[i].Body.(control.Pages); ok && other != p && other.seen == p.seen {
				o.Ours = append(o.Ours, other.pid)
				for _, r := range there.Ranks {
					o.Ours = append(o.Ours, r.PID)
				}
			}
		}
		return o
	}
	d.agents.order(to, ours, func([]control.Message) {
		place := control.Prepare{Checkpoint: n}
		if d.caches != nil {
			place.Copies, place.Share = d.job.Meta.Keep+1, d.caches.keeper.Share(d.agents.numbers(to))
		}
		d.agents.order(d.keepers(), func(_ *peer, order uint64) any { place.Order = order; return place },
			func(answers []control.Message) { d.step(coord.Prepared{Checkpoint: n, Err: failure(answers)}) })
	})
}

// commit: the agents seal what they hold, and get the record of the whole.
func (d *datasets) commit(n, epoch uint64) {
	if d.caches != nil {
		d.caches.commit(n, epoch)
		return
	}
	to := d.agents.engaged()
	d.agents.order(to, func(p *peer, order uint64) any { return control.Seal{Order: order, Checkpoint: n, Ranks: p.ranks} }, func(answers []control.Message) {
		if why := failure(answers); why != "" {
			d.step(coord.Committed{Checkpoint: n, Err: why})
			return
		}
		d.recordSealed(n, answers)
	})
}

func (d *datasets) recordSealed(n uint64, sealed []control.Message) {
	var parts []*dataset.Part
	for _, m := range sealed {
		if h, ok := m.Body.(control.Sealed); ok {
			parts = append(parts, &h.Part)
		}
	}
	record := d.job.Checkpoints().Manifest(n, parts...)
	d.agents.order(d.keepers(), func(_ *peer, order uint64) any { return control.Commit{Order: order, Checkpoint: n, Record: *record} }, func(answers []control.Message) {
		why := failure(answers)
		d.step(coord.Committed{Checkpoint: n, Err: why})
		if why == "" {
			d.dropForeign()
		}
	})
}

// discard removes what an attempt has left.
func (d *datasets) discard(n uint64) {
	if d.caches != nil {
		d.caches.keeper.Discard(n)
		return
	}
	d.removeFrom(d.keepers(), func(order uint64) any { return control.Discard{Order: order, Checkpoint: n} })
}

// drop removes a committed checkpoint.
func (d *datasets) drop(n uint64) {
	if d.caches != nil {
		d.caches.keeper.Drop(n)
		return
	}
	d.removeFrom(d.keepers(), func(order uint64) any { return control.Drop{Order: order, Checkpoint: n} })
}

// removeFrom removes something at agents; that it cannot be removed is told, and changes nothing.
func (d *datasets) removeFrom(from []*peer, body func(order uint64) any) {
	d.agents.order(from, func(_ *peer, order uint64) any { return body(order) }, func(answers []control.Message) {
		if why := failure(answers); why != "" {
			d.say(why)
		}
	})
}

// dropForeign removes the checkpoints of an earlier job of this name, now that this one has its own.
func (d *datasets) dropForeign() {
	for _, n := range d.foreign {
		if m, err := dataset.ReadManifest(d.job.Checkpoints().Path(n)); err == nil && m.ID != d.job.Meta.ID {
			d.removeForeign(n)
		}
	}
	d.foreign = nil
}

func (d *datasets) removeForeign(n uint64) {
	if d.caches == nil {
		d.drop(n)
		return
	}
	store := d.job.Checkpoints()
	d.wg.Go(func() {
		if err := store.Drop(n); err != nil {
			d.ask(func() { d.say(err.Error()) })
		}
	})
}
