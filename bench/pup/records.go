package main

import (
	"fmt"
	"slices"

	"github.com/byssus-hpc/byssus/pup"
)

// cloud makes n records, with names of 5 to 12 bytes and 3 to 6 samples.
func cloud(n int) *Cloud {
	c := &Cloud{make([]Record, n)}
	for i, p := range particles(n) {
		samples := make([]float64, 3+i%4)
		for k := range samples {
			samples[k] = float64(i + k)
		}
		c.List[i] = Record{p, fmt.Sprintf("%05d-sample", i)[:5+i%8], samples}
	}
	return c
}

// contentSize is how many bytes the numbers and texts of a Cloud have.
func contentSize(c *Cloud) int {
	size := 0
	for i := range c.List {
		size += particleSize + len(c.List[i].Name) + 8*len(c.List[i].Samples)
	}
	return size
}

// records holds structures with a string and a slice against code by hand, against gob and the formats without a schema.
func (b *bench) records() error {
	value := cloud(b.particles)
	codecs := recordCodecs(value)
	for _, memory := range []string{"reused", "fresh"} {
		if err := b.both("Records", memory, len(value.List), contentSize(value), codecs); err != nil {
			return err
		}
	}
	return nil
}

// recordCodecs are the ways to store a Cloud. Types that differ only in their methods hold the same values.
func recordCodecs(value *Cloud) []codec {
	hand, bare := &HandCloud{}, &BareCloud{}
	for _, r := range value.List {
		hand.List = append(hand.List, HandRecord(r))
		bare.List = append(bare.List, BareRecord{BareParticle(r.Particle), r.Name, r.Samples})
	}
	equal := func(a, b *Cloud) error { return equalLists(a.List, b.List, equalRecords) }
	return []codec{
		newCodec("by-hand", value, equal, packByHand, unpackByHand),
		pupCodec("pupgen-unchecked", value, equal, pup.Unchecked()),
		pupCodec("pupgen-checksums", value, equal),
		pupCodec("method-unchecked", hand, func(a, b *HandCloud) error {
			return equalLists(a.List, b.List, func(x, y HandRecord) bool { return equalRecords(Record(x), Record(y)) })
		}, pup.Unchecked()),
		pupCodec("reflected-unchecked", bare, func(a, b *BareCloud) error {
			return equalLists(a.List, b.List, func(x, y BareRecord) bool {
				return x.Particle == y.Particle && x.Name == y.Name && slices.Equal(x.Samples, y.Samples)
			})
		}, pup.Unchecked()),
		gobCodec(value, equal),
		msgpackCodec(value, equal),
		cborCodec(value, equal),
		msgpCodec(value, equal),
	}
}

// packByHand finds the size first when there is no buffer yet: growing one takes longer.
func packByHand(b []byte, c *Cloud) ([]byte, error) {
	if cap(b) == 0 {
		b = make([]byte, 0, handSize(c))
	}
	return handAppend(b, c), nil
}

func unpackByHand(data []byte, c *Cloud, _ bool) error { return handDecode(data, c) }

func equalRecords(a, b Record) bool {
	return a.Particle == b.Particle && a.Name == b.Name && slices.Equal(a.Samples, b.Samples)
}

func equalLists[E any](a, b []E, equal func(a, b E) bool) error {
	if !slices.EqualFunc(a, b, equal) {
		return errDiffers
	}
	return nil
}
