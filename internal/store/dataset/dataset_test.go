package dataset

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/store/format/imagetest"
)

const id = "000102030405060708090a0b0c0d0e0f"

func newJob(t *testing.T, ranks int) *Job {
	t.Helper()
	j, err := Store{Dir: filepath.Join(t.TempDir(), "store")}.Create(Meta{Name: "melt", ID: id, Ranks: ranks, State: StateRunning})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Unlock)
	return j
}

func write(t *testing.T, j *Job, n uint64) {
	t.Helper()
	dir, err := j.Checkpoints().Prepare(n)
	if err != nil {
		t.Fatal(err)
	}
	for rank := range j.Meta.Ranks {
		if err := imagetest.Write(dir, spec(t, j, n, rank)); err != nil {
			t.Fatal(err)
		}
	}
}

func spec(t *testing.T, j *Job, n uint64, rank int) imagetest.Spec {
	t.Helper()
	s := imagetest.Spec{Rank: rank, NRanks: j.Meta.Ranks, Checkpoint: n, Memory: []byte("state")}
	b, err := hex.DecodeString(j.Meta.ID)
	if err != nil {
		t.Fatal(err)
	}
	copy(s.JobID[:], b)
	return s
}

func commit(t *testing.T, j *Job, n uint64) {
	t.Helper()
	write(t, j, n)
	if err := sealAndCommit(j, n); err != nil {
		t.Fatal(err)
	}
}

// sealAndCommit is what one node does that has all ranks.
func sealAndCommit(j *Job, n uint64) error {
	ranks := make([]int, j.Meta.Ranks)
	for r := range ranks {
		ranks[r] = r
	}
	p, err := j.Checkpoints().Seal(context.Background(), n, holding.Image, ranks)
	if err != nil {
		return err
	}
	return j.Checkpoints().Commit(n, j.Checkpoints().Manifest(n, p))
}

// TestHoldings: what several nodes have of a checkpoint is one record, in the order of the ranks.
func TestHoldings(t *testing.T) {
	j := newJob(t, 4)
	write(t, j, 1)
	var all []*Part
	for _, ranks := range [][]int{{1, 2}, {0, 3}} {
		h, err := j.Checkpoints().Seal(context.Background(), 1, holding.Image, ranks)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	if err := j.Checkpoints().Commit(1, j.Checkpoints().Manifest(1, all...)); err != nil {
		t.Fatal(err)
	}
	m, err := Verify(j.Checkpoints().Path(1), func(int64) {})
	if err != nil || len(m.Files) != 4 {
		t.Errorf("found %+v, %v", m, err)
	}
}

func TestCommitAndRead(t *testing.T) {
	j := newJob(t, 2)
	commit(t, j, 1)
	commit(t, j, 2)
	m, err := Verify(j.Checkpoints().Path(2), func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	if m.Checkpoint != 2 || m.Ranks != 2 || len(m.Files) != 2 || m.ID != id {
		t.Errorf("manifest %+v", m)
	}
	if err := j.Checkpoints().Drop(1); err != nil {
		t.Fatal(err)
	}
	got, err := j.Checkpoints().List()
	if err != nil || !slices.Equal(got, []uint64{2}) {
		t.Errorf("checkpoints %v, %v", got, err)
	}
	for _, path := range []string{j.Dir, j.Checkpoints().Path(2), filepath.Join(j.Checkpoints().Path(2), "rank-00001.0.img"), filepath.Join(j.Checkpoints().Path(2), manifestName)} {
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v, %v: open to others", path, st.Mode(), err)
		}
	}
}

// TestNotCommitted: nothing that is incomplete or does not belong here becomes a checkpoint.
func TestNotCommitted(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(t *testing.T, j *Job, dir string)
	}{
		{"rank missing", "rank-00001.0.img: no such file", func(t *testing.T, _ *Job, dir string) {
			remove(t, filepath.Join(dir, "rank-00001.0.img"))
		}},
		{"header not written", "never written", func(t *testing.T, _ *Job, dir string) {
			poke(t, filepath.Join(dir, "rank-00001.0.img"), 0, make([]byte, 4096))
		}},
		{"truncated", "bytes, wanted", func(t *testing.T, _ *Job, dir string) {
			if err := os.Truncate(filepath.Join(dir, "rank-00000.0.img"), 4100); err != nil {
				t.Fatal(err)
			}
		}},
		{"of another job", "found job ff", func(t *testing.T, j *Job, dir string) {
			s := spec(t, j, 1, 0)
			s.JobID[0] = 0xff
			if err := imagetest.Write(dir, s); err != nil {
				t.Fatal(err)
			}
		}},
		{"of another checkpoint", "checkpoint 9, wanted", func(t *testing.T, j *Job, dir string) {
			if err := imagetest.Write(dir, spec(t, j, 9, 0)); err != nil {
				t.Fatal(err)
			}
		}},
		{"a part missing", "rank-00000.1.img", func(t *testing.T, j *Job, dir string) {
			s := spec(t, j, 1, 0)
			s.NParts = 2
			if err := imagetest.Write(dir, s); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newJob(t, 2)
			write(t, j, 1)
			c.spoil(t, j, j.Checkpoints().Path(1)+".tmp")
			if err := sealAndCommit(j, 1); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("commit: %v, want %q", err, c.want)
			}
			if got, err := j.Checkpoints().List(); err != nil || len(got) != 0 {
				t.Errorf("checkpoints %v, %v", got, err)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func poke(t *testing.T, path string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

func TestDamageIsNamed(t *testing.T) {
	for _, c := range []struct {
		file string
		at   int64
		want string
	}{
		{"rank-00001.0.img", 200, "rank-00001.0.img: format: header: crc32c"},
		{"rank-00000.0.img", 4097, "rank-00000.0.img: format: chunk 0 at 0x400000000000: crc32c"},
		{manifestName, 20, "manifest.json: crc32c"},
	} {
		j := newJob(t, 2)
		commit(t, j, 1)
		poke(t, filepath.Join(j.Checkpoints().Path(1), c.file), c.at, []byte{'!'})
		if _, err := Verify(j.Checkpoints().Path(1), func(int64) {}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.file, err, c.want)
		}
	}
	j := newJob(t, 1)
	commit(t, j, 1)
	s := spec(t, j, 1, 0)
	s.Memory = []byte("another run's")
	if err := imagetest.Write(j.Checkpoints().Path(1), s); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(j.Checkpoints().Path(1)); err == nil || !strings.Contains(err.Error(), "the manifest wants") {
		t.Errorf("a file exchanged for another: %v", err)
	}
}

func TestManifestDamage(t *testing.T) {
	j := newJob(t, 1)
	commit(t, j, 1)
	path := filepath.Join(j.Checkpoints().Path(1), manifestName)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(good) {
		if err := os.WriteFile(path, good[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadManifest(j.Checkpoints().Path(1)); err == nil && cut < len(good)-1 {
			t.Fatalf("cut at %d of %d: accepted", cut, len(good))
		}
	}
	remove(t, path)
	if _, err := ReadManifest(j.Checkpoints().Path(1)); !errors.Is(err, ErrNoManifest) {
		t.Errorf("no manifest: %v", err)
	}
}

func TestLocks(t *testing.T) {
	j := newJob(t, 1)
	store := Store{Dir: filepath.Dir(j.Dir)}
	if _, err := store.Create(Meta{Name: "melt"}); !errors.Is(err, ErrLocked) {
		t.Errorf("two at once: %v", err)
	}
	other, err := store.Open("melt")
	if err != nil || !other.Locked() {
		t.Fatal("not seen as running", err)
	}
	if err := other.Lock(); !errors.Is(err, ErrLocked) {
		t.Errorf("lock: %v", err)
	}
	commit(t, j, 1)
	j.Unlock()
	if other.Locked() {
		t.Error("seen as running")
	}
	if _, err := store.Create(Meta{Name: "melt"}); !errors.Is(err, ErrExists) {
		t.Errorf("a name with checkpoints: %v", err)
	}
	second, err := store.Create(Meta{Name: "melt*"})
	if err != nil || second.Meta.Name != "melt-2" || !second.Meta.Auto {
		t.Fatalf("free name: %+v, %v", second, err)
	}
	second.Unlock()
	j.Meta.State = StateFinished
	if err := j.Save(); err != nil {
		t.Fatal(err)
	}
	third, err := store.Create(Meta{Name: "melt", ID: "new"})
	if err != nil {
		t.Fatalf("name of a job that has finished: %v", err)
	}
	third.Unlock()
	names, err := store.Jobs()
	if d := cmp.Diff([]string{"melt", "melt-2"}, names); d != "" || err != nil {
		t.Error(d, err)
	}
}

// TestLeftovers: what a crash leaves behind goes away with the next lock, and nothing else does.
func TestLeftovers(t *testing.T) {
	j := newJob(t, 1)
	commit(t, j, 1)
	write(t, j, 2)
	if err := os.Rename(j.Checkpoints().Path(1), j.Checkpoints().Path(3)+".drop"); err != nil {
		t.Fatal(err)
	}
	commit(t, j, 4)
	j.Unlock()
	if err := os.WriteFile(filepath.Join(j.Dir, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := j.Lock(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(j.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if d := cmp.Diff([]string{"ckpt.000004", "job.json", "last.000004", "lock", "notes.txt", "owner.000002", "reserve"}, names); d != "" {
		t.Error(d)
	}
}

func TestNames(t *testing.T) {
	for _, bad := range []string{"", ".", "..", "../x", "a/b", "-v", ".hidden", "a b", strings.Repeat("x", 65)} {
		if CheckName(bad) == nil {
			t.Errorf("%q is allowed", bad)
		}
	}
	if err := CheckName("Melt_2.lj-x"); err != nil {
		t.Error(err)
	}
}

// fuzzed runs a parser of a file on what the fuzzer makes, as it is and with the right checksum, within bounds.
func fuzzed(f *testing.F, name string, parse func(dir string) error) {
	f.Add([]byte("{}\ncrc32c 00000000\n"))
	f.Add([]byte("{\"files\":[{}]}\n"))
	f.Add([]byte(`{"format":2,"ranks":9223372036854775807,"checkpoint":1,"files":[{"name":"../x","size":-1}]}` + "\n"))
	f.Add([]byte(`{"format":1,"name":"melt","id":"00","app":["a"],"keep":-1,"every_ns":-9223372036854775808}` + "\n"))
	f.Add([]byte(strings.Repeat("[", 20000)))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := filepath.Join(t.TempDir(), "ckpt.000001")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{b, seal(slices.Clip(b))} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
			if used := allocated(func() { _ = parse(dir) }); used > format.Allowance+400*uint64(len(b)) {
				t.Errorf("%d bytes were allocated for %d", used, len(b))
			}
		}
	})
}

func FuzzManifest(f *testing.F) {
	fuzzed(f, manifestName, func(dir string) error {
		_, err := Check(dir)
		return err
	})
}

func FuzzMeta(f *testing.F) {
	fuzzed(f, "job.json", func(dir string) error {
		return (&Record{Dir: dir}).load()
	})
}

func FuzzLock(f *testing.F) {
	fuzzed(f, "lock", func(dir string) error {
		_ = lockedBy(dir)
		return checkLock(dir)
	})
}
