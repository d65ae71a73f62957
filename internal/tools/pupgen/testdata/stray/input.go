// Package stray has directives that belong to nothing.
package stray

//pup:generate

// A is generated.
//
//pup:generate
type A struct {
	N int

	//pup:skip the comment belongs to nothing

	M int
}

// B is misspelt.
//
//pup:generated
type B struct {
	N int //pup:ignore no such directive
}

// C skips what is no field.
//
//pup:skip no field
type C struct{ N int }

func local() any {
	// t is local.
	//
	//pup:generate
	type t struct {
		n int //pup:skip fine
	}
	return t{}
}

var _ = local
