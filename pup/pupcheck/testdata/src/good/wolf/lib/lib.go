// Package lib has helpers that are right.
package lib

import "github.com/byssus-hpc/byssus/pup"

// Pair calls a function for each of two.
func Pair[T any](p *pup.Stream, a, b *T, elem func(*pup.Stream, *T)) { // want Pair:"visits"
	for _, v := range []*T{a, b} {
		elem(p, v)
	}
}

// Map visits a map by functions of the caller.
func Map[K comparable, V any](p *pup.Stream, m *map[K]V, k func(*pup.Stream, *K), v func(*pup.Stream, *V)) { // want Map:"visits"
	pup.Map(p, m, k, v)
}

// Value packs what it is given and returns what it has got.
func Value[T any](p *pup.Stream, v T, visit func(*pup.Stream, *T)) T { // want Value:"visits"
	visit(p, &v)
	return v
}

// Matrix visits rows with a function of rows.
func Matrix(p *pup.Stream, m [][]float64, row func(*pup.Stream, []float64)) { // want Matrix:"visits"
	for i := range m {
		row(p, m[i])
	}
}

// Rows visits all rows but the border, and the border.
func Rows(p *pup.Stream, m [][]float64) { // want Rows:"visits"
	for i := 1; i < len(m)-1; i++ {
		pup.Array(p, m[i], pup.Number)
	}
	if n := len(m); n > 0 {
		pup.Array(p, m[0], pup.Number)
		if n > 1 {
			pup.Array(p, m[n-1], pup.Number)
		}
	}
}
