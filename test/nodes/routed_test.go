package nodes

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// habit is how a program writes its checkpoints (test/apps/files.c), and the pattern that leads them.
type habit struct{ way, pattern string }

func habits() []habit {
	return []habit{
		{"one", `rst\.(\d+)`}, {"dirs", `rank\d+/(\d+)/.*`}, {"temp", `rst\.(\d+)\.\d+(\.tmp)?`},
		{"append", `rst\.(\d+)\.\d+`}, {"excl", `rst\.(\d+)\.\d+`}, {"ranks", `rst\.(\d+)\.\d+`},
	}
}

// led begins a program that knows nothing of Byssus, whose files are led into the caches.
func (c *cluster) led(t *testing.T, h habit, name, mpi string, steps int, flags []string, args ...string) *written {
	t.Helper()
	flags = append([]string{"--cache", cache, "--files", h.pattern}, flags...)
	return c.plainOf(t.Context(), t, "files", name, mpi, steps, nil, flags, append([]string{"way=" + h.way, "every=2", "from=newest"}, args...)...)
}

// asNative lets a program come to its end, and compares what it prints, and what is in the prefix, with one of which nothing is led.
func (w *written) asNative(ctx context.Context, t *testing.T, h habit, args ...string) {
	t.Helper()
	w.over(ctx, t)
	native := t.TempDir()
	argv := append([]string{w.site.Byssus, "run", "--plain", "-n", fmt.Sprint(ranks), "--mpi", w.mpi, "--"}, w.site.Command(harness.Program{Name: "files"}, w.mpi)...)
	argv = append(append(argv, fmt.Sprint(w.steps), "way="+h.way, "every=2"), args...)
	p, err := harness.Start(t.Context(), native, harness.Environment(w.env...), argv...)
	if err != nil {
		t.Fatal(err)
	}
	if p.Took(); p.ExitCode() != 0 {
		t.Fatalf("undisturbed: exit code %d\n%s", p.ExitCode(), p.Stderr.String())
	}
	if got := w.proc.Stdout.String(); w.proc.ExitCode() != 0 || got != p.Stdout.String() {
		t.Fatalf("exit code %d: %q, wanted %q\n%s", w.proc.ExitCode(), got, p.Stdout.String(), w.story())
	}
	here, there := w.contents(t, filepath.Join(w.dir, w.name)), w.contents(t, native)
	for name, want := range there {
		if got, ok := here[name]; !ok || !bytes.Equal(got, want) {
			t.Errorf("%s: found %d bytes, wanted %d", name, len(got), len(want))
		}
	}
	for name := range here {
		if _, ok := there[name]; !ok {
			t.Errorf("%s: it is there, and natively not", name)
		}
	}
}

// contents are the files below a directory, but for the store and what tests put there. Links are none.
func (w *written) contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case rel == ".scr":
			return fs.SkipDir
		case e.IsDir() || rel == "until":
		case e.Type() != 0:
			t.Errorf("%s: %s", rel, e.Type())
		default:
			all[rel], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRoutedLife: a node dies, and a program that knows nothing of Byssus goes on on a spare from the newest checkpoint that its directory
// shows; in the end everything is as after a native run.
func TestRoutedLife(t *testing.T) {
	c, ctx := written1(t)
	for i, h := range habits() {
		if !harness.Chosen(i) || i > 2 && os.Getenv("BYSSUS_TEST_SEED") != "" && os.Getenv("BYSSUS_TEST_LONG") == "" { // make test has one of three
			continue
		}
		w := c.led(t, h, "led-"+h.way, harness.MPIs()[i%2], 20, nil, "size=100000")
		w.counts(ctx, t, 3)
		c.sandbox(t, "crash", "nodes/node2")
		w.says(ctx, t, "files: goes on from step ")
		c.sandbox(t, "start", "nodes/node2")
		w.asNative(ctx, t, h, "size=100000")
		if stored, _ := filepath.Glob(filepath.Join(c.dir, w.name, ".scr", "scr", "stream1.*")); len(stored) != w.steps/2 {
			t.Errorf("%s: %d datasets, wanted %d\n%s", h.way, len(stored), w.steps/2, w.story())
		}
	}
}

// TestRoutedAgain: byssus is killed, and run again; a rank is; then the job has finished, and begins anew.
func TestRoutedAgain(t *testing.T) {
	c, ctx := written1(t)
	h := habits()[5]
	mpi := harness.MPIs()[0]
	if !harness.Chosen(0) {
		mpi = harness.MPIs()[1]
	}
	w := c.led(t, h, "again", mpi, 24, []string{"--flush", "100", "--scavenge", "1m"}) // so that only caches have what it goes on from
	w.counts(ctx, t, 3)
	w.proc.Signal(syscall.SIGKILL)
	<-w.proc.Done()
	w.run(ctx, t, nil)
	w.says(ctx, t, "files: goes on from step ")
	w.ends(ctx, t)
	for name := range w.contents(t, filepath.Join(c.dir, w.name)) {
		if strings.HasSuffix(name, ".byssus") || strings.Contains(name, ".byssus-") {
			t.Errorf("%s is left behind", name)
		}
	}
	w.args = slices.DeleteFunc(w.args, func(a string) bool { return a == "from=newest" })
	w.run(ctx, t, nil)
	w.ends(ctx, t)
	if strings.Contains(w.proc.Stderr.String(), "goes on from") {
		t.Errorf("it has finished, and does not begin anew\n%s", w.story())
	}
}

// TestRoutedShared: a file that several nodes write at a time is refused by name, or lies in the prefix as natively; never two.
func TestRoutedShared(t *testing.T) {
	c, ctx := written1(t)
	h := habit{"shared", `rst\.(\d+)`}
	for i, mpi := range harness.MPIs() {
		if !harness.Chosen(i) {
			continue
		}
		w := c.led(t, h, "shared-"+mpi, mpi, 2, nil)
		w.over(ctx, t)
		refused := strings.Contains(w.proc.Stderr.String(), "is written on several nodes at a time: leave it out of --files")
		switch code := w.proc.ExitCode(); {
		case code == 125 && refused:
		case code == 0 && !refused:
			w.asNative(ctx, t, h)
		default:
			t.Errorf("exit code %d\n%s", code, w.story())
		}
	}
}

// TestRoutedFull: what has no room in the caches is in the prefix in the end, as natively; a program that fails for that is told where.
func TestRoutedFull(t *testing.T) {
	t.Parallel()
	harness.Share(t, harness.Light)
	c := newCluster(t, "--disk", "24M")
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	h := habits()[2]
	for i, row := range []struct {
		size, says string
		code       int
	}{
		{"9000000", `^byssus: 4 is no checkpoint to go on from, and lies in the prefix as it was written: cache ` + cache + ` on node node\d has .* left, wanted `, 0},
		{"20000000", `^byssus: dataset 2 does not count: node node\d: its cache, .*, is full, wanted room for `, 0}, // only its redundancy has none
		{"30000000", `^byssus: cache ` + cache + ` on node node\d is full, wanted room for what its ranks write: `, 7},
	} {
		if !harness.Chosen(i) {
			continue
		}
		w := c.led(t, h, "full-"+row.size, "mpich", 4, nil, "size="+row.size)
		if w.over(ctx, t); row.code == 0 {
			w.asNative(ctx, t, h, "size="+row.size)
		}
		hears(t, c.dir, w.proc.ExitCode(), row.code, w.proc.Stderr.String(), []string{row.says})
	}
}
