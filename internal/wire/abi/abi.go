// Package abi defines what ranks and agents say to each other and what image and parity files consist of, byte for byte.
//
// defs.go is the only definition of what ranks know; rank/core/base/abi_gen.h is generated from it, and a test compares the
// offsets of both compilers. Everything is little-endian. Encoding and decoding here never panic on hostile bytes: a message that is
// short, long or of another version is an error that says what was found.
//
//	message (one packet of a SOCK_SEQPACKET socket)
//	0       4       6     8      12      16             24       28         32
//	| magic | vers. | type | rank | flags | epoch        | length | reserved | body ...
package abi

//go:generate go run ./gencheader -o ../../../rank/core/base/abi_gen.h

import (
	"encoding/binary"
	"fmt"
)

// HeaderBytes is the size of Header.
const HeaderBytes = 32

// Encode returns the bytes of a fixed-size record followed by text.
func Encode(record any, text string) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, record)
	if err != nil {
		panic("abi: encode: not a fixed-size record: " + err.Error()) // a mistake of the caller's types, not of data
	}
	return append(b, text...)
}

// Decode fills a fixed-size record from the start of b and returns the rest.
func Decode(b []byte, record any) ([]byte, error) {
	n, err := binary.Decode(b, binary.LittleEndian, record)
	if err != nil {
		return nil, fmt.Errorf("abi: decode %T: found %d bytes, wanted %d", record, len(b), binary.Size(record))
	}
	return b[n:], nil
}

// Message is a decoded packet.
type Message struct {
	Header
	Body []byte
}

// Packet returns the bytes of a message; magic, version and length are filled in.
func Packet(m Message) []byte {
	m.Magic, m.Header.Version, m.Length = Magic, Version, uint32(len(m.Body))
	return append(Encode(m.Header, ""), m.Body...)
}

// Parse decodes a packet. The body aliases b.
func Parse(b []byte) (Message, error) {
	var m Message
	body, err := Decode(b, &m.Header)
	switch {
	case err != nil:
		return m, err
	case m.Magic != Magic:
		return m, fmt.Errorf("abi: parse: magic %#x, wanted %#x", m.Magic, Magic)
	case m.Header.Version != Version:
		return m, fmt.Errorf("abi: parse: protocol version %d, wanted %d", m.Header.Version, Version)
	case int(m.Length) != len(body) || len(body) > MaxBody:
		return m, fmt.Errorf("abi: parse: length %d, found %d bytes, at most %d", m.Length, len(body), MaxBody)
	}
	m.Body = body
	return m, nil
}

// Clocks encodes prefix words, the count and the clocks, split over as many bodies as needed.
func Clocks(prefix []uint64, clocks []Clock) [][]byte {
	const per = (MaxBody - 64) / 24
	var bodies [][]byte
	for {
		n := min(len(clocks), per)
		b := make([]byte, 0, 8*(len(prefix)+1)+24*n)
		for _, w := range append(prefix[:len(prefix):len(prefix)], uint64(n)) {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		b = append(b, Encode(clocks[:n], "")...)
		bodies = append(bodies, b)
		if clocks = clocks[n:]; len(clocks) == 0 {
			return bodies
		}
	}
}

// ParseClocks decodes a body of nprefix words, a count, and clocks. The count may be that of a longer list of which
// this body is a part.
func ParseClocks(b []byte, nprefix int) ([]uint64, []Clock, error) {
	const each = 24
	words := make([]uint64, nprefix+1)
	rest, err := Decode(b, words)
	if err != nil {
		return nil, nil, err
	}
	if len(rest)%each != 0 || uint64(len(rest)/each) > words[nprefix] {
		return nil, nil, fmt.Errorf("abi: parse clocks: %d clocks, found %d bytes", words[nprefix], len(rest))
	}
	clocks := make([]Clock, len(rest)/each)
	if _, err := Decode(rest, clocks); err != nil {
		return nil, nil, err
	}
	return words, clocks, nil
}

// Text returns the bytes of a C string in a fixed array.
func Text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// SetText copies s into a fixed array, which keeps at least one zero byte; false: s does not fit.
func SetText(b []byte, s string) bool {
	clear(b)
	return copy(b[:len(b)-1], s) == len(s)
}
