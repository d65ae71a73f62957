// Package nothing has no directive.
package nothing

type A struct{ N int }
