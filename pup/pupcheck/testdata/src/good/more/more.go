// Package more has correct types as programs have them.
package more

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"log"
	"maps"
	"math/bits"
	"math/rand"
	"net"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/byssus-hpc/byssus/pup"
)

type Inner struct{ N int }

func (i *Inner) PUP(p *pup.Stream) { pup.Number(p, &i.N) }

// G01 sentinel list
type G01 struct{ list []string }

func (x *G01) PUP(p *pup.Stream) {
	if p.Unpacking() {
		for {
			var more bool
			pup.Bool(p, &more)
			if !more {
				break
			}
			var s string
			pup.String(p, &s)
			x.list = append(x.list, s)
		}
		return
	}
	for _, s := range x.list {
		more := true
		pup.Bool(p, &more)
		pup.String(p, &s)
	}
	more := false
	pup.Bool(p, &more)
}

// g02 lock held
type g02 struct {
	mu sync.RWMutex //pup:skip free after restart
	m  map[string]int
}

func (x *g02) PUP(p *pup.Stream) {
	x.mu.Lock()
	defer x.mu.Unlock()
	pup.Map(p, &x.m, pup.String, pup.Number)
}

// G03 heap with init
type ih []int

func (h ih) Len() int           { return len(h) }
func (h ih) Less(i, j int) bool { return h[i] < h[j] }
func (h ih) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *ih) Push(v any)        { *h = append(*h, v.(int)) }
func (h *ih) Pop() any          { o := *h; v := o[len(o)-1]; *h = o[:len(o)-1]; return v }

type G03 struct{ q ih }

func (x *G03) PUP(p *pup.Stream) {
	pup.PlainSlice(p, &x.q)
	if p.Unpacking() {
		heap.Init(&x.q)
	}
}

// g04 rand state reseeded
type g04 struct {
	seed int64
	rng  *rand.Rand //pup:skip made from seed
}

func (x *g04) PUP(p *pup.Stream) {
	pup.Number(p, &x.seed)
	if p.Unpacking() {
		x.rng = rand.New(rand.NewSource(x.seed))
	}
}

// g05 file reopened
type g05 struct {
	name string
	off  int64
	f    *os.File //pup:skip opened again
}

func (x *g05) PUP(p *pup.Stream) {
	pup.String(p, &x.name)
	if !p.Unpacking() && x.f != nil {
		x.off, _ = x.f.Seek(0, io.SeekCurrent)
	}
	pup.Number(p, &x.off)
	if p.Unpacking() && x.name != "" {
		f, err := os.Open(x.name)
		if err != nil {
			p.Fail(err)
			return
		}
		if _, err := f.Seek(x.off, io.SeekStart); err != nil {
			p.Fail(fmt.Errorf("seek: %w", err))
			return
		}
		x.f = f
	}
}

// G06 sparse
type G06 struct {
	n   int
	idx []int32
	val []float64
}

func (x *G06) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	nnz := len(x.idx)
	pup.Number(p, &nnz)
	if p.Unpacking() {
		x.idx, x.val = make([]int32, nnz), make([]float64, nnz)
	}
	for i := 0; i < nnz; i++ {
		pup.Number(p, &x.idx[i])
		pup.Number(p, &x.val[i])
	}
}

// G07 bitset
type G07 struct{ bits []bool }

func (x *G07) PUP(p *pup.Stream) {
	n := len(x.bits)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.bits = make([]bool, n)
	}
	for i := 0; i < n; i += 64 {
		var w uint64
		for j := i; j < min(i+64, n); j++ {
			if x.bits[j] {
				w |= 1 << (j - i)
			}
		}
		pup.Number(p, &w)
		if p.Unpacking() {
			for ; w != 0; w &= w - 1 {
				x.bits[i+bits.TrailingZeros64(w)] = true
			}
		}
	}
}

// g08 flat matrix with views
type g08 struct {
	r, c int
	data []float64
	rows [][]float64 //pup:skip views of data
}

func (x *g08) PUP(p *pup.Stream) {
	pup.Number(p, &x.r)
	pup.Number(p, &x.c)
	pup.PlainSlice(p, &x.data)
	if p.Unpacking() {
		x.rows = make([][]float64, x.r)
		for i := range x.rows {
			x.rows[i] = x.data[i*x.c : (i+1)*x.c]
		}
	}
}

// G09 log only
type G09 struct{ n int }

func (x *G09) PUP(p *pup.Stream) {
	start := time.Now()
	pup.Number(p, &x.n)
	if d := time.Since(start); d > time.Second {
		log.Printf("slow: %v", d)
	}
}

// G10 debug env only logs
type G10 struct{ n int }

func (x *G10) PUP(p *pup.Stream) {
	if os.Getenv("DEBUG") != "" {
		log.Println("PUP", x.n)
	}
	pup.Number(p, &x.n)
}

// G11 metrics global
var packs int

type G11 struct{ n int }

func (x *G11) PUP(p *pup.Stream) {
	packs++
	pup.Number(p, &x.n)
}

// G12 optional section with flag computed from contents
type G12 struct {
	n     int
	extra []string
}

func (x *G12) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	has := len(x.extra) > 0
	pup.Bool(p, &has)
	if has {
		pup.Slice(p, &x.extra, pup.String)
	}
}

// G13 net.IP
type G13 struct {
	ip  net.IP
	raw [16]byte
}

func (x *G13) PUP(p *pup.Stream) {
	pup.PlainSlice(p, &x.ip)
	pup.Plain(p, &x.raw)
}

// G14 ordered map: keys slice + values
type G14[K cmp.Ordered, V any] struct {
	keys []K
	vals map[K]V
}

func (x *G14[K, V]) PUP(p *pup.Stream) {
	pup.Slice(p, &x.keys, pup.Value)
	if p.Unpacking() {
		x.vals = make(map[K]V, len(x.keys))
	}
	for _, k := range x.keys {
		v := x.vals[k]
		pup.Value(p, &v)
		if p.Unpacking() {
			x.vals[k] = v
		}
	}
}

// G15 graph with ids
type gnode struct {
	id  int
	out []*gnode
}
type G15 struct{ nodes []*gnode }

func (x *G15) PUP(p *pup.Stream) {
	n := len(x.nodes)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.nodes = make([]*gnode, n)
		for i := range x.nodes {
			x.nodes[i] = &gnode{id: i}
		}
	}
	for _, g := range x.nodes {
		pup.Number(p, &g.id)
		var out []int
		for _, o := range g.out {
			out = append(out, o.id)
		}
		pup.PlainSlice(p, &out)
		if p.Unpacking() {
			for _, id := range out {
				g.out = append(g.out, x.nodes[id])
			}
		}
	}
}

// G16 visit with local helper map of handlers
type G16 struct {
	a int
	b string
}

func (x *G16) fields() []any { return []any{&x.a, &x.b} }
func (x *G16) PUP(p *pup.Stream) {
	for _, f := range x.fields() {
		switch f := f.(type) {
		case *int:
			pup.Number(p, f)
		case *string:
			pup.String(p, f)
		}
	}
}

// G17 range over func
type G17 struct{ a, b Inner }

func (x *G17) parts() iter.Seq[*Inner] {
	return func(yield func(*Inner) bool) {
		if !yield(&x.a) {
			return
		}
		yield(&x.b)
	}
}
func (x *G17) PUP(p *pup.Stream) {
	for q := range x.parts() {
		q.PUP(p)
	}
}

// G18 each with callback
type G18 struct{ list []Inner }

func (x *G18) each(f func(*Inner)) {
	for i := range x.list {
		f(&x.list[i])
	}
}
func (x *G18) PUP(p *pup.Stream) {
	n := len(x.list)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.list = make([]Inner, n)
	}
	x.each(func(i *Inner) { i.PUP(p) })
}

// G19 binary codec by hand
type G19 struct{ v struct{ A, B uint32 } }

func (x *G19) PUP(p *pup.Stream) {
	var buf [8]byte
	if !p.Unpacking() {
		binary.LittleEndian.PutUint32(buf[:], x.v.A)
		binary.LittleEndian.PutUint32(buf[4:], x.v.B)
	}
	pup.Plain(p, &buf)
	if p.Unpacking() {
		x.v.A = binary.LittleEndian.Uint32(buf[:])
		x.v.B = binary.LittleEndian.Uint32(buf[4:])
	}
}

// G20 strings.Builder
type G20 struct{ sb strings.Builder }

func (x *G20) PUP(p *pup.Stream) {
	s := x.sb.String()
	pup.String(p, &s)
	if p.Unpacking() {
		x.sb.Reset()
		x.sb.WriteString(s)
	}
}

// G21 bytes.Buffer
type G21 struct{ buf bytes.Buffer }

func (x *G21) PUP(p *pup.Stream) {
	b := x.buf.Bytes()
	pup.PlainSlice(p, &b)
	if p.Unpacking() {
		x.buf = *bytes.NewBuffer(b)
	}
}

// G22 sync.Map by sorted snapshot
type G22 struct{ m sync.Map }

func (x *G22) PUP(p *pup.Stream) {
	snap := map[string]int{}
	x.m.Range(func(k, v any) bool {
		snap[k.(string)] = v.(int)
		return true
	})
	pup.Map(p, &snap, pup.String, pup.Number)
	if p.Unpacking() {
		for k, v := range snap {
			x.m.Store(k, v)
		}
	}
}

// G23 kv pairs sorted
type G23 struct{ m map[string]int }

func (x *G23) PUP(p *pup.Stream) {
	type kv struct {
		K string
		V int
	}
	var kvs []kv
	for k, v := range x.m {
		kvs = append(kvs, kv{k, v})
	}
	sort.Slice(kvs, func(i, j int) bool { return kvs[i].K < kvs[j].K })
	pup.Slice(p, &kvs, func(p *pup.Stream, e *kv) {
		pup.String(p, &e.K)
		pup.Number(p, &e.V)
	})
	if p.Unpacking() {
		x.m = map[string]int{}
		for _, e := range kvs {
			x.m[e.K] = e.V
		}
	}
}

// G24 slices.SortFunc keys
type G24 struct{ m map[[2]int]float64 }

func (x *G24) PUP(p *pup.Stream) {
	keys := slices.Collect(maps.Keys(x.m))
	slices.SortFunc(keys, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	n := len(keys)
	pup.Number(p, &n)
	if p.Unpacking() {
		keys = make([][2]int, n)
		x.m = make(map[[2]int]float64, n)
	}
	for i := range keys {
		pup.Plain(p, &keys[i])
		v := x.m[keys[i]]
		pup.Number(p, &v)
		x.m[keys[i]] = v
	}
}

// G25 unsafe bytes without padding
type G25 struct{ a, b uint64 }

func (x *G25) PUP(p *pup.Stream) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(x)), unsafe.Sizeof(*x))
	pup.Array(p, b, pup.Number)
}

// g26 ring buffer
type g26 struct {
	buf  []int
	head int //pup:skip the elements are packed from the first on
	size int
}

func (x *g26) PUP(p *pup.Stream) {
	c := cap(x.buf)
	pup.Number(p, &c)
	pup.Number(p, &x.size)
	if p.Unpacking() {
		x.buf = make([]int, c)
		x.head = 0
	}
	for i := 0; i < x.size; i++ {
		pup.Number(p, &x.buf[(x.head+i)%c])
	}
}

// g27 embedded interface skipped, inline option
type g27 struct {
	io.Writer `pup:"-,set by the caller"`
	n         int
}

func (x *g27) PUP(p *pup.Stream) { pup.Number(p, &x.n) }

// G28 pointer to array, array of arrays
type G28 struct {
	p *[4]int
	q [2][3]Inner
}

func (x *G28) PUP(p *pup.Stream) {
	pup.Ptr(p, &x.p, func(p *pup.Stream, a *[4]int) { pup.Plain(p, a) })
	for i := range x.q {
		row := &x.q[i]
		for j := range row {
			row[j].PUP(p)
		}
	}
}

// G29 init zero value
type G29 struct {
	m map[string]int
	n int
}

func (x *G29) PUP(p *pup.Stream) {
	if x.m == nil {
		x.m = make(map[string]int)
	}
	pup.Map(p, &x.m, pup.String, pup.Number)
	pup.Number(p, &x.n)
}

// G30 multiple types in group, param named differently
type (
	G30a struct{ x, y int32 }
	G30b struct {
		G30a
		z int32
	}
)

func (v *G30a) PUP(s *pup.Stream) { pup.Plain(s, v) }
func (v *G30b) PUP(s *pup.Stream) {
	v.G30a.PUP(s)
	pup.Number(s, &v.z)
}

// G31 pack helpers on other value's fields with arithmetic
type G31 struct{ lo, hi uint64 }

func (x *G31) PUP(p *pup.Stream) {
	width := x.hi - x.lo
	pup.Number(p, &x.lo)
	pup.Number(p, &width)
	if p.Unpacking() {
		x.hi = x.lo + width
	}
}

// G32 error-named returns
type G32 struct{ n int }

func (x *G32) pup(p *pup.Stream) (err error) {
	pup.Number(p, &x.n)
	if x.n < 0 {
		return fmt.Errorf("bad")
	}
	return p.Err()
}
func (x *G32) PUP(p *pup.Stream) {
	if err := x.pup(p); err != nil {
		p.Fail(err)
	}
}

// G33 recursive value tree by hand
type G33 struct {
	v    int
	kids []*G33
}

func (x *G33) PUP(p *pup.Stream) {
	pup.Number(p, &x.v)
	n := len(x.kids)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.kids = make([]*G33, n)
	}
	for i := range n {
		if x.kids[i] == nil {
			x.kids[i] = new(G33)
		}
		x.kids[i].PUP(p)
	}
}

// G34 linked list with pointers to pointers
type ln struct {
	v    int
	next *ln
}
type G34 struct{ head *ln }

func (x *G34) PUP(p *pup.Stream) {
	n := 0
	for l := x.head; l != nil; l = l.next {
		n++
	}
	pup.Number(p, &n)
	at := &x.head
	for range n {
		if p.Unpacking() {
			*at = new(ln)
		}
		pup.Number(p, &(*at).v)
		at = &(*at).next
	}
}

// G35 array of struct with index expr
type G35 struct{ a [4]struct{ x, y int } }

func (x *G35) PUP(p *pup.Stream) {
	for i := range 4 {
		e := &x.a[i]
		pup.Number(p, &e.x)
		pup.Number(p, &e.y)
	}
}

// G36 symmetrical matrix: upper half, mirrored
type G36 struct{ m [3][3]float64 }

func (x *G36) PUP(p *pup.Stream) {
	for i := 0; i < 3; i++ {
		for j := 0; j <= i; j++ {
			pup.Number(p, &x.m[i][j])
			x.m[j][i] = x.m[i][j]
		}
	}
}

// G37 time zone
type G37 struct{ loc *time.Location }

func (x *G37) PUP(p *pup.Stream) {
	name := ""
	if x.loc != nil {
		name = x.loc.String()
	}
	pup.String(p, &name)
	if p.Unpacking() {
		l, err := time.LoadLocation(name)
		if err != nil {
			p.Fail(err)
			return
		}
		x.loc = l
	}
}

// G38 enum switch panic default
type G38 struct {
	k int
	a *Inner
}

func (x *G38) PUP(p *pup.Stream) {
	pup.Number(p, &x.k)
	switch x.k {
	case 0:
	case 1:
		pup.Ptr(p, &x.a, pup.Object)
	default:
		panic("bad kind")
	}
}

// G39 string builder of names via const slice
var names = [...]string{"a", "b"}

type G39 struct{ vals map[string]int }

func (x *G39) PUP(p *pup.Stream) {
	if p.Unpacking() {
		x.vals = map[string]int{}
	}
	for _, n := range names {
		v := x.vals[n]
		pup.Number(p, &v)
		x.vals[n] = v
	}
}

// G40 stream in context struct passed by pointer
type ctx struct {
	p   *pup.Stream
	err error
}

func (c *ctx) num(v *int) {
	if c.err != nil {
		return
	}
	pup.Number(c.p, v)
	c.err = c.p.Err()
}

type G40 struct{ a, b int }

func (x *G40) PUP(p *pup.Stream) {
	c := &ctx{p: p}
	c.num(&x.a)
	c.num(&x.b)
	if c.err != nil {
		p.Fail(c.err)
	}
}
