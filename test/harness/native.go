package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Reference is an undisturbed native run.
type Reference struct {
	Results Results
	Took    time.Duration
}

// References keeps native runs, so that each is made once. Safe for concurrent use; one run at a time.
type References struct {
	site Site
	mu   sync.Mutex
	done map[string]Reference
}

// NewReferences returns an empty set.
func NewReferences(s Site) *References { return &References{site: s, done: map[string]Reference{}} }

// NativeCommand is how a program is run on n ranks without Byssus.
func (s Site) NativeCommand(mpi string, n int, argv []string) []string {
	launch := []string{"mpirun." + mpi, "-n", strconv.Itoa(n)}
	if mpi == "openmpi" {
		launch = append(launch, "--oversubscribe")
	}
	return append(launch, argv...)
}

// Get returns the native run of a program under mpi with n ranks.
func (r *References) Get(ctx context.Context, p Program, mpi string, n int, dir string) (Reference, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := fmt.Sprint(p, n) // the results do not depend on the MPI; took may
	if ref, ok := r.done[key+mpi]; ok {
		return ref, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	into, err := os.MkdirTemp(dir, "native-")
	if err != nil {
		return Reference{}, fmt.Errorf("harness: results of a native run: %w", err)
	}
	into = filepath.Join(into, "results")
	proc, err := Start(ctx, dir, Environment("TEST_RESULTS="+into), r.site.NativeCommand(mpi, n, r.site.Command(p, mpi))...)
	if err != nil {
		return Reference{}, err
	}
	ref := Reference{Results: Results{}, Took: proc.Took()}
	if code := proc.ExitCode(); code != 0 {
		return Reference{}, fmt.Errorf("harness: native run of %s %s: exit code %d: %s", p.Name, strings.Join(p.Args, " "), code,
			Tail(proc.Stderr.String()))
	}
	if err := ref.Results.Add(proc.Stdout.String()); err != nil {
		return Reference{}, err
	}
	if err := ref.Results.AddFiles(into); err != nil {
		return Reference{}, err
	}
	if other, ok := r.done[key+Other(mpi)]; ok {
		if err := ref.Results.Compare(other.Results); err != nil {
			return Reference{}, fmt.Errorf("harness: %s prints other results under the other MPI: %w", p.Name, err)
		}
	}
	r.done[key+mpi] = ref
	return ref, nil
}

// Iterations finds by a short run how many iterations of a program take about so long.
func (r *References) Iterations(ctx context.Context, p Program, mpi string, n int, dir string, about time.Duration) (int, error) {
	var took [2]time.Duration
	few := [2]int{2, 12}
	for i, iters := range few {
		short := Program{Name: p.Name, Args: append([]string{"--iters", strconv.Itoa(iters)}, p.Args...)}
		ref, err := r.Get(ctx, short, mpi, n, dir)
		if err != nil {
			return 0, err
		}
		took[i] = ref.Took
	}
	each := max((took[1]-took[0])/time.Duration(few[1]-few[0]), time.Millisecond)
	return min(max(int(about/each), 12), 500), nil
}

// Tail is the end of a text, for messages.
func Tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
