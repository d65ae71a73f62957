package files

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// Range is a piece of the contents of a rank's files.
type Range struct{ From, To int64 }

// Damage is what is not as it was written.
type Damage struct {
	Range
	Why string // with path and place
}

// Open reads a rank's index in a dataset's directory.
func Open(dir string, rank int) (*Index, error) {
	f, err := os.OpenFile(filepath.Join(dir, IndexName(rank)), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	defer f.Close()
	x, err := Read(f)
	if err == nil && x.Rank != rank {
		err = fmt.Errorf("files: %s: index of rank %d", IndexName(rank), x.Rank)
	}
	return x, err
}

// Count is how many files a rank has in a dataset's directory, as its index says: it is not read but for that.
func Count(dir string, rank int) (uint64, error) {
	f, err := os.OpenFile(filepath.Join(dir, IndexName(rank)), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("files: %w", err)
	}
	defer f.Close()
	var h abi.IndexHeader
	b := make([]byte, binary.Size(h))
	if _, err = f.ReadAt(b, 0); err == nil {
		_, err = abi.Decode(b, &h)
	}
	if err == nil && (string(h.Magic[:]) != abi.IndexMagic || h.Rank != uint32(rank)) {
		err = errors.New("not an index of this rank")
	}
	if err != nil {
		return 0, fmt.Errorf("files: %s: %w", IndexName(rank), err)
	}
	return h.NFiles, nil
}

// Verify reads all files and says where they are not as they were written: chunk by chunk, and whole files that are not there or not as
// long as they were. progress is told the bytes read since the last call.
func (x *Index) Verify(ctx context.Context, dir string, progress func(int64)) ([]Damage, error) {
	root, err := os.OpenRoot(filepath.Join(dir, ContentName(x.Rank)))
	if errors.Is(err, fs.ErrNotExist) {
		return []Damage{{Range{0, x.Size}, ContentName(x.Rank) + " is not there"}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	defer root.Close()
	var all []Damage
	var begin int64
	for i := range x.Files {
		found, err := x.Files[i].verify(ctx, root, begin, progress)
		if err != nil {
			return nil, fmt.Errorf("files: %s: %w", x.Files[i].Path, err)
		}
		all, begin = append(all, found...), begin+x.Files[i].Size
	}
	return all, nil
}

// verify looks at one file, whose first byte is at begin. What cannot be read is damaged; an error is that of the context.
func (f *File) verify(ctx context.Context, root *os.Root, begin int64, progress func(int64)) ([]Damage, error) {
	whole := func(format string, args ...any) []Damage {
		return []Damage{{Range{begin, begin + f.Size}, f.Path + ": " + fmt.Sprintf(format, args...)}}
	}
	file, err := root.OpenFile(f.Path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return whole("%v", errors.Unwrap(err)), nil
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() != f.Size {
		return whole("found %v of %d bytes, wanted a file of %d", st.Mode(), st.Size(), f.Size), nil
	}
	var all []Damage
	buf := make([]byte, min(Chunk, f.Size))
	for at := int64(0); at < f.Size; at += Chunk {
		length := min(Chunk, f.Size-at)
		err := f.sameChunk(ctx, file, at, buf[:length])
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			all = append(all, Damage{Range{begin + at, begin + at + length}, fmt.Sprintf("%s: %d bytes at %d: %v", f.Path, length, at, err)})
		}
		progress(length)
	}
	return all, nil
}

// sameChunk compares a chunk with its checksum.
func (f *File) sameChunk(ctx context.Context, file *os.File, at int64, buf []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if n, err := file.ReadAt(buf, at); n < len(buf) {
		return err
	}
	if crc, want := format.Checksum(buf), f.Sums[at/Chunk]; crc != want {
		return fmt.Errorf("crc32c %08x, wanted %08x", crc, want)
	}
	return nil
}

// Copy copies a rank's part from one dataset's directory to another, and compares it with its checksums on the way: what is copied may be
// all that is left of it later. ErrDamaged: it is not as it was written.
func Copy(ctx context.Context, from, to string, rank int, durable bool) (*Index, error) {
	x, err := Open(from, rank)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := x.store(to, durable); err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	in, out := x.Read(from), MakeAgain(to, rank, nil, nil)
	out.index = in.index
	defer in.Close()
	defer out.Close()
	if err := x.copyAll(ctx, in, out); err != nil {
		return nil, err
	}
	return x, out.Finish(durable)
}

// ErrDamaged marks what is not as it was written.
var ErrDamaged = errors.New("damaged")

func (x *Index) copyAll(ctx context.Context, in, out *Content) error {
	var begin int64
	buf := make([]byte, min(Chunk, x.Size))
	for i := range x.Files {
		f := &x.Files[i]
		for at := int64(0); at < f.Size; at += Chunk {
			if err := ctx.Err(); err != nil {
				return err
			}
			b := buf[:min(Chunk, f.Size-at)]
			if err := f.readGood(in, begin, at, b); err != nil {
				return fmt.Errorf("files: %s: %w", f.Path, err)
			}
			if _, err := out.WriteAt(b, begin+at); err != nil {
				return err
			}
		}
		begin += f.Size
	}
	return nil
}
