// Package parity is what a node keeps for the others of its redundancy set: the file with its parity (XOR), or the file that
// describes the set of whose parts it holds copies (Partner, also of several).
//
//	0                                           data_off                  file_size
//	| ParityHeader | members with their files | data, segment_len | table |
//
// Each of these files describes the whole set, its members' files with sizes and digests, so that what is lost can be made
// again from what is left, and it can be said that it cannot, with nothing else. The table has a checksum (CRC-32C) for
// every MiB of data; the header has one of the table; and the last four bytes before the data are one of all before them.
//
// It guarantees: what was not finished is not believed, also after a crash of the machine (data and table are synced before
// the header is written); bytes from a file never cause a panic; reading one makes memory for a header of at most MaxHeader bytes
// and what stands in it, for four bytes for each MiB of data that the file has, and for one chunk; data is handed out only
// after its checksum has been compared; an error names object, found and wanted.
// A Writer or Reader serves one goroutine at a time. Files are made by the caller, with O_EXCL and mode 0600.
// The structures are defined in abi and drawn in docs/format.
package parity

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// MaxHeader is how many bytes a file may have before its data: asked for before a reader makes memory.
const MaxHeader = 16 << 20

// Target is a new file, or one whose header is zeros and that is no longer than the new one.
type Target interface {
	io.WriterAt
	Sync() error
}

// Writer writes a member's file.
type Writer struct {
	to   Target
	head []byte // all before the data, but for two checksums
	data int64
	sums []uint32 // by chunk
	done []int64  // bytes, by chunk
}

// Create begins a file. Nothing is written yet.
func Create(to Target, h holding.Header) (*Writer, error) {
	l, err := h.Check()
	if err != nil {
		return nil, err
	}
	w := &Writer{to: to, head: encode(&h, l), data: dataBytes(&h, l)}
	if len(w.head) > MaxHeader {
		return nil, fmt.Errorf("parity: header: %d bytes, at most %d", len(w.head), MaxHeader)
	}
	chunks := tableBytes(w.data) / crcBytes
	w.sums, w.done = make([]uint32, chunks), make([]int64, chunks)
	return w, nil
}

// Size is how long the file will be.
func (w *Writer) Size() int64 { return int64(len(w.head)) + w.data + tableBytes(w.data) }

// WriteAt writes data. Chunks may come in any order, the bytes of each in theirs.
func (w *Writer) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 || off > w.data-int64(len(b)) {
		return 0, fmt.Errorf("parity: write: %d bytes at %d, the data ends at %d", len(b), off, w.data)
	}
	written := 0
	for written < len(b) {
		at := off + int64(written)
		k, in := at/abi.ParityChunk, at%abi.ParityChunk
		if in != w.done[k] {
			return written, fmt.Errorf("parity: write: chunk %d: bytes from %d on, wanted those from %d on", k, in, w.done[k])
		}
		some := b[written:min(len(b), written+int(abi.ParityChunk-in))]
		if _, err := w.to.WriteAt(some, int64(len(w.head))+at); err != nil {
			return written, fmt.Errorf("parity: write: chunk %d: %w", k, err)
		}
		w.sums[k], w.done[k] = format.Extend(w.sums[k], some), in+int64(len(some))
		written += len(some)
	}
	return written, nil
}

// Finish writes table and header, when all data is there; with Partner, when the copies are on stable storage. Then the file
// is complete, and there too.
func (w *Writer) Finish() error {
	for k, done := range w.done {
		if want := min(abi.ParityChunk, w.data-int64(k)*abi.ParityChunk); done != want {
			return fmt.Errorf("parity: finish: chunk %d: %d bytes, wanted %d", k, done, want)
		}
	}
	table := abi.Encode(w.sums, "")
	seal(w.head, format.Checksum(table))
	_, err := w.to.WriteAt(table, int64(len(w.head))+w.data)
	if err == nil {
		err = w.to.Sync()
	}
	if err == nil {
		_, err = w.to.WriteAt(w.head, 0)
	}
	if err == nil {
		err = w.to.Sync()
	}
	if err != nil {
		return fmt.Errorf("parity: finish: %w", err)
	}
	return nil
}

// Reader reads a member's file.
type Reader struct {
	holding.Header
	from  io.ReaderAt
	off   int64
	data  int64
	table []byte
	chunk int64 // the one in buf, -1: none
	buf   []byte
}

// Open reads and checks all of a file of the given size but the data, which is checked when it is read.
func Open(r io.ReaderAt, size int64) (*Reader, error) {
	head, h, err := readHeader(r, size)
	if err != nil {
		return nil, err
	}
	f := &Reader{Header: *h, from: r, off: int64(head.DataOff), data: int64(head.SegmentLen), chunk: -1}
	f.table = make([]byte, tableBytes(f.data))
	if err := readFull(r, f.table, f.off+f.data); err != nil {
		return nil, fmt.Errorf("parity: table: %w", err)
	}
	if crc := format.Checksum(f.table); crc != head.TableCRC {
		return nil, fmt.Errorf("parity: table: crc32c %08x, wanted %08x", crc, head.TableCRC)
	}
	return f, nil
}

// ReadHeader reads and checks what a file of the given size says about the set.
func ReadHeader(r io.ReaderAt, size int64) (*holding.Header, error) {
	_, h, err := readHeader(r, size)
	return h, err
}

func readHeader(r io.ReaderAt, size int64) (*abi.ParityHeader, *holding.Header, error) {
	b := make([]byte, headerBytes)
	if err := readFull(r, b, 0); err != nil {
		return nil, nil, fmt.Errorf("parity: header: %w", err)
	}
	off, err := dataOff(b, size)
	if err != nil {
		return nil, nil, fmt.Errorf("parity: header: %w", err)
	}
	b = make([]byte, off)
	if err := readFull(r, b, 0); err != nil {
		return nil, nil, fmt.Errorf("parity: header: %w", err)
	}
	end := len(b) - crcBytes
	if crc, want := format.Checksum(b[:end]), binary.LittleEndian.Uint32(b[end:]); crc != want {
		return nil, nil, fmt.Errorf("parity: header: crc32c %08x, wanted %08x", crc, want)
	}
	head, h, err := decode(b)
	if err != nil {
		return nil, nil, err
	}
	l, err := h.Check()
	if err != nil {
		return nil, nil, err
	}
	data := dataBytes(h, l)
	switch want := int64(head.DataOff) + data + tableBytes(data); {
	case head.SegmentLen != uint64(data) || head.ChunkSize != abi.ParityChunk:
		return nil, nil, fmt.Errorf("parity: header: segment of %d bytes, chunks of %d, wanted %d, %d",
			head.SegmentLen, head.ChunkSize, data, abi.ParityChunk)
	case head.FileSize != uint64(want) || size != want:
		return nil, nil, fmt.Errorf("parity: file: %d bytes, header says %d, wanted %d", size, head.FileSize, want)
	}
	return head, h, nil
}

// dataOff looks at the first record, whose checksum stands at the end of what it tells, just to find that.
func dataOff(b []byte, size int64) (uint64, error) {
	var head abi.ParityHeader
	if _, err := abi.Decode(b, &head); err != nil {
		return 0, err
	}
	switch off := head.DataOff; {
	case head == abi.ParityHeader{}:
		return 0, format.ErrIncomplete
	case string(head.Magic[:]) != abi.ParityMagic:
		return 0, fmt.Errorf("magic %q, wanted %q: not a parity file", head.Magic[:], abi.ParityMagic)
	case head.Version != abi.ParityVersion:
		return 0, fmt.Errorf("format version %d, this byssus reads %d", head.Version, abi.ParityVersion)
	case off < abi.PageBytes || off%abi.PageBytes != 0 || off > MaxHeader || off > uint64(size):
		return 0, fmt.Errorf("%d bytes of a file of %d, wanted whole pages, at most %d bytes", off, size, MaxHeader)
	}
	return head.DataOff, nil
}

func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%d bytes at %d, wanted %d: truncated", n, off, len(b))
	}
	return fmt.Errorf("%d bytes at %d, wanted %d: %w", n, off, len(b), err)
}

// ReadAt reads data. The chunk that was read last is kept, so that one that is read in pieces is read once.
func (f *Reader) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 || off > f.data-int64(len(b)) {
		return 0, fmt.Errorf("parity: read: %d bytes at %d, the data ends at %d", len(b), off, f.data)
	}
	read := 0
	for read < len(b) {
		at := off + int64(read)
		if err := f.load(at / abi.ParityChunk); err != nil {
			return read, err
		}
		read += copy(b[read:], f.buf[at%abi.ParityChunk:])
	}
	return read, nil
}

// load brings a chunk into the buffer and compares its checksum.
func (f *Reader) load(k int64) error {
	if f.chunk == k {
		return nil
	}
	if f.buf == nil {
		f.buf = make([]byte, min(abi.ParityChunk, f.data))
	}
	f.chunk, f.buf = -1, f.buf[:min(abi.ParityChunk, f.data-k*abi.ParityChunk)]
	if err := readFull(f.from, f.buf, f.off+k*abi.ParityChunk); err != nil {
		return fmt.Errorf("parity: chunk %d: %w", k, err)
	}
	if crc, want := format.Checksum(f.buf), binary.LittleEndian.Uint32(f.table[k*crcBytes:]); crc != want {
		return fmt.Errorf("parity: chunk %d: crc32c %08x, wanted %08x", k, crc, want)
	}
	f.chunk = k
	return nil
}

// Damaged reads all data and tells bad which bytes of it are not as they were written. progress is told the bytes read since the last call.
func (f *Reader) Damaged(progress func(bytes int64), bad func(from, to int64, err error)) {
	for k := range tableBytes(f.data) / crcBytes {
		from := k * abi.ParityChunk
		to := min(from+abi.ParityChunk, f.data)
		if err := f.load(k); err != nil {
			bad(from, to, err)
		}
		progress(to - from)
	}
}

// Over is the data, to be written over where it is damaged: what is written must be what was there.
func (f *Reader) Over(to io.WriterAt) io.WriterAt { return &over{f, to} }

type over struct {
	f  *Reader
	to io.WriterAt
}

func (o *over) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 || off > o.f.data-int64(len(b)) {
		return 0, fmt.Errorf("parity: write: %d bytes at %d, the data ends at %d", len(b), off, o.f.data)
	}
	o.f.chunk = -1
	return o.to.WriteAt(b, o.f.off+off)
}

// Verify reads all data and compares it with its checksums. progress is told the bytes read since the last call.
func (f *Reader) Verify(progress func(bytes int64)) error {
	for k := range tableBytes(f.data) / crcBytes {
		if err := f.load(k); err != nil {
			return err
		}
		progress(int64(len(f.buf)))
	}
	return nil
}
