// Package constraints has types in files with different build constraints.
package constraints

// A is always there.
//
//pup:generate
type A struct{ N int }
