// Package format reads image files: what a rank wrote about itself at a checkpoint.
//
//	0        4096                                                     file_size
//	| header | chunks of memory, page-aligned | vma table | chunk table | sections |
//
// The order of the parts after the header is the writer's; the header says where each lies. Part 0 of a rank holds its
// tables of mappings and its sections, every part holds the chunks that one thread wrote.
//
// It guarantees: bytes from a file never cause a panic, an endless loop or an allocation beyond the file's own size;
// nothing is believed before its checksum (CRC-32C) has been compared; an error names object, found and wanted.
// The structures are defined in abi and drawn in docs/format.
package format

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"unsafe"

	"github.com/byssus-hpc/byssus/internal/abi"
)

// castagnoli is the polynomial of every checksum in Byssus.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is CRC-32C.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Incompatible features that this version knows: none yet.
const knownIncompat = 0

// ErrIncomplete marks a file whose header was never written.
var ErrIncomplete = errors.New("incomplete: its header was never written")

// Sizes of records in a file.
const (
	vmaBytes     = int64(unsafe.Sizeof(abi.VMA{}))
	chunkBytes   = int64(unsafe.Sizeof(abi.Chunk{}))
	sectionBytes = int64(unsafe.Sizeof(abi.Section{}))
)

// Section is a section with its bytes.
type Section struct {
	Type  uint32
	Bytes []byte
}

// Image is everything in a file but the memory itself.
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
	case h.Rank >= h.NRanks || h.Part >= h.NParts:
		return fmt.Errorf("format: header: rank %d of %d, part %d of %d", h.Rank, h.NRanks, h.Part, h.NParts)
	}
	return nil
}

// table reads a run of the file after checking that it lies inside.
func table(r io.ReaderAt, h *abi.ImageHeader, what string, off, count uint64, each int64) ([]byte, error) {
	if off < abi.PageBytes && count > 0 || off > h.FileSize || count > (h.FileSize-off)/uint64(each) {
		return nil, fmt.Errorf("format: %s: %d of %d bytes at %d do not fit into %d bytes", what, count, each, off, h.FileSize)
	}
	b := make([]byte, int64(count)*each)
	if n, err := r.ReadAt(b, int64(off)); n < len(b) {
		return nil, fmt.Errorf("format: %s: %w", what, err)
	}
	return b, nil
}

// Read reads and checks a file, all but the memory.
func Read(r io.ReaderAt, size int64) (*Image, error) {
	h, err := ReadHeader(r, size)
	if err != nil {
		return nil, err
	}
	im := &Image{Header: *h}
	vmas, err := table(r, h, "vma table", h.VMAsOff, h.NVMAs, vmaBytes)
	if err != nil {
		return nil, err
	}
	chunks, err := table(r, h, "chunk table", h.ChunksOff, h.NChunks, chunkBytes)
	if err != nil {
		return nil, err
	}
	crc := crc32.Update(Checksum(vmas), castagnoli, chunks)
	if crc != h.TablesCRC {
		return nil, fmt.Errorf("format: tables: crc32c %08x, wanted %08x", crc, h.TablesCRC)
	}
	im.VMAs, im.Chunks = make([]abi.VMA, h.NVMAs), make([]abi.Chunk, h.NChunks)
	if _, err := abi.Decode(vmas, im.VMAs); err != nil {
		return nil, err
	}
	if _, err := abi.Decode(chunks, im.Chunks); err != nil {
		return nil, err
	}
	if err := im.checkTables(); err != nil {
		return nil, err
	}
	return im, im.readSections(r)
}

func (im *Image) checkTables() error {
	for i, v := range im.VMAs {
		if v.Start >= v.End {
			return fmt.Errorf("format: vma %d: from %#x to %#x", i, v.Start, v.End)
		}
	}
	size := im.Header.FileSize
	for i, c := range im.Chunks {
		if c.Length > abi.MaxChunk || c.Offset < abi.PageBytes || c.Offset > size || uint64(c.Length) > size-c.Offset {
			return fmt.Errorf("format: chunk %d: %d bytes at %d of %d, at most %d", i, c.Length, c.Offset, size, abi.MaxChunk)
		}
	}
	return nil
}

func (im *Image) readSections(r io.ReaderAt) error {
	h := &im.Header
	b, err := table(r, h, "sections", h.SectionsOff, h.SectionsLen, 1)
	if err != nil {
		return err
	}
	for i := range h.NSections {
		var s abi.Section
		rest, err := abi.Decode(b, &s)
		if err != nil {
			return fmt.Errorf("format: section %d of %d: %w", i, h.NSections, err)
		}
		if s.Length > uint64(len(rest)) {
			return fmt.Errorf("format: section %d: %d bytes, found %d", i, s.Length, len(rest))
		}
		body := rest[:s.Length]
		if crc := Checksum(body); crc != s.CRC32C {
			return fmt.Errorf("format: section %d (type %d): crc32c %08x, wanted %08x", i, s.Type, crc, s.CRC32C)
		}
		im.Sections = append(im.Sections, Section{s.Type, body})
		b = rest[min((s.Length+7)&^7, uint64(len(rest))):]
	}
	return nil
}

// VerifyData reads all memory and compares it with its checksums. progress is told the bytes read since the last call.
func (im *Image) VerifyData(r io.ReaderAt, progress func(bytes int64)) error {
	var longest uint32
	for _, c := range im.Chunks {
		longest = max(longest, c.Length)
	}
	buf := make([]byte, longest)
	for i, c := range im.Chunks {
		b := buf[:c.Length]
		if n, err := r.ReadAt(b, int64(c.Offset)); n < len(b) {
			return fmt.Errorf("format: chunk %d at %#x: %w", i, c.Addr, err)
		}
		if crc := Checksum(b); crc != c.CRC32C {
			return fmt.Errorf("format: chunk %d at %#x: crc32c %08x, wanted %08x", i, c.Addr, crc, c.CRC32C)
		}
		progress(int64(len(b)))
	}
	return nil
}

// Strings is the STRINGS section of part 0.
func (im *Image) Strings() []byte {
	for _, s := range im.Sections {
		if s.Type == abi.SecStrings {
			return s.Bytes
		}
	}
	return nil
}

// Name is the name of a mapping, empty when it has none.
func (im *Image) Name(v abi.VMA) string {
	if s := im.Strings(); uint64(v.Name) < uint64(len(s)) {
		return abi.Text(s[v.Name:])
	}
	return ""
}
