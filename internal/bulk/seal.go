package bulk

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
)

const (
	version = 1
	magic   = 0x42535942 // "BYSB" in memory

	preambleBytes = 24
	headerBytes   = 8
	tagBytes      = 16
	nonceBytes    = 12
	bodyOff       = preambleBytes + headerBytes // in a seal's buffer
	helloBytes    = bodyOff + tagBytes          // with the preamble
)

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
	buf   []byte // preamble, header, body and tag of a frame
}

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
	s := &seal{link: link, mode: mode, aead: aead, buf: make([]byte, bodyOff+MaxFrame+tagBytes)}
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

// pack returns the next frame as it is sent. It lies in the buffer.
func (s *seal) pack(kind uint32, body []byte) []byte {
	binary.LittleEndian.PutUint32(s.buf[preambleBytes:], uint32(len(body)))
	binary.LittleEndian.PutUint32(s.buf[preambleBytes+4:], kind)
	begin, end := s.begin(), bodyOff+len(body)
	if s.mode == Encrypted {
		s.aead.Seal(s.buf[bodyOff:bodyOff], s.turn(), body, s.buf[begin:bodyOff])
	} else {
		copy(s.buf[bodyOff:], body)
		s.aead.Seal(s.buf[end:end], s.turn(), nil, s.buf[begin:end])
	}
	return s.buf[begin : end+tagBytes]
}

// header is what the header in the buffer says of the next frame. It is believed when the frame has been opened.
func (s *seal) header() (kind uint32, length int, err error) {
	n := binary.LittleEndian.Uint32(s.buf[preambleBytes:])
	kind = binary.LittleEndian.Uint32(s.buf[preambleBytes+4:])
	switch {
	case s.frame == 0 && kind == kindHello && n == 0:
	case s.frame > 0 && kind == kindData && n >= 1 && n <= MaxFrame:
	case s.frame > 0 && kind == kindEnd && n == 0:
	default:
		return 0, 0, fmt.Errorf("a frame of kind %d with %d bytes: %w", kind, n, ErrForged)
	}
	return kind, int(n), nil
}

// open opens the next frame, which lies in the buffer, into b.
func (s *seal) open(b []byte, length int) error {
	begin, end := s.begin(), bodyOff+length
	var err error
	if s.mode == Encrypted {
		_, err = s.aead.Open(b[:0], s.turn(), s.buf[bodyOff:end+tagBytes], s.buf[begin:bodyOff])
	} else if _, err = s.aead.Open(nil, s.turn(), s.buf[end:end+tagBytes], s.buf[begin:end]); err == nil {
		copy(b, s.buf[bodyOff:end])
	}
	if err != nil {
		return ErrForged
	}
	return nil
}
