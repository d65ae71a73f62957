// Package state has types whose traversal depends on what is not known when unpacking.
package state

import (
	"maps"
	"math/rand"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/byssus-hpc/byssus/pup"
)

// Map order.
type MapOrder struct{ m map[string]int }

func (x *MapOrder) PUP(p *pup.Stream) {
	n := len(x.m)
	pup.Number(p, &n)
	if p.Unpacking() {
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
	for k, v := range x.m { // want `visits in map order`
		pup.String(p, &k)
		pup.Number(p, &v)
	}
}

// Keys that are not sorted.
type Unsorted struct{ m map[string]int }

func (x *Unsorted) PUP(p *pup.Stream) {
	var keys []string
	for k := range x.m {
		keys = append(keys, k)
	}
	pup.Slice(p, &keys, pup.String) // want `keys holds elements in map order`
	if p.Unpacking() {
		x.m = map[string]int{}
	}
	for _, k := range keys {
		v := x.m[k]
		pup.Number(p, &v)
		x.m[k] = v
	}
}

// Collected keys.
type Collected struct{ m map[string]int }

func (x *Collected) PUP(p *pup.Stream) {
	keys := slices.Collect(maps.Keys(x.m))
	pup.Slice(p, &keys, pup.String) // want `keys holds elements in map order`
	if p.Unpacking() {
		x.m = map[string]int{}
	}
	for _, k := range keys {
		v := x.m[k]
		pup.Number(p, &v)
		x.m[k] = v
	}
}

// A condition on a field that has not been visited.
type Before struct{ n, m int }

func (x *Before) PUP(p *pup.Stream) {
	if x.n > 0 { // want `the condition depends on x.n, which is not restored yet when unpacking`
		pup.Number(p, &x.m)
	}
	pup.Number(p, &x.n)
}

// nil or not.
type Nil struct{ next *Nil }

func (x *Nil) PUP(p *pup.Stream) {
	if x.next != nil { // want `the condition depends on x.next, which is not restored yet when unpacking`
		x.next.PUP(p)
	}
}

// A field that is not saved.
type Skipped struct {
	n    int
	fast bool //pup:skip an option // want fast:"skipped"
}

func (x *Skipped) PUP(p *pup.Stream) {
	if !x.fast { // want `the condition depends on x.fast`
		pup.Number(p, &x.n)
	}
}

// An early return.
type Return struct{ list []int }

func (x *Return) PUP(p *pup.Stream) {
	if len(x.list) == 0 { // want `the condition depends on x.list`
		return
	}
	pup.PlainSlice(p, &x.list)
}

// A switch on the dynamic type.
type Dynamic struct{ v any }

func (x *Dynamic) PUP(p *pup.Stream) {
	switch v := x.v.(type) { // want `the condition depends on x.v`
	case *Nil:
		v.PUP(p)
	case *Before:
		v.PUP(p)
	}
}

// A condition in a helper.
type Helped struct{ a, b int }

func (x *Helped) PUP(p *pup.Stream) {
	x.maybe(p) // want `the condition depends on x.b`
	pup.Number(p, &x.b)
}

func (x *Helped) maybe(p *pup.Stream) {
	if x.b != 0 {
		pup.Number(p, &x.a)
	}
}

// A loop over a slice without its length.
type Slice struct{ list []int }

func (x *Slice) PUP(p *pup.Stream) {
	for i := range x.list { // want `the number of passes of this loop depends on x.list`
		pup.Number(p, &x.list[i])
	}
}

// A counted loop.
type Counted struct{ list []int }

func (x *Counted) PUP(p *pup.Stream) {
	for i := 0; i < len(x.list); i++ { // want `the number of passes of this loop depends on x.list`
		pup.Number(p, &x.list[i])
	}
}

// The length is visited and nothing made of it.
type NotMade struct{ list []int }

func (x *NotMade) PUP(p *pup.Stream) {
	n := len(x.list)
	pup.Number(p, &n)
	for i := range n {
		pup.Number(p, &x.list[i]) // want `x.list has no elements when unpacking`
	}
}

// Made with the length that it does not have.
type MadeWrong struct{ list []int }

func (x *MadeWrong) PUP(p *pup.Stream) {
	n := len(x.list)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.list = make([]int, len(x.list))
	}
	for i := range x.list { // want `the number of passes of this loop depends on x.list`
		pup.Number(p, &x.list[i])
	}
}

// pup.Array of a slice.
type ArrayOf struct{ list []int }

func (x *ArrayOf) PUP(p *pup.Stream) {
	pup.Array(p, x.list, pup.Number) // want `x.list has no elements when unpacking`
}

// A pointer that nobody sets.
type Pointer struct{ in *Before }

func (x *Pointer) PUP(p *pup.Stream) {
	x.in.PUP(p) // want `x.in is nil when unpacking`
}

// An embedded pointer that nobody sets.
type Embedded struct{ *MapOrder }

func (x *Embedded) PUP(p *pup.Stream) {
	x.MapOrder.PUP(p) // want `x.MapOrder is nil when unpacking`
}

// The count comes after the elements.
type Late struct {
	n    int
	list []int
}

func (x *Late) PUP(p *pup.Stream) {
	if p.Unpacking() {
		x.list = make([]int, x.n)
	}
	for i := 0; i < x.n; i++ { // want `the number of passes of this loop depends on x.n`
		pup.Number(p, &x.list[i]) // want `x.list has no elements when unpacking`
	}
	pup.Number(p, &x.n)
}

// A linked list.
type Links struct {
	head *link
}

type link struct {
	v    int
	next *link
}

func (x *Links) PUP(p *pup.Stream) {
	for l := x.head; l != nil; l = l.next { // want `depends on x.head`
		pup.Number(p, &l.v)
	}
}

// Time.
type Clock struct{ n, m int }

func (x *Clock) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	if time.Now().Hour() > 12 { // want `the condition depends on the time`
		pup.Number(p, &x.m)
	}
}

// Time that has gone.
type Since struct {
	t time.Time
	m int
}

func (x *Since) PUP(p *pup.Stream) {
	pup.Time(p, &x.t)
	old := time.Since(x.t) > time.Hour
	if !old { // want `the condition depends on the time`
		pup.Number(p, &x.m)
	}
}

// Random numbers.
type Random struct{ n int }

func (x *Random) PUP(p *pup.Stream) {
	if rand.Intn(2) == 0 { // want `the condition depends on random numbers`
		pup.Number(p, &x.n)
	}
}

// The environment.
type Env struct{ n int }

func (x *Env) PUP(p *pup.Stream) {
	if os.Getenv("FULL") != "" { // want `the condition depends on the environment`
		pup.Number(p, &x.n)
	}
}

// The machine.
type Machine struct{ list [64]int }

func (x *Machine) PUP(p *pup.Stream) {
	for i := 0; i < runtime.NumCPU(); i++ { // want `depends on the environment`
		pup.Number(p, &x.list[i])
	}
}

// A global variable.
var verbose bool

type Global struct{ n int }

func (x *Global) PUP(p *pup.Stream) {
	if verbose { // want `the condition depends on verbose`
		pup.Number(p, &x.n)
	}
}

// A global list.
var Hooks []func(*pup.Stream, *Hooked)

type Hooked struct{ n int }

func (x *Hooked) PUP(p *pup.Stream) {
	pup.Number(p, &x.n)
	for range Hooks { // want `depends on Hooks`
		var pad byte
		pup.Number(p, &pad)
	}
}

// A goroutine.
type Goroutine struct{ a, b int }

func (x *Goroutine) PUP(p *pup.Stream) {
	go pup.Number(p, &x.a) // want `visits in a goroutine`
	pup.Number(p, &x.b)
}

// A goroutine with a literal, waited for.
type Waited struct{ a, b int }

func (x *Waited) PUP(p *pup.Stream) {
	var wg sync.WaitGroup
	wg.Add(1)
	go func() { // want `visits in a goroutine`
		defer wg.Done()
		pup.Number(p, &x.a)
	}()
	pup.Number(p, &x.b)
	wg.Wait()
}

// WaitGroup.Go.
type Group struct{ a, b int }

func (x *Group) PUP(p *pup.Stream) {
	var wg sync.WaitGroup
	wg.Go(func() { pup.Number(p, &x.a) }) // want `visits in a goroutine`
	wg.Wait()
	pup.Number(p, &x.b)
}

// select.
type Select struct {
	n  int
	ch chan int //pup:skip made again // want ch:"skipped"
}

func (x *Select) PUP(p *pup.Stream) {
	select { // want `depends on what other goroutines do`
	case <-x.ch:
		pup.Number(p, &x.n)
	default:
	}
}

// A channel.
type Channel struct {
	n  int
	ch chan int //pup:skip made again // want ch:"skipped"
}

func (x *Channel) PUP(p *pup.Stream) {
	for range x.ch { // want `depends on`
		pup.Number(p, &x.n) // want `visited in every pass`
	}
}

// sync.Map.
type Concurrent struct {
	m sync.Map
}

func (x *Concurrent) PUP(p *pup.Stream) { // want `x.m is`
	x.m.Range(func(k, v any) bool { // want `visits in map order`
		s := k.(string)
		pup.String(p, &s)
		return true
	})
}

// sync.Once.
type Once struct {
	n    int
	once sync.Once //pup:skip starts anew // want once:"skipped"
}

func (x *Once) PUP(p *pup.Stream) {
	x.once.Do(func() { pup.Number(p, &x.n) }) // want `the condition depends on sync.Once`
}

// A condition on a sibling in an element function.
type Element struct{ list []entry }

type entry struct {
	kind int
	v    int
}

func (x *Element) PUP(p *pup.Stream) {
	pup.Slice(p, &x.list, func(p *pup.Stream, e *entry) {
		if e.kind == 1 { // want `the condition depends on x.list`
			pup.Number(p, &e.v)
		}
		pup.Number(p, &e.kind)
	})
}

// Visited only on one path, then used.
type OnePath struct {
	has  bool
	n, m int
}

func (x *OnePath) PUP(p *pup.Stream) {
	pup.Bool(p, &x.has)
	if x.has {
		pup.Number(p, &x.n)
	}
	if x.n > 0 { // want `the condition depends on x.n`
		pup.Number(p, &x.m)
	}
}
