// Package checkpoint is the form in which the elements of collections are stored: a part of each rank, and a manifest of all.
//
//	part:  | magic | elements, one behind the other | index | tail |
//	index: for each element, by collection and number: where it is, how long, and its checksum
//
// It guarantees: each byte of an element, of an index and of a manifest has a checksum, which is compared when it is read; what is not there,
// or not as it was written, is an error that names it; bytes from a store cause no panic, and take no more memory than they are.
// docs/format/tasks.md draws it.
package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// ErrDamaged marks what is not as it was written.
var ErrDamaged = errors.New("damaged")

const (
	magic    = "BYSTASK1"
	rowSize  = 32
	tailSize = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// An Element is a row of an index.
type Element struct {
	Collection uint32 // its number in the manifest
	Sum        uint32 // CRC-32C of its bytes
	Number     uint64 // of its index
	Offset     uint64
	Length     uint64
}

// digest is the element's share in the digest of its collection, which does not depend on an order.
func (e Element) digest() uint64 {
	x := e.Number*0x9e3779b97f4a7c15 + uint64(e.Sum) + 1
	x = (x ^ x>>31) * 0x7fb5d329728ea185
	x = (x ^ x>>27) * 0x81dadef4bc2dd44d
	return x ^ x>>33
}

// Collection is what a manifest says of one.
type Collection struct {
	Name   string `json:"name"`
	Schema string `json:"schema"` // of its elements, in hexadecimal digits
	Extent []byte `json:"extent"` // as package pup packs it
	Count  uint64 `json:"count"`  // of elements
	Digest uint64 `json:"digest"` // the sum of theirs
}

// Part is what a manifest says of a rank's part.
type Part struct {
	Bytes int64  `json:"bytes"`
	Sum   uint32 `json:"sum"` // of its index
}

// Manifest describes a checkpoint.
type Manifest struct {
	Number      uint64       `json:"number"`
	Phase       int          `json:"phase"`
	Parts       []Part       `json:"parts"` // by rank
	Collections []Collection `json:"collections"`
	Phases      []int        `json:"phases,omitempty"`    // of which there are histories
	Histories   []Collection `json:"histories,omitempty"` // of these collections, numbered after them
}

// All are collections and histories, by their numbers.
func (m *Manifest) All() (all []*Collection) {
	for _, list := range [][]Collection{m.Collections, m.Histories} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}

const sumLine = "crc32c %08x\n"

// Encode returns its stored form: JSON, and a line with its checksum.
func (m *Manifest) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("checkpoint: manifest: %w", err)
	}
	b = append(b, '\n')
	return fmt.Appendf(b, sumLine, crc32.Checksum(b, castagnoli)), nil
}

// ParseManifest reads it.
func ParseManifest(b []byte) (*Manifest, error) {
	end := bytes.LastIndexByte(bytes.TrimSuffix(b, []byte("\n")), '\n') + 1
	if want := fmt.Sprintf(sumLine, crc32.Checksum(b[:end], castagnoli)); string(b[end:]) != want {
		return nil, fmt.Errorf("checkpoint: manifest: %w: found %.40q, wanted %q", ErrDamaged, b[end:], want)
	}
	m := &Manifest{}
	if err := json.Unmarshal(b[:end], m); err != nil {
		return nil, fmt.Errorf("checkpoint: manifest: %w: %w", ErrDamaged, err)
	}
	return m, nil
}

// A Writer writes a rank's part.
type Writer struct {
	to   io.Writer
	at   uint64
	rows []Element
}

// NewWriter begins a part.
func NewWriter(to io.Writer) (*Writer, error) {
	w := &Writer{to: to}
	return w, w.write([]byte(magic))
}

func (w *Writer) write(b []byte) error {
	n, err := w.to.Write(b)
	w.at += uint64(n)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// Add adds an element of a collection, and its share to what the manifest says of that.
func (w *Writer) Add(collection uint32, number uint64, b []byte, of *Collection) error {
	e := Element{collection, crc32.Checksum(b, castagnoli), number, w.at, uint64(len(b))}
	w.rows = append(w.rows, e)
	of.Count++
	of.Digest += e.digest()
	return w.write(b)
}

// Finish ends the part.
func (w *Writer) Finish() (Part, error) {
	slices.SortFunc(w.rows, func(a, b Element) int {
		return cmp.Or(cmp.Compare(a.Collection, b.Collection), cmp.Compare(a.Number, b.Number))
	})
	index := make([]byte, 0, rowSize*len(w.rows))
	for _, e := range w.rows {
		index = binary.LittleEndian.AppendUint32(index, e.Collection)
		index = binary.LittleEndian.AppendUint32(index, e.Sum)
		index = binary.LittleEndian.AppendUint64(index, e.Number)
		index = binary.LittleEndian.AppendUint64(index, e.Offset)
		index = binary.LittleEndian.AppendUint64(index, e.Length)
	}
	sum := crc32.Checksum(index, castagnoli)
	tail := binary.LittleEndian.AppendUint64(nil, w.at)
	tail = binary.LittleEndian.AppendUint64(tail, uint64(len(w.rows)))
	tail = binary.LittleEndian.AppendUint32(tail, sum)
	tail = binary.LittleEndian.AppendUint32(tail, crc32.Checksum(tail, castagnoli))
	tail = append(tail, magic...)
	err := w.write(append(index, tail...))
	return Part{int64(w.at), sum}, err
}

// A Reader reads a rank's part.
type Reader struct {
	from io.ReaderAt
	rows []Element
}

// Open reads the index of a part, which must be the one of the manifest.
func Open(from io.ReaderAt, want Part) (*Reader, error) {
	if want.Bytes < int64(len(magic)+tailSize) {
		return nil, fmt.Errorf("checkpoint: %w: the manifest says %d bytes, wanted %d at least", ErrDamaged, want.Bytes, len(magic)+tailSize)
	}
	tail := make([]byte, tailSize)
	if err := readAll(from, tail, want.Bytes-tailSize); err != nil {
		return nil, err
	}
	begin, count, sum := binary.LittleEndian.Uint64(tail), binary.LittleEndian.Uint64(tail[8:]), binary.LittleEndian.Uint32(tail[16:])
	length := want.Bytes - tailSize - int64(begin)
	switch {
	case string(tail[24:]) != magic || crc32.Checksum(tail[:20], castagnoli) != binary.LittleEndian.Uint32(tail[20:]):
		return nil, fmt.Errorf("checkpoint: %w: its last %d bytes are not the end of a part", ErrDamaged, tailSize)
	case begin > uint64(want.Bytes-tailSize) || uint64(length) != count*rowSize || count > uint64(length):
		return nil, fmt.Errorf("checkpoint: %w: an index of %d elements at %d, of %d bytes", ErrDamaged, count, begin, want.Bytes)
	case sum != want.Sum:
		return nil, fmt.Errorf("checkpoint: %w: an index with the checksum %08x, wanted %08x: it is another checkpoint's", ErrDamaged, sum, want.Sum)
	}
	index := make([]byte, length)
	if err := readAll(from, index, int64(begin)); err != nil {
		return nil, err
	}
	if found := crc32.Checksum(index, castagnoli); found != sum {
		return nil, fmt.Errorf("checkpoint: index: %w: crc32c %08x, wanted %08x", ErrDamaged, found, sum)
	}
	r := &Reader{from: from}
	for ; len(index) > 0; index = index[rowSize:] {
		e := Element{binary.LittleEndian.Uint32(index), binary.LittleEndian.Uint32(index[4:]), binary.LittleEndian.Uint64(index[8:]),
			binary.LittleEndian.Uint64(index[16:]), binary.LittleEndian.Uint64(index[24:])}
		if e.Offset > begin || e.Length > begin-e.Offset {
			return nil, fmt.Errorf("checkpoint: index: %w: element %d has %d bytes at %d, elements end at %d", ErrDamaged, e.Number, e.Length, e.Offset, begin)
		}
		r.rows = append(r.rows, e)
	}
	return r, nil
}

// Elements are those of the part, by collection and number.
func (r *Reader) Elements() []Element { return r.rows }

// Read reads an element, and adds its share to what there is of its collection.
func (r *Reader) Read(e Element, of *Collection) ([]byte, error) {
	b := make([]byte, e.Length)
	if err := readAll(r.from, b, int64(e.Offset)); err != nil {
		return nil, err
	}
	if sum := crc32.Checksum(b, castagnoli); sum != e.Sum {
		return nil, fmt.Errorf("checkpoint: %d bytes at %d: %w: crc32c %08x, wanted %08x", e.Length, e.Offset, ErrDamaged, sum, e.Sum)
	}
	of.Count++
	of.Digest += e.digest()
	return b, nil
}

func readAll(from io.ReaderAt, b []byte, at int64) error {
	n, err := from.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("checkpoint: %w: %d bytes at %d, wanted %d: truncated", ErrDamaged, n, at, len(b))
	}
	return fmt.Errorf("checkpoint: %d bytes at %d, wanted %d: %w", n, at, len(b), err)
}
