package format_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/abi"
	"github.com/byssus-hpc/byssus/internal/format"
	"github.com/byssus-hpc/byssus/internal/format/imagetest"
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
	if len(im.Chunks) != 3 || len(im.VMAs) != 1 || im.Name(im.VMAs[0]) != "[heap]" || im.Header.Checkpoint != 7 {
		t.Errorf("%d chunks, %d mappings, header %+v", len(im.Chunks), len(im.VMAs), im.Header)
	}
}

// TestEveryBitCounts flips bits all over the file; only padding between chunks may go unnoticed.
func TestEveryBitCounts(t *testing.T) {
	good := sample()
	im, err := check(good)
	if err != nil {
		t.Fatal(err)
	}
	padding := func(i uint64) bool {
		last := im.Chunks[len(im.Chunks)-1]
		if i >= last.Offset+uint64(last.Length) && i < im.Header.VMAsOff {
			return true
		}
		return i >= uint64(len(good))-7
	}
	step := 1
	for i := 0; i < len(good); i += step {
		if step = 1; i > abi.PageBytes && i < int(im.Header.VMAsOff)-10 {
			step = 8191
		}
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		if _, err := check(bad); err == nil && !padding(uint64(i)) {
			t.Fatalf("byte %d: a flipped bit went unnoticed", i)
		}
	}
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
			crc := format.Checksum(b[:abi.HeaderCRCOff])
			for i := range 4 {
				b[abi.HeaderCRCOff+i] = byte(crc >> (8 * i))
			}
		}
		im, err := check(b)
		if err == nil {
			for _, v := range im.VMAs {
				_ = im.Name(v)
			}
		}
	})
}
