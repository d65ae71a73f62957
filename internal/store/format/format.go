// Package format reads image files: what a rank wrote about itself at a checkpoint.
//
//	0        4096                                                                   file_size
//	| header | chunks of memory, whole pages | sections | vma table | chunk table |
//
// The parts lie one behind the other in this order without a gap, so that every byte belongs to one of them and each
// has a checksum (CRC-32C). Part 0 of a rank holds its tables of mappings and its sections, every part holds the
// chunks that one thread wrote.
//
// It guarantees: bytes from a file never cause a panic, an endless loop or an allocation of more than Allowance and
// eight times the records that are really there (a hole in a sparse file holds none); nothing is believed before its
// checksum has been compared; an error names object, found and wanted.
// The structures are defined in abi and drawn in docs/format.
package format

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"unsafe"

	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// castagnoli is the polynomial of every checksum in Byssus.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is CRC-32C.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Extend is the checksum of what has the checksum crc, followed by b.
func Extend(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// Incompatible features that this version knows.
const knownIncompat = abi.FeatureContent

// ErrIncomplete marks a file whose header was never written.
var ErrIncomplete = errors.New("incomplete: its header was never written")

// Allowance is what reading a file may allocate beside its records.
const Allowance = 4 << 20

// Sizes of records in a file, and of the piece that is read at a time.
const (
	vmaBytes     = uint64(unsafe.Sizeof(abi.VMA{}))
	chunkBytes   = uint64(unsafe.Sizeof(abi.Chunk{}))
	sectionBytes = uint64(unsafe.Sizeof(abi.Section{}))
	piece        = 192 << 10 // a multiple of each
)

// Section is the place of a section's bytes.
type Section struct {
	Type           uint32
	Offset, Length uint64
}

// Image is everything in a file but the memory itself and what the sections hold.
type Image struct {
	Header   abi.ImageHeader
	VMAs     []abi.VMA
	Chunks   []abi.Chunk
	Sections []Section
}

// ReadHeader reads and checks the header of a file of the given size.
func ReadHeader(r io.ReaderAt, size int64) (*abi.ImageHeader, error) {
	b := make([]byte, abi.PageBytes)
	if n, err := r.ReadAt(b, 0); n < len(b) {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil, fmt.Errorf("format: header: %d bytes, wanted %d: truncated", n, len(b))
		}
		return nil, fmt.Errorf("format: header: %w", err)
	}
	h := new(abi.ImageHeader)
	if _, err := abi.Decode(b, h); err != nil {
		return nil, fmt.Errorf("format: header: %w", err)
	}
	return h, checkHeader(h, b, size)
}

func checkHeader(h *abi.ImageHeader, b []byte, size int64) error {
	zero := true
	for _, c := range b {
		zero = zero && c == 0
	}
	if zero {
		return fmt.Errorf("format: header: %w", ErrIncomplete)
	}
	if string(h.Magic[:]) != abi.ImageMagic {
		return fmt.Errorf("format: header: magic %q, wanted %q: not an image", h.Magic[:], abi.ImageMagic)
	}
	if h.Version != abi.ImageVersion && h.Version != 0 {
		return fmt.Errorf("format: header: format version %d, this byssus reads %d", h.Version, abi.ImageVersion)
	}
	if crc := Checksum(b[:abi.HeaderCRCOff]); crc != h.HeaderCRC {
		return fmt.Errorf("format: header: crc32c %08x, wanted %08x", crc, h.HeaderCRC)
	}
	if unknown := h.Incompat &^ knownIncompat; unknown != 0 {
		return fmt.Errorf("format: header: needs features %#x that this byssus does not know", unknown)
	}
	switch {
	case h.Version == 0 || h.HeaderSize != abi.PageBytes:
		return fmt.Errorf("format: header: version %d, size %d, wanted %d, %d", h.Version, h.HeaderSize, abi.ImageVersion, abi.PageBytes)
	case h.FileSize != uint64(size):
		return fmt.Errorf("format: file: %d bytes, wanted %d", size, h.FileSize)
	case h.Rank >= h.NRanks || h.Part >= h.NParts || h.NParts > abi.MaxParts:
		return fmt.Errorf("format: header: rank %d of %d, part %d of %d, at most %d", h.Rank, h.NRanks, h.Part, h.NParts, abi.MaxParts)
	}
	return checkLayout(h)
}

// checkLayout wants the parts one behind the other, without a gap, to the end of the file.
func checkLayout(h *abi.ImageHeader) error {
	at := uint64(abi.PageBytes)
	for _, p := range []struct {
		name             string
		off, count, each uint64
		most             uint64
	}{
		{"data", h.DataOff, h.DataLen, 1, h.FileSize},
		{"sections", h.SectionsOff, h.SectionsLen, 1, abi.MaxTable},
		{"vma table", h.VMAsOff, h.NVMAs, vmaBytes, abi.MaxTable},
		{"chunk table", h.ChunksOff, h.NChunks, chunkBytes, abi.MaxTable},
	} {
		switch {
		case p.off != at:
			return fmt.Errorf("format: %s: begins at %d, wanted %d", p.name, p.off, at)
		case p.count > p.most/p.each || p.count*p.each > h.FileSize-at:
			return fmt.Errorf("format: %s: %d times %d bytes at %d do not fit into %d bytes, or are more than %d", p.name, p.count, p.each, at, h.FileSize, p.most)
		}
		at += p.count * p.each
	}
	switch {
	case at != h.FileSize:
		return fmt.Errorf("format: file: its parts end at %d, wanted %d", at, h.FileSize)
	case h.Part != 0 && (h.SectionsLen != 0 || h.NSections != 0 || h.NVMAs != 0):
		return fmt.Errorf("format: header: part %d has sections or mappings, wanted them in part 0 only", h.Part)
	}
	return nil
}

// stream hands the bytes of a run of the file to f, piece by piece. The piece is used again.
func stream(r io.ReaderAt, what string, off, n uint64, f func(b []byte) error) error {
	buf := make([]byte, min(n, piece))
	for n > 0 {
		b := buf[:min(n, piece)]
		if k, err := r.ReadAt(b, int64(off)); k < len(b) {
			return fmt.Errorf("format: %s: %w", what, err)
		}
		if err := f(b); err != nil {
			return err
		}
		off, n = off+uint64(len(b)), n-uint64(len(b))
	}
	return nil
}

// Read reads and checks a file, all but the memory.
func Read(r io.ReaderAt, size int64) (*Image, error) {
	h, err := ReadHeader(r, size)
	if err != nil {
		return nil, err
	}
	im := &Image{Header: *h}
	if err := im.readTables(r); err != nil {
		return nil, err
	}
	return im, im.readSections(r)
}

// readTables reads the two tables. A record is kept only when it makes sense, so that the zeros of a hole are not.
func (im *Image) readTables(r io.ReaderAt) error {
	h, crc, next := &im.Header, uint32(0), uint64(abi.PageBytes)
	vmas := make([]abi.VMA, min(h.NVMAs, piece/vmaBytes))
	err := stream(r, "vma table", h.VMAsOff, h.NVMAs*vmaBytes, func(b []byte) error {
		crc = crc32.Update(crc, castagnoli, b)
		some := vmas[:uint64(len(b))/vmaBytes]
		if _, err := abi.Decode(b, some); err != nil {
			return err
		}
		return im.addVMAs(some)
	})
	if err != nil {
		return err
	}
	chunks := make([]abi.Chunk, min(h.NChunks, piece/chunkBytes))
	err = stream(r, "chunk table", h.ChunksOff, h.NChunks*chunkBytes, func(b []byte) (err error) {
		crc = crc32.Update(crc, castagnoli, b)
		some := chunks[:uint64(len(b))/chunkBytes]
		if _, err := abi.Decode(b, some); err != nil {
			return err
		}
		next, err = im.addChunks(some, next)
		return err
	})
	switch {
	case err != nil:
		return err
	case crc != h.TablesCRC:
		return fmt.Errorf("format: tables: crc32c %08x, wanted %08x", crc, h.TablesCRC)
	case next != h.DataOff+h.DataLen:
		return fmt.Errorf("format: chunks: end at %d, wanted %d", next, h.DataOff+h.DataLen)
	}
	return nil
}

func (im *Image) addVMAs(some []abi.VMA) error {
	for _, v := range some {
		if v.Start >= v.End || len(im.VMAs) > 0 && v.Start < im.VMAs[len(im.VMAs)-1].End {
			return fmt.Errorf("format: vma %d: from %#x to %#x, wanted some bytes behind the one before", len(im.VMAs), v.Start, v.End)
		}
		im.VMAs = append(im.VMAs, v)
	}
	return nil
}

// addChunks wants each chunk where the one before ends, and returns where the last one does.
func (im *Image) addChunks(some []abi.Chunk, next uint64) (uint64, error) {
	for _, c := range some {
		if c.Length == 0 || c.Length > abi.MaxChunk || c.Length%abi.PageBytes != 0 || c.Offset != next {
			return 0, fmt.Errorf("format: chunk %d: %d bytes at %d, wanted whole pages, at most %d bytes, at %d", len(im.Chunks), c.Length, c.Offset, abi.MaxChunk, next)
		}
		next += uint64(c.Length)
		im.Chunks = append(im.Chunks, c)
	}
	return next, nil
}

// readSections compares the sections' checksums and remembers where they lie.
func (im *Image) readSections(r io.ReaderAt) error {
	h := &im.Header
	at, end := h.SectionsOff, h.SectionsOff+h.SectionsLen
	seen := map[uint32]bool{}
	for i := uint64(0); at < end && i < h.NSections; i++ {
		s, next, err := readSection(r, at, end)
		if err != nil {
			return fmt.Errorf("format: section %d of %d: %w", i, h.NSections, err)
		}
		switch known := s.Type > 0 && s.Type < abi.SecEnd; {
		case !known && s.Type&abi.SecMayIgnore == 0:
			return fmt.Errorf("format: section of type %d: this byssus does not know it", s.Type)
		case known && seen[s.Type]:
			return fmt.Errorf("format: section of type %d: is there twice", s.Type)
		case known:
			seen[s.Type] = true
			im.Sections = append(im.Sections, s)
		}
		if at = next; i == h.NSections-1 && at == end {
			return nil
		}
	}
	if h.NSections == 0 && at == end {
		return nil
	}
	return fmt.Errorf("format: sections: %d of them end at %d, wanted %d", h.NSections, at, end)
}

// readSection reads a section and says where the next one begins.
func readSection(r io.ReaderAt, at, end uint64) (Section, uint64, error) {
	if end-at < sectionBytes {
		return Section{}, 0, fmt.Errorf("%d bytes are left, wanted %d", end-at, sectionBytes)
	}
	var head abi.Section
	b := make([]byte, sectionBytes)
	if n, err := r.ReadAt(b, int64(at)); n < len(b) {
		return Section{}, 0, err
	}
	if _, err := abi.Decode(b, &head); err != nil {
		return Section{}, 0, err
	}
	at += sectionBytes
	padded := (head.Length + 7) &^ 7
	if head.Length > end-at || padded > end-at {
		return Section{}, 0, fmt.Errorf("%d bytes, found %d", head.Length, end-at)
	}
	crc := crc32.Update(Checksum(b[:4]), castagnoli, b[8:])
	err := stream(r, "section", at, padded, func(b []byte) error {
		crc = crc32.Update(crc, castagnoli, b)
		return nil
	})
	if err == nil && crc != head.CRC32C {
		err = fmt.Errorf("type %d: crc32c %08x, wanted %08x", head.Type, crc, head.CRC32C)
	}
	return Section{head.Type, at, head.Length}, at + padded, err
}

// VerifyData reads all memory and compares it with its checksums. progress is told the bytes read since the last call.
func (im *Image) VerifyData(r io.ReaderAt, progress func(bytes int64)) error {
	return im.memory(r, func(b []byte) error {
		progress(int64(len(b)))
		return nil
	})
}

// Each hands all bytes of the file to f, from the first to the last, memory after its checksum was compared. A piece is used again.
func (im *Image) Each(r io.ReaderAt, f func(b []byte) error) error {
	h := &im.Header
	err := stream(r, "header", 0, h.DataOff, f)
	if err == nil {
		err = im.memory(r, f)
	}
	if err == nil {
		err = stream(r, "tables", h.SectionsOff, h.FileSize-h.SectionsOff, f)
	}
	return err
}

// Damaged reads all memory and tells bad which chunks are not as they were written, or cannot be read. progress is told the bytes read
// since the last call.
func (im *Image) Damaged(r io.ReaderAt, progress func(bytes int64), bad func(c abi.Chunk, err error)) {
	buf := im.buffer()
	for i, c := range im.Chunks {
		if err := readChunk(r, i, c, buf[:c.Length]); err != nil {
			bad(c, err)
		}
		progress(int64(c.Length))
	}
}

// memory hands each chunk to f when its checksum was compared.
func (im *Image) memory(r io.ReaderAt, f func(b []byte) error) error {
	buf := im.buffer()
	for i, c := range im.Chunks {
		b := buf[:c.Length]
		if err := readChunk(r, i, c, b); err != nil {
			return err
		}
		if err := f(b); err != nil {
			return err
		}
	}
	return nil
}

// buffer has room for any chunk.
func (im *Image) buffer() []byte {
	var longest uint32
	for _, c := range im.Chunks {
		longest = max(longest, c.Length)
	}
	return make([]byte, longest)
}

// readChunk reads a chunk and compares its checksum.
func readChunk(r io.ReaderAt, i int, c abi.Chunk, b []byte) error {
	if n, err := r.ReadAt(b, int64(c.Offset)); n < len(b) {
		return fmt.Errorf("format: chunk %d at %#x: %w", i, c.Addr, err)
	}
	if crc := Checksum(b); crc != c.CRC32C {
		return fmt.Errorf("format: chunk %d at %#x: crc32c %08x, wanted %08x", i, c.Addr, crc, c.CRC32C)
	}
	return nil
}

// Bytes reads what a section holds, unless that is more than most.
func (s Section) Bytes(r io.ReaderAt, most uint64) ([]byte, error) {
	if s.Length > most {
		return nil, fmt.Errorf("format: section of type %d: %d bytes, at most %d", s.Type, s.Length, most)
	}
	b := make([]byte, s.Length)
	if n, err := r.ReadAt(b, int64(s.Offset)); n < len(b) {
		return nil, fmt.Errorf("format: section of type %d: %w", s.Type, err)
	}
	return b, nil
}

// AllZero says whether b is nothing but zeros: its first byte is, and each is like the one before it.
func AllZero(b []byte) bool { return len(b) == 0 || b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1]) }
