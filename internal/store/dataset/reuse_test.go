package dataset

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/store/part"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		t.Fatal(path, err)
	}
	return st.Ino
}

// TestReuse: the next checkpoint is written over the files of the one that was dropped, which make no whole image until then.
func TestReuse(t *testing.T) {
	j := newJob(t, 3)
	commit(t, j, 1)
	commit(t, j, 2)
	old := map[int]uint64{}
	for rank := range 3 {
		old[rank] = inode(t, filepath.Join(j.Checkpoints().Path(1), part.ImageName(rank, 0)))
	}
	if err := j.Checkpoints().Spares().Keep(1); err != nil {
		t.Fatal(err)
	}
	if all, err := j.Checkpoints().List(); err != nil || !slices.Equal(all, []uint64{2}) {
		t.Fatalf("found %v, %v, wanted 2 alone", all, err)
	}
	dir, err := j.Checkpoints().Prepare(3)
	if err != nil {
		t.Fatal(err)
	}
	j.Checkpoints().Spares().ReuseImages(3, []int{0, 2})
	for rank, want := range map[int]bool{0: true, 1: false, 2: true} {
		path := filepath.Join(dir, part.ImageName(rank, 0))
		_, err := os.Lstat(path)
		if err == nil != want {
			t.Errorf("rank %d: %v, wanted a file: %v", rank, err, want)
		}
		if want && inode(t, path) != old[rank] {
			t.Errorf("rank %d: another file", rank)
		}
	}
	if _, err := j.Checkpoints().Seal(context.Background(), 3, holding.Image, []int{0}); !errors.Is(err, format.ErrIncomplete) {
		t.Errorf("sealed with what lay there: %v, wanted %v", err, format.ErrIncomplete)
	}
	if !j.Checkpoints().Spares().Reuse(3, part.ImageName(1, 0)) || j.Checkpoints().Spares().Reuse(3, part.ImageName(1, 0)) || j.Checkpoints().Spares().Reuse(3, "parity.0.0") {
		t.Error("a file was not there once")
	}
}

// TestReuseMembers: a member of a group writes its snapshot over the one that was dropped.
func TestReuseMembers(t *testing.T) {
	j := newJob(t, 3)
	commit(t, j, 1)
	name := filepath.Join("rank-00001.files", "member-1")
	old := filepath.Join(j.Checkpoints().Path(1), name)
	if err := os.Mkdir(filepath.Dir(old), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, bytes.Repeat([]byte("x"), 3*abi.PageBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	want, filled := inode(t, old), time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	if err := os.Chtimes(old, filled, filled); err != nil {
		t.Fatal(err)
	}
	if err := j.Checkpoints().Spares().Keep(1); err != nil {
		t.Fatal(err)
	}
	dir, err := j.Checkpoints().Prepare(3)
	if err != nil {
		t.Fatal(err)
	}
	j.Checkpoints().Spares().ReuseMembers(3, []int{0, 1})
	if found := inode(t, filepath.Join(dir, name)); found != want {
		t.Errorf("found file %d, wanted %d", found, want)
	}
	if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(b) != 3*abi.PageBytes || b[0] != 0 {
		t.Errorf("%v: found %d bytes, wanted %d, the first page zeros", err, len(b), 3*abi.PageBytes)
	}
	if st, err := os.Stat(filepath.Join(dir, name)); err != nil || !st.ModTime().Equal(filled) {
		t.Errorf("%v: it does not say any more when it was filled, %v", err, filled)
	}
	if list, _ := os.ReadDir(filepath.Join(dir, "rank-00000.files")); len(list) != 0 {
		t.Errorf("member 0 has %v, wanted nothing", list)
	}
}

// TestRetired: the files of one checkpoint are kept, for as long as the job is locked.
func TestRetired(t *testing.T) {
	for _, fsync := range []bool{false, true} {
		j := newJob(t, 1)
		j.Meta.Fsync = fsync
		for n := range uint64(4) {
			commit(t, j, n+1)
		}
		for n := range uint64(3) {
			if err := j.Checkpoints().Spares().Keep(n + 1); err != nil {
				t.Fatal(err)
			}
			if found, want := j.Checkpoints().Spares().dirs(), []string{j.Checkpoints().Path(n+1) + ".drop"}; !slices.Equal(found, want) {
				t.Errorf("kept %v, wanted %v", found, want)
			}
		}
		if err := os.Mkdir(j.Checkpoints().Path(4)+".drop", 0o700); err != nil {
			t.Fatal(err)
		}
		part := filepath.Join(j.Checkpoints().Path(4)+".drop", part.ImageName(0, 0))
		if err := os.WriteFile(part, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := j.Checkpoints().Spares().Keep(4); err != nil || len(j.Checkpoints().Spares().dirs()) != 1 {
			t.Errorf("what was made again since: %v, kept %v", err, j.Checkpoints().Spares().dirs())
		}
		commit(t, j, 5)
		if err := errors.Join(j.Checkpoints().Spares().Keep(3), j.Checkpoints().Spares().Keep(7)); err != nil || len(j.Checkpoints().Spares().dirs()) != 1 {
			t.Errorf("what is not there: %v, kept %v", err, j.Checkpoints().Spares().dirs())
		}
		j.Unlock()
		if err := j.Lock(); err != nil || len(j.Checkpoints().Spares().dirs()) != 0 {
			t.Errorf("locked again: %v, kept %v", err, j.Checkpoints().Spares().dirs())
		}
		if err := errors.Join(j.Checkpoints().Spares().Keep(5), j.Checkpoints().Spares().Drop()); err != nil || len(j.Checkpoints().Spares().dirs()) != 0 {
			t.Errorf("released: %v, kept %v", err, j.Checkpoints().Spares().dirs())
		}
	}
}

// TestNotReused: what somebody else may read is not written over.
func TestNotReused(t *testing.T) {
	for what, share := range map[string]func(t *testing.T, path string) func(){
		"open": func(t *testing.T, path string) func() {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			return func() { f.Close() }
		},
		"mapped": func(t *testing.T, path string) func() {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			b, err := syscall.Mmap(int(f.Fd()), 0, abi.PageBytes, syscall.PROT_READ, syscall.MAP_PRIVATE)
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = syscall.Munmap(b) }
		},
		"another name": func(t *testing.T, path string) func() {
			other := filepath.Join(t.TempDir(), "other")
			if err := os.Link(path, other); err != nil {
				t.Fatal(err)
			}
			return func() { os.Remove(other) }
		},
		"a link": func(t *testing.T, path string) func() {
			other := path + ".other"
			if err := errors.Join(os.Rename(path, other), os.Symlink(other, path)); err != nil {
				t.Fatal(err)
			}
			return func() { _ = os.Rename(other, path) }
		},
	} {
		t.Run(what, func(t *testing.T) {
			j := newJob(t, 1)
			commit(t, j, 1)
			if err := j.Checkpoints().Spares().Keep(1); err != nil {
				t.Fatal(err)
			}
			dir, err := j.Checkpoints().Prepare(2)
			if err != nil {
				t.Fatal(err)
			}
			name := part.ImageName(0, 0)
			path := filepath.Join(j.Checkpoints().Spares().dirs()[0], name)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			end := share(t, path)
			if j.Checkpoints().Spares().Reuse(2, name) {
				t.Error("it is written over")
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("it has changed: %v", err)
			}
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				t.Error("there is a file in the checkpoint")
			}
			end()
			if !j.Checkpoints().Spares().Reuse(2, name) {
				t.Error("it is not written over when nobody else has it")
			}
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || len(b) != len(before) || bytes.ContainsFunc(b[:abi.PageBytes], func(r rune) bool { return r != 0 }) || !bytes.Equal(b[abi.PageBytes:], before[abi.PageBytes:]) {
				t.Errorf("found %d bytes, %v, wanted %d, those of the first page zeros", len(b), err, len(before))
			}
		})
	}
}
