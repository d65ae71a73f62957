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
	for _, memory := range []string{"reused", "fresh"} {
		list := []variant{copying(value, memory == "reused")}
		codecs := plainCodecs(value)
		pack := append(slices.Clone(list), packing(memory == "reused", codecs)...)
		unpack, err := unpacking(memory == "reused", codecs)
		if err != nil {
			return err
		}
		for _, c := range []comparison{
			{"Plain/pack/" + memory, len(value), len(value) * particleSize, pack},
			{"Plain/unpack/" + memory, len(value), len(value) * particleSize, append(list, unpack...)},
		} {
			if err := b.compare(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func plainCodecs(value []Particle) []codec {
	equal := func(a, b *[]Particle) error {
		if !slices.Equal(*a, *b) {
			return errDiffers
		}
		return nil
	}
	return []codec{
		pupCodec("pup-unchecked", &value, equal, pup.Unchecked()),
		pupCodec("pup-checksums", &value, equal),
	}
}

// copying copies particles, into memory that is there or into fresh memory.
func copying(value []Particle, reused bool) variant {
	var result []Particle
	v := variant{
		check: func() (int, error) {
			if !slices.Equal(value, result) {
				return 0, errDiffers
			}
			return len(value) * particleSize, nil
		},
	}
	if reused {
		result = make([]Particle, len(value))
		v.name, v.drop = "copy", func() {}
		v.run = func() error {
			if n := copy(result, value); n != len(value) {
				return fmt.Errorf("%d particles copied of %d", n, len(value))
			}
			return nil
		}
		return v
	}
	v.name, v.fresh, v.drop = "make+copy", true, func() { result = nil }
	v.run = func() error {
		fresh := make([]Particle, len(value))
		copy(fresh, value) // next to make: the compiler then leaves the zeroing out
		result = fresh
		return nil
	}
	return v
}
