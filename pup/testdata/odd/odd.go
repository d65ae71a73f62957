// Package odd has types whose PUP is not what pupvet would let pass, and yet right: what is visited was decided elsewhere.
package odd

import (
	"io/fs"

	"github.com/byssus-hpc/byssus/pup"
)

// Frugal is an element whose traversal depends on what was decided for the whole value: it may store less than its type
// holds, more, or nothing.
type Frugal struct {
	ID    int64
	Name  string
	Vals  [4]float64
	Cache [40]int64
	Kids  []Frugal
	Next  *Frugal
}

// The bits of a plan.
const (
	VisitID = 1 << iota
	VisitName
	VisitVals
	VisitCache
	VisitKids
	VisitNext
	VisitSome // by the number, which is visited
	VisitMore // what is no part of the element
	AllPlans
)

func visitFrugal(plan uint16) func(p *pup.Stream, f *Frugal) {
	return func(p *pup.Stream, f *Frugal) {
		if plan&VisitID != 0 {
			pup.Number(p, &f.ID)
		}
		if plan&VisitName != 0 && (plan&VisitID == 0 || plan&VisitSome == 0 || f.ID%3 == 0) {
			pup.String(p, &f.Name)
		}
		if plan&VisitVals != 0 {
			pup.Array(p, f.Vals[:], pup.Number)
		}
		if plan&VisitCache != 0 {
			pup.Plain(p, &f.Cache)
		}
		if plan&VisitKids != 0 {
			pup.Slice(p, &f.Kids, visitFrugal(plan))
		}
		if plan&VisitNext != 0 {
			pup.Ptr(p, &f.Next, visitFrugal(plan))
		}
		if plan&VisitMore != 0 {
			x := int64(3)
			if plan&VisitID != 0 {
				x *= f.ID
			}
			pup.Number(p, &x)
		}
	}
}

// Scratchy stores a hundredth of what it holds, by its tags.
type Scratchy struct {
	ID    int16
	Room  [300]int64 `pup:"-,made again"`
	Names []string
}

// Economy visits its fields by Plans_, one for each.
type Economy struct {
	Plans   [6]uint16
	Slice   []Frugal
	Slices  [][]Frugal
	Map     map[int16]Frugal
	Ptrs    []*Frugal
	Scratch []Scratchy
	Empty   []struct{}
	Any     []any
	Numbers []int32
	Text    []string
	Tags    map[string][]Scratchy
	Last    []Frugal
}

func (e *Economy) PUP(p *pup.Stream) {
	pup.Array(p, e.Plans[:], pup.Number)
	pup.Slice(p, &e.Slice, visitFrugal(e.Plans[0]))
	pup.Slice(p, &e.Slices, func(p *pup.Stream, s *[]Frugal) { pup.Slice(p, s, visitFrugal(e.Plans[1])) })
	pup.Map(p, &e.Map, pup.Number, visitFrugal(e.Plans[2]))
	pup.Slice(p, &e.Ptrs, func(p *pup.Stream, f **Frugal) { pup.Ptr(p, f, visitFrugal(e.Plans[3])) })
	pup.Value(p, &e.Scratch)
	pup.Slice(p, &e.Empty, func(*pup.Stream, *struct{}) {})
	pup.Slice(p, &e.Any, pup.Interface)
	if e.Plans[5]&1 != 0 {
		pup.Slice(p, &e.Numbers, func(*pup.Stream, *int32) {})
	} else {
		pup.Slice(p, &e.Numbers, pup.Number)
	}
	pup.Slice(p, &e.Text, pup.String)
	pup.Value(p, &e.Tags)
	pup.Slice(p, &e.Last, visitFrugal(e.Plans[4]))
}

// Kept has elements that point to where they lie: they must not be moved once their PUP is done.
type Kept struct{ Kids []Child }

type Child struct {
	ID   int32
	Self *Child
	Room [100]int64
}

func (k *Kept) PUP(p *pup.Stream) {
	pup.Slice(p, &k.Kids, func(p *pup.Stream, c *Child) {
		pup.Number(p, &c.ID)
		c.Self = c
	})
}

// Explosive has a PUP that panics.
type Explosive struct{ With any }

func (e *Explosive) PUP(p *pup.Stream) { panic(e.With) }

type Choosy struct{ N int }

func (c *Choosy) PUP(p *pup.Stream) { p.Fail(fs.ErrInvalid) }

// LossyKeys and LossyKey store keys that differ alike.
type LossyKeys struct{ M map[int16]int }

func (x *LossyKeys) PUP(p *pup.Stream) {
	pup.Map(p, &x.M, func(p *pup.Stream, k *int16) {
		b := int8(*k)
		pup.Number(p, &b)
		*k = int16(b)
	}, pup.Number)
}

type LossyKey int16

func (k *LossyKey) PUP(p *pup.Stream) {
	b := int8(*k)
	pup.Number(p, &b)
	*k = LossyKey(b)
}
