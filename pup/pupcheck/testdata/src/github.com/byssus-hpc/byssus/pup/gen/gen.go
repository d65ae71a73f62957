// Package gen stands for the package of that name in the tests.
package gen

import "github.com/byssus-hpc/byssus/pup"

func Old[T any](p *pup.Stream, v *T) bool { return false }
