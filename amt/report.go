package amt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/byssus-hpc/byssus/amt/internal/hang"
)

// report is what this rank waits for.
func (r *rank) report() hang.Report {
	report := hang.Report{Rank: r.self, Main: r.main.waits.number(), Ended: r.main.ended}
	for t := range r.tasks.all {
		if t.waits != nil {
			report.Tasks = append(report.Tasks, hang.Task{Name: t.name, Epoch: t.waits.number(), Holds: t.f.ep.number()})
		}
	}
	slices.SortFunc(report.Tasks, func(a, b hang.Task) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Epoch, b.Epoch))
	})
	for _, id := range slices.Sorted(maps.Keys(r.epochs.byID)) {
		report.Epochs = append(report.Epochs, r.epochs.byID[id].report())
	}
	for _, u := range r.epochs.unclaimed {
		report.Failed = append(report.Failed, fmt.Sprintf("epoch %q (%s): %v", u.label, u.number(), u.err))
	}
	for _, k := range r.population.reductions {
		report.Lacks = append(report.Lacks, k.(combiner).lacks()...)
	}
	for _, part := range r.collections {
		if part != nil {
			report.Lacks = append(report.Lacks, part.lacks()...)
		}
	}
	slices.SortFunc(report.Lacks, func(a, b hang.Lack) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Elements, b.Elements))
	})
	for _, s := range r.operations.scopes {
		of := hang.Scope{Label: fmt.Sprintf("%s, number %d", s.label, s.n), Asked: s.done + uint64(s.asked.len()), Done: s.done}
		for _, a := range s.asked.all() {
			of.Epochs = append(of.Epochs, a.ep.number())
		}
		report.Scopes = append(report.Scopes, of)
	}
	return report
}

// number names an epoch alike on all ranks.
func (ep *Epoch) number() string {
	if ep.collective() {
		return fmt.Sprintf("collective %d", ep.id)
	}
	return fmt.Sprintf("rooted %d of rank %d", ep.id&numberMask, rootOf(ep.id))
}

// report is what the rank knows of an epoch that is not over.
func (ep *Epoch) report() hang.Epoch {
	e := hang.Epoch{ID: ep.number(), Label: ep.label, All: ep.collective()}
	if ep.label == "" && ep.outer != nil {
		e.Label = "without a label"
	}
	if ep.outer != nil {
		e.Outer = ep.outer.number()
	}
	for _, before := range ep.gate.after {
		e.After = append(e.After, before.number())
	}
	if !ep.collective() {
		e.Awaited = ep.detector.tree.Awaited()
	}
	counts := map[hang.Held]int{}
	for _, m := range ep.gate.held {
		name := "the runtime"
		if m.what.id() >= firstHandler && int(m.what.id()-firstHandler) < len(ep.r.dispatcher.table) {
			name = ep.r.dispatcher.table[m.what.id()-firstHandler].String()
		}
		counts[hang.Held{To: m.to, Handler: name}]++
	}
	for h, n := range counts {
		h.Count = n
		e.Waiting = append(e.Waiting, h)
	}
	slices.SortFunc(e.Waiting, func(a, b hang.Held) int {
		return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.Handler, b.Handler))
	})
	return e
}
