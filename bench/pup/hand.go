package main

import (
	"encoding/binary"
	"errors"
	"math"
)

// This file is what a good Go programmer would write by hand to store a Cloud and nothing else: no schema, no
// checksums, no other directions. Truncated data is an error.

var errShort = errors.New("truncated")

// handSize is how many bytes handAppend adds at most.
func handSize(c *Cloud) int {
	size := binary.MaxVarintLen64
	for i := range c.List {
		r := &c.List[i]
		size += particleSize + 2*binary.MaxVarintLen64 + len(r.Name) + 8*len(r.Samples)
	}
	return size
}

// handAppend packs a Cloud behind b.
func handAppend(b []byte, c *Cloud) []byte {
	le := binary.LittleEndian
	b = binary.AppendUvarint(b, uint64(len(c.List)))
	for i := range c.List {
		r := &c.List[i]
		x := &r.Particle
		for _, f := range x.Pos {
			b = le.AppendUint64(b, math.Float64bits(f))
		}
		for _, f := range x.Vel {
			b = le.AppendUint64(b, math.Float64bits(f))
		}
		b = le.AppendUint64(b, math.Float64bits(x.Mass))
		b = le.AppendUint64(b, math.Float64bits(x.Charge))
		b = le.AppendUint64(b, uint64(x.ID))
		b = binary.AppendUvarint(b, uint64(len(r.Name)))
		b = append(b, r.Name...)
		b = binary.AppendUvarint(b, uint64(len(r.Samples)))
		for _, f := range r.Samples {
			b = le.AppendUint64(b, math.Float64bits(f))
		}
	}
	return b
}

// handLength reads the length of what takes at least size bytes each.
func handLength(b []byte, size int) (n int, rest []byte, err error) {
	u, k := binary.Uvarint(b)
	if k <= 0 || u > uint64(len(b)-k)/uint64(size) {
		return 0, nil, errShort
	}
	return int(u), b[k:], nil
}

// handDecode unpacks a Cloud. Memory that c has already is used again.
func handDecode(b []byte, c *Cloud) error {
	n, b, err := handLength(b, particleSize)
	if err != nil {
		return err
	}
	if cap(c.List) < n {
		c.List = make([]Record, n)
	}
	c.List = c.List[:n]
	for i := range c.List {
		if b, err = handRecord(b, &c.List[i]); err != nil {
			return err
		}
	}
	return nil
}

// handRecord unpacks one record and returns the bytes behind it.
func handRecord(b []byte, r *Record) ([]byte, error) {
	if len(b) < particleSize {
		return nil, errShort
	}
	x := &r.Particle
	x.Pos[0], x.Pos[1], x.Pos[2] = float(b[0:]), float(b[8:]), float(b[16:])
	x.Vel[0], x.Vel[1], x.Vel[2] = float(b[24:]), float(b[32:]), float(b[40:])
	x.Mass, x.Charge = float(b[48:]), float(b[56:])
	x.ID = int64(binary.LittleEndian.Uint64(b[64:]))
	n, b, err := handLength(b[particleSize:], 1)
	if err != nil {
		return nil, err
	}
	if string(b[:n]) != r.Name { // an equal name is left as it is: that saves its memory
		r.Name = string(b[:n])
	}
	n, b, err = handLength(b[n:], 8)
	if err != nil {
		return nil, err
	}
	if cap(r.Samples) < n {
		r.Samples = make([]float64, n)
	}
	r.Samples = r.Samples[:n]
	for i := range r.Samples {
		r.Samples[i] = float(b[8*i:])
	}
	return b[8*n:], nil
}

func float(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }
