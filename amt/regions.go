package amt

import (
	"context"
	"runtime/trace"
)

// regions shows Go's execution tracer (runtime/trace) what a rank does while that is on: each handler and method is a region, and each
// epoch a task, to which the regions of it belong. Whether it is on is looked at once for a batch of messages, and when an epoch begins.
// It belongs to the goroutine that drives the rank.
type regions struct {
	watched  bool // it may be on, or the rank is traced (tracer)
	on       bool
	table    []*entry // of handlers, when it is off: any goroutine may look
	contexts map[uint64]context.Context
}

func (rs *regions) init(d *dispatcher) {
	if tr := d.r.tracer; tr != nil {
		rs.watched, d.table = true, tr.wrap(d.table)
	}
	rs.table = d.table
}

// look is called for a batch when there may be somebody to see it: it takes the table of handlers that is right now.
func (d *dispatcher) look(b []byte) {
	if on := trace.IsEnabled(); on != d.regions.on {
		d.switches(on)
	}
	tr := d.r.tracer
	if d.regions.watched = d.regions.on || tr != nil; tr != nil {
		tr.handles(b)
	}
}

func (d *dispatcher) switches(on bool) {
	rs := &d.regions
	if rs.on = on; !on {
		d.table = rs.table
		return
	}
	d.table = make([]*entry, len(rs.table))
	for n, e := range rs.table {
		wrapped := *e
		name := title(e)
		wrapped.run = func(c Context, payload []byte) error {
			defer trace.StartRegion(rs.of(c.f.ep), name).End()
			return e.run(c, payload)
		}
		d.table[n] = &wrapped
	}
}

// announced is the region of what a broadcast has an element run.
func (rs *regions) announced(ep *Epoch, e *entry) *trace.Region {
	return trace.StartRegion(rs.of(ep), title(e))
}

// of is the context of an epoch's task.
func (rs *regions) of(ep *Epoch) context.Context {
	if ctx, ok := rs.contexts[ep.id]; ok {
		return ctx
	}
	return context.Background()
}

// epoch makes a task of one that begins.
func (rs *regions) epoch(ep *Epoch) {
	if !trace.IsEnabled() {
		return
	}
	if rs.contexts == nil {
		rs.contexts = map[uint64]context.Context{}
	}
	around := context.Background()
	if ep.outer != nil {
		around = rs.of(ep.outer)
	}
	ctx, task := trace.NewTask(around, ep.label)
	rs.contexts[ep.id] = ctx
	ep.ended = append(ep.ended, func() {
		task.End()
		delete(rs.contexts, ep.id)
	})
}
