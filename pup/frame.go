package pup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/minio/crc64nvme"
)

// A stored value, all numbers little-endian (docs/format/pup.md has the whole drawing):
//
//	 0  8  magic
//	 8  2  format version
//	10  2  flags
//	12  4  bytes of the schema
//	16  8  bytes of the body
//	24  8  hash of the schema
//	32  n  schema, text
//	    8  CRC-64/NVME of all above
//	then chunks, each
//	 0  4  bytes of data, at most chunkData; the highest bit marks the last chunk
//	 4  4  number of the chunk, from 0
//	 8  8  CRC-64/NVME of the 8 bytes above and the data
//	16  n  data
//
// With flagUnchecked, the body follows the header without chunks.
const (
	magic         = "\x8aPUP\r\n\x1a\n"
	formatVersion = 1
	headerSize    = 32
	sumSize       = 8
	chunkHeader   = 16
	chunkData     = 64 << 10
	lastChunk     = 1 << 31
	maxSchema     = 16 << 20
)

const (
	flagGraph     = 1 << 0 // shared memory is stored once
	flagUnchecked = 1 << 1 // no chunks, no checksums of the body
	knownFlags    = flagGraph | flagUnchecked
)

// header is what a stored value says of itself.
type header struct {
	flags  uint16
	body   uint64
	hash   uint64
	schema []byte
	own    *table // not nil: the program's, which may know the checksum
}

// encodedSize is how many bytes the header and a body in its chunks take.
func (h *header) encodedSize() uint64 {
	return headerSize + uint64(len(h.schema)) + sumSize + h.framed()
}

// framed is how many bytes the body takes in its chunks.
func (h *header) framed() uint64 {
	if h.flags&flagUnchecked != 0 {
		return h.body
	}
	return h.body + chunkHeader*chunkCount(h.body)
}

func chunkCount(body uint64) uint64 { return max(1, (body+chunkData-1)/chunkData) }

func (h *header) appendTo(b []byte) []byte {
	start := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint16(b, formatVersion)
	b = binary.LittleEndian.AppendUint16(b, h.flags)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(h.schema)))
	b = binary.LittleEndian.AppendUint64(b, h.body)
	b = binary.LittleEndian.AppendUint64(b, h.hash)
	b = append(b, h.schema...)
	if h.own != nil {
		if s := h.own.last.Load(); s != nil && s.flags == h.flags && s.body == h.body {
			return binary.LittleEndian.AppendUint64(b, s.sum)
		}
	}
	sum := crc64nvme.Checksum(b[start:])
	h.seal(sum)
	return binary.LittleEndian.AppendUint64(b, sum)
}

// seal remembers a checksum.
func (h *header) seal(sum uint64) {
	if h.own != nil && h.body < large {
		h.own.last.Store(&sealed{h.flags, h.body, sum})
	}
}

// readHeader reads a header; a reader that ends too early, or holds something else, gives ErrData.
func readHeader(r io.Reader) (header, error) {
	fixed := make([]byte, headerSize)
	if n, err := io.ReadFull(r, fixed); err != nil {
		return header{}, truncated(err, "header", n, headerSize)
	}
	h, size, err := fixedHeader(fixed)
	if err != nil {
		return h, err
	}
	rest, err := readUpTo(r, size)
	if err != nil {
		return h, truncated(err, "schema", len(rest), size)
	}
	err = h.takeSchema(fixed, rest)
	return h, err
}

// headerOf is readHeader for data in memory, of which the schema stays a part; it also returns what follows the header.
func headerOf(data []byte, own *table) (h header, body []byte, err error) {
	if len(data) < headerSize {
		return h, nil, truncated(io.ErrUnexpectedEOF, "header", len(data), headerSize)
	}
	h, size, err := fixedHeader(data[:headerSize])
	if err != nil {
		return h, nil, err
	}
	if own != nil && h.hash == own.hash && bytes.HasPrefix(data[headerSize:], own.bytes) && size == len(own.bytes)+sumSize {
		h.own = own
	}
	rest := data[headerSize:]
	if len(rest) < size {
		return h, nil, truncated(io.ErrUnexpectedEOF, "schema", len(rest), size)
	}
	err = h.takeSchema(data[:headerSize], rest[:size])
	return h, rest[size:], err
}

// fixedHeader reads the part of a header that all have; it also returns the size of what follows: schema and checksum.
func fixedHeader(fixed []byte) (h header, size int, err error) {
	if !bytes.Equal(fixed[:8], []byte(magic)) {
		return h, 0, fmt.Errorf("%w: magic %x, want %x: not a value stored by pup", ErrData, fixed[:8], magic)
	}
	if v := binary.LittleEndian.Uint16(fixed[8:]); v != formatVersion {
		return h, 0, fmt.Errorf("%w: format version %d, this program reads %d", ErrData, v, formatVersion)
	}
	h = header{flags: binary.LittleEndian.Uint16(fixed[10:]), body: binary.LittleEndian.Uint64(fixed[16:]),
		hash: binary.LittleEndian.Uint64(fixed[24:])}
	if h.flags&^knownFlags != 0 {
		return h, 0, fmt.Errorf("%w: flags %#x, this program knows %#x", ErrData, h.flags, knownFlags)
	}
	n := binary.LittleEndian.Uint32(fixed[12:])
	if n > maxSchema {
		return h, 0, fmt.Errorf("%w: schema of %d bytes, at most %d", ErrData, n, maxSchema)
	}
	if h.body > math.MaxInt64/2 {
		return h, 0, fmt.Errorf("%w: body of %d bytes, at most %d", ErrData, h.body, uint64(math.MaxInt64/2))
	}
	return h, int(n) + sumSize, nil
}

// takeSchema completes a header by what follows its fixed part.
func (h *header) takeSchema(fixed, rest []byte) error {
	n := len(rest) - sumSize
	h.schema = rest[:n]
	want := binary.LittleEndian.Uint64(rest[n:])
	if h.own != nil {
		if s := h.own.last.Load(); s != nil && s.flags == h.flags && s.body == h.body && s.sum == want {
			return nil
		}
	}
	if found := crc64nvme.Update(crc64nvme.Checksum(fixed), rest[:n]); found != want {
		return fmt.Errorf("%w: header: crc64 %016x, want %016x", ErrData, found, want)
	}
	h.seal(want)
	return nil
}

// readUpTo reads n bytes; memory grows with what has come.
func readUpTo(r io.Reader, n int) ([]byte, error) {
	var b bytes.Buffer
	got, err := io.CopyN(&b, r, int64(n))
	if err == io.EOF && got > 0 {
		err = io.ErrUnexpectedEOF
	}
	return b.Bytes(), err
}

// truncated turns the end of the data into ErrData and leaves other errors of a reader as they are.
func truncated(err error, what string, found, want int) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: %s: %d bytes, want %d: truncated", ErrData, what, found, want)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// sealChunk fills in a chunk's header, which stands before its data.
func sealChunk(chunk []byte, number uint32, last bool) {
	length := uint32(len(chunk) - chunkHeader)
	if last {
		length |= lastChunk
	}
	binary.LittleEndian.PutUint32(chunk, length)
	binary.LittleEndian.PutUint32(chunk[4:], number)
	binary.LittleEndian.PutUint64(chunk[8:], crc64nvme.Update(crc64nvme.Checksum(chunk[:8]), chunk[chunkHeader:]))
}

// openChunk reads a chunk's header: the length of its data, which must be what the body still lacks, up to chunkData.
func openChunk(head []byte, number uint32, rest uint64) (int, error) {
	length, found := binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint32(head[4:])
	want := uint32(chunkData)
	if rest <= chunkData {
		want = uint32(rest) | lastChunk
	}
	if found != number || length != want {
		return 0, fmt.Errorf("%w: chunk %d: header says chunk %d of %#x bytes, want %#x", ErrData, number, found, length, want)
	}
	return int(want &^ lastChunk), nil
}

// checkChunk compares the checksum of a chunk with its content.
func checkChunk(head, data []byte, number uint32) error {
	want := binary.LittleEndian.Uint64(head[8:])
	if found := crc64nvme.Update(crc64nvme.Checksum(head[:8]), data); found != want {
		return fmt.Errorf("%w: chunk %d: crc64 %016x, want %016x", ErrData, number, found, want)
	}
	return nil
}

// A memory packs a value behind what a slice of bytes holds already, and grows when the room does not suffice.
type memory struct {
	b      []byte
	start  int // of the header
	chunk  int // of the current chunk
	head   int // bytes of a chunk's header
	end    int // of the window
	number uint32
	coming uint64 // bytes that are being packed and do not fit into the window
}

// begin leaves room for the header behind what b holds and opens the first window.
func (m *memory) begin(p *Stream, h *header, b []byte) {
	*m = memory{b: b, start: len(b)}
	m.chunk = m.start + headerSize + len(h.schema) + sumSize
	if m.head = chunkHeader; h.flags&flagUnchecked != 0 {
		m.head = 0
	}
	m.open(p, m.chunk+m.head)
	p.windows = m
}

// open makes a window of the room from an offset on, which begins a chunk or goes on in one.
func (m *memory) open(p *Stream, from int) {
	if cap(m.b) <= from {
		more := m.head + chunkData + int(m.coming+m.coming/chunkData*uint64(m.head))
		m.b = grow(m.b[:min(from, cap(m.b))], max(more, cap(m.b)/4))
	}
	m.coming = 0
	m.end = cap(m.b)
	if m.head > 0 {
		m.end = min(m.end, m.chunk+m.head+chunkData)
	}
	m.b = m.b[:m.end]
	p.win = m.b[from:]
}

// next goes on in the current chunk, when only memory had ended, or begins the next one.
func (m *memory) next(p *Stream) error {
	from := m.end
	if m.head > 0 && m.end == m.chunk+m.head+chunkData {
		sealChunk(m.b[m.chunk:m.end], m.number, false)
		m.chunk = m.end
		m.number++
		from += m.head
	}
	m.open(p, from)
	return nil
}

// finish seals the last chunk, fills in the header and returns what was packed.
func (m *memory) finish(p *Stream, h *header) []byte {
	h.body = p.done()
	end := m.end - len(p.win) + p.pos
	if m.head > 0 {
		sealChunk(m.b[m.chunk:end], m.number, true)
	}
	h.appendTo(m.b[:m.start])
	return m.b[:end]
}

// beginBare opens the first window, for a body by itself.
func (m *memory) beginBare(p *Stream, b []byte) {
	*m = memory{b: b, start: len(b), chunk: len(b)}
	m.open(p, m.chunk)
	p.windows = m
}

// finishBare returns what was packed.
func (m *memory) finishBare(p *Stream) []byte { return m.b[:m.end-len(p.win)+p.pos] }

// errGrew is what packing answers when there is more than was counted before.
var errGrew = errors.New("the value changed while it was packed, or its PUP packs more than it sizes")

func packedAll(p *Stream, h *header) error {
	if p.done() != h.body {
		return &Error{Op: "pack", Err: fmt.Errorf("%d bytes packed, %d counted before: the value changed, or its PUP differs", p.done(), h.body)}
	}
	return nil
}

// writeBatch is how many chunks a writer gets at once.
const writeBatch = 16

// packTo prepares p to pack a body of h.body bytes to a writer, with the memory of a few chunks.
func packTo(p *Stream, h *header, w io.Writer) *chunkWriter {
	c := &chunkWriter{w: w, h: h, buf: make([]byte, min(h.framed(), writeBatch*(chunkHeader+chunkData))), rest: h.body}
	if h.flags&flagUnchecked == 0 {
		c.head = chunkHeader
	}
	p.windows = c
	c.open(p)
	return c
}

// chunkWriter writes a body in chunks.
type chunkWriter struct {
	w      io.Writer
	h      *header
	buf    []byte
	used   int // of buf, by chunks that are sealed
	head   int // bytes of a chunk's header
	number uint32
	rest   uint64 // of the body, after this chunk
}

func (c *chunkWriter) open(p *Stream) {
	n := min(c.rest, chunkData)
	c.rest -= n
	p.win = c.buf[c.used+c.head : c.used+c.head+int(n)]
}

func (c *chunkWriter) seal(p *Stream, last bool) error {
	end := c.used + c.head + len(p.win)
	if c.head > 0 {
		sealChunk(c.buf[c.used:end], c.number, last)
	}
	c.used = end
	c.number++
	if !last && len(c.buf)-c.used >= chunkHeader+chunkData {
		return nil
	}
	_, err := c.w.Write(c.buf[:c.used])
	c.used = 0
	return err
}

func (c *chunkWriter) next(p *Stream) error {
	if c.rest == 0 {
		return errGrew
	}
	if err := c.seal(p, false); err != nil {
		return err
	}
	c.open(p)
	return nil
}

func (c *chunkWriter) finish(p *Stream) error {
	if err := packedAll(p, c.h); err != nil {
		return err
	}
	return c.seal(p, true)
}

// bodyMemory is a body that lies in memory.
type bodyMemory struct {
	b       []byte // from the next chunk on
	checked bool
	begun   bool
	number  uint32
}

// begin prepares p to unpack the body that follows the header in b.
func (m *bodyMemory) begin(p *Stream, h *header, b []byte) error {
	if uint64(len(b)) != h.framed() {
		return fmt.Errorf("%w: %d bytes after the header, want %d", ErrData, len(b), h.framed())
	}
	*m = bodyMemory{b: b, checked: h.flags&flagUnchecked == 0}
	p.windows, p.rest = m, h.body
	return p.advance()
}

func (m *bodyMemory) next(p *Stream) error {
	if m.begun && p.rest == 0 {
		return errEnd
	}
	m.begun = true
	if !m.checked {
		p.win, p.rest = m.b, 0
		return nil
	}
	n, err := openChunk(m.b, m.number, p.rest)
	if err != nil {
		return err
	}
	data := m.b[chunkHeader : chunkHeader+n]
	if err := checkChunk(m.b[:chunkHeader], data, m.number); err != nil {
		return err
	}
	p.win, m.b = data, m.b[chunkHeader+n:]
	p.rest -= uint64(n)
	m.number++
	return nil
}

var errEnd = fmt.Errorf("%w: the body ends before the value does", ErrData)

// unpackReader prepares p to unpack the body that comes next from a reader, with the memory of one chunk, or what ensure
// asks for.
func unpackReader(p *Stream, h *header, r io.Reader) error {
	b := &bodyReader{r: r, unread: h.body, checked: h.flags&flagUnchecked == 0, head: make([]byte, chunkHeader), buf: make([]byte, chunkData)}
	p.rest, p.windows = h.body, b
	return p.advance()
}

// bodyReader reads a body in chunks.
type bodyReader struct {
	r         io.Reader
	unread    uint64 // bytes of the body
	checked   bool
	number    uint32
	head, buf []byte
	queue     [][]byte // chunks that were read ahead
	queued    uint64   // bytes of them
}

// next makes the next chunk the window.
func (b *bodyReader) next(p *Stream) error {
	if len(b.queue) > 0 {
		p.win, b.queue = b.queue[0], b.queue[1:]
		b.queued -= uint64(len(p.win))
	} else {
		data, err := b.read(b.buf)
		if err != nil {
			return err
		}
		p.win = data
	}
	p.rest -= uint64(len(p.win))
	return nil
}

// more reads ahead until n bytes are there.
func (b *bodyReader) more(p *Stream, n uint64) error {
	for uint64(len(p.win)-p.pos)+b.queued < n {
		data, err := b.read(make([]byte, min(b.unread, chunkData)))
		if err != nil {
			return err
		}
		b.queue = append(b.queue, data)
		b.queued += uint64(len(data))
	}
	return nil
}

// read reads the next chunk into buf.
func (b *bodyReader) read(buf []byte) ([]byte, error) {
	if b.unread == 0 && b.number > 0 {
		return nil, errEnd
	}
	n := int(min(b.unread, chunkData))
	if b.checked {
		if got, err := io.ReadFull(b.r, b.head); err != nil {
			return nil, truncated(err, fmt.Sprintf("chunk %d: header", b.number), got, chunkHeader)
		}
		if _, err := openChunk(b.head, b.number, b.unread); err != nil {
			return nil, err
		}
	}
	if got, err := io.ReadFull(b.r, buf[:n]); err != nil && n > 0 {
		return nil, truncated(err, fmt.Sprintf("chunk %d", b.number), got, n)
	}
	if b.checked {
		if err := checkChunk(b.head, buf[:n], b.number); err != nil {
			return nil, err
		}
	}
	b.unread -= uint64(n)
	b.number++
	return buf[:n], nil
}
