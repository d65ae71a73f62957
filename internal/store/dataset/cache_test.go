package dataset

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/store/format/imagetest"
	"github.com/byssus-hpc/byssus/internal/store/part"
)

// open is a job's part of a cache, which the test gives up.
func openCache(t *testing.T, s Store, meta Meta, term uint64, home string) *Job {
	t.Helper()
	j, err := s.Cache(meta, term, home)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Unlock)
	return j
}

// TestFence: a cache is locked by one agent at a time, and closed to those of earlier terms.
func TestFence(t *testing.T) {
	home := newJob(t, 2)
	cache := Store{Dir: filepath.Join(t.TempDir(), "cache")}
	j := openCache(t, cache, home.Meta, 5, home.Dir)
	if _, err := cache.Cache(home.Meta, 6, home.Dir); !errors.Is(err, ErrLocked) {
		t.Errorf("two at once: %v, wanted %v", err, ErrLocked)
	}
	j.Unlock()
	if _, err := cache.Cache(home.Meta, 4, home.Dir); !errors.Is(err, ErrFenced) {
		t.Errorf("an earlier term: %v, wanted %v", err, ErrFenced)
	}
	openCache(t, cache, home.Meta, 5, home.Dir).Unlock()
	j = openCache(t, cache, home.Meta, 9, home.Dir)
	if j.Term != 9 {
		t.Errorf("term %d, wanted 9", j.Term)
	}
	j.Unlock()
	if _, err := cache.Cache(home.Meta, 8, home.Dir); !errors.Is(err, ErrFenced) {
		t.Errorf("an earlier term: %v, wanted %v", err, ErrFenced)
	}
	other := home.Meta
	other.ID = home.Meta.ID[:idInName] + "ffffffffffffffffffffffff"
	if _, err := cache.Cache(other, 10, home.Dir); err == nil {
		t.Error("another job whose id begins alike was let in")
	}
}

// nodePart commits a node's part of a checkpoint in its cache.
func nodePart(t *testing.T, j *Job, dir string, n uint64, node string, ranks, all []int) {
	t.Helper()
	for _, rank := range ranks {
		if err := imagetest.Write(dir, spec(t, j, n, rank)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := j.Checkpoints().Seal(context.Background(), n, holding.Image, ranks); err != nil {
		t.Fatal(err)
	}
	p := &Part{}
	for _, rank := range all {
		from := dir
		if !slices.Contains(ranks, rank) {
			from = j.Checkpoints().Path(n)
		}
		if err := p.addRank(context.Background(), from, holding.Image, rank, j.Checkpoints().of(n), false); err != nil {
			t.Fatal(err)
		}
	}
	m := j.Checkpoints().Manifest(n, p)
	m.Node, m.Start, m.Epoch = node, 3, 4
	if err := j.Checkpoints().Commit(n, m); err != nil {
		t.Fatal(err)
	}
}

// TestParts: a part in a cache is whole without the ranks of other nodes; what is made again of another part is added to it.
func TestParts(t *testing.T) {
	home := newJob(t, 4)
	j := openCache(t, Store{Dir: t.TempDir()}, home.Meta, 1, home.Dir)
	dir, err := j.Checkpoints().Prepare(7)
	if err != nil {
		t.Fatal(err)
	}
	nodePart(t, j, dir, 7, "a", []int{2, 3}, []int{2, 3})
	m, err := Check(j.Checkpoints().Path(7))
	if err != nil || !slices.Equal(m.Held(), []int{2, 3}) || m.Node != "a" || m.Start != 3 || m.Epoch != 4 {
		t.Fatalf("a part: %+v, %v", m, err)
	}
	if dir, err = j.Checkpoints().RecreateTemp(7); err != nil {
		t.Fatal(err)
	}
	nodePart(t, j, dir, 7, "a", []int{0}, []int{0, 2, 3})
	if m, err = Check(j.Checkpoints().Path(7)); err != nil || !slices.Equal(m.Held(), []int{0, 2, 3}) {
		t.Errorf("with more: %+v, %v", m, err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Errorf("%s is left", dir)
	}
	remove(t, filepath.Join(j.Checkpoints().Path(7), part.ImageName(2, 0)))
	if _, err := Check(j.Checkpoints().Path(7)); err == nil {
		t.Error("a part without one of its images is whole")
	}
	if err := j.Checkpoints().Abort(7); err != nil {
		t.Fatal(err)
	}
	if all, err := j.Checkpoints().List(); err != nil || len(all) != 0 {
		t.Errorf("withdrawn: %v, %v", all, err)
	}
}

// TestClear: what jobs have left in a cache goes when they are over, and stays while they may go on, or it cannot be told.
func TestClear(t *testing.T) {
	store := Store{Dir: filepath.Join(t.TempDir(), "store")}
	cache := Store{Dir: t.TempDir()}
	begin := func(name, id string) *Job {
		j, err := store.Create(Meta{Name: name, ID: id, Ranks: 1, State: StateRunning})
		if err != nil {
			t.Fatal(err)
		}
		openCache(t, cache, j.Meta, 1, j.Dir).Unlock()
		j.Unlock()
		return j
	}
	finished, removed, stopped := begin("finished", id), begin("removed", id), begin("stopped", id)
	again := begin("again", id)
	finished.Meta.State, stopped.Meta.State = StateFinished, StateStopped
	again.Meta.ID = "ff" + id[2:]
	for _, j := range []*Job{finished, stopped, again} {
		if err := j.Save(); err != nil {
			t.Fatal(err)
		}
	}
	if err := removed.Remove(); err != nil {
		t.Fatal(err)
	}
	away := stopped.Meta
	away.Name = "away"
	openCache(t, cache, away, 1, filepath.Join(t.TempDir(), "unmounted", "away")).Unlock()
	busy := finished.Meta
	busy.ID = "ee" + id[2:]
	openCache(t, cache, busy, 1, finished.Dir)
	openCache(t, cache, stopped.Meta, 1, stopped.Dir)
	entries, err := os.ReadDir(cache.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{"away.00010203", "finished.ee010203", "stopped.00010203"}
	if !slices.Equal(left, want) {
		t.Errorf("left %v, wanted %v", left, want)
	}
}

// TestNamesInManifest: a manifest leads to images and redundancy in its own directory alone, whoever has written it.
func TestNamesInManifest(t *testing.T) {
	j := newJob(t, 1)
	if _, err := j.Checkpoints().Prepare(1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		files, parity []string
		want          string // empty: good
	}{
		{files: []string{"rank-00000.0.img", "rank-12345678.10.img"}, parity: []string{"parity.0.12"}},
		{files: []string{"../rank-00000.0.img"}, want: "wanted the name of an image"},
		{files: []string{"/rank-00000.0.img"}, want: "wanted the name of an image"},
		{files: []string{"rank-00000.0.img/../../x"}, want: "wanted the name of an image"},
		{files: []string{"rank-0.0.img"}, want: "wanted the name of an image"},
		{files: []string{"rank--0001.0.img"}, want: "wanted the name of an image"},
		{files: []string{""}, want: "wanted the name of an image"},
		{parity: []string{"../parity.0.0"}, want: "wanted parity.SET.MEMBER"},
		{parity: []string{"parity.0.0/x"}, want: "wanted parity.SET.MEMBER"},
		{parity: []string{"parity.0.0\n"}, want: "wanted parity.SET.MEMBER"},
		{parity: []string{"job.json"}, want: "wanted parity.SET.MEMBER"},
	} {
		m := j.Checkpoints().Manifest(1)
		m.Parity = c.parity
		for _, f := range c.files {
			m.Files = append(m.Files, File{Name: f})
		}
		dir := filepath.Join(t.TempDir(), "ckpt.000001")
		if err := errors.Join(os.Mkdir(dir, 0o700), j.Checkpoints().writeManifest(dir, m)); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadManifest(dir); err == nil != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %q: found %v, wanted %q", c.files, c.parity, err, c.want)
		}
		if c.want == "" {
			continue
		}
		if err := j.Checkpoints().Commit(1, m); err == nil || !strings.Contains(err.Error(), c.want) || !j.Checkpoints().Gone(1) {
			t.Errorf("%q, %q: committed: %v, %v", c.files, c.parity, !j.Checkpoints().Gone(1), err)
		}
	}
}
