package tests

import "testing"

// fixture is generated for the tests.
//
//pup:generate
type fixture struct {
	outer Outer
	list  []Outer
}

func TestNothing(t *testing.T) { _ = fixture{} }
