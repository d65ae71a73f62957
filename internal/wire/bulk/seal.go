package bulk

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
)

const (
	version = 2
	magic   = 0x42535942 // "BYSB" in memory

	// Bodies begin with a page, and what is sent is so long that the kernel, which copies with "rep movsb", writes 32 bytes behind
	// what it reads or more, pages aside: on Zen 4 it takes 16 times as long 1 to 15 bytes behind, and twice as long 16
	// (glibc bug 30994).
	preambleBytes = 32
	headerBytes   = 32
	tagBytes      = 16
	nonceBytes    = 12
	bodyOff       = preambleBytes + headerBytes // in a seal's buffer
	helloBytes    = bodyOff + tagBytes          // with the preamble

	bodyAt = 4096 // in a frame's buffer
)

// Frame is memory for the body of a frame, with room around it for what travels with it: it is sealed, sent, received and opened
// where it is.
type Frame struct {
	buf []byte
	n   int
}

// NewFrame makes one, with a body of MaxFrame bytes.
func NewFrame() *Frame {
	return &Frame{make([]byte, bodyAt+MaxFrame+headerBytes+tagBytes), MaxFrame}
}

// Resize makes the body so long, 1 to MaxFrame bytes. What of it stays, stays as it is.
func (f *Frame) Resize(n int) { f.n = n }

// Body is the body.
func (f *Frame) Body() []byte { return f.buf[bodyAt : bodyAt+f.n : bodyAt+MaxFrame] }

// header is in front of the body.
func (f *Frame) header() []byte { return f.buf[bodyAt-headerBytes : bodyAt] }

// The kinds of frames.
const (
	kindHello = iota + 1 // the first one, empty: proves the key
	kindData             // 1 to MaxFrame bytes
	kindEnd              // the last one, empty
)

// seal closes or opens the frames of one stream, one after the other.
type seal struct {
	link  Link
	mode  Mode
	aead  cipher.AEAD
	frame uint64 // the number of the next one
	nonce [nonceBytes]byte
	buf   []byte // preamble, header and tag of a frame without a body
	text  []byte // header of data in the clear, opened
}

// newSeal makes the seal of a stream.
func newSeal(link Link, key Key, mode Mode) (*seal, error) {
	if err := link.check(); err != nil {
		return nil, err
	}
	if mode != Encrypted && mode != Authenticated {
		return nil, fmt.Errorf("bulk: %v: %v, wanted %v or %v", link, mode, Encrypted, Authenticated)
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, fmt.Errorf("bulk: %v: %w", link, err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("bulk: %v: %w", link, err)
	}
	s := &seal{link: link, mode: mode, aead: aead, buf: make([]byte, helloBytes), text: make([]byte, 0, headerBytes)}
	p := s.buf[:0]
	p = binary.LittleEndian.AppendUint32(p, magic)
	p = binary.LittleEndian.AppendUint16(p, version)
	p = binary.LittleEndian.AppendUint16(p, uint16(mode))
	p = binary.LittleEndian.AppendUint64(p, link.Transfer)
	p = binary.LittleEndian.AppendUint32(p, uint32(link.From))
	binary.LittleEndian.AppendUint32(p, uint32(link.To))
	return s, nil
}

// begin is where the next frame begins in the buffer: the first one with the preamble.
func (s *seal) begin() int {
	if s.frame == 0 {
		return 0
	}
	return preambleBytes
}

// turn makes the nonce of the next frame, which is the one after it from now on.
func (s *seal) turn() []byte {
	binary.BigEndian.PutUint64(s.nonce[nonceBytes-8:], s.frame)
	s.frame++
	return s.nonce[:]
}

// putHeader writes the header of a frame.
func putHeader(b []byte, kind uint32, length int) {
	binary.LittleEndian.PutUint32(b, uint32(length))
	binary.LittleEndian.PutUint32(b[4:], kind)
	clear(b[8:headerBytes])
}

// pack returns the next frame, which has no body, as it is sent, in the buffer.
func (s *seal) pack(kind uint32) []byte {
	putHeader(s.buf[preambleBytes:], kind, 0)
	begin := s.begin()
	return s.aead.Seal(s.buf[begin:bodyOff], s.turn(), nil, s.buf[begin:bodyOff])
}

// packData seals the next frame and returns it as it is sent. Its body is no longer what it was.
func (s *seal) packData(f *Frame) []byte {
	head, body := f.header(), f.Body()
	putHeader(head, kindData, len(body))
	whole := f.buf[bodyAt-headerBytes : bodyAt+len(body)]
	if s.mode == Authenticated {
		return s.aead.Seal(whole, s.turn(), head, body)
	}
	s.aead.Seal(f.buf[bodyAt:bodyAt], s.turn(), body, head) // the tag is behind the body
	return whole[:len(whole)+tagBytes]
}

// parse is what a header says of the next frame. It is believed when the frame has been opened.
func (s *seal) parse(header []byte) (kind uint32, length int, err error) {
	n := binary.LittleEndian.Uint32(header)
	kind = binary.LittleEndian.Uint32(header[4:])
	switch {
	case s.frame == 0 && kind == kindHello && n == 0:
	case s.frame > 0 && kind == kindData && n >= 1 && n <= MaxFrame:
	case s.frame > 0 && kind == kindEnd && n == 0:
	default:
		return 0, 0, fmt.Errorf("a frame of kind %d with %d bytes: %w", kind, n, ErrForged)
	}
	return kind, int(n), nil
}

// open opens the next frame, which has no body, in the buffer.
func (s *seal) open() error {
	begin := s.begin()
	if _, err := s.aead.Open(nil, s.turn(), s.buf[bodyOff:helloBytes], s.buf[begin:bodyOff]); err != nil {
		return ErrForged
	}
	return nil
}

// tail is how much comes behind the body of a frame with data.
func (s *seal) tail() int {
	if s.mode == Authenticated {
		return headerBytes + tagBytes
	}
	return tagBytes
}

// openData opens the next frame, which lies where it came.
func (s *seal) openData(f *Frame) error {
	head, body := f.header(), f.Body()
	end := bodyAt + len(body)
	if s.mode == Encrypted {
		if _, err := s.aead.Open(f.buf[bodyAt:bodyAt], s.turn(), f.buf[bodyAt:end+tagBytes], head); err != nil {
			return ErrForged
		}
		return nil
	}
	text, err := s.aead.Open(s.text[:0], s.turn(), f.buf[end:end+s.tail()], body)
	if err != nil || !bytes.Equal(text, head) {
		return ErrForged
	}
	return nil
}
