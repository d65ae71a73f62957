package part_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/store/format/imagetest"
	"github.com/byssus-hpc/byssus/internal/store/part"
)

// TestCopyImage: what is copied is what was written, and whose fault it is when it cannot be.
func TestCopyImage(t *testing.T) {
	good := imagetest.Bytes(imagetest.Spec{NRanks: 1, Memory: bytes.Repeat([]byte("mussel "), 300000), Name: "[heap]"})
	header, err := format.ReadHeader(bytes.NewReader(good), int64(len(good)))
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	ended, end := context.WithCancel(t.Context())
	end()
	for what, c := range map[string]struct {
		content []byte // nil: no file
		ctx     context.Context
		there   bool // something where it is copied to
		damaged bool
		err     error
	}{
		"good":      {good, t.Context(), false, false, nil},
		"flipped":   {flipped, t.Context(), false, true, nil},
		"truncated": {good[:len(good)/2], t.Context(), false, true, nil},
		"gone":      {nil, t.Context(), false, true, fs.ErrNotExist},
		"no room":   {good, t.Context(), true, false, fs.ErrExist},
		"ended":     {good, ended, false, false, context.Canceled},
	} {
		t.Run(what, func(t *testing.T) {
			const name = "rank-00000.0.img"
			from, to := t.TempDir(), t.TempDir()
			if c.content != nil {
				if err := os.WriteFile(filepath.Join(from, name), c.content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.there {
				if err := os.WriteFile(filepath.Join(to, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			k, err := part.OfKind(holding.Image)
			if err != nil {
				t.Fatal(err)
			}
			files := []holding.File{{Name: name, Size: int64(len(good)), Digest: uint64(header.HeaderCRC)}}
			err = k.Copy(c.ctx, from, to, files, true)
			if errors.Is(err, part.ErrDamaged) != c.damaged || c.err != nil && !errors.Is(err, c.err) || err == nil != (t.Name() == "TestCopyImage/good") {
				t.Fatalf("found %v, wanted damage: %v, error: %v", err, c.damaged, c.err)
			}
			if found, rerr := os.ReadFile(filepath.Join(to, name)); err == nil && (rerr != nil || !bytes.Equal(found, good)) {
				t.Errorf("%d bytes, %v, wanted %d", len(found), rerr, len(good))
			}
		})
	}
}
