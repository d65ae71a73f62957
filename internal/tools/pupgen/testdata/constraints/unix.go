//go:build !windows

package constraints

// B is not on Windows.
//
//pup:generate
type B struct{ N int }
