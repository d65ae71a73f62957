// Package external has types in tests outside of the package.
package external

// Point is plain.
type Point struct{ X, Y int }
