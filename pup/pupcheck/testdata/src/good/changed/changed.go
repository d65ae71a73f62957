// Package changed has correct types that change something while they are packed, but nothing that is packed.
package changed

import (
	"maps"
	"slices"
	"sort"

	"github.com/byssus-hpc/byssus/pup"
)

// Copies are sorted.
type S01 struct{ list []int }

func (x *S01) PUP(p *pup.Stream) {
	a := slices.Clone(x.list)
	slices.Sort(a)
	b := append([]int(nil), x.list...)
	sort.Ints(b)
	c := append([]int{}, x.list...)
	sort.Ints(c)
	d := append(x.list[:0:0], x.list...)
	sort.Ints(d)
	e := make([]int, len(x.list))
	copy(e, x.list)
	slices.Reverse(e)
	f := slices.Sorted(slices.Values(x.list))
	g := append(x.list[:len(x.list):len(x.list)], 1)
	g[0]++
	_ = f
	pup.PlainSlice(p, &x.list)
}

// Keys are sorted.
type S02 struct{ m map[string]int }

func (x *S02) PUP(p *pup.Stream) {
	keys := slices.Collect(maps.Keys(x.m))
	sort.Strings(keys)
	pup.Slice(p, &keys, pup.String)
	if p.Unpacking() {
		x.m = make(map[string]int, len(keys))
	}
	for _, k := range keys {
		v := x.m[k]
		pup.Number(p, &v)
		x.m[k] = v
	}
}

// Caches that are skipped.
type s03 struct {
	list   []int
	sorted []int          //pup:skip made again
	cache  map[string]int //pup:skip made again
	hits   int            `pup:"-,statistics"`
	calls  int
}

func (x *s03) PUP(p *pup.Stream) {
	x.hits++
	x.calls++
	x.cache = nil
	if p.Packing() {
		x.sorted = append(x.sorted, 1)
		slices.Sort(x.sorted)
		clear(x.cache)
	}
	pup.PlainSlice(p, &x.list)
	pup.Skip(p, &x.calls, "statistics")
}

// Skipped parts of what is visited as a whole.
type s04part struct {
	n     int
	dirty bool //pup:skip known to the owner
}

type s04 struct {
	part s04part
	list []s04part
}

func (x *s04) PUP(p *pup.Stream) {
	pup.Value(p, &x.part)
	pup.Slice(p, &x.list, pup.Value)
	x.part.dirty = false
	for i := range x.list {
		x.list[i].dirty = false
	}
}

// Fields that are brought up to date before they are packed.
type S05 struct {
	list  []int
	count int
	sum   int
	keys  []string
	m     map[string]int
}

func (x *S05) PUP(p *pup.Stream) {
	if !p.Unpacking() {
		x.count = len(x.list)
		x.sum = 0
		for _, v := range x.list {
			x.sum += v
		}
		x.keys = x.keys[:0]
		for k := range x.m {
			x.keys = append(x.keys, k)
		}
		sort.Strings(x.keys)
	}
	pup.Number(p, &x.count)
	pup.Number(p, &x.sum)
	pup.Slice(p, &x.keys, pup.String)
	pup.PlainSlice(p, &x.list)
	pup.Map(p, &x.m, pup.String, pup.Number)
}

// Defaults and empty values.
type S06 struct {
	m map[string]int
	n int
	l []int
}

func (x *S06) PUP(p *pup.Stream) {
	if x.m == nil {
		x.m = map[string]int{}
	}
	if !p.Unpacking() {
		if x.n == 0 {
			x.n = 16
		}
		if len(x.l) == 0 {
			x.l = nil
		}
	}
	pup.Map(p, &x.m, pup.String, pup.Number)
	pup.Number(p, &x.n)
	pup.PlainSlice(p, &x.l)
}

// Copied there and back.
type S07 struct {
	a int
	b []int
	c struct{ n, m int }
}

func (x *S07) PUP(p *pup.Stream) {
	a := x.a
	pup.Number(p, &a)
	x.a = a
	for i := range x.b {
		_ = i
	}
	pup.PlainSlice(p, &x.b)
	c := x.c
	pup.Number(p, &c.n)
	pup.Number(p, &c.m)
	x.c = c
	y := *x
	y.a++
	*x = *x
}

// After unpacking, everything may be changed.
type S08 struct {
	list []int
	m    map[int]int
	n    int
}

func (x *S08) PUP(p *pup.Stream) {
	pup.PlainSlice(p, &x.list)
	pup.Map(p, &x.m, pup.Number, pup.Number)
	pup.Number(p, &x.n)
	if p.Unpacking() {
		slices.Sort(x.list)
		x.list = append(x.list, x.n)
		delete(x.m, 0)
		x.n++
	}
}

// A scratch value of the type's own.
type S09 struct{ list []int }

func (x *S09) PUP(p *pup.Stream) {
	y := S09{list: slices.Clone(x.list)}
	y.sort()
	pup.PlainSlice(p, &y.list)
	if p.Unpacking() {
		x.list = y.list
	}
}

func (x *S09) sort() { sort.Ints(x.list) }

// A pointer to somewhere else.
type s10 struct {
	n     int
	owner *s10 //pup:skip set by the owner
}

func (x *s10) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	if x.owner != nil {
		x.owner.n++
	}
	if p.Packing() {
		packed++
	}
}

var packed int

// A buffer for encoding.
type s11 struct {
	v   map[string]int //pup:skip in buf
	buf []byte
}

func (x *s11) PUP(p *pup.Stream) {
	if !p.Unpacking() {
		x.buf = encode(x.v)
	}
	pup.PlainSlice(p, &x.buf)
	if p.Unpacking() {
		x.v = decode(x.buf)
		x.buf = nil
	}
}

func encode(map[string]int) []byte
func decode([]byte) map[string]int

// Sorted in a loop of its own variables.
type S12 struct{ rows [][]int }

func (x *S12) PUP(p *pup.Stream) {
	for _, r := range x.rows {
		s := slices.Clone(r)
		slices.Sort(s)
	}
	pup.Slice(p, &x.rows, func(p *pup.Stream, r *[]int) { pup.PlainSlice(p, r) })
}
