package amt

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/test/harness"
)

// TestGenerations takes random programs through checkpoints, deaths and restarts, each under the other MPI: a position
// independent program and one that is not.
func TestGenerations(t *testing.T) {
	for k, mode := range []string{"pie", "exe"} {
		t.Run(mode, func(t *testing.T) {
			program := build(t, t.TempDir(), "../../amt/internal/random/soak", "-buildmode="+mode)
			until := filepath.Join(t.TempDir(), "until")
			survives(t, 5, harness.MPIs()[k%2], until, "all results are right", program, "-seed", fmt.Sprint(*seed), "-until", until, "-busy")
		})
	}
}

// TestAttachedGenerations does the same with a program of C that the runtime is attached to, of each MPI.
func TestAttachedGenerations(t *testing.T) {
	dir := t.TempDir()
	attachable(t, dir, "../../amt/examples/attach")
	for _, mpi := range harness.MPIs() {
		t.Run(mpi, func(t *testing.T) {
			until := filepath.Join(t.TempDir(), "until")
			survives(t, 2, mpi, until, "all steps are right", attaching(t, dir, "mpicc."+mpi, "../../amt/examples/attach/use/steps.c"), until)
		})
	}
}

// TestElementsGenerations does it with a collection whose elements are on their way nearly all the time: what comes out is what does
// without deaths.
func TestElementsGenerations(t *testing.T) {
	t.Logf("seed %d", *seed)
	t.Setenv(amt.PlacesVariable, "4")
	program := build(t, t.TempDir(), "./testdata/storm")
	until := filepath.Join(t.TempDir(), "until")
	argv := []string{program, "-seed", fmt.Sprint(*seed), "-messages", "40000", "-moves", "90"}
	out := survives(t, 5, harness.MPIs()[*seed%2], until, "each was handled once", append(argv, "-until", until)...)
	n := strings.Index(out, " rounds of ")
	undisturbed, err := start{}.run(t, nil, append(argv, "-rounds", out[:max(n, 0)])...)
	if err != nil || out != undisturbed {
		t.Errorf("%s\nand without deaths, %v\n%s", out, err, undisturbed)
	}
}

// survives takes a program through so many deaths; then it ends, since a file is there, and has printed what it should, which is returned.
func survives(t *testing.T, deaths int, mpi, until, want string, argv ...string) string {
	t.Helper()
	site, err := harness.Here()
	if err != nil {
		t.Fatal(err)
	}
	job := site.NewJob("tasks-"+mpi, t.TempDir())
	defer job.Close()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	err = lives(ctx, job, deaths, mpi, argv)
	if err == nil {
		err = os.WriteFile(until, nil, 0o600)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, job.Story())
	}
	code, out := job.Proc().ExitCode(), job.Proc().Stdout.String()
	if code != 0 || !strings.Contains(out, want) {
		t.Fatalf("exit code %d, %q\n%s", code, out, job.Story())
	}
	return out
}

// lives takes a job through all its lives.
func lives(ctx context.Context, job *harness.Job, deaths int, mpi string, argv []string) error {
	if err := job.Run(ctx, mpi, 2, []string{"--retries", "0", "--every", "1s", "-v"}, argv...); err != nil {
		return err
	}
	for g := range deaths {
		err := harness.Poll(ctx, "a checkpoint", func() bool {
			return !job.Proc().Running() || strings.Contains(job.Proc().Stderr.String(), "committed after")
		})
		if err != nil {
			return fmt.Errorf("generation %d: %w", g+1, err)
		}
		if err := job.KillRank(g % 2); err != nil {
			return fmt.Errorf("generation %d: %w", g+1, err)
		}
		if code := job.Proc().ExitCode(); code == 0 {
			return fmt.Errorf("generation %d: a killed job ended with code 0", g+1)
		}
		mpi = harness.Other(mpi)
		if err := job.Restart(ctx, mpi, "--retries", "0", "-v"); err != nil {
			return fmt.Errorf("generation %d: %w", g+1, err)
		}
	}
	return nil
}

// TestStatic: a program without a dynamic linker, as Go makes without cgo, cannot be checkpointed, and is told before it runs.
func TestStatic(t *testing.T) {
	site, err := harness.Here()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "ring")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../amt/examples/ring")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	job := site.NewJob("static", t.TempDir())
	defer job.Close()
	err = job.Run(t.Context(), harness.MPIs()[0], 2, nil, program)
	if err == nil {
		err = harness.Poll(t.Context(), "the end", func() bool { return !job.Proc().Running() })
	}
	const want, refused = "statically linked, wanted a dynamically linked program: cannot be checkpointed", 125
	if err != nil || job.Proc().ExitCode() != refused || !strings.Contains(job.Proc().Stderr.String(), want) {
		t.Errorf("%v, exit code %d\n%s", err, job.Proc().ExitCode(), job.Story())
	}
}
