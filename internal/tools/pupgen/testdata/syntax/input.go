// Package syntax cannot be parsed.
package syntax

//pup:generate
type A struct{ N int

func f( {
