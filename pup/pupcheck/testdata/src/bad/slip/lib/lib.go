// Package lib has helpers for faults that hide.
package lib

import (
	"iter"

	"github.com/byssus-hpc/byssus/pup"
)

// Indexes yields the indexes of a slice.
func Indexes[T any](list []T) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range list {
			if !yield(i) {
				return
			}
		}
	}
}

// Two calls Tail by another helper.
func Two[T any](p *pup.Stream, list []T, elem func(*pup.Stream, *T)) { // want Two:"visits"
	Tail(p, list, elem)
}

// Tail leaves out the first.
func Tail[T any](p *pup.Stream, list []T, elem func(*pup.Stream, *T)) { // want Tail:"visits"
	for i := 1; i < len(list); i++ {
		elem(p, &list[i])
	}
}

// Numeric is a constraint.
type Numeric interface{ ~int32 | ~int64 | ~float64 }

// Sum visits numbers of a constrained type, without the last.
func Sum[S ~[]E, E Numeric](p *pup.Stream, s S) { // want Sum:"visits"
	for i := range s[:len(s)-1] {
		pup.Number(p, &s[i])
	}
}

// Visitor is a struct with a function.
type Visitor[T any] struct{ List []T }

// Visit has a method that leaves out the first.
func (v *Visitor[T]) Visit(p *pup.Stream, elem func(*pup.Stream, *T)) { // want Visit:"visits"
	Tail(p, v.List, elem)
}
