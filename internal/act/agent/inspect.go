package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/own"
	"github.com/byssus-hpc/byssus/internal/store/parity"
	"github.com/byssus-hpc/byssus/internal/store/part"
)

// Inspect reads all that a node's part of a dataset has, in a cache or where it was copied to, and says what of it is not as it was
// written. progress is told the bytes read since the last call.
func Inspect(ctx context.Context, dir string, progress func(int64)) error {
	m, err := dataset.Check(dir)
	if err != nil {
		return err
	}
	files, err := m.Parts()
	if err == nil {
		err = intact(ctx, dir, files, progress)
	}
	for _, name := range m.Parity {
		if err == nil {
			err = inspectKept(ctx, dir, name, progress)
		}
	}
	return err
}

// intact reads files of parts, and says what is damaged first.
func intact(ctx context.Context, dir string, files []holding.File, progress func(int64)) error {
	found, err := part.Verify(ctx, dir, files, progress)
	if err == nil && len(found) > 0 {
		err = errors.New(found[0].Why)
	}
	return err
}

// inspectKept reads what the node keeps for others.
func inspectKept(ctx context.Context, dir, name string, progress func(int64)) error {
	f, st, err := own.Open(filepath.Join(dir, name), os.O_RDONLY)
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
	return intact(ctx, dir, kept.Members[before(&kept.Header)].Files, progress)
}
