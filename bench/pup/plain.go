package main

import (
	"fmt"
	"slices"

	"github.com/byssus-hpc/byssus/pup"
)

// particleSize is what a Particle takes in memory, and in packed form.
const particleSize = 72

// particles makes n particles, all different.
func particles(n int) []Particle {
	list := make([]Particle, n)
	for i := range list {
		x := float64(i)
		pos, vel := [3]float64{x, x / 3, -x}, [3]float64{1 / (x + 1), x * x, 0.5}
		list[i] = Particle{Pos: pos, Vel: vel, Mass: x + 1, Charge: -1, ID: int64(i)}
	}
	return list
}

// plain holds values that are copied as memory against a plain copy.
func (b *bench) plain() error {
	value := particles(b.particles)
	return besideCopy(b, "Plain", value, particleSize, plainCodecs(value))
}

// besideCopy holds codecs of a slice, whose elements have size bytes each, against a plain copy of it.
func besideCopy[E comparable](b *bench, name string, value []E, size int, codecs []codec) error {
	for _, memory := range []string{"reused", "fresh"} {
		list := []variant{copying(value, size, memory == "reused")}
		pack := append(slices.Clone(list), packing(memory == "reused", codecs)...)
		unpack, err := unpacking(memory == "reused", codecs)
		if err != nil {
			return err
		}
		for _, c := range []comparison{
			{name + "/pack/" + memory, len(value), len(value) * size, pack},
			{name + "/unpack/" + memory, len(value), len(value) * size, append(list, unpack...)},
		} {
			if err := b.compare(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func plainCodecs(value []Particle) []codec {
	return []codec{
		pupCodec("pup-unchecked", &value, equalSlices, pup.Unchecked()),
		pupCodec("pup-checksums", &value, equalSlices),
		msgpackCodec(&value, equalSlices),
		cborCodec(&value, equalSlices),
		msgpCodec((*Particles)(&value), equalSlices),
	}
}

func equalSlices[S ~[]E, E comparable](a, b *S) error {
	if !slices.Equal(*a, *b) {
		return errDiffers
	}
	return nil
}

// copying copies a slice, into memory that is there or into fresh memory.
func copying[E comparable](value []E, size int, reused bool) variant {
	var result []E
	v := variant{
		check: func() (int, error) {
			if !slices.Equal(value, result) {
				return 0, errDiffers
			}
			return len(value) * size, nil
		},
	}
	if reused {
		result = make([]E, len(value))
		v.name, v.drop = "copy", func() {}
		v.run = func() error {
			if n := copy(result, value); n != len(value) {
				return fmt.Errorf("%d elements copied of %d", n, len(value))
			}
			return nil
		}
		return v
	}
	v.name, v.fresh, v.drop = "make+copy", true, func() { result = nil }
	v.run = func() error {
		fresh := make([]E, len(value))
		copy(fresh, value) // next to make: the compiler then leaves the zeroing out
		result = fresh
		return nil
	}
	return v
}
