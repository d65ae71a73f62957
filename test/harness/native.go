package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// References keeps native runs, so that each is made once: results do not depend on the MPI. Safe for concurrent use; one run at a
// time.
type References struct {
	site Site
	mu   sync.Mutex
	done map[string]Results
	each map[string]time.Duration // an iteration
}

// NewReferences returns an empty set.
func NewReferences(s Site) *References {
	return &References{site: s, done: map[string]Results{}, each: map[string]time.Duration{}}
}

// NativeCommand is how a program is run on n ranks without Byssus.
func (s Site) NativeCommand(mpi string, n int, argv []string) []string {
	launch := []string{"mpirun." + mpi, "-n", strconv.Itoa(n)}
	if mpi == "openmpi" {
		launch = append(launch, "--oversubscribe")
	}
	return append(launch, argv...)
}

// Get returns the results of an undisturbed native run of a program with n ranks, made under mpi if there is none yet.
func (r *References) Get(ctx context.Context, p Program, mpi string, n int, dir string) (Results, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := fmt.Sprint(p, n)
	if ref, ok := r.done[key]; ok {
		return ref, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	into, err := os.MkdirTemp(dir, "native-")
	if err != nil {
		return nil, fmt.Errorf("harness: results of a native run: %w", err)
	}
	into = filepath.Join(into, "results")
	proc, err := r.start(ctx, p, mpi, n, dir, "TEST_RESULTS="+into)
	if err != nil {
		return nil, err
	}
	if err := succeeded(proc, p); err != nil {
		return nil, err
	}
	ref := Results{}
	if err := ref.Add(proc.Stdout.String()); err != nil {
		return nil, err
	}
	if err := ref.AddFiles(into); err != nil {
		return nil, err
	}
	r.done[key] = ref
	return ref, nil
}

func (r *References) start(ctx context.Context, p Program, mpi string, n int, dir string, env ...string) (*Proc, error) {
	return Start(ctx, dir, Environment(env...), r.site.NativeCommand(mpi, n, r.site.Command(p, mpi))...)
}

// succeeded waits for the end of a native run, which must be a good one.
func succeeded(proc *Proc, p Program) error {
	if code := proc.ExitCode(); code != 0 {
		return fmt.Errorf("harness: native run of %s %s: exit code %d: %s", p.Name, strings.Join(p.Args, " "), code, Tail(proc.Stderr.String()))
	}
	return nil
}

// Iterations finds by a short run how many iterations of a program take about so long, at least 12.
func (r *References) Iterations(ctx context.Context, p Program, mpi string, n int, dir string, about time.Duration) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := fmt.Sprint(p, n)
	if _, ok := r.each[key]; !ok {
		each, err := r.measure(ctx, p, mpi, n, dir)
		if err != nil {
			return 0, err
		}
		r.each[key] = each
	}
	return min(max(int(about/r.each[key]), 12), 500), nil
}

// measure returns how long an iteration of a short run takes, at least a millisecond.
func (r *References) measure(ctx context.Context, p Program, mpi string, n int, dir string) (time.Duration, error) {
	const first, last, all = 1, 9, 12 // iterations; a launcher may have torn the line of one
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	short := Program{Name: p.Name, Args: append([]string{"--iters", strconv.Itoa(all)}, p.Args...)}
	proc, err := r.start(ctx, short, mpi, n, dir)
	if err != nil {
		return 0, err
	}
	var at [2]time.Time
	for i, iteration := range [2]int{first, last} {
		err := proc.Until(ctx, fmt.Sprintf("iteration %d", iteration), func(text string) bool { return LastIteration(text) >= iteration })
		if err != nil {
			return 0, errors.Join(err, succeeded(proc, short))
		}
		at[i] = time.Now()
	}
	return max(at[1].Sub(at[0])/(last-first), time.Millisecond), succeeded(proc, short)
}

// Tail is the end of a text, for messages.
func Tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
