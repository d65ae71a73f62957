package format_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/store/format/imagetest"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

func sample() []byte {
	memory := bytes.Repeat([]byte("mussel "), 300000)
	return imagetest.Bytes(imagetest.Spec{Rank: 1, NRanks: 2, Checkpoint: 7, Memory: memory, Name: "[heap]"})
}

// check reads a file as a verification does.
func check(b []byte) (*format.Image, error) {
	r := bytes.NewReader(b)
	im, err := format.Read(r, int64(len(b)))
	if err != nil {
		return nil, err
	}
	return im, im.VerifyData(r, func(int64) {})
}

func TestRead(t *testing.T) {
	im, err := check(sample())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range im.Sections {
		if b, err := s.Bytes(bytes.NewReader(sample()), 100); s.Type == abi.SecStrings && (err != nil || string(b) != "\x00[heap]\x00") {
			t.Errorf("strings: %q, %v", b, err)
		}
	}
	if len(im.Chunks) != 3 || len(im.VMAs) != 1 || im.Header.Checkpoint != 7 {
		t.Errorf("%d chunks, %d mappings, header %+v", len(im.Chunks), len(im.VMAs), im.Header)
	}
}

// TestEach: a file is handed over whole, in order; memory that is not as it was written is not.
func TestEach(t *testing.T) {
	good := sample()
	im, err := check(good)
	if err != nil {
		t.Fatal(err)
	}
	var copied []byte
	gather := func(b []byte) error {
		copied = append(copied, b...)
		return nil
	}
	if err := im.Each(bytes.NewReader(good), gather); err != nil || !bytes.Equal(copied, good) {
		t.Errorf("%d bytes of %d, %v, wanted all", len(copied), len(good), err)
	}
	bad, at := bytes.Clone(good), int(im.Chunks[1].Offset)
	bad[at+5] ^= 4
	copied = nil
	if err := im.Each(bytes.NewReader(bad), gather); err == nil || !bytes.Equal(copied, good[:at]) {
		t.Errorf("a flipped bit: %d bytes, %v, wanted the %d before its chunk", len(copied), err, at)
	}
	full := errors.New("full")
	if err := im.Each(bytes.NewReader(good), func([]byte) error { return full }); err != full {
		t.Errorf("found %v, wanted %v", err, full)
	}
}

// TestEveryBitCounts turns a bit in every byte but those of the memory, of which it takes samples.
func TestEveryBitCounts(t *testing.T) {
	good := sample()
	im, err := check(good)
	if err != nil {
		t.Fatal(err)
	}
	step := 1
	for i := 0; i < len(good); i += step {
		if step = 1; i > abi.PageBytes && i < int(im.Header.SectionsOff)-10 {
			step = 8191
		}
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		if _, err := check(bad); err == nil {
			t.Errorf("byte %d: a flipped bit went unnoticed", i)
		}
	}
}

// TestSections: one that is not known, there twice or missing is an error, unless its type says that it may be ignored.
func TestSections(t *testing.T) {
	for _, c := range []struct {
		name, want string
		kind       uint32
	}{
		{"unknown", "type 77: this byssus does not know it", 77},
		{"of no type", "type 0: this byssus does not know it", 0},
		{"may be ignored", "", 77 | abi.SecMayIgnore},
		{"twice", "type 2: is there twice", abi.SecThreads},
	} {
		file := sample()
		im, err := check(file)
		if err != nil {
			t.Fatal(err)
		}
		h, more := im.Header, imagetest.Section(c.kind, []byte("new"))
		end := h.SectionsOff + h.SectionsLen
		file = append(append(bytes.Clone(file[:end]), more...), file[end:]...)
		by := uint64(len(more))
		h.SectionsLen, h.NSections, h.FileSize = h.SectionsLen+by, h.NSections+1, h.FileSize+by
		h.VMAsOff, h.ChunksOff = h.VMAsOff+by, h.ChunksOff+by
		copy(file, abi.Encode(h, ""))
		imagetest.Seal(file)
		if _, err := check(file); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// huge is a file of zeros behind its first bytes, as a sparse file is.
type huge struct{ head []byte }

func (f huge) ReadAt(b []byte, off int64) (int, error) {
	clear(b)
	if off < int64(len(f.head)) {
		copy(b, f.head[off:])
	}
	return len(b), nil
}

// TestBound: headers that announce the largest numbers make nobody allocate what the file does not hold.
func TestBound(t *testing.T) {
	const size = 1<<63 - 4096
	for _, c := range []struct {
		name string
		edit func(h *abi.ImageHeader)
	}{
		{"chunks", func(h *abi.ImageHeader) { h.NChunks = (size - h.ChunksOff) / 24 }},
		{"chunks, none", func(h *abi.ImageHeader) { h.NChunks = 1<<64 - 1 }},
		{"mappings", func(h *abi.ImageHeader) { h.NVMAs = (size - h.VMAsOff) / 64 }},
		{"sections", func(h *abi.ImageHeader) { h.SectionsLen = size - h.SectionsOff }},
		{"number of sections", func(h *abi.ImageHeader) { h.NSections = 1<<64 - 1 }},
		{"data", func(h *abi.ImageHeader) { h.DataLen = size - h.DataOff }},
		{"all of a chunk table", func(h *abi.ImageHeader) {
			h.NSections, h.SectionsLen, h.NVMAs, h.DataLen = 0, 0, 0, 0
			h.SectionsOff, h.VMAsOff, h.ChunksOff = 4096, 4096, 4096
			h.NChunks = (size - 4096) / 24
			h.FileSize = 4096 + h.NChunks*24
		}},
		{"as many chunks as may be", func(h *abi.ImageHeader) {
			h.Part, h.NParts, h.NSections, h.SectionsLen, h.NVMAs = 1, 2, 0, 0, 0
			h.NChunks = abi.MaxTable / 24
			h.DataLen = h.NChunks * abi.MaxChunk
			h.SectionsOff = 4096 + h.DataLen
			h.VMAsOff, h.ChunksOff, h.FileSize = h.SectionsOff, h.SectionsOff, h.SectionsOff+h.NChunks*24
		}},
	} {
		head := sample()[:abi.PageBytes]
		var h abi.ImageHeader
		if _, err := abi.Decode(head, &h); err != nil {
			t.Fatal(err)
		}
		h.FileSize = size
		c.edit(&h)
		copy(head, abi.Encode(h, ""))
		imagetest.Seal(head)
		var err error
		used := allocated(func() { _, err = format.Read(huge{head}, int64(h.FileSize)) })
		if err == nil || used > format.Allowance {
			t.Errorf("%s: %d bytes were allocated, at most %d wanted; error %v", c.name, used, format.Allowance, err)
		}
	}
}

// allocated is how many bytes f makes.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestDamage(t *testing.T) {
	edit := func(f func(b []byte) []byte) []byte { return f(sample()) }
	for _, c := range []struct {
		name, want string
		file       []byte
	}{
		{"empty", "0 bytes, wanted 4096", nil},
		{"no header", "never written", edit(func(b []byte) []byte { clear(b[:4096]); return b })},
		{"other file", "not an image", edit(func(b []byte) []byte { copy(b, "\x7fELF"); return b })},
		{"future", "format version 9", edit(func(b []byte) []byte { b[8] = 9; return b })},
		{"truncated", "bytes, wanted", edit(func(b []byte) []byte { return b[:len(b)-4096] })},
		{"data", "chunk 0 at 0x400000000000: crc32c", edit(func(b []byte) []byte { b[5000] ^= 1; return b })},
	} {
		_, err := check(c.file)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	_, err := check(make([]byte, 8192))
	if !errors.Is(err, format.ErrIncomplete) {
		t.Errorf("zeros: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(sample()[:4096])
	small := imagetest.Bytes(imagetest.Spec{NRanks: 1, Memory: []byte("x"), Name: "n"})
	f.Add(small)
	for _, cut := range []int{0, 100, 4095, 4097, len(small) - 1} {
		f.Add(small[:cut])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= abi.PageBytes { // let the fuzzer past the header's checksum
			imagetest.Seal(b)
		}
		var im *format.Image
		var err error
		if used := allocated(func() { im, err = check(b) }); used > format.Allowance+8*uint64(len(b)) {
			t.Errorf("%d bytes were allocated for %d", used, len(b))
		}
		if err == nil && uint64(len(im.Chunks)) != im.Header.NChunks {
			t.Errorf("%d chunks, the header says %d", len(im.Chunks), im.Header.NChunks)
		}
	})
}
