// Package elements has methods, mappings and reductions of collections that are wrong.
package elements

import "github.com/byssus-hpc/byssus/amt"

type number struct{ X int64 }

type cell struct {
	Sum  int64
	last *number
	lent amt.At[amt.Index1] // want `^the field lent holds a Context`
}

var (
	cells      amt.Collection[amt.Index1, cell]
	more       amt.Collection[amt.Index1, cell]
	a, b, c, d amt.Method[amt.Index1, cell, number]
	after      amt.Method[amt.Index1, cell, number]
	sum        amt.ElementReduction[amt.Index1, cell, int64]
)

func init() {
	cells.Is("cells")
	shift := 3
	more.Is("more", amt.MappedBy(func(i, _ amt.Index1, ranks int) int { return (i.X + shift) % ranks })) // want `^shift is captured by a collection's mapping`
	total := int64(0)
	a.Is(&cells, func(_ amt.At[amt.Index1], _ *cell, m *number) { total += m.X }) // want `^total is captured by a handler`
	b.Is(&cells, func(_ amt.At[amt.Index1], e *cell, m *number) { e.last = m })   // want `^e.last keeps memory of the message m`
	c.Is(&cells, func(c amt.At[amt.Index1], e *cell, _ *number) {
		c.Rooted("waits", func(amt.Context) error { return nil }).Wait(c.Context) // want `^a handler waits for`
		c.Go("what is the element's", func(amt.Context) error { e.Sum++; return nil })
	})
	d.Is(&cells, func(c amt.At[amt.Index1], e *cell, m *number) {
		if e.Sum += m.X; e.Sum < 100 {
			d.Send(c.Context, c.Index(), &number{e.Sum})
			c.MoveTo(int(e.Sum) % c.Ranks())
		}
	})
	after.Is(&cells, func(c amt.At[amt.Index1], e *cell, _ *number) {
		c.Modify("more", func(c amt.Context) error { return nil }) // want `^a handler calls c.Modify, which only main functions can`
		c.Phase()                                                  // want `^a handler calls c.Phase, which only main functions can`
		c.Subphase()                                               // want `^a handler calls c.Subphase, which only main functions can`
		amt.OnPhase(c.Context, report)                             // want `^a handler calls amt.OnPhase, which only main functions can`
		c.Weigh(1)
		sum.Wait(c.Context, 1)                     // want `^a handler calls sum.Wait, which only main functions can`
		cells.CreateEmpty(c.Context, amt.Index1{}) // want `^a handler calls cells.CreateEmpty, which only main functions can`
		cells.Insert(c.Context, amt.Index1{}, cell{})
		cells.Delete(c.Context, c.Index())
	})
	sum.Is(&cells, func(a, b int64) int64 { return a + b + total }) // want `^total is captured by a reduction's function`
}

func report(c amt.Context, _ int) error {
	c.Subphase()
	return c.Collective("report", func(amt.Context) error { return nil }).Wait(c)
}
