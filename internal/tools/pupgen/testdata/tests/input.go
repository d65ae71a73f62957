// Package tests has types to generate outside of its tests and inside.
package tests

// Outer is generated with the package.
//
//pup:generate
type Outer struct {
	Name string
	Size int
}
