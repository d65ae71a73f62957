// Package lib has helpers with loops of all kinds.
package lib

import "github.com/byssus-hpc/byssus/pup"

// Each visits every element.
func Each[T any](p *pup.Stream, list *[]T, elem func(*pup.Stream, *T)) { // want Each:"visits"
	n := len(*list)
	pup.Number(p, &n)
	if p.Unpacking() {
		*list = make([]T, n)
	}
	for i := 0; i < len(*list); i++ {
		elem(p, &(*list)[i])
	}
}

// Rest visits all but the first.
func Rest[T any](p *pup.Stream, list []T) { // want Rest:"visits"
	for i := 1; i < len(list); i++ {
		pup.Value(p, &list[i])
	}
}

// Through calls a function with several arguments.
func Through[A, B any](p *pup.Stream, a *A, b *B, visit func(*pup.Stream, *A, *B)) { // want Through:"visits"
	visit(p, a, b)
}

// If calls one of two functions.
func If[T any](p *pup.Stream, set *bool, v *T, visit, other func(*pup.Stream, *T)) { // want If:"visits"
	pup.Bool(p, set)
	if *set {
		visit(p, v)
	} else {
		other(p, v)
	}
}

// Do calls a function without arguments of its own.
func Do(p *pup.Stream, f func(*pup.Stream)) { // want Do:"visits"
	f(p)
}
