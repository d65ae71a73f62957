// Package client defines what programs that hand bytes to be kept say to the agent of their node, and what it answers, byte for byte.
//
// A program connects to the agent's client socket (SOCK_SEQPACKET), says one thing, hears one answer, and hangs up: nothing of it is
// open when the program is stopped for a checkpoint. All numbers are little-endian. Decoding never panics on hostile bytes. The
// structures are drawn in docs/format/client.md.
package client

//go:generate go run ../abi/gencheader -package client -o ../../../client/c/client_gen.h

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// MaxPacket is how long a message may be.
const MaxPacket = 64 + MaxText

// Asked is a request with its text.
type Asked struct {
	Request
	Text []string
}

// Answered is an answer with its text.
type Answered struct {
	Answer
	Text []string
}

// Parse decodes a request.
func Parse(b []byte) (*Asked, error) {
	a := new(Asked)
	n, err := binary.Decode(b, binary.LittleEndian, &a.Request)
	switch {
	case err != nil:
		return nil, fmt.Errorf("client: request of %d bytes, wanted at least %d", len(b), binary.Size(a.Request))
	case a.Magic != Magic || a.Version != Version:
		return nil, fmt.Errorf("client: request: magic %#x, version %d, wanted %#x and %d", a.Magic, a.Version, uint32(Magic), Version)
	case int(a.Length) != len(b)-n || a.Length > MaxText:
		return nil, fmt.Errorf("client: request: length %d, found %d bytes, at most %d", a.Length, len(b)-n, MaxText)
	}
	a.Text, err = split(b[n:])
	return a, err
}

// ParseAnswer decodes an answer.
func ParseAnswer(b []byte) (a Answered, err error) {
	n, err := binary.Decode(b, binary.LittleEndian, &a.Answer)
	switch {
	case err != nil:
		return a, fmt.Errorf("client: answer of %d bytes, wanted at least %d", len(b), binary.Size(a.Answer))
	case a.Magic != Magic || a.Version != Version:
		return a, fmt.Errorf("client: answer: magic %#x, version %d, wanted %#x and %d", a.Magic, a.Version, uint32(Magic), Version)
	case int(a.Length) != len(b)-n || a.Length > MaxText:
		return a, fmt.Errorf("client: answer: length %d, found %d bytes, at most %d", a.Length, len(b)-n, MaxText)
	}
	a.Text, err = split(b[n:])
	return a, err
}

// split takes strings apart that have a zero at their end.
func split(b []byte) ([]string, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if b[len(b)-1] != 0 {
		return nil, fmt.Errorf("client: text of %d bytes without a zero at its end", len(b))
	}
	var list []string
	for _, s := range bytes.Split(b[:len(b)-1], []byte{0}) {
		list = append(list, string(s))
	}
	return list, nil
}

// Packets returns the bytes of the messages of an answer: as many as its text needs.
func (a Answered) Packets() [][]byte {
	parts := divide(a.Text)
	var all [][]byte
	for i, text := range parts {
		m := Answered{a.Answer, text}
		if i < len(parts)-1 {
			m.Flags |= FlagMore
		}
		all = append(all, m.Packet())
	}
	return all
}

// divide splits a text into such as fit in a message.
func divide(text []string) [][]string {
	var all [][]string
	room, from := MaxText, 0
	for i, s := range text {
		if need := len(s) + 1; need > room {
			all = append(all, text[from:i])
			room, from = MaxText, i
		}
		room -= len(s) + 1
	}
	return append(all, text[from:])
}

// Packet returns the bytes of an answer that fits in one message. Text that does not fit is cut.
func (a Answered) Packet() []byte {
	text := join(a.Text)
	a.Magic, a.Answer.Version, a.Length = Magic, Version, uint32(len(text))
	b, err := binary.Append(nil, binary.LittleEndian, a.Answer)
	if err != nil {
		panic("client: answer: " + err.Error()) // a mistake of the type, not of data
	}
	return append(b, text...)
}

// Packet returns the bytes of a request.
func (a Asked) Packet() []byte {
	text := join(a.Text)
	a.Magic, a.Request.Version, a.Length = Magic, Version, uint32(len(text))
	b, err := binary.Append(nil, binary.LittleEndian, a.Request)
	if err != nil {
		panic("client: request: " + err.Error())
	}
	return append(b, text...)
}

func join(list []string) []byte {
	if len(list) == 0 {
		return nil
	}
	text := []byte(strings.Join(list, "\x00") + "\x00")
	if len(text) > MaxText {
		text = append(text[:MaxText-1], 0)
	}
	return text
}

// Refusal is the answer that something is not done, and why.
func Refusal(why string) Answered { return Answered{Answer{Refused: 1}, []string{why}} }
