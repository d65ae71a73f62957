//go:build special && !ordinary

// Package tags is seen with the tag special only.
package tags

// Cell is plain.
//
//pup:generate
type Cell struct{ A, B int32 }

// Cells is a slice.
//
//pup:generate
type Cells []Cell
