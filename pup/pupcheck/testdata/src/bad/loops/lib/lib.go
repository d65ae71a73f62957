// Package lib has helpers that leave out elements.
package lib

import "github.com/byssus-hpc/byssus/pup"

// Tail begins at the second element.
func Tail[T any](p *pup.Stream, list *[]T, elem func(*pup.Stream, *T)) { // want Tail:"visits"
	n := len(*list)
	pup.Number(p, &n)
	if p.Unpacking() {
		*list = make([]T, n)
	}
	for i := 1; i < len(*list); i++ {
		elem(p, &(*list)[i])
	}
}

// TailN has the number of elements in a variable, and elements with a PUP.
func TailN[T any, P interface { // want TailN:"visits"
	*T
	pup.PUPer
}](p *pup.Stream, list *[]T) {
	n := len(*list)
	pup.Number(p, &n)
	if p.Unpacking() {
		*list = make([]T, n)
	}
	for i := 1; i < n; i++ {
		P(&(*list)[i]).PUP(p)
	}
}

// Numbers is for one type and gets the slice by value.
func Numbers(p *pup.Stream, list []int) { // want Numbers:"visits"
	for i := 1; i < len(list); i++ {
		pup.Number(p, &list[i])
	}
}

// Init leaves out the last element.
func Init[T any](p *pup.Stream, list []T) { // want Init:"visits"
	for i := 0; i < len(list)-1; i++ {
		pup.Value(p, &list[i])
	}
}

// Range leaves out the last element, too.
func Range[T any](p *pup.Stream, list []T) { // want Range:"visits"
	for i := range len(list) - 1 {
		pup.Value(p, &list[i])
	}
}

// Even visits every other element.
func Even[T any](p *pup.Stream, list []T) { // want Even:"visits"
	for i := 0; i < len(list); i += 2 {
		pup.Value(p, &list[i])
	}
}

// NotFirst goes on to the next at once.
func NotFirst[T any](p *pup.Stream, list []T) { // want NotFirst:"visits"
	for i := range list {
		if i == 0 {
			continue
		}
		pup.Value(p, &list[i])
	}
}

// Few stops early.
func Few[T any](p *pup.Stream, list []T) { // want Few:"visits"
	for i := range list {
		if i > 10 {
			break
		}
		pup.Value(p, &list[i])
	}
}

// First stops after the first.
func First[T any](p *pup.Stream, list []T) { // want First:"visits"
	for i := range list {
		pup.Value(p, &list[i])
		break
	}
}

// Copies packs the tail through temporaries.
func Copies(p *pup.Stream, list []int) { // want Copies:"visits"
	for i := 1; i < len(list); i++ {
		v := list[i]
		pup.Number(p, &v)
		list[i] = v
	}
}

// Each is right, its element function may be wrong.
func Each[T any](p *pup.Stream, list *[]T, elem func(*pup.Stream, *T)) { // want Each:"visits"
	n := len(*list)
	pup.Number(p, &n)
	if p.Unpacking() {
		*list = make([]T, n)
	}
	for i := range *list {
		elem(p, &(*list)[i])
	}
}

// With calls a function, which may be wrong.
func With[T any](p *pup.Stream, v *T, visit func(*pup.Stream, *T)) { // want With:"visits"
	visit(p, v)
}

// Opposite unpacks from the end.
func Opposite[T any](p *pup.Stream, list []T) { // want Opposite:"visits"
	if p.Unpacking() {
		for i := len(list) - 1; i >= 0; i-- {
			pup.Value(p, &list[i]) // want `packing and unpacking differ: list\[\.\.\.\] is visited in opposite orders`
		}
		return
	}
	for i := range list {
		pup.Value(p, &list[i])
	}
}

// Mirrored unpacks from the end by another index.
func Mirrored(p *pup.Stream, list []int) { // want Mirrored:"visits"
	for i := range list {
		at := i
		if p.Unpacking() {
			at = len(list) - 1 - i
		}
		pup.Number(p, &list[at]) // want `packing and unpacking differ: list\[\.\.\.\] is visited in opposite orders`
	}
}

// Capacity goes beyond the length.
func Capacity(p *pup.Stream, list []int) { // want Capacity:"visits"
	for i := 0; i < cap(list); i++ {
		pup.Number(p, &list[i]) // want `the loop goes to the capacity of list`
	}
}

// List is a generic type with a helper method.
type List[T any] struct{ Items []T }

// Rest leaves out the first.
func (l *List[T]) Rest(p *pup.Stream) { // want Rest:"visits"
	n := len(l.Items)
	pup.Number(p, &n)
	if p.Unpacking() {
		l.Items = make([]T, n)
	}
	for i := range l.Items[1:] {
		pup.Value(p, &l.Items[i+1])
	}
}
