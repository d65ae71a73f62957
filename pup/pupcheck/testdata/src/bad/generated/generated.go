// Package generated has addresses in types whose PUP pupgen wrote. What is wrong with them is said where they are declared.
package generated

type handle uintptr

type all struct {
	N       int
	At      uintptr            // want `field At of all is a uintptr, which generated code saves: an address means nothing after a restart`
	H       handle             // want `field H of all is a uintptr`
	List    []uintptr          // want `field List of all holds a uintptr, which`
	Array   [3]uintptr         // want `field Array of all holds a uintptr, which`
	M       map[string]uintptr // want `field M of all holds a uintptr, which`
	P       *uintptr           // want `field P of all holds a uintptr, which`
	In      Inner              // says so itself
	Plain   plain              // want `field Plain of all holds a uintptr, In.At, which`
	Box     Box[uintptr]       // want `field Box of all holds a uintptr, which`
	Number  Box[uint64]
	_       uintptr
	tag     uintptr `pup:"-,found again"`
	comment uintptr //pup:skip found again
}

type plain struct {
	N  int
	In struct {
		skipped uintptr `pup:"-,found again"`
		At      uintptr
	}
}

type Inner struct {
	X   int
	Ptr uintptr // want `field Ptr of Inner is a uintptr`
}

type Handle uintptr // want `Handle is a uintptr, which generated code saves`

type Handles []handle // want `Handles holds a uintptr, which generated code saves`

type Box[T any] struct{ V T }
