// Package faulty has types whose PUP is wrong, each in one way, for the tests of the shadow check. It lies in testdata so
// that it is not vetted with the rest: the analyzer finds these faults as well.
package faulty

import (
	"errors"

	"github.com/byssus-hpc/byssus/pup"
)

// Missed does not visit B.
type Missed struct{ A, B int }

func (x *Missed) PUP(p *pup.Stream) { pup.Number(p, &x.A) }

// Doubled visits A twice.
type Doubled struct {
	A int
	S []string
}

func (x *Doubled) PUP(p *pup.Stream) {
	pup.Number(p, &x.A)
	pup.Slice(p, &x.S, pup.String)
	pup.Number(p, &x.A)
}

// Swapped unpacks in another order than it packs.
type Swapped struct{ A, B int }

func (x *Swapped) PUP(p *pup.Stream) {
	if p.Unpacking() {
		pup.Number(p, &x.B)
		pup.Number(p, &x.A)
		return
	}
	pup.Number(p, &x.A)
	pup.Number(p, &x.B)
}

// MapOrder depends on the order of a map.
type MapOrder struct{ M map[int]string }

func (x *MapOrder) PUP(p *pup.Stream) {
	n := len(x.M)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.M = map[int]string{}
		for range n {
			var k int
			var v string
			pup.Number(p, &k)
			pup.String(p, &v)
			x.M[k] = v
		}
		return
	}
	for k, v := range x.M {
		pup.Number(p, &k)
		pup.String(p, &v)
	}
}

// Empty misses fields that may be empty.
type Empty struct {
	A int
	L []int
	M map[string]int
	P *int
}

func (x *Empty) PUP(p *pup.Stream) { pup.Number(p, &x.A) }

// Embedding has the PUP of what it embeds, and leaves out Extra.
type Embedding struct {
	Missed
	Extra string
}

// A Straggler misses a field only when it is unpacked, which depends on data.
type Straggler struct{ Kind, A, B int }

// PUP visits B for some kinds only, and leaves it as it was for the others.
func (x *Straggler) PUP(p *pup.Stream) {
	pup.Number(p, &x.Kind)
	pup.Number(p, &x.A)
	if x.Kind > 0 {
		pup.Number(p, &x.B)
	}
}

// A Lossy packs less than it has: the value passes through a narrower one.
type Lossy struct{ A int64 }

// PUP loses the upper half of A.
func (x *Lossy) PUP(p *pup.Stream) {
	a := int32(x.A)
	pup.Number(p, &a)
	x.A = int64(a)
}

// A Counter changes when it is packed.
type Counter struct{ Packed int }

// PUP counts.
func (x *Counter) PUP(p *pup.Stream) {
	if p.Packing() {
		x.Packed++
	}
	pup.Number(p, &x.Packed)
}

// A Cache is made again, but not as it was.
type Cache struct {
	Words []string
	Index map[string]int
}

// PUP builds the index anew, counted from 1 instead of 0.
func (x *Cache) PUP(p *pup.Stream) {
	pup.Slice(p, &x.Words, pup.String)
	if p.Unpacking() {
		x.Index = map[string]int{}
		for i, w := range x.Words {
			x.Index[w] = i + 1
		}
	}
}

// An Alias is one of two names for the same memory.
type Alias struct{ All, Some []int }

// PUP packs both as if they were two.
func (x *Alias) PUP(p *pup.Stream) {
	pup.PlainSlice(p, &x.All)
	pup.PlainSlice(p, &x.Some)
}

var (
	_ = pup.Register[Missed]("faulty.Missed")
	_ = pup.Register[Liar]("faulty.Liar")
)

// A Liar says that it takes fewer bytes than it does.
type Liar struct {
	Name string
	N    int32
}

// PUP leaves out N when it is sized.
func (x *Liar) PUP(p *pup.Stream) {
	pup.String(p, &x.Name)
	if !p.Sizing() {
		pup.Number(p, &x.N)
	}
}

// A Shape has fields that only some kinds have, all of which are zero.
type Shape struct {
	Kind   uint8
	Radius float64
	Sides  []float64
	Parts  map[string]*Shape
	Of     *Shape
	Name   string
}

// PUP visits what the kind has.
func (x *Shape) PUP(p *pup.Stream) {
	pup.Number(p, &x.Kind)
	switch x.Kind {
	case 1:
		pup.Number(p, &x.Radius)
	case 2:
		pup.PlainSlice(p, &x.Sides)
	case 3:
		pup.Map(p, &x.Parts, pup.String, func(p *pup.Stream, s **Shape) { pup.Ptr(p, s, pup.Object) })
		pup.String(p, &x.Name)
	case 4:
		pup.Ptr(p, &x.Of, pup.Object)
	}
}

// A Worded is a union by a word, and refuses words that it does not know.
type Worded struct {
	Kind string
	A, B int
}

// PUP visits A or B.
func (x *Worded) PUP(p *pup.Stream) {
	pup.String(p, &x.Kind)
	switch x.Kind {
	case "":
	case "a":
		pup.Number(p, &x.A)
	case "b":
		pup.Number(p, &x.B)
	default:
		p.Fail(errKind)
	}
}

var errKind = errors.New("no such kind")

// An Optional has a field that only some values have.
type Optional struct {
	Has  bool
	Flag uint32
	X, Y int
	Z    []int
}

// PUP visits X if Has, Y if a bit of Flag is set, Z if X is large.
func (x *Optional) PUP(p *pup.Stream) {
	pup.Bool(p, &x.Has)
	pup.Number(p, &x.Flag)
	if x.Has {
		pup.Number(p, &x.X)
		if x.X > 5 {
			pup.PlainSlice(p, &x.Z)
		}
	}
	if x.Flag&(1<<17) != 0 {
		pup.Number(p, &x.Y)
	}
}

// An Inner has code of its own.
type Inner struct{ A, B int }

// PUP visits all.
func (x *Inner) PUP(p *pup.Stream) {
	pup.Number(p, &x.A)
	pup.Number(p, &x.B)
}

// An Outer forgets Lost, and has In only for a kind, and Deep only for a shape of the interface.
type Outer struct {
	Kind  int16
	Any   any
	In    Inner
	Lost  Inner
	Deep  Inner
	After *Inner
}

// PUP visits what the kind and the dynamic type have.
func (x *Outer) PUP(p *pup.Stream) {
	pup.Number(p, &x.Kind)
	pup.Interface(p, &x.Any)
	if x.Kind == 7 {
		x.In.PUP(p)
	}
	if _, ok := x.Any.(*Missed); ok {
		pup.Object(p, &x.Deep)
	}
	pup.Ptr(p, &x.After, func(p *pup.Stream, y *Inner) {
		pup.Number(p, &y.A)
		if x.Kind == 300 {
			pup.Number(p, &y.B)
		}
	})
}

// A Loop visits as many of its elements as it says.
type Loop struct {
	N     int
	List  [4]int
	Never int
}

// PUP forgets Never; what N announces beyond the list is an error.
func (x *Loop) PUP(p *pup.Stream) {
	pup.Length(p, &x.N)
	if x.N > len(x.List) {
		p.Fail(errKind)
		return
	}
	for i := range x.N {
		pup.Number(p, &x.List[i])
	}
}

// A Plenty visits the same whatever it holds, but for one field that it never visits.
type Plenty struct {
	Kind  int
	On    bool
	Word  string
	List  []int
	Ptr   *int
	Map   map[string]int
	Any   any
	F     float64
	Never int
}

// PUP forgets Never.
func (x *Plenty) PUP(p *pup.Stream) {
	pup.Number(p, &x.Kind)
	pup.Bool(p, &x.On)
	pup.String(p, &x.Word)
	n := len(x.List)
	pup.Length(p, &n)
	if p.Unpacking() {
		x.List = make([]int, n)
	}
	for i := range x.List {
		pup.Number(p, &x.List[i])
	}
	pup.Ptr(p, &x.Ptr, pup.Number)
	pup.Map(p, &x.Map, pup.String, pup.Number)
	pup.Interface(p, &x.Any)
	pup.Number(p, &x.F)
}

// An OnValue has its PUP on the value: what it unpacks is lost.
type OnValue struct{ A int }

// PUP visits a copy.
func (x OnValue) PUP(p *pup.Stream) { pup.Number(p, &x.A) }
