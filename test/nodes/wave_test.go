package nodes

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// TestWave: the program of the demonstration loses a node on its way, and comes to the same field and picture as without snapshots and losses.
func TestWave(t *testing.T) {
	for i, mpi := range harness.MPIs() {
		if !harness.ChosenOf(8, i) {
			continue
		}
		t.Run(mpi, func(t *testing.T) {
			c, ctx := written1(t)
			w := &written{cluster: c, program: "snap_wave", name: "wave", mpi: mpi}
			run := func(dir string, flags []string, args ...string) {
				t.Helper()
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				argv := append([]string{c.site.Byssus, "run", "--plain", "-n", fmt.Sprint(ranks), "--mpi", mpi}, flags...)
				argv = append(append(argv, "--"), c.site.Command(harness.Program{Name: w.program}, mpi)...)
				argv = append(append(argv, "size=48x30x30", "steps=200", "out="+filepath.Join(dir, "slice")), args...)
				p, err := harness.Start(ctx, dir, harness.Environment(c.env...), argv...)
				if err != nil {
					t.Fatal(err)
				}
				w.proc = p
				t.Cleanup(p.Kill)
			}
			left := func(dir string) (field string, slice []byte) {
				t.Helper()
				slice, err := os.ReadFile(filepath.Join(dir, "slice"))
				field = regexp.MustCompile(`(?m)^field [0-9a-f]{16} 200$`).FindString(w.proc.Stdout.String())
				if err != nil || field == "" || w.proc.ExitCode() != 0 {
					t.Fatalf("exit code %d: %v\n%s", w.proc.ExitCode(), err, w.story())
				}
				return field, slice
			}
			alone := filepath.Join(c.dir, "alone")
			run(alone, nil, "every=0")
			w.proc.Took()
			field, slice := left(alone)

			dir := filepath.Join(c.dir, w.name)
			run(dir, []string{"--sandbox", "nodes", "--silent-after", "3s", "--cache", cache}, "every=20", "until="+w.until())
			w.counts(ctx, t, 3)
			c.sandbox(t, "crash", "nodes/node2")
			w.says(ctx, t, "what node2 held, .*, was made again on node5")
			w.over(ctx, t)
			if got, gotSlice := left(dir); got != field || !bytes.Equal(gotSlice, slice) {
				t.Errorf("found %s, wanted %s; the same picture: %v\n%s", got, field, bytes.Equal(gotSlice, slice), w.story())
			}
			if !regexp.MustCompile(`(?m)^restored \d+ `).MatchString(w.proc.Stdout.String()) {
				t.Errorf("it has not gone on from a snapshot\n%s", w.story())
			}
		})
	}
}
