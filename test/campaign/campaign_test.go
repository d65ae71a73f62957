// Package campaign does random things to one job: checkpoints, signals, deaths of any of its processes, a full store,
// commands at the same time, restarts. After each of them the store must be consistent, the newest committed checkpoint must
// bring the job back, a job that was told to leave must have left, and nothing may be left behind. What the program prints must
// be what it prints natively. It decides nothing by time; its limits are for hangs. Failures print the seed.
//
//	go test ./test/campaign                       some operations (part of make test)
//	BYSSUS_TEST_LONG=1 go test ./test/campaign    500 of them
//	-seed N -ops K                                one of them again
//	-lasting 1h -timeout 2h                       as many as an hour has room for
package campaign

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
)

var (
	seed = flag.Uint64("seed", 0, "of the random decisions; 0: from the clock")
	ops  = flag.Int("ops", 0, "operations, at least; 0: 20, or 500 with BYSSUS_TEST_LONG")
	last = flag.Duration("lasting", 0, "go on until so much time is over, at least")
)

const (
	ranks     = 2
	reference = 100             // iterations whose results are compared with a native run
	limit     = 4 * time.Minute // for anything that is waited for
)

// campaign is the job and what is known of it.
type campaign struct {
	t       *testing.T
	site    harness.Site
	job     *harness.Job
	random  *rand.Rand
	native  harness.Results
	full    string            // of a file that takes the store's room, when there is one
	numbers map[uint64]string // what each number has been given to: when it was committed
	highest uint64
	counts  map[string]int
}

func TestCampaign(t *testing.T) {
	c := begin(t)
	defer c.job.Close()
	n := *ops
	if n == 0 {
		n = 20
		if os.Getenv("BYSSUS_TEST_LONG") != "" {
			n = 500
		}
	}
	i := 0
	for begun := time.Now(); i < n || time.Since(begun) < *last; i++ {
		op := operations[c.random.IntN(len(operations))]
		c.counts[op.name]++
		began := time.Now()
		err := c.once(op)
		if err != nil {
			t.Fatalf("-seed %d: operation %d, %s: %v\n%s", *seed, i+1, op.name, err, c.job.Story())
		}
		t.Logf("%d %s: %.1f s", i+1, op.name, time.Since(began).Seconds())
	}
	if err := c.end(); err != nil {
		t.Fatalf("-seed %d: at the end: %v\n%s", *seed, err, c.job.Story())
	}
	t.Logf("%d operations: %v", i, c.counts)
}

// begin prepares store, program and native results.
func begin(t *testing.T) *campaign {
	t.Helper()
	site, err := harness.Here()
	if err == nil {
		err = site.Build()
	}
	if err != nil {
		t.Fatal(err)
	}
	if *seed == 0 {
		*seed = harness.Seed()
	}
	t.Logf("-seed %d", *seed)
	dir := t.TempDir()
	program := harness.Program{Name: "sparse_exchange", Args: []string{"--seed", fmt.Sprint(*seed), "--pace", "2000", "--iters", fmt.Sprint(reference)}}
	ref, err := harness.NewReferences(site).Get(t.Context(), program, "mpich", ranks, dir)
	if err != nil {
		t.Fatal(err)
	}
	c := &campaign{t: t, site: site, random: rand.New(rand.NewPCG(*seed, 1)), native: ref,
		numbers: map[uint64]string{}, counts: map[string]int{}}
	c.job = site.NewJob("campaign", dir, "XDG_RUNTIME_DIR="+t.TempDir())
	if err := smallDisk(t, c.job.Dir); err != nil {
		t.Fatal(err)
	}
	return c
}

// ctx is for one step.
func (c *campaign) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.t.Context(), limit)
}

// once does one thing to a running job, and looks at what it has left.
func (c *campaign) once(op operation) error {
	ctx, cancel := c.ctx()
	defer cancel()
	if err := c.ensureRunning(ctx); err != nil {
		return fmt.Errorf("before it: %w", err)
	}
	if err := op.do(c, ctx); err != nil {
		return err
	}
	if err := c.room(); err != nil {
		return err
	}
	return c.consistent(ctx)
}

// ensureRunning starts the job, or restarts it from its newest checkpoint, and waits until it works.
func (c *campaign) ensureRunning(ctx context.Context) error {
	if p := c.job.Proc(); p != nil && p.Running() {
		return nil
	}
	if err := c.nothingLeft(ctx); err != nil {
		return err
	}
	mpi := harness.MPIs()[c.random.IntN(2)]
	flags := []string{"--retries", fmt.Sprint(c.random.IntN(3)), "--keep", fmt.Sprint(1 + c.random.IntN(3)), "--grace", "20s"}
	if c.random.IntN(3) == 0 {
		flags = append(flags, "--every", "1s")
	}
	newest, err := c.newest(ctx)
	if err != nil {
		return err
	}
	if newest == 0 {
		argv := c.site.Command(harness.Program{Name: "sparse_exchange", Args: []string{"--seed", fmt.Sprint(*seed), "--pace", "2000", "--iters", "100000000"}}, "mpich")
		err = c.job.Run(c.t.Context(), mpi, ranks, flags, argv...) // a life outlasts the step
	} else {
		err = c.job.Restart(c.t.Context(), mpi, flags...)
	}
	if err != nil {
		return err
	}
	return c.works(ctx, 0, newest)
}

// works waits for progress beyond so many lines; in a restart, from this very checkpoint.
func (c *campaign) works(ctx context.Context, before int, image uint64) error {
	p := c.job.Proc()
	if err := p.Until(ctx, "progress", func(out string) bool { return strings.Count(out, "iter ") > before }); err != nil {
		return err
	}
	if image == 0 {
		return nil
	}
	want := fmt.Sprintf("the job goes on from checkpoint %d", image)
	said := func() bool { return strings.Contains(p.Stderr.String(), want) }
	if err := harness.Poll(ctx, want, func() bool { return said() || !p.Running() }); err != nil || said() {
		return err
	}
	return fmt.Errorf("restart does not say %q, and has ended with code %d", want, p.ExitCode())
}

// listed is a line of `byssus list --json`.
type listed struct {
	Number   uint64 `json:"checkpoint"`
	Err      string `json:"error"`
	Aside    bool   `json:"left_aside"`
	Manifest struct {
		Time string `json:"time"`
	} `json:"manifest"`
}

// newest is the number of the newest committed checkpoint that the job has not gone back behind; 0: none.
func (c *campaign) newest(ctx context.Context) (uint64, error) {
	all, err := c.list(ctx)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	var n uint64
	for _, l := range all {
		if !l.Aside {
			n = max(n, l.Number)
		}
	}
	return n, nil
}

func (c *campaign) list(ctx context.Context) ([]listed, error) {
	if _, err := os.Stat(filepath.Join(c.job.Dir, "campaign")); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	out, errs, code := c.job.Command(ctx, "list", "campaign", "--json")
	if code != 0 {
		return nil, fmt.Errorf("list: exit code %d: %s%s", code, errs, out)
	}
	var all []listed
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return nil, fmt.Errorf("list: %w in %q", err, out)
	}
	for _, l := range all {
		if l.Err != "" || l.Number != 0 && l.Manifest.Time == "" {
			return nil, fmt.Errorf("list: checkpoint %d: %s", l.Number, cmp.Or(l.Err, "no manifest"))
		}
	}
	return slices.DeleteFunc(all, func(l listed) bool { return l.Number == 0 }), nil
}

// consistent verifies all checkpoints, and that each number was given once.
func (c *campaign) consistent(ctx context.Context) error {
	all, err := c.list(ctx)
	if err != nil {
		return err
	}
	for _, l := range all {
		if was, ok := c.numbers[l.Number]; ok && was != l.Manifest.Time {
			return fmt.Errorf("number %d was given to checkpoints of %s and of %s", l.Number, was, l.Manifest.Time)
		} else if !ok && l.Number <= c.highest {
			return fmt.Errorf("number %d comes after %d", l.Number, c.highest)
		}
		c.numbers[l.Number] = l.Manifest.Time
	}
	for _, l := range all {
		c.highest = max(c.highest, l.Number)
	}
	if p := c.job.Proc(); p.Running() || len(all) == 0 {
		return nil // what a running job drops meanwhile cannot be verified
	}
	return c.job.Verify(ctx)
}

// end stops the job, and compares what all its lives have printed with a native run.
func (c *campaign) end() error {
	ctx, cancel := c.ctx()
	defer cancel()
	if err := c.ensureRunning(ctx); err != nil {
		return err
	}
	p := c.job.Proc()
	if err := p.Until(ctx, "the iterations that are compared", func(out string) bool { return harness.LastIteration(out) > reference }); err != nil {
		return err
	}
	if _, errs, code := c.job.Command(ctx, "stop", "campaign", "--now"); code != 0 {
		return fmt.Errorf("stop --now: exit code %d: %s", code, errs)
	}
	if err := c.gone(ctx); err != nil {
		return err
	}
	if fails := c.job.Failures(); len(fails) > 0 {
		return fmt.Errorf("the program says: %s", fails[0])
	}
	found, err := c.job.Printed()
	if err != nil {
		return err
	}
	for key := range found {
		if key.Iter >= reference || key.Name == "end" {
			delete(found, key)
		}
	}
	for key := range c.native {
		if key.Name == "end" {
			delete(c.native, key)
		}
	}
	return found.Compare(c.native)
}
