package agent

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/store/parity"
)

// damage is an error that lies in what the cache has.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

// damaged says so of an error, unless it follows from the end of a context.
func damaged(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return damage{err}
}

// image is an open image file, whose tables are as they were written.
type image struct {
	*format.Image
	file *os.File
	from io.ReaderAt // the same, until a context ends
}

func openImage(ctx context.Context, path string) (*image, error) {
	f, st, err := dataset.OpenOwn(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	im := &image{file: f, from: &heeding{ctx, f}}
	if im.Image, err = format.Read(im.from, st.Size()); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return im, nil
}

// Inspect reads all that a node's part of a checkpoint has, in a cache or where it was copied to, and says what of it is not as it was
// written. progress is told the bytes read since the last call.
func Inspect(ctx context.Context, dir string, progress func(int64)) error {
	m, err := dataset.Check(dir)
	if err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := inspectImage(ctx, dir, f.Name, nil, progress); err != nil {
			return err
		}
	}
	for _, name := range m.Parity {
		if err := inspectKept(ctx, dir, name, progress); err != nil {
			return err
		}
	}
	return nil
}

// inspectImage reads an image, of which is recorded how large it was, and with which digest, if want is not nil.
func inspectImage(ctx context.Context, dir, name string, want *holding.File, progress func(int64)) error {
	im, err := openImage(ctx, filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer im.file.Close()
	if found := (holding.File{Name: name, Size: int64(im.Header.FileSize), Digest: uint64(im.Header.HeaderCRC)}); want != nil && found != *want {
		return fmt.Errorf("agent: found %+v, wanted %+v", found, *want)
	}
	if err := im.VerifyData(im.from, progress); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// inspectKept reads what the node keeps for others.
func inspectKept(ctx context.Context, dir, name string, progress func(int64)) error {
	f, st, err := dataset.OpenOwn(filepath.Join(dir, name), os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	kept, err := parity.Open(&heeding{ctx, f}, st.Size())
	if err == nil {
		err = kept.Verify(progress)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if kept.Scheme != redset.Partner {
		return nil
	}
	for _, file := range kept.Members[before(&kept.Header)].Files {
		if err := inspectImage(ctx, dir, file.Name, &file, progress); err != nil {
			return err
		}
	}
	return nil
}
