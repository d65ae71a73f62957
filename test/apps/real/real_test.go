// Package real runs unmodified programs of the distribution under Byssus through many lives. Their result lines must be
// those of a native run, character by character, whatever MPI carried each life.
package real

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
)

const ranks = 2

// size is how many generations there are, and thermo lines after the first one: ten generations with BYSSUS_TEST_LONG=1.
func size() (generations, printed int) {
	if os.Getenv("BYSSUS_TEST_LONG") != "" {
		return 10, 200
	}
	return 3, 80
}

// thermo returns LAMMPS's whole thermo lines by step; two different lines of one step are an error.
func thermo(into map[string]string, stdout string) error {
	for line := range strings.Lines(stdout) {
		f := strings.Fields(line)
		if len(f) != 6 || !strings.HasSuffix(line, "\n") {
			continue
		}
		var step int
		var v [5]float64
		n, _ := fmt.Sscan(line, &step, &v[0], &v[1], &v[2], &v[3], &v[4])
		if n != 6 {
			continue
		}
		if before, ok := into[f[0]]; ok && before != line {
			return fmt.Errorf("step %s: found %q and %q", f[0], before, line)
		}
		into[f[0]] = line
	}
	return nil
}

// lines counts the thermo lines printed so far.
func lines(stdout string) int {
	n := 0
	for line := range strings.Lines(stdout) {
		if f := strings.Fields(line); len(f) == 6 && strings.Contains(f[1], ".") {
			n++
		}
	}
	return n
}

// TestGenerations takes LAMMPS through checkpoints, kills and restarts, each under the other MPI. BYSSUS_TEST_LONG=1: ten
// of them.
func TestGenerations(t *testing.T) {
	site, err := harness.Here()
	if err != nil {
		t.Fatal(err)
	}
	if err := site.Build(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	input := filepath.Join(site.Root, "test/apps/real/in.melt")
	generations, printed := size()
	argv := []string{"lmp", "-in", input, "-var", "steps", strconv.Itoa(printed * 20), "-log", "none"}
	native, err := harness.Start(ctx, t.TempDir(), harness.Environment(), site.NativeCommand("openmpi", ranks, argv)...)
	if err != nil {
		t.Fatal(err)
	}
	if code := native.ExitCode(); code != 0 {
		t.Fatalf("native run: exit code %d: %s", code, harness.Tail(native.Stderr.String()))
	}
	want, found := map[string]string{}, map[string]string{}
	if err := thermo(want, native.Stdout.String()); err != nil {
		t.Fatalf("native run: %v", err)
	}
	if len(want) != printed+1 {
		t.Fatalf("the native run printed %d thermo lines, want %d", len(want), printed+1)
	}
	job := site.NewJob("generations", t.TempDir())
	defer job.Close()
	if err := live(ctx, job, found, argv, generations); err != nil {
		t.Fatalf("%v\n%s", err, job.Story())
	}
	for step, line := range want {
		if found[step] != line {
			t.Errorf("step %s: found %q, want %q", step, found[step], line)
		}
	}
	t.Logf("%d generations, %d thermo lines the same; native %.1f s", generations, len(want), native.Took().Seconds())
}

// live takes the job through all its lives and collects what they print.
func live(ctx context.Context, job *harness.Job, found map[string]string, argv []string, generations int) error {
	mpi := "openmpi"
	if err := job.Run(ctx, mpi, ranks, []string{"--retries", "0"}, argv...); err != nil {
		return err
	}
	for g := range generations {
		p := job.Proc()
		err := p.Until(ctx, "thermo lines", func(s string) bool { return lines(s) >= 15 })
		if errors.Is(err, harness.ErrEnded) {
			return fmt.Errorf("generation %d: ended before its time: %w", g+1, err)
		}
		if err != nil {
			return fmt.Errorf("generation %d: %w", g+1, err)
		}
		if _, err := job.Checkpoint(ctx); err != nil {
			return fmt.Errorf("generation %d: %w", g+1, err)
		}
		if err := job.KillRank(g % ranks); err != nil {
			return fmt.Errorf("generation %d: %w", g+1, err)
		}
		if p.ExitCode() == 0 {
			return fmt.Errorf("generation %d: a killed job ended with code 0", g+1)
		}
		if err := thermo(found, p.Stdout.String()); err != nil {
			return fmt.Errorf("generation %d: %w", g+1, err)
		}
		mpi = harness.Other(mpi)
		if err := job.Restart(ctx, mpi, "--retries", "0"); err != nil {
			return fmt.Errorf("generation %d: %w", g+1, err)
		}
	}
	if code := job.Proc().ExitCode(); code != 0 {
		return fmt.Errorf("the last life ended with code %d", code)
	}
	return thermo(found, job.Proc().Stdout.String())
}
