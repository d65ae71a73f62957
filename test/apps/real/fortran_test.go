package real

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
)

// A code is a program in Fortran that prints what it likes.
type code struct {
	argv   []string
	inputs []string // files beside this one that it finds in its directory
	counts func(line string) bool
	step   string   // is in a line that tells of progress
	in     string   // the file with such lines; "": standard output
	files  []string // which count too when it has ended
}

// TestEspresso: plane waves, by Fourier transforms whose parts go from each rank to each. What it prints is the same but for times.
func TestEspresso(t *testing.T) {
	through(t, code{
		argv:   []string{"pw.x", "-in", "pw.in"},
		inputs: []string{"pw.in"},
		counts: harness.But(`WALL|total cpu time|starts on|terminated on`),
		step:   "total energy   ",
	})
}

// TestElk: what it finds is in files only, which it keeps open and writes in place: they go back with the job.
func TestElk(t *testing.T) {
	through(t, code{
		argv:   []string{"elk-lapw"},
		inputs: []string{"elk.in"},
		counts: harness.But(`Tim(e|ings) |^ (initialisation|Hamiltonian and|first-variational|charge density calculation|potential calculation|total  )`),
		step:   "Loop number",
		in:     "INFO.OUT",
		files:  []string{"INFO.OUT", "EIGVAL.OUT", "TOTENERGY.OUT"},
	})
}

// through takes a program through three checkpoints, kills and restarts, each under the other MPI.
func through(t *testing.T, c code) {
	const kills = 3
	site, err := harness.Here()
	if err != nil {
		t.Fatal(err)
	}
	if err := site.Build(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	env := []string{"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"}
	here, dir := c.directory(t, site), c.directory(t, site)
	native, err := harness.Start(ctx, here, harness.Environment(env...), site.NativeCommand("openmpi", ranks, c.argv)...)
	if err != nil {
		t.Fatal(err)
	}
	if code := native.ExitCode(); code != 0 {
		t.Fatalf("native run: exit code %d: %s", code, harness.Tail(native.Stderr.String()))
	}
	script := harness.NewTranscript(native.Stdout.String(), c.counts)
	job := site.NewJob("fortran", dir, env...)
	defer job.Close()
	if err := c.live(ctx, job, script, dir, kills); err != nil {
		t.Fatalf("%v\n%s", err, job.Story())
	}
	if err := script.Whole(); err != nil {
		t.Errorf("%v\n%s", err, job.Story())
	}
	for _, name := range c.files {
		want := harness.NewTranscript(read(t, here, name), c.counts)
		if err := want.Same(read(t, dir, name)); err != nil || len(want.Lines()) == 0 {
			t.Errorf("%s: %v, of %d lines", name, err, len(want.Lines()))
		}
	}
	t.Logf("%d generations, %d lines the same; native %.1f s", kills+1, len(script.Lines()), native.Took().Seconds())
}

// directory makes one with the program's input.
func (c code) directory(t *testing.T, site harness.Site) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range c.inputs {
		text := read(t, site.Root, filepath.Join("test/apps/real", name))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// live takes the job through all its lives, and what they print through the script.
func (c code) live(ctx context.Context, job *harness.Job, script *harness.Transcript, dir string, kills int) error {
	mpi := "openmpi"
	if err := job.Run(ctx, mpi, ranks, []string{"--retries", "0"}, c.argv...); err != nil {
		return err
	}
	for n := range kills {
		p := job.Proc()
		if err := c.steps(ctx, p, dir, 2); err != nil {
			return fmt.Errorf("life %d: %w", n+1, err)
		}
		if _, err := job.Checkpoint(ctx); err != nil {
			return fmt.Errorf("life %d: %w", n+1, err)
		}
		if err := job.KillRank(n % ranks); err != nil {
			return fmt.Errorf("life %d: %w", n+1, err)
		}
		if p.ExitCode() == 0 {
			return fmt.Errorf("life %d: a killed job ended with code 0", n+1)
		}
		if err := script.Add(p.Stdout.String()); err != nil {
			return fmt.Errorf("life %d: %w", n+1, err)
		}
		mpi = harness.Other(mpi)
		if err := job.Restart(ctx, mpi, "--retries", "0"); err != nil {
			return fmt.Errorf("life %d: %w", n+1, err)
		}
	}
	if code := job.Proc().ExitCode(); code != 0 {
		return fmt.Errorf("the last life ended with code %d", code)
	}
	return script.Add(job.Proc().Stdout.String())
}

// steps waits until a life has come so many steps further: in the file, than the life before.
func (c code) steps(ctx context.Context, p *harness.Proc, dir string, n int) error {
	count := func(s string) int { return strings.Count(s, c.step) }
	if c.in == "" {
		err := p.Until(ctx, c.step, func(s string) bool { return count(s) >= n })
		if errors.Is(err, harness.ErrEnded) {
			return fmt.Errorf("ended before its time: %w", err)
		}
		return err
	}
	written := func() int {
		text, _ := os.ReadFile(filepath.Join(dir, c.in)) // it may not be there yet
		return count(string(text))
	}
	before, ended := written(), false
	err := harness.Poll(ctx, c.step, func() bool {
		ended = !p.Running()
		return ended || written() >= before+n
	})
	if err == nil && ended {
		return fmt.Errorf("ended before its time: %w", harness.ErrEnded)
	}
	return err
}
