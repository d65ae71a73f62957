package main

import "github.com/byssus-hpc/byssus/pup"

// graph asks what the option Graph costs one large slice, in which nothing is shared.
func (b *bench) graph() error {
	value := sequence(b.numbers)
	return besideCopy(b, "Graph", value, 8, []codec{
		pupCodec("tree-unchecked", &value, equalSlices, pup.Unchecked()),
		pupCodec("tree-checksums", &value, equalSlices),
		pupCodec("graph-unchecked", &value, equalSlices, pup.Unchecked(), pup.Graph()),
		pupCodec("graph-checksums", &value, equalSlices, pup.Graph()),
	})
}
