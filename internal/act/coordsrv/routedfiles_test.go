package coordsrv

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

// TestRemoveLinks: what agents that are gone have left in the prefix is removed, in the directories that they have noted, and nothing else.
func TestRemoveLinks(t *testing.T) {
	prefix, store := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, name string) {
		t.Helper()
		write(filepath.Join(prefix, filepath.Dir(name), "here"), "")
		if err := os.Symlink(to, filepath.Join(prefix, name)); err != nil {
			t.Fatal(err)
		}
	}
	notes, caches := filepath.Join(store, "links"), "/caches/job/routed"
	write(notes+".node1", "\"rank0/10\"\n\"rank0/20/more\"\n\"../out\"\n\"rank0/3")
	write(notes+".node2", "\"rank0/10\"\n")
	route := &dataset.Route{Prefix: prefix, Files: `rank\d+/(\d+)/.*`}
	for _, name := range []string{"rank0/10/data", "rank0/10/data.NW63HNBZ.byssus", "rank0/10/data.byssus-copy", "rank0/30/data.byssus-copy"} {
		write(filepath.Join(prefix, name), name)
	}
	link(caches+"/node1/rank0/10/x", "rank0/10/x")
	link("/elsewhere/x", "rank0/10/y")
	link(caches+"/node1/rank0/30/x", "rank0/30/x") // nobody has noted that
	if err := os.MkdirAll(filepath.Join(prefix, "rank0/20/more"), 0o700); err != nil {
		t.Fatal(err)
	}
	left := func() (names []string) {
		err := filepath.WalkDir(prefix, func(path string, e fs.DirEntry, err error) error {
			if rel, _ := filepath.Rel(prefix, path); err == nil && e.Name() != "here" && rel != "." {
				names = append(names, rel)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	usual := []string{"rank0", "rank0/10", "rank0/10/data", "rank0/10/y", "rank0/30", "rank0/30/data.byssus-copy", "rank0/30/x"}
	busy := slices.Sorted(slices.Values(append([]string{"rank0/10/data.NW63HNBZ.byssus"}, usual...)))
	for _, c := range []struct {
		idle bool
		want []string
	}{{false, busy}, {true, usual}, {true, usual}} {
		if err := removeLinks(route, caches, notes, c.idle); err != nil {
			t.Fatal(err)
		}
		if names := slices.Sorted(slices.Values(left())); !slices.Equal(names, c.want) {
			t.Errorf("idle %t: %q\nwanted %q", c.idle, names, c.want)
		}
		if lists, _ := filepath.Glob(notes + ".*"); len(lists) != map[bool]int{false: 2, true: 0}[c.idle] {
			t.Errorf("idle %t: %q", c.idle, lists)
		}
	}
}
