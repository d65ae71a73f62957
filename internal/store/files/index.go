// Package files makes of the files that a rank has written a part of a dataset: an index, which has paths, sizes and a checksum for each
// MiB, and what the files contain, one behind the other in the order of their paths.
//
//	ckpt.000012/rank-00003.index         the index
//	ckpt.000012/rank-00003.files/a/b     the files, as they lie below the rank's directory
//
// It guarantees: a part is made only of regular files that nobody has open for writing; a changed byte, anywhere, is found by Verify with
// the MiB that it is in; holes stay holes; bytes of an index never cause a panic, name nothing outside of the rank's directory, and
// take no more memory than MaxIndex and what they are. Empty directories, owners, links and extended attributes are not part of it.
//
// The structures are defined in abi and drawn in docs/format.
package files

import (
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// Limits, for writers and readers.
const (
	MaxIndex = 256 << 20 // bytes: for 60 TiB in large files, or two million small ones
	MaxPath  = 4095
	maxName  = 255 // of one element of a path
)

// Chunk is how many bytes of a file have one checksum.
const Chunk = abi.IndexChunk

// File is one of a rank's files.
type File struct {
	Path    string // below the rank's directory, with slashes
	Size    int64
	Mode    fs.FileMode // permissions
	ModTime time.Time
	Sums    []uint32 // by chunk
}

// Index lists what a rank has written.
type Index struct {
	Rank   int
	Files  []File // by path
	Size   int64  // bytes of all files
	Digest uint32 // the checksum of the index, which has all others
	Bytes  int64  // of the index itself, as stored
}

// IndexName is the name of a rank's index in its dataset's directory.
func IndexName(rank int) string { return fmt.Sprintf("rank-%05d.index", rank) }

// ContentName is the name of the directory of a rank's files in its dataset's directory.
func ContentName(rank int) string { return fmt.Sprintf("rank-%05d.files", rank) }

func chunks(size int64) int64 { return (size + Chunk - 1) / Chunk }

const align = 8

func fill(b []byte) []byte { return append(b, make([]byte, -len(b)&(align-1))...) }

// encode returns the stored form, and completes x by what it says about that.
func (x *Index) encode() ([]byte, error) {
	b := make([]byte, binary.Size(abi.IndexHeader{}))
	x.Size = 0
	for _, f := range x.Files {
		head := abi.IndexFile{Size: uint64(f.Size), MTime: f.ModTime.UnixNano(), Mode: uint32(f.Mode.Perm()), PathLen: uint32(len(f.Path))}
		b = fill(append(b, abi.Encode(head, f.Path)...))
		b = fill(append(b, abi.Encode(f.Sums, "")...))
		x.Size += f.Size
	}
	const crcBytes = 4
	x.Bytes = int64(len(b)) + crcBytes
	if x.Bytes > MaxIndex {
		return nil, fmt.Errorf("files: index of rank %d: %d bytes for %d files, at most %d", x.Rank, x.Bytes, len(x.Files), int64(MaxIndex))
	}
	h := abi.IndexHeader{Version: abi.IndexVersion, Rank: uint32(x.Rank), NFiles: uint64(len(x.Files)), Bytes: uint64(x.Size),
		IndexSize: uint64(x.Bytes), ChunkSize: Chunk}
	copy(h.Magic[:], abi.IndexMagic)
	copy(b, abi.Encode(h, ""))
	x.Digest = format.Checksum(b)
	return binary.LittleEndian.AppendUint32(b, x.Digest), nil
}

// Parse reads the stored form.
func Parse(b []byte) (*Index, error) {
	x, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("files: index: %w", err)
	}
	return x, nil
}

func parse(b []byte) (*Index, error) {
	var h abi.IndexHeader
	rest, err := abi.Decode(b, &h)
	switch {
	case err != nil:
		return nil, err
	case h == abi.IndexHeader{}:
		return nil, format.ErrIncomplete
	case string(h.Magic[:]) != abi.IndexMagic:
		return nil, fmt.Errorf("magic %q, wanted %q: not an index", h.Magic[:], abi.IndexMagic)
	case h.Version != abi.IndexVersion:
		return nil, fmt.Errorf("format version %d, this byssus reads %d", h.Version, abi.IndexVersion)
	case h.IndexSize != uint64(len(b)) || len(rest) < 4:
		return nil, fmt.Errorf("%d bytes, its header says %d", len(b), h.IndexSize)
	}
	end := len(rest) - 4
	x := &Index{Rank: int(h.Rank), Digest: binary.LittleEndian.Uint32(rest[end:]), Bytes: int64(len(b))}
	switch crc := format.Checksum(b[:len(b)-4]); {
	case crc != x.Digest:
		return nil, fmt.Errorf("crc32c %08x, wanted %08x", crc, x.Digest)
	case h.Incompat != 0:
		return nil, fmt.Errorf("needs features %#x that this byssus does not know", h.Incompat)
	case h.ChunkSize != Chunk || h.Rank > math.MaxInt32:
		return nil, fmt.Errorf("rank %d, chunks of %d bytes, wanted %d", h.Rank, h.ChunkSize, Chunk)
	}
	rest = rest[:end]
	for i := range h.NFiles {
		var f File
		if f, rest, err = parseFile(rest); err == nil {
			err = x.add(f)
		}
		if err != nil {
			return nil, fmt.Errorf("file %d of %d: %w", i, h.NFiles, err)
		}
	}
	if len(rest) > 0 || x.Size != int64(h.Bytes) {
		return nil, fmt.Errorf("%d bytes are left, its files have %d, wanted none, and %d", len(rest), x.Size, h.Bytes)
	}
	return x, x.check()
}

// parseFile reads a file's record from the start of b.
func parseFile(b []byte) (File, []byte, error) {
	var r abi.IndexFile
	rest, err := abi.Decode(b, &r)
	if err != nil {
		return File{}, nil, err
	}
	path, rest, err := take(rest, uint64(r.PathLen), MaxPath)
	if err != nil {
		return File{}, nil, fmt.Errorf("path: %w", err)
	}
	f := File{Path: string(path), Size: int64(r.Size), Mode: fs.FileMode(r.Mode).Perm(), ModTime: time.Unix(0, r.MTime)}
	if f.Size < 0 || f.Size > math.MaxInt64-Chunk {
		return File{}, nil, fmt.Errorf("%d bytes", r.Size)
	}
	sums, rest, err := take(rest, uint64(chunks(f.Size))*4, MaxIndex)
	if err != nil {
		return File{}, nil, fmt.Errorf("checksums: %w", err)
	}
	for ; len(sums) > 0; sums = sums[4:] {
		f.Sums = append(f.Sums, binary.LittleEndian.Uint32(sums))
	}
	return f, rest, nil
}

// take splits n bytes off, and what pads them.
func take(b []byte, n, most uint64) (taken, rest []byte, err error) {
	if n > most || n > uint64(len(b)) {
		return nil, nil, fmt.Errorf("%d bytes, %d are left, at most %d", n, len(b), most)
	}
	pad := int(-n & (align - 1))
	if int(n)+pad > len(b) {
		return nil, nil, fmt.Errorf("%d bytes and %d more, %d are left", n, pad, len(b))
	}
	return b[:n], b[int(n)+pad:], nil
}

func (x *Index) add(f File) error {
	if err := checkPath(f.Path); err != nil {
		return err
	}
	if f.Size > math.MaxInt64-x.Size {
		return fmt.Errorf("%s: %d bytes behind %d", f.Path, f.Size, x.Size)
	}
	x.Files, x.Size = append(x.Files, f), x.Size+f.Size
	return nil
}

// check wants paths in their order, none of which is a directory of another.
func (x *Index) check() error {
	seen := map[string]bool{}
	for i, f := range x.Files {
		if i > 0 && f.Path <= x.Files[i-1].Path {
			return fmt.Errorf("%q behind %q: wanted paths in their order", f.Path, x.Files[i-1].Path)
		}
		for at := strings.LastIndexByte(f.Path, '/'); at > 0; at = strings.LastIndexByte(f.Path[:at], '/') {
			if seen[f.Path[:at]] {
				return fmt.Errorf("%q is a file and the directory of %q", f.Path[:at], f.Path)
			}
		}
		seen[f.Path] = true
	}
	return nil
}

// checkPath wants a way down from a directory, of names that can be told in a line.
func checkPath(path string) error {
	bad := func(r rune) bool { return r < 0x20 || r == 0x7f }
	outside := func(name string) bool { return name == "" || name == "." || name == ".." || len(name) > maxName }
	if len(path) > MaxPath || strings.ContainsFunc(path, bad) || slices.ContainsFunc(strings.Split(path, "/"), outside) {
		return fmt.Errorf("%.60q: wanted a path below the rank's directory, of at most %d bytes, without control characters", path, MaxPath)
	}
	return nil
}

// Read reads an index that is as long as its header says.
func Read(r io.ReaderAt) (*Index, error) {
	var h abi.IndexHeader
	b := make([]byte, binary.Size(h))
	if _, err := r.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("files: index: header: %w", err)
	}
	if _, err := abi.Decode(b, &h); err != nil {
		return nil, fmt.Errorf("files: index: %w", err)
	}
	if h.IndexSize < uint64(len(b)) || h.IndexSize > MaxIndex {
		return Parse(b) // which says what is wrong
	}
	b, err := io.ReadAll(io.NewSectionReader(r, 0, int64(h.IndexSize)))
	if err != nil {
		return nil, fmt.Errorf("files: index: %w", err)
	}
	if uint64(len(b)) == h.IndexSize {
		var more [1]byte
		if n, _ := r.ReadAt(more[:], int64(h.IndexSize)); n > 0 {
			return nil, fmt.Errorf("files: index: longer than the %d bytes that its header says", h.IndexSize)
		}
	}
	return Parse(b)
}
