package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
)

// flushAndSay copies images to the store that all nodes see.
func (n *Node) flushAndSay(ctx context.Context, o control.Flush) {
	n.cfg.Faults.Hit(faults.FlushBegun)
	part, err := n.flush(ctx, o)
	n.cfg.Faults.Hit(faults.FlushDone)
	n.sealed(0, o.Order, part, err)
}

func (n *Node) flush(ctx context.Context, o control.Flush) (*dataset.Part, error) {
	from, to := n.store.Path(o.Checkpoint), n.cfg.Flush.Path(o.Checkpoint)+".tmp"
	m, err := dataset.ReadManifest(from)
	if err != nil {
		return nil, damaged(ctx, err)
	}
	if err := dataset.CheckDir(to); err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		if !slices.Contains(o.Ranks, f.Rank()) {
			continue
		}
		if err := copyImage(ctx, filepath.Join(from, f.Name), filepath.Join(to, f.Name)); err != nil {
			return nil, fmt.Errorf("agent: flush checkpoint %d: %w", o.Checkpoint, err)
		}
	}
	return n.cfg.Flush.Seal(o.Checkpoint, o.Ranks)
}

// copyImage makes a new file with the content of an image, all of which is compared with its checksums on the way: what is copied may
// be all that is left of it later.
func copyImage(ctx context.Context, from, to string) error {
	im, err := openImage(ctx, from)
	if err != nil {
		return damaged(ctx, err)
	}
	defer im.file.Close()
	var out io.WriteCloser = nowhere{}
	if os.Link(from, to) != nil {
		if out, err = os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600); err != nil {
			return err
		}
	}
	var unwritten error
	err = im.Each(im.from, func(b []byte) error {
		_, unwritten = out.Write(b)
		return unwritten
	})
	if err != nil && unwritten == nil {
		err = damaged(ctx, fmt.Errorf("%s: %w", filepath.Base(from), err))
	}
	return errors.Join(err, out.Close())
}

// nowhere is where an image is copied that is only looked at.
type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) Close() error                { return nil }

const copyPiece = 1 << 20 // bytes

// copyFile makes a new file with the content of another: on the same file system another name, since nobody writes to files of a
// checkpoint that counts.
func copyFile(ctx context.Context, from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	st, err := in.Stat()
	if err == nil {
		_, err = io.CopyBuffer(struct{ io.Writer }{out}, io.NewSectionReader(&heeding{ctx, in}, 0, st.Size()), make([]byte, copyPiece))
	}
	return errors.Join(err, out.Close())
}

// heeding reads until a context ends.
type heeding struct {
	ctx  context.Context
	from io.ReaderAt
}

func (h *heeding) ReadAt(b []byte, off int64) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	return h.from.ReadAt(b, off)
}
