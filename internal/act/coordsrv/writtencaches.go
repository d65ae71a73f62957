package coordsrv

import (
	"fmt"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/keep"
	"github.com/byssus-hpc/byssus/internal/ui"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
)

// writtenCaches carries out what package keep decides of datasets that the program has written. It belongs to the loop's goroutine.
type writtenCaches struct{ *written }

// Ask is keep's.
func (w writtenCaches) Ask(node int, order keep.Order, then func(keep.Answer)) {
	p := w.s.agents.list[node]
	w.s.agents.order([]*peer{p}, func(_ *peer, number uint64) any { return w.message(node, number, order) }, func(answers []control.Message) {
		then(w.answer(answers[0]))
	})
}

// Tell is keep's.
func (w writtenCaches) Tell(node int, order keep.Order) {
	w.s.agents.list[node].hear(control.Message{Start: w.s.agents.start, Body: w.message(node, 0, order)})
}

// Store is keep's.
func (w writtenCaches) Store(work keep.Work, then func(error)) {
	do := w.work(work)
	w.s.wg.Go(func() {
		err := do()
		w.s.ask(func() { then(err) })
	})
}

// Committed is keep's.
func (w writtenCaches) Committed(n uint64, why string) {
	w.s.opt.Job.Faults.Hit(faults.WrittenCounts)
	then := w.commits[n]
	delete(w.commits, n)
	if then != nil {
		then(why)
	}
}

// Flushed is keep's.
func (w writtenCaches) Flushed(n uint64) {
	w.s.opt.Job.Faults.Hit(faults.WrittenFlushed)
	w.book.Stored(n)
}

// Repaired is keep's.
func (w writtenCaches) Repaired(n uint64, node int, bytes int64, why string) {
	w.Say(fmt.Sprintf("dataset %s: %s of what %s has of it were damaged, and have been repaired: %s", w.keeper.Label(n).Name, ui.Bytes(bytes),
		w.s.agents.list[node].name, why))
}

// Rebuilt is keep's.
func (w writtenCaches) Rebuilt(n uint64, lost string, on int, bytes int64) {
	w.Say(fmt.Sprintf("dataset %s: what %s held, %s, was made again on %s", w.keeper.Label(n).Name, lost, ui.Bytes(bytes), w.s.agents.list[on].name))
}
