package part

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/store/own"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// image are images: files that bring their own checksums. The digest of each is the checksum of its header, which has those of the
// tables, which have those of the data.
type image struct{}

// ImageName is the name of a part of a rank's image in its checkpoint's directory.
func ImageName(rank, part int) string { return fmt.Sprintf("rank-%05d.%d.img", rank, part) }

// Seal is Kind's.
func (image) Seal(_ context.Context, dir string, rank int, of Of, durable bool) (Sealed, error) {
	var s Sealed
	for part, nparts := 0, 1; part < nparts; part++ {
		name := ImageName(rank, part)
		h, size, err := ReadImageHeader(filepath.Join(dir, name))
		if err == nil {
			err = of.belongs(h, rank, part)
		}
		if err == nil && durable {
			err = syncFile(filepath.Join(dir, name))
		}
		if err != nil {
			return s, fmt.Errorf("%s: %w", name, err)
		}
		if nparts = int(h.NParts); rank == 0 && part == 0 {
			s.MPI, s.App = abi.Text(h.MPI[:]), abi.Text(h.App[:])
		}
		s.Files = append(s.Files, holding.File{Name: name, Size: size, Digest: uint64(h.HeaderCRC), Rank: rank})
	}
	return s, nil
}

// Check is Kind's.
func (image) Check(dir string, rank int, of Of, files []holding.File) error {
	for i, want := range files {
		if name := ImageName(rank, i); want.Name != name {
			return fmt.Errorf("%s: is not in the manifest", name)
		}
		h, size, err := ReadImageHeader(filepath.Join(dir, want.Name))
		if err == nil {
			err = of.belongs(h, rank, i)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", want.Name, err)
		}
		if uint64(h.HeaderCRC) != want.Digest || size != want.Size {
			return fmt.Errorf("%s: %d bytes, header crc32c %08x, the manifest wants %d, %08x", want.Name, size, h.HeaderCRC, want.Size, want.Digest)
		}
		if i == 0 && int(h.NParts) > len(files) {
			return fmt.Errorf("%s: is not in the manifest", ImageName(rank, len(files)))
		}
		if i == 0 && int(h.NParts) < len(files) {
			return fmt.Errorf("%s: the manifest has %d parts of the image, wanted %d", want.Name, len(files), h.NParts)
		}
	}
	return nil
}

func (of Of) belongs(h *abi.ImageHeader, rank, part int) error {
	id := hex.EncodeToString(h.JobID[:])
	switch {
	case int(h.Rank) != rank || int(h.Part) != part || int(h.NRanks) != of.Ranks:
		return fmt.Errorf("found rank %d of %d, part %d, wanted rank %d of %d, part %d", h.Rank, h.NRanks, h.Part, rank, of.Ranks, part)
	case id != of.Job || h.Checkpoint != of.Dataset:
		return fmt.Errorf("found job %s, checkpoint %d, wanted job %s, checkpoint %d", id, h.Checkpoint, of.Job, of.Dataset)
	}
	return nil
}

// ReadImageHeader reads the header of an image, and says how long the file is.
func ReadImageHeader(path string) (*abi.ImageHeader, int64, error) {
	f, st, err := own.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	h, err := format.ReadHeader(f, st.Size())
	return h, st.Size(), err
}

// openImage opens an image and reads its tables. Reading from it ends with a context.
func openImage(ctx context.Context, dir string, want holding.File) (*format.Image, *heeding, error) {
	f, st, err := own.Open(filepath.Join(dir, want.Name), os.O_RDONLY)
	if err != nil {
		return nil, nil, err
	}
	from := &heeding{ctx, f}
	im, err := format.Read(from, st.Size())
	if err == nil && (im.Header.FileSize != uint64(want.Size) || uint64(im.Header.HeaderCRC) != want.Digest) {
		err = fmt.Errorf("found %d bytes, header crc32c %08x, wanted %d, %08x", im.Header.FileSize, im.Header.HeaderCRC, want.Size, want.Digest)
	}
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("%s: %w", want.Name, err)
	}
	return im, from, nil
}

// Verify is Kind's. Of an image whose tables are good the chunks are known that are damaged; else all of it is.
func (image) Verify(ctx context.Context, dir string, files []holding.File, progress func(int64)) ([]Damage, error) {
	var all []Damage
	var begin int64
	for _, f := range files {
		im, from, err := openImage(ctx, dir, f)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			all = append(all, Damage{begin, begin + f.Size, err.Error()})
			begin += f.Size
			continue
		}
		im.Damaged(from, progress, func(c abi.Chunk, err error) {
			all = append(all, Damage{begin + int64(c.Offset), begin + int64(c.Offset) + int64(c.Length), fmt.Sprintf("%s: %v", f.Name, err)})
		})
		from.file.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		begin += f.Size
	}
	return all, nil
}

// Copy is Kind's. On the same file system a file gets another name, since nobody writes to files of a checkpoint that counts, and is only
// looked at.
func (image) Copy(ctx context.Context, from, to string, files []holding.File, durable bool) error {
	for _, f := range files {
		if err := copyImage(ctx, from, to, f); err != nil {
			return err
		}
		if durable {
			if err := syncFile(filepath.Join(to, f.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyImage(ctx context.Context, from, to string, f holding.File) error {
	im, in, err := openImage(ctx, from, f)
	if err != nil {
		return Damaged(ctx, err)
	}
	defer in.file.Close()
	var out io.WriteCloser = nowhere{}
	if os.Link(filepath.Join(from, f.Name), filepath.Join(to, f.Name)) != nil {
		if out, err = create(to, f.Name); err != nil {
			return err
		}
	}
	var unwritten error
	err = im.Each(in, func(b []byte) error {
		_, unwritten = out.Write(b)
		return unwritten
	})
	if err != nil && unwritten == nil {
		err = Damaged(ctx, fmt.Errorf("%s: %w", f.Name, err))
	}
	return errors.Join(err, out.Close())
}

// Damaged says so of an error, unless it follows from the end of a context.
func Damaged(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// nowhere is where an image is copied that is only looked at.
type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) Close() error                { return nil }

// Open is Kind's.
func (image) Open(dir string, files []holding.File, how How, reuse func(name string) bool) (Opened, error) {
	var o Opened
	var opened []*os.File
	if how == ToCompare {
		return o, fmt.Errorf("part: %s: an image is compared with its checksums as a whole", files[0].Name)
	}
	for _, file := range files {
		f, body, err := openFile(dir, file, how, reuse)
		if err != nil {
			o.Close()
			return Opened{}, err
		}
		o.Bodies, opened = append(o.Bodies, body), append(opened, f)
	}
	o.Finish = func(durable bool) error {
		for _, f := range opened {
			if err := syncIf(f, durable); err != nil {
				return err
			}
		}
		return nil
	}
	return o, nil
}

// openFile opens one that is a file in the dataset's directory.
func openFile(dir string, file holding.File, how How, reuse func(name string) bool) (*os.File, Body, error) {
	switch {
	case how == ToRead:
		f, _, err := own.Open(filepath.Join(dir, file.Name), os.O_RDONLY)
		return f, f, err
	case how == ToMake && (reuse == nil || !reuse(file.Name)):
		f, err := create(dir, file.Name)
		if err == nil {
			err = f.Truncate(file.Size)
		}
		return f, Sparse{f}, err
	}
	flags := os.O_RDWR
	if how == ToWrite {
		flags |= os.O_CREATE
	}
	f, st, err := own.Open(filepath.Join(dir, file.Name), flags)
	if err == nil && (st.Size() > file.Size || how == ToWrite && st.Size() != file.Size) {
		err = f.Truncate(file.Size)
	}
	return f, f, err
}

func create(dir, name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
}

func syncIf(f *os.File, durable bool) error {
	if !durable {
		return nil
	}
	return f.Sync()
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// Sparse is a new file, which is nothing but a hole: zeros that are written leave it so.
type Sparse struct{ *os.File }

// WriteAt writes what is not zero.
func (h Sparse) WriteAt(b []byte, off int64) (int, error) {
	if format.AllZero(b) {
		return len(b), nil
	}
	return h.File.WriteAt(b, off)
}

// heeding reads until a context ends.
type heeding struct {
	ctx  context.Context
	file *os.File
}

func (h *heeding) ReadAt(b []byte, off int64) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	return h.file.ReadAt(b, off)
}
