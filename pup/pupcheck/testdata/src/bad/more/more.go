// Package more has faults as programs have them.
package more

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
	"math/rand/v2"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/byssus-hpc/byssus/pup"
)

type Vec3 struct{ X, Y, Z float64 }

// B01: visits in nested closure only part
type B01 struct{ a, b int }

func (x *B01) PUP(p *pup.Stream) { // want `PUP of B01: x\.b is not visited`
	f := func() func() { return func() { pup.Number(p, &x.a) } }
	f()()
}

// B02: embedded generic
type Base[T any] struct {
	v T
	n int
}
type B02 struct {
	Base[int]
	k string
}

func (x *B02) PUP(p *pup.Stream) { // want `PUP of B02: x\.Base\.n is not visited`
	pup.Number(p, &x.v)
	pup.String(p, &x.k)
}

// B03: method value saved
type B03 struct{ a, b int }

func (x *B03) one(p *pup.Stream) { pup.Number(p, &x.a) }
func (x *B03) PUP(p *pup.Stream) { // want `PUP of B03: x\.b is not visited`
	f := x.one
	f(p)
}

// B04: Packing in else-if
type B04 struct{ a, b int }

func (x *B04) PUP(p *pup.Stream) {
	if p.Sizing() {
		pup.Number(p, &x.a)
		pup.Number(p, &x.b)
	} else if p.Packing() {
		pup.Number(p, &x.a)
		pup.Number(p, &x.b)
	} else if p.Unpacking() {
		pup.Number(p, &x.b) // want `packing and unpacking differ: packing visits x\.a here, unpacking x\.b`
		pup.Number(p, &x.a)
	}
}

// B05: conditional on local computed from unvisited
type B05 struct{ n, m int }

func (x *B05) PUP(p *pup.Stream) {
	big := x.n > 10
	if big { // want `the condition depends on x\.n, which is not restored yet when unpacking: visit it first`
		pup.Number(p, &x.m)
	}
	pup.Number(p, &x.n)
}

// B06: method condition
type B06 struct {
	kids []int
	m    int
}

func (x *B06) leaf() bool { return len(x.kids) == 0 }
func (x *B06) PUP(p *pup.Stream) {
	if x.leaf() { // want `the condition depends on x\.kids, which is not restored yet when unpacking: visit it first`
		pup.Number(p, &x.m)
	}
	pup.PlainSlice(p, &x.kids)
}

// B07: map keys iteration with helper
type B07 struct{ m map[int]*Vec3 }

func (x *B07) PUP(p *pup.Stream) {
	for _, v := range x.m { // want `visits in map order, which differs from run to run: use pup\.Map`
		pup.Plain(p, v) // want `x\.m\[\.\.\.\] is nil when unpacking: make it first, or use pup\.Ptr`
	}
}

// B08: goroutine per element
type B08 struct{ list [4]Vec3 }

func (x *B08) PUP(p *pup.Stream) {
	var wg sync.WaitGroup
	for i := range x.list {
		wg.Add(1)
		go func(i int) { // want `visits in a goroutine happen in no fixed order, and maybe after PUP has returned`
			defer wg.Done()
			pup.Plain(p, &x.list[i])
		}(i)
	}
	wg.Wait()
}

// B09: uint8 slice over struct via header
type B09 struct {
	a uint8
	b int64
}

func (x *B09) PUP(p *pup.Stream) {
	b := (*[unsafe.Sizeof(B09{})]byte)(unsafe.Pointer(x))
	pup.Array(p, b[:], pup.Number) // want `more\.B09 has 7 padding bytes; their content is stored with it: use pup\.Plain`
}

// B10: Plain on embedded pointer type
type B10 struct {
	v struct {
		*Vec3
		n int
	}
}

func (x *B10) PUP(p *pup.Stream) { pup.Plain(p, &x.v) } // want `pup\.Plain copies the memory of struct\{\*more\.Vec3; n int\}, which holds a pointer: Vec3 of type \*more\.Vec3`

// B11: closure captures loop var from outer
type B11 struct {
	rows [3][]float64
}

func (x *B11) PUP(p *pup.Stream) {
	for i := range x.rows {
		pup.Slice(p, &x.rows[i], func(p *pup.Stream, e *float64) {
			pup.Number(p, &x.rows[i][0]) // want `the element function visits x\.rows\[\.\.\.\]\[0\] instead of its argument`
		})
	}
}

// B12: ignoring error-handled early return under unpack
type B12 struct{ a, b int }

func (x *B12) PUP(p *pup.Stream) {
	pup.Number(p, &x.a)
	switch {
	case p.Unpacking():
		if x.a == 0 {
			return
		}
	}
	pup.Number(p, &x.b) // want `packing and unpacking differ: packing visits x\.b here, unpacking x\.b`
}

// B14: random seed
type B14 struct{ a, b int }

func (x *B14) PUP(p *pup.Stream) { // want `PUP of B14 visits nothing of it`
	fs := []func(){func() { pup.Number(p, &x.a) }, func() { pup.Number(p, &x.b) }}
	rand.Shuffle(len(fs), func(i, j int) { fs[i], fs[j] = fs[j], fs[i] })
	for _, f := range fs {
		f()
	}
}

// B15: twice through embedded promoted PUP
type Inner struct{ N int }

func (i *Inner) PUP(p *pup.Stream) { pup.Number(p, &i.N) }

type B15 struct {
	Inner
	M int
}

func (x *B15) PUP(p *pup.Stream) {
	x.Inner.PUP(p)
	pup.Number(p, &x.M)
	pup.Number(p, &x.N) // want `x\.Inner\.N is visited again: x\.Inner as a whole is visited in line`
}

// B16: pointer receiver copy
type B16 struct{ a int }

func (x *B16) PUP(p *pup.Stream) { // want `PUP of B16: x is packed, but not assigned from the data when unpacking`
	y := *x
	y.visit(p)
}
func (x *B16) visit(p *pup.Stream) { pup.Number(p, &x.a) }

// B17: array copy
type B17 struct{ a [4]int }

func (x *B17) PUP(p *pup.Stream) { // want `PUP of B17: x\.a is packed, but not assigned from the data when unpacking`
	t := x.a
	pup.Plain(p, &t)
}

// B18: range by value arrays
type B18 struct{ a [4]Inner }

func (x *B18) PUP(p *pup.Stream) { // want `PUP of B18: x\.a is packed, but not assigned from the data when unpacking`
	for _, e := range x.a {
		e.PUP(p)
	}
}

// B19: atomic never stored
type B19 struct{ n atomic.Int64 }

func (x *B19) PUP(p *pup.Stream) { // want `PUP of B19: x\.n is packed, but not assigned from the data when unpacking`
	n := x.n.Load()
	pup.Number(p, &n)
}

// b20: store pup in goroutine later
type b20 struct {
	a    int
	hook []func() //pup:skip internal
}

func (x *b20) PUP(p *pup.Stream) {
	pup.Number(p, &x.a)
	x.hook = append(x.hook, func() { pup.Number(p, &x.a) }) // want `a function that uses the stream is stored in x\.hook: the stream is of no use after PUP has returned`
}

// B21: two slices, second's length from first's
type B21 struct{ a, b []int }

func (x *B21) PUP(p *pup.Stream) {
	n := len(x.a)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.a = make([]int, n)
	}
	for i := range x.a {
		pup.Number(p, &x.a[i])
		pup.Number(p, &x.b[i]) // want `x\.b has no elements when unpacking: its length is not restored before; use pup\.Slice`
	}
}

// B22: version of other type unaffected; missing else
type B22 struct {
	old float32
	w   float64
}

func (x *B22) PUP(p *pup.Stream) { // want `PUP of B22 visits nothing of it`
	if pup.Version[B22](p) < 2 {
		pup.Number(p, &x.old)
	}
}

// b23: channel-length condition
type b23 struct {
	ch chan int //pup:skip internal
	a  int
}

func (x *b23) PUP(p *pup.Stream) {
	if len(x.ch) > 0 { // want `the condition depends on x\.ch, which is not restored yet when unpacking: visit it first`
		pup.Number(p, &x.a)
	}
}

// B24: binary.Write only pack
type B24 struct{ v Vec3 }

func (x *B24) PUP(p *pup.Stream) { // want `PUP of B24: x\.v is packed, but not assigned from the data when unpacking`
	var buf bytes.Buffer
	binary.Write(&buf, binary.LittleEndian, x.v)
	b := buf.Bytes()
	pup.PlainSlice(p, &b)
}

// B25: sort by pointer.. map iteration into slice of pairs
type B25 struct{ m map[string]int }

func (x *B25) PUP(p *pup.Stream) {
	type kv struct {
		k string
		v int
	}
	var kvs []kv
	for k, v := range x.m {
		kvs = append(kvs, kv{k, v})
	}
	pup.Slice(p, &kvs, func(p *pup.Stream, e *kv) { // want `kvs holds elements in map order, which differs from run to run; sort it or use pup\.Map`
		pup.String(p, &e.k)
		pup.Number(p, &e.v)
	})
	if p.Unpacking() {
		x.m = map[string]int{}
		for _, e := range kvs {
			x.m[e.k] = e.v
		}
	}
}

// B26: env in init'd local
type B26 struct{ a int }

func (x *B26) PUP(p *pup.Stream) {
	_, full := os.LookupEnv("X")
	if !full { // want `the condition depends on the environment of the process`
		return
	}
	pup.Number(p, &x.a)
}

// B28: iterator over map
type B28 struct{ m map[string]int }

func (x *B28) all() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for k, v := range x.m {
			if !yield(k, v) {
				return
			}
		}
	}
}
func (x *B28) PUP(p *pup.Stream) { // want `PUP of B28: x\.m is packed, but not assigned from the data when unpacking`
	for k, v := range x.all() { // want `visits in map order, which differs from run to run: use pup\.Map`
		pup.String(p, &k)
		pup.Number(p, &v)
	}
}

// B29: nested struct local named type, half
type B29 struct {
	cfg struct {
		opts struct{ a, b bool }
		n    int
	}
}

func (x *B29) PUP(p *pup.Stream) { // want `PUP of B29: x\.cfg\.opts\.b is not visited`
	c := &x.cfg
	o := &c.opts
	pup.Bool(p, &o.a)
	pup.Number(p, &c.n)
}

// B30: interface w/ type assertion on unset
type B30 struct{ s any }

func (x *B30) PUP(p *pup.Stream) {
	if q, ok := x.s.(pup.PUPer); ok { // want `the condition depends on x\.s, which is not restored yet when unpacking: visit it first`
		q.PUP(p)
	}
}

// B31: reorder via defer
type B31 struct{ a, b int }

func (x *B31) PUP(p *pup.Stream) {
	if p.Packing() {
		defer pup.Number(p, &x.a)
	} else {
		pup.Number(p, &x.a) // want `packing and unpacking differ: packing visits x\.b here, unpacking x\.a`
	}
	pup.Number(p, &x.b)
}

// B32: pack as string unpack as bytes
type B32 struct{ s string }

func (x *B32) PUP(p *pup.Stream) {
	if p.Unpacking() {
		var b []byte
		pup.PlainSlice(p, &b) // want `packing and unpacking differ: packing visits x\.s here, unpacking a copy of x\.s`
		x.s = string(b)
	} else {
		pup.String(p, &x.s)
	}
}

// B33: generic helper that copies
type B33 struct{ a, b int }

func cp[T any](p *pup.Stream, v T) T { pup.Value(p, &v); return v }
func (x *B33) PUP(p *pup.Stream) { // want `PUP of B33: x\.a is packed, but not assigned from the data when unpacking`
	cp(p, x.a)
	x.b = cp(p, x.b)
}

// B34: sum type flags different
type B34 struct {
	kind int
	a    int
	b    string
}

func (x *B34) PUP(p *pup.Stream) {
	switch x.kind { // want `the condition depends on x\.kind, which is not restored yet when unpacking: visit it first`
	case 0:
		pup.Number(p, &x.a)
	case 1:
		pup.String(p, &x.b)
	}
	pup.Number(p, &x.kind)
}

// B35: uintptr in array
type B35 struct{ a [2]uintptr }

func (x *B35) PUP(p *pup.Stream) { pup.Array(p, x.a[:], pup.Number) } // want `uintptr is a uintptr: an address means nothing after a restart`

// B36: uintptr generic
type Box[T any] struct{ v T }
type B36 struct{ b Box[uintptr] }

func (x *B36) PUP(p *pup.Stream) { pup.Plain(p, &x.b) } // want `v of type uintptr is a uintptr: an address means nothing after a restart`

// B37: inherits through two levels
type mid struct{ Inner }
type B37 struct { // want `B37 has its PUP from the embedded mid, which does not visit extra: write a PUP`
	mid
	extra []int
}

// B38: map in Plain via named type
type attrs map[string]string
type B38 struct{ a attrs }

func (x *B38) PUP(p *pup.Stream) { pup.Plain(p, &x.a) } // want `pup\.Plain copies the memory of more\.attrs, which holds a pointer: more\.attrs`

// B39: byte conversions of string header
type B39 struct{ s string }

func (x *B39) PUP(p *pup.Stream) {
	pup.Plain(p, (*[16]byte)(unsafe.Pointer(&x.s))) // want `pup\.Plain copies the memory of string, which holds a pointer: string` `the bytes of string hold a pointer: string`
}

// B40: sorted in unpack but...
type B40 struct{ m map[string]int }

func (x *B40) PUP(p *pup.Stream) {
	keys := make([]string, 0, len(x.m))
	for k := range x.m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys { // want `the number of passes of this loop depends on x\.m, which is not restored yet when unpacking: visit it first`
		v := x.m[k]
		pup.Number(p, &v)
		x.m[k] = v
	}
}

// B41: fail without return
type B41 struct{ n, m int }

var errN = errors.New("n")

func (x *B41) PUP(p *pup.Stream) {
	if p.Unpacking() && x.n == 0 { // want `the condition depends on x\.n, which is not restored yet when unpacking: visit it first`
		pup.Number(p, &x.m) // want `packing and unpacking differ: packing visits nothing here, unpacking x\.m`
	}
	pup.Number(p, &x.n)
}

// B42: loop direction
type B42 struct{ a [3]int }

func (x *B42) PUP(p *pup.Stream) {
	if p.Unpacking() {
		for i := 2; i >= 0; i-- {
			pup.Number(p, &x.a[i]) // want `packing and unpacking differ: x\.a\[\.\.\.\] is visited in opposite orders`
		}
	} else {
		for i := 0; i < 3; i++ {
			pup.Number(p, &x.a[i])
		}
	}
}

// B43: element through pointer slices without making elements
type B43 struct{ list []*Inner }

func (x *B43) PUP(p *pup.Stream) {
	n := len(x.list)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.list = make([]*Inner, n)
	}
	for _, e := range x.list {
		e.PUP(p) // want `x\.list\[\.\.\.\] is nil when unpacking: make it first, or use pup\.Ptr`
	}
}

// B44: assign in packing only
type B44 struct{ t time.Time }

func (x *B44) PUP(p *pup.Stream) { // want `PUP of B44: x\.t is packed, but not assigned from the data when unpacking`
	ns := x.t.UnixNano()
	pup.Number(p, &ns)
	if p.Packing() {
		x.t = time.Unix(0, ns) // want `x\.t is changed while it is packed`
	}
}

// B45: int narrowing on one side
type B45 struct{ n int }

func (x *B45) PUP(p *pup.Stream) {
	if p.Unpacking() {
		var v uint16
		pup.Number(p, &v) // want `packing and unpacking differ: a copy of x\.n as uint32 and as uint16`
		x.n = int(v)
	} else {
		v := uint32(x.n)
		pup.Number(p, &v)
	}
}

// B46: package-level counter
var calls int

type B46 struct{ a int }

func (x *B46) PUP(p *pup.Stream) {
	calls++
	if calls%2 == 0 { // want `the condition depends on calls, which may differ when unpacking`
		return
	}
	pup.Number(p, &x.a)
}

// B47: Skip of pointer with blank reason var const
type B47 struct {
	a int
	b int
}

func (x *B47) PUP(p *pup.Stream) {
	pup.Number(p, &x.a)
	pup.Skip(p, &x.b, " ") // want `pup\.Skip without a reason`
}

// b48: skip on all names but one visited
type b48 struct {
	a, b int //pup:skip both // want `x\.a is declared as skipped, but PUP visits it`
}

func (x *b48) PUP(p *pup.Stream) { pup.Number(p, &x.a) }

// B49: struct assigned whole then visited
type B49 struct {
	in  Inner
	out Inner
}

func (x *B49) PUP(p *pup.Stream) { // want `PUP of B49: x\.out is not visited`
	for _, q := range []*Inner{&x.in} {
		q.PUP(p)
	}
}

// B50: nil elem via variable
type B50 struct{ n *Inner }

func (x *B50) PUP(p *pup.Stream) { // want `PUP of B50 visits nothing of it`
	var elem func(*pup.Stream, *Inner)
	pup.Ptr(p, &x.n, elem) // want `pup\.Ptr with a nil element function`
}
