// Package codec has correct types that pack through temporaries.
package codec

import (
	"bytes"
	"container/list"
	"encoding/gob"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"regexp"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/byssus-hpc/byssus/pup"
)

// Length, make, elements.
type List struct{ list []int }

func (x *List) PUP(p *pup.Stream) {
	n := len(x.list)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.list = make([]int, n)
	}
	for i := range x.list {
		pup.Number(p, &x.list[i])
	}
}

// The same with a counted loop and a fixed integer type.
type Counted struct{ items []string }

func (x *Counted) PUP(p *pup.Stream) {
	n := uint32(len(x.items))
	pup.Number(p, &n)
	if p.Unpacking() && n > 0 {
		x.items = make([]string, n)
	}
	for i := 0; i < int(n); i++ {
		pup.String(p, &x.items[i])
	}
}

// The length is a field.
type Sized struct {
	n    int
	data []float64
}

func (x *Sized) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	if p.Unpacking() {
		x.data = make([]float64, x.n)
	}
	pup.Array(p, x.data, pup.Number)
}

// Memory is used again if there is enough.
type Reuse struct{ buf []byte }

func (x *Reuse) PUP(p *pup.Stream) {
	n := len(x.buf)
	pup.Number(p, &n)
	if p.Unpacking() {
		if cap(x.buf) >= n {
			x.buf = x.buf[:n]
		} else {
			x.buf = make([]byte, n)
		}
	}
	for i := range n {
		pup.Number(p, &x.buf[i])
	}
}

// Conversion to another representation.
type Stamp struct{ when time.Time }

func (x *Stamp) PUP(p *pup.Stream) {
	t := x.when.UnixNano()
	pup.Number(p, &t)
	x.when = time.Unix(0, t)
}

// Assigned only when unpacking.
type Angle struct{ rad float64 }

func (x *Angle) PUP(p *pup.Stream) {
	bits := math.Float64bits(x.rad)
	pup.Number(p, &bits)
	if p.Unpacking() {
		x.rad = math.Float64frombits(bits)
	}
}

// Flags are packed into bits.
type Bits struct{ a, b, c bool }

func (x *Bits) PUP(p *pup.Stream) {
	var f uint8
	if x.a {
		f |= 1
	}
	if x.b {
		f |= 2
	}
	if x.c {
		f |= 4
	}
	pup.Number(p, &f)
	if p.Unpacking() {
		x.a = f&1 != 0
		x.b = f&2 != 0
		x.c = f&4 != 0
	}
}

// Both directions apart, with temporaries.
type Apart struct {
	m map[string]int
}

func (x *Apart) PUP(p *pup.Stream) {
	if p.Unpacking() {
		var n int
		pup.Number(p, &n)
		x.m = make(map[string]int, n)
		for i := 0; i < n; i++ {
			var k string
			var v int
			pup.String(p, &k)
			pup.Number(p, &v)
			x.m[k] = v
		}
		return
	}
	n := len(x.m)
	pup.Number(p, &n)
	keys := make([]string, 0, n)
	for k := range x.m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		v := x.m[k]
		pup.String(p, &k)
		pup.Number(p, &v)
	}
}

// Sorted keys, then the values by key.
type ByKey struct{ m map[string]float64 }

func (x *ByKey) PUP(p *pup.Stream) {
	keys := slices.Sorted(maps.Keys(x.m))
	pup.Slice(p, &keys, pup.String)
	if p.Unpacking() {
		x.m = make(map[string]float64, len(keys))
	}
	for _, k := range keys {
		v := x.m[k]
		pup.Number(p, &v)
		x.m[k] = v
	}
}

// Encoded by another encoder.
type Encoded struct {
	conf map[string]any
	re   *regexp.Regexp
}

func (x *Encoded) PUP(p *pup.Stream) {
	var b []byte
	if !p.Unpacking() {
		var err error
		if b, err = json.Marshal(x.conf); err != nil {
			p.Fail(err)
			return
		}
	}
	pup.PlainSlice(p, &b)
	if p.Unpacking() {
		if err := json.Unmarshal(b, &x.conf); err != nil {
			p.Fail(err)
			return
		}
	}
	s := ""
	if x.re != nil {
		s = x.re.String()
	}
	pup.String(p, &s)
	if p.Unpacking() && s != "" {
		x.re = regexp.MustCompile(s)
	}
}

// gob in a buffer.
type Gobbed struct{ v struct{ A, B int } }

func (x *Gobbed) PUP(p *pup.Stream) {
	var buf bytes.Buffer
	if !p.Unpacking() {
		if err := gob.NewEncoder(&buf).Encode(x.v); err != nil {
			p.Fail(err)
			return
		}
	}
	raw := buf.Bytes()
	pup.PlainSlice(p, &raw)
	if p.Unpacking() {
		if err := gob.NewDecoder(bytes.NewReader(raw)).Decode(&x.v); err != nil {
			p.Fail(err)
		}
	}
}

// A wire struct.
type wire struct {
	A int
	B string
}

func (w *wire) PUP(p *pup.Stream) {
	pup.Number(p, &w.A)
	pup.String(p, &w.B)
}

type Wired struct {
	a int
	b string
}

func (x *Wired) PUP(p *pup.Stream) {
	w := wire{A: x.a, B: x.b}
	w.PUP(p)
	if p.Unpacking() {
		x.a, x.b = w.A, w.B
	}
}

// A wire struct through pup.Value, and the whole receiver assigned.
type Shadow struct {
	a int
	b string
}

func toWire(x *Shadow) wire { return wire{x.a, x.b} }

func fromWire(w wire) Shadow { return Shadow{a: w.A, b: w.B} }

func (x *Shadow) PUP(p *pup.Stream) {
	w := toWire(x)
	pup.Value(p, &w)
	if p.Unpacking() {
		*x = fromWire(w)
	}
}

// Getter and setter.
type Hidden struct{ v int }

func (x *Hidden) get() int  { return x.v }
func (x *Hidden) set(v int) { x.v = v }

func (x *Hidden) PUP(p *pup.Stream) {
	v := x.get()
	pup.Number(p, &v)
	if p.Unpacking() {
		x.set(v)
	}
}

// Atomics.
type Atomic struct {
	n    atomic.Int64
	flag atomic.Bool
}

func (x *Atomic) PUP(p *pup.Stream) {
	n := x.n.Load()
	pup.Number(p, &n)
	x.n.Store(n)
	f := x.flag.Load()
	pup.Bool(p, &f)
	if p.Unpacking() {
		x.flag.Store(f)
	}
}

// container/list.
type Queue struct{ l *list.List }

func (x *Queue) PUP(p *pup.Stream) {
	var vals []int
	if !p.Unpacking() {
		for e := x.l.Front(); e != nil; e = e.Next() {
			vals = append(vals, e.Value.(int))
		}
	}
	pup.PlainSlice(p, &vals)
	if p.Unpacking() {
		x.l = list.New()
		for _, v := range vals {
			x.l.PushBack(v)
		}
	}
}

// A linked list of one's own.
type node struct {
	v    int
	next *node
}

type Stack struct {
	head *node
	size int
}

func (x *Stack) push(v int) { x.head = &node{v: v, next: x.head} }

func (x *Stack) PUP(p *pup.Stream) {
	pup.Number(p, &x.size)
	if p.Unpacking() {
		for i := 0; i < x.size; i++ {
			var v int
			pup.Number(p, &v)
			x.push(v)
		}
		return
	}
	n := x.head
	for i := 0; i < x.size; i++ {
		pup.Number(p, &n.v)
		n = n.next
	}
}

// nil or not, by hand.
type Maybe struct {
	in  *wire
	has bool
	out *wire
}

func (x *Maybe) PUP(p *pup.Stream) {
	set := x.in != nil
	pup.Bool(p, &set)
	if set {
		if p.Unpacking() {
			x.in = new(wire)
		}
		x.in.PUP(p)
	}
	pup.Bool(p, &x.has)
	if !x.has {
		return
	}
	if p.Unpacking() {
		x.out = &wire{}
	}
	x.out.PUP(p)
}

// Pointers in a slice, made one by one.
type Pointers struct{ all []*wire }

func (x *Pointers) PUP(p *pup.Stream) {
	n := len(x.all)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.all = make([]*wire, n)
	}
	for i := range x.all {
		if p.Unpacking() {
			x.all[i] = &wire{}
		}
		x.all[i].PUP(p)
	}
}

// Appending what was read.
type Appended struct{ all []*wire }

func (x *Appended) PUP(p *pup.Stream) {
	n := len(x.all)
	pup.Number(p, &n)
	if !p.Unpacking() {
		for _, w := range x.all {
			w.PUP(p)
		}
		return
	}
	x.all = x.all[:0]
	for range n {
		w := &wire{}
		w.PUP(p)
		x.all = append(x.all, w)
	}
}

// A tagged union.
type Shape interface{ Area() float64 }

type Circle struct{ r float64 }

func (c *Circle) Area() float64     { return c.r }
func (c *Circle) PUP(p *pup.Stream) { pup.Number(p, &c.r) }

type Square struct{ a float64 }

func (s *Square) Area() float64     { return s.a }
func (s *Square) PUP(p *pup.Stream) { pup.Number(p, &s.a) }

type Drawing struct{ shape Shape }

func (x *Drawing) PUP(p *pup.Stream) {
	var kind uint8
	switch x.shape.(type) {
	case *Circle:
		kind = 1
	case *Square:
		kind = 2
	}
	pup.Number(p, &kind)
	switch kind {
	case 1:
		c, _ := x.shape.(*Circle)
		if p.Unpacking() {
			c = new(Circle)
			x.shape = c
		}
		c.PUP(p)
	case 2:
		if p.Unpacking() {
			x.shape = &Square{}
		}
		x.shape.(*Square).PUP(p)
	default:
		p.Fail(errors.New("unknown shape"))
	}
}

// A magic number and a checksum.
type Checked struct {
	a, b int
}

func (x *Checked) sum() int { return x.a*31 + x.b }

func (x *Checked) PUP(p *pup.Stream) {
	magic := uint32(0xCAFE)
	pup.Number(p, &magic)
	if magic != 0xCAFE {
		p.Fail(errors.New("not a Checked"))
		return
	}
	pup.Number(p, &x.a)
	pup.Number(p, &x.b)
	sum := x.sum()
	pup.Number(p, &sum)
	if p.Unpacking() && sum != x.sum() {
		p.Fail(errors.New("checksum"))
	}
}

// Differences are packed.
type Delta struct{ ts []int64 }

func (x *Delta) PUP(p *pup.Stream) {
	n := len(x.ts)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.ts = make([]int64, n)
	}
	prev := int64(0)
	for i := range x.ts {
		d := x.ts[i] - prev
		pup.Number(p, &d)
		x.ts[i] = prev + d
		prev = x.ts[i]
	}
}

// A copy that is assigned back.
type Copied struct {
	head struct{ n, m int }
	vals []int
}

func (x *Copied) PUP(p *pup.Stream) {
	h := x.head
	pup.Number(p, &h.n)
	pup.Number(p, &h.m)
	x.head = h
	for i := range h.n {
		if p.Unpacking() {
			x.vals = append(x.vals, 0)
		}
		v := x.vals[i]
		pup.Number(p, &v)
		x.vals[i] = v
	}
}

// Matrices: rows and columns first.
type Dense struct {
	rows, cols int
	data       [][]float64
}

func (x *Dense) PUP(p *pup.Stream) {
	pup.Number(p, &x.rows)
	pup.Number(p, &x.cols)
	if p.Unpacking() {
		x.data = make([][]float64, x.rows)
		for i := range x.data {
			x.data[i] = make([]float64, x.cols)
		}
	}
	for i := 0; i < x.rows; i++ {
		for j := 0; j < x.cols; j++ {
			pup.Number(p, &x.data[i][j])
		}
	}
}

// The second part depends on the first.
type Tagged struct {
	kind int
	i    int
	s    string
}

func (x *Tagged) PUP(p *pup.Stream) {
	pup.Number(p, &x.kind)
	switch x.kind {
	case 0:
		pup.Number(p, &x.i)
	case 1:
		pup.String(p, &x.s)
	}
}

// A field that is computed anew in both directions.
type Both struct{ n, twice int }

func (x *Both) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	if x.twice = 2 * x.n; p.Unpacking() {
		x.twice = 2 * x.n
	}
}
