// Package other holds types of another package than the one that methods are generated for: with PUP and without,
// plain and not. It is for the tests of package gentest alone.
package other

import "github.com/byssus-hpc/byssus/pup"

// Point is plain.
type Point struct{ X, Y float32 }

// Padded is plain, with padding.
type Padded struct {
	Flag bool
	N    int64
}

// Config has no PUP.
type Config struct {
	Name string
	Args []string
}

// Own has a PUP that a person wrote.
type Own struct {
	A int
	B string
}

// PUP visits every field of Own.
func (o *Own) PUP(p *pup.Stream) {
	pup.Number(p, &o.A)
	pup.String(p, &o.B)
}

// Stamp saves itself.
type Stamp struct{ text string }

// NewStamp makes a Stamp.
func NewStamp(text string) Stamp { return Stamp{text} }

// Text is what NewStamp was given.
func (s Stamp) Text() string { return s.text }

// MarshalBinary implements encoding.BinaryMarshaler.
func (s Stamp) MarshalBinary() ([]byte, error) { return []byte(s.text), nil }

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (s *Stamp) UnmarshalBinary(data []byte) error {
	s.text = string(data)
	return nil
}

type hidden struct{ Name string }

// List is a slice of what only this package can name.
type List [][]hidden

// NewList makes a List with one element for each name.
func NewList(names ...string) List {
	var l List
	for _, n := range names {
		l = append(l, []hidden{{n}})
	}
	return l
}
