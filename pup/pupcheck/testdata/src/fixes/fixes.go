// Package fixes has faults that the suggested fixes mend.
package fixes

import (
	"math/big"
	"net/netip"
	"time"

	"github.com/byssus-hpc/byssus/pup"
)

type Sub struct{ n int }

func (s *Sub) PUP(p *pup.Stream) { pup.Number(p, &s.n) }

type Many struct {
	number  int
	float   float64
	flag    bool
	name    string
	plain   []float64
	names   []string
	subs    []Sub
	array   [3]int
	attr    map[string]int
	byName  map[string]Sub
	next    *Many
	sub     Sub
	rows    [][]int
	when    time.Time
	big     big.Int
	addr    netip.Addr
	value   struct{ a, b int }
	iface   any
	channel chan int `pup:"-,made again"` // want channel:"skipped"
}

func (x *Many) PUP(p *pup.Stream) { // want `x.float is not` `x.flag is not` `x.name is not` `x.plain is not` `x.names is not` `x.subs is not` `x.array is not` `x.attr is not` `x.byName is not` `x.next is not` `x.sub is not` `x.rows is not` `x.when is not` `x.big is not` `x.addr is not` `x.value is not` `x.iface is not`
	pup.Number(p, &x.number)
}

type Nothing struct {
	a int
	b string
}

func (x *Nothing) PUP(p *pup.Stream) {} // want `PUP of Nothing visits nothing of it`

type Generic[T any] struct {
	n int
	t T
}

func (x *Generic[T]) PUP(stream *pup.Stream) { // want `x.t is not visited`
	pup.Number(stream, &x.n)
}

type Twice struct{ a, b int }

func (x *Twice) PUP(p *pup.Stream) {
	pup.Number(p, &x.a)
	pup.Number(p, &x.b)
	pup.Number(p, &x.a) // want `x.a is visited twice`
}

type Plain struct {
	names []string
	v     struct{ s string }
}

func (x *Plain) PUP(p *pup.Stream) {
	pup.PlainSlice(p, &x.names) // want `pup.PlainSlice copies`
	pup.Plain(p, &x.v)          // want `pup.Plain copies`
}

type Value struct{ a int }

func (x Value) PUP(p *pup.Stream) { // want `PUP has a value receiver`
	pup.Number(p, &x.a)
}

type OneLine struct{ a, b int }

func (x *OneLine) PUP(p *pup.Stream) { pup.Number(p, &x.a) } // want `x.b is not visited`

type Returns struct{ a, b int }

func (x *Returns) PUP(p *pup.Stream) { // want `x.b is not visited`
	pup.Number(p, &x.a)
	return
}
