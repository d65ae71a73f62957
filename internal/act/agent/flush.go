package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/own"
	"github.com/byssus-hpc/byssus/internal/store/part"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
)

// flushAndSay copies images to the store that all nodes see.
func (n *Node) flushAndSay(ctx context.Context, o control.Flush) {
	n.cfg.Faults.Hit(faults.FlushBegun)
	part, err := n.flushRouted(ctx, o)
	n.cfg.Faults.Hit(faults.FlushDone)
	n.sealed(0, o.Order, part, err)
}

// flushRouted copies files that are led only as long as the program has nothing else by their names.
func (n *Node) flushRouted(ctx context.Context, o control.Flush) (*dataset.Part, error) {
	r := n.leading()
	if r == nil || o.Stream != Written || o.Prefix == "" {
		return n.flush(ctx, o)
	}
	end, err := r.publishing(o.Checkpoint, n.of(o.Stream).Path(o.Checkpoint), o.Ranks)
	if err != nil {
		return nil, fmt.Errorf("agent: dataset %d: %w", o.Checkpoint, err)
	}
	p, err := n.flush(ctx, o)
	end(err == nil)
	return p, err
}

func (n *cache) flush(ctx context.Context, o control.Flush) (*dataset.Part, error) {
	store, all := n.of(o.Stream), n.cfg.Flush.Of(o.Stream)
	from, to := store.Path(o.Checkpoint), all.Path(o.Checkpoint)+".tmp"
	m, err := dataset.ReadManifest(from)
	if err != nil {
		return nil, part.Damaged(ctx, err)
	}
	if err := own.Dir(to); err != nil {
		return nil, err
	}
	files, err := m.Parts()
	if err != nil {
		return nil, part.Damaged(ctx, err)
	}
	files = slices.DeleteFunc(files, func(f holding.File) bool { return !slices.Contains(o.Ranks, f.Rank) })
	err = part.Split(files, func(k part.Kind, files []holding.File) error {
		if o.Prefix != "" {
			return part.Publish(ctx, from, to, o.Prefix, files, all.Meta.Fsync)
		}
		return k.Copy(ctx, from, to, files, all.Meta.Fsync)
	})
	if err != nil {
		return nil, fmt.Errorf("agent: flush checkpoint %d: %w", o.Checkpoint, err)
	}
	p := &dataset.Part{Files: files}
	if slices.Contains(o.Ranks, 0) {
		p.MPI, p.App = m.MPI, m.App
	}
	if err := all.CheckPart(o.Checkpoint, p); err != nil {
		return nil, err
	}
	return p, all.SyncPart(o.Checkpoint, p)
}

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
		err = copyBytes(ctx, in, part.Sparse{File: out}, st.Size())
	}
	return errors.Join(err, out.Close())
}

// copyBytes fills a new file.
func copyBytes(ctx context.Context, from io.ReaderAt, to part.Sparse, size int64) error {
	buf := make([]byte, min(copyPiece, size))
	for at := int64(0); at < size; at += int64(len(buf)) {
		b := buf[:min(int64(len(buf)), size-at)]
		if err := ctx.Err(); err != nil {
			return err
		}
		if n, err := from.ReadAt(b, at); n < len(b) {
			return fmt.Errorf("%d bytes at %d, wanted %d: %w", n, at, len(b), err)
		}
		if _, err := to.WriteAt(b, at); err != nil {
			return err
		}
	}
	return to.Truncate(size)
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
