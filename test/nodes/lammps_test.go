package nodes

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// A Lennard-Jones melt, as LAMMPS reads it at first, and from its restart files.
const (
	meltBegins = `units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 8 0 8 0 8
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
` + meltGoes
	meltAgain = "read_restart rst.*.%\n" + meltGoes
	meltGoes  = `pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
restart 100 rst.*.%
run ${steps} upto
`
)

// TestRoutedLAMMPS: LAMMPS as Debian has it goes on on a spare, from the files that its own read_restart finds, and writes in the end what it
// writes when it is restarted natively from the same checkpoint.
func TestRoutedLAMMPS(t *testing.T) {
	if os.Getenv("BYSSUS_TEST_LONG") == "" {
		t.Skip("BYSSUS_TEST_LONG=1")
	}
	c, ctx := written1(t)
	dir, native := filepath.Join(c.dir, "melt"), t.TempDir()
	for _, d := range []string{dir, native} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"in.melt": meltBegins, "in.again": meltAgain} {
			if err := os.WriteFile(filepath.Join(d, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	const steps = "1200"
	lmp := func(input, steps string) []string {
		return []string{"lmp", "-in", input, "-var", "steps", steps, "-log", "none"}
	}
	argv := []string{c.site.Byssus, "run", "-n", "4", "--mpi", "openmpi", "--sandbox", "nodes", "--silent-after", "3s", "--cache", cache,
		"--files", `rst\.(\d+)\..*`, "--restart-cmd", "lmp -in in.again -log none -var steps " + steps, "--"}
	p, err := harness.Start(ctx, dir, harness.Environment(c.env...), append(argv, lmp("in.melt", steps)...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	w := &written{cluster: c, name: "melt", proc: p}
	w.counts(ctx, t, 3)
	c.sandbox(t, "crash", "nodes/node2")
	defer c.sandbox(t, "start", "nodes/node2")
	<-p.Done()
	from := regexp.MustCompile(`Current step +: (\d+)`).FindAllStringSubmatch(p.Stdout.String(), -1)
	if p.ExitCode() != 0 || len(from) != 2 {
		t.Fatalf("exit code %d\n%s", p.ExitCode(), w.story())
	}
	for _, command := range [][]string{lmp("in.melt", from[1][1]), lmp("in.again", steps)} {
		p, err := harness.Start(ctx, native, harness.Environment(), c.site.NativeCommand("openmpi", 4, command)...)
		if err != nil {
			t.Fatal(err)
		}
		if p.Took(); p.ExitCode() != 0 {
			t.Fatalf("natively: exit code %d\n%s%s", p.ExitCode(), p.Stdout.String(), p.Stderr.String())
		}
	}
	here, there := w.contents(t, dir), w.contents(t, native)
	for name, want := range there {
		if !bytes.Equal(here[name], want) {
			t.Errorf("%s: found %d bytes, wanted %d, or others", name, len(here[name]), len(want))
		}
	}
	if len(here) != len(there) {
		t.Errorf("%d files, wanted %d", len(here), len(there))
	}
}
