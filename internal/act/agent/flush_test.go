package agent

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/byssus-hpc/byssus/internal/store/format/imagetest"
)

// TestCopyImage: what is copied is what was written, and whose fault it is when it cannot be.
func TestCopyImage(t *testing.T) {
	good := imagetest.Bytes(imagetest.Spec{NRanks: 1, Memory: bytes.Repeat([]byte("mussel "), 300000), Name: "[heap]"})
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	ended, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
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
		t.Run(name, func(t *testing.T) {
			from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
			if c.content != nil {
				if err := os.WriteFile(from, c.content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.there {
				if err := os.WriteFile(to, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := copyImage(c.ctx, from, to)
			if errors.As(err, new(damage)) != c.damaged || c.err != nil && !errors.Is(err, c.err) || err == nil != (name == "good") {
				t.Fatalf("found %v, wanted damage: %v, error: %v", err, c.damaged, c.err)
			}
			if found, rerr := os.ReadFile(to); err == nil && (rerr != nil || !bytes.Equal(found, good)) {
				t.Errorf("%d bytes, %v, wanted %d", len(found), rerr, len(good))
			}
		})
	}
}
