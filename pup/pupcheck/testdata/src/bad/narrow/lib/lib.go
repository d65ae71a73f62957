// Package lib has helpers that pack numbers in fewer bits.
package lib

import "github.com/byssus-hpc/byssus/pup"

// Int packs 32 bits.
func Int(p *pup.Stream, v *int64) { // want Int:"visits"
	n := int32(*v)
	pup.Number(p, &n)
	if p.Unpacking() {
		*v = int64(n)
	}
}

// As packs as another type.
func As(p *pup.Stream, v float64) float64 { // want As:"visits"
	w := float32(v)
	pup.Number(p, &w)
	return float64(w)
}
