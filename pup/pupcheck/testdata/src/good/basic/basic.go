// Package basic has correct types that call the helpers directly.
package basic

import (
	"math/big"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/byssus-hpc/byssus/pup"
)

type ID uint32
type Label string

// The example of the documentation.
type Cell struct {
	ID      ID
	Name    Label
	Weights []float64
	Next    *Cell
	Attr    map[string]int
	Grid    [][]float64
	cache   map[int]int
}

func (c *Cell) PUP(p *pup.Stream) {
	v := pup.Version[Cell](p)
	pup.Number(p, &c.ID)
	pup.String(p, &c.Name)
	if v >= 2 {
		pup.PlainSlice(p, &c.Weights)
	}
	pup.Ptr(p, &c.Next, pup.Object)
	pup.Map(p, &c.Attr, pup.String, pup.Number)
	pup.Slice(p, &c.Grid, func(p *pup.Stream, row *[]float64) { pup.PlainSlice(p, row) })
	pup.Skip(p, &c.cache, "made again on demand")
	if p.Unpacking() {
		c.rebuild()
	}
}

func (c *Cell) rebuild() { c.cache = map[int]int{} }

// No fields at all.
type Empty struct{}

func (e *Empty) PUP(p *pup.Stream) {}

// Only blank and zero-size fields need no visit.
type Blank struct {
	_    [4]byte
	none struct{}
	zero [0]int
	N    int
}

func (b *Blank) PUP(p *pup.Stream) { pup.Number(p, &b.N) }

// Skipped by directive, tag and call.
type skips struct {
	A  int
	mu sync.Mutex //pup:skip locks are free after a restart
	//pup:skip opened again by Resume
	conn chan int
	buf  []byte `pup:"-,scratch space"`
	log  func(string)

	b, c int //pup:skip counters of this run
}

func (s *skips) PUP(p *pup.Stream) {
	pup.Number(p, &s.A)
	pup.Skip(p, &s.log, "set by the application")
}

// Everything is skipped.
type ghost struct {
	ch chan int //pup:skip made by New
}

func (g *ghost) PUP(p *pup.Stream) {}

// The standard library's types.
type Standard struct {
	When time.Time
	I    big.Int
	F    big.Float
	R    big.Rat
	A    netip.Addr
	AP   netip.AddrPort
	P    netip.Prefix
	U    url.URL
	d    time.Duration
	any  any
}

func (s *Standard) PUP(p *pup.Stream) {
	pup.Time(p, &s.When)
	pup.BigInt(p, &s.I)
	pup.BigFloat(p, &s.F)
	pup.BigRat(p, &s.R)
	pup.Addr(p, &s.A)
	pup.AddrPort(p, &s.AP)
	pup.Prefix(p, &s.P)
	pup.Binary(p, &s.U)
	pup.Number(p, &s.d)
	pup.Interface(p, &s.any)
}

type Base struct{ N, M int }

func (b *Base) PUP(p *pup.Stream) {
	pup.Number(p, &b.N)
	pup.Number(p, &b.M)
}

// Embedded struct, visited by its own PUP.
type Derived struct {
	Base
	K int
}

func (d *Derived) PUP(p *pup.Stream) {
	d.Base.PUP(p)
	pup.Number(p, &d.K)
}

// Embedded struct, visited by promoted fields.
type Promoted struct {
	Base
	K int
}

func (d *Promoted) PUP(p *pup.Stream) {
	pup.Number(p, &d.N)
	pup.Number(p, &d.Base.M)
	pup.Number(p, &d.K)
}

// Embedded pointer through pup.Ptr.
type ByPointer struct {
	*Base
	K int
}

func (d *ByPointer) PUP(p *pup.Stream) {
	pup.Ptr(p, &d.Base, pup.Object)
	pup.Number(p, &d.K)
}

// Nothing but an embedded PUPer: its PUP is inherited.
type Renamed struct{ Base }

// Inherited PUP and a skipped field.
type guarded struct {
	Base
	mu sync.Mutex //pup:skip free after a restart
}

// Anonymous struct, field by field.
type Nested struct {
	pos struct {
		x, y float64
		tag  struct{ name string }
	}
	flag bool
}

func (n *Nested) PUP(p *pup.Stream) {
	pup.Number(p, &n.pos.x)
	pup.Number(p, &n.pos.y)
	pup.String(p, &n.pos.tag.name)
	pup.Bool(p, &n.flag)
}

// Nested struct as a whole.
type NestedWhole struct {
	pos struct{ x, y float64 }
}

func (n *NestedWhole) PUP(p *pup.Stream) { pup.Plain(p, &n.pos) }

// Named types that are no structs.
type Vec []float64

func (v *Vec) PUP(p *pup.Stream) { pup.PlainSlice(p, (*[]float64)(v)) }

type Table map[string]Vec

func (t *Table) PUP(p *pup.Stream) { pup.Map(p, t, pup.String, pup.Object) }

type Matrix [3][3]float64

func (m *Matrix) PUP(p *pup.Stream) {
	for i := range m {
		for j := range m[i] {
			pup.Number(p, &m[i][j])
		}
	}
}

type Level int8

func (l *Level) PUP(p *pup.Stream) { pup.Number(p, (*int8)(l)) }

// Arrays in several ways.
type Arrays struct {
	a [3]int
	b [4]float64
	c [2]string
	d [2][2]int
	e [3]Base
	f [6]int
}

func (x *Arrays) PUP(p *pup.Stream) {
	pup.Array(p, x.a[:], pup.Number)
	pup.Plain(p, &x.b)
	pup.String(p, &x.c[0])
	pup.String(p, &x.c[1])
	pup.Array(p, x.d[:], func(p *pup.Stream, row *[2]int) { pup.Array(p, row[:], pup.Number) })
	for i := 0; i < len(x.e); i++ {
		x.e[i].PUP(p)
	}
	pup.Array(p, x.f[:2], pup.Number)
	for i := 2; i < 6; i++ {
		pup.Number(p, &x.f[i])
	}
}

// Deep containers.
type Deep struct {
	byName map[string][]*Base
	tree   map[int]map[string]bool
	pp     **Base
	iface  []any
}

func (d *Deep) PUP(p *pup.Stream) {
	pup.Map(p, &d.byName, pup.String, func(p *pup.Stream, l *[]*Base) {
		pup.Slice(p, l, func(p *pup.Stream, b **Base) { pup.Ptr(p, b, pup.Object) })
	})
	pup.Map(p, &d.tree, pup.Number, func(p *pup.Stream, m *map[string]bool) { pup.Map(p, m, pup.String, pup.Bool) })
	pup.Ptr(p, &d.pp, func(p *pup.Stream, q **Base) { pup.Ptr(p, q, pup.Object) })
	pup.Slice(p, &d.iface, pup.Interface)
}

// A block of plain fields.
type Particle struct {
	Pos, Vel [3]float64
	Mass     float64
	Name     string
}

var pupParticle = pup.BlockOf[Particle]("Pos", "Vel", "Mass")

func (x *Particle) PUP(p *pup.Stream) {
	pupParticle.PUP(p, x)
	pup.String(p, &x.Name)
}

// An element function literal for a struct without PUP.
type point struct{ x, y int }

type Polygon struct {
	points []point
	marks  map[point]string
	first  *point
}

func (g *Polygon) PUP(p *pup.Stream) {
	pup.Slice(p, &g.points, func(p *pup.Stream, q *point) {
		pup.Number(p, &q.x)
		pup.Number(p, &q.y)
	})
	pup.Map(p, &g.marks, pupPoint, pup.String)
	pup.Ptr(p, &g.first, pupPoint)
}

func pupPoint(p *pup.Stream, q *point) {
	pup.Number(p, &q.x)
	pup.Number(p, &q.y)
}

// A PUP of another shape is none of our business.
type Other struct{ a, b int }

func (o *Other) PUP(n int) {}

type Stream struct{}
type Foreign struct{ a int }

func (f *Foreign) PUP(p *Stream) {}
