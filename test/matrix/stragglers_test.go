package matrix

import (
	"context"
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

// What a checkpoint does while one rank computes and the others are in a collective.
type outcome int

const (
	taken  outcome = iota // it is committed while the late rank computes
	waits                 // it waits until the late rank comes, and says for whom
	either                // depends on speed or size: it is committed, or waits and says for whom
	seen                  // it waits if the MPI has let a rank see its part complete
)

// A stage of program stragglers, and what a checkpoint does in it.
type stage struct {
	spec string // see test/apps/stragglers.c
	what outcome
	call string // in which the others wait; empty: not compared
	late int    // -1: the last rank
}

// A straggling is one job: it goes through stages, from each to the next when its late rank has come.
type straggling struct {
	name      string
	face, mpi string // the first life's; the lives take turns
	ranks     int
	lives     int // in each stage in which the checkpoint is taken: so often checkpoint, kill and restart
	stages    []stage
}

// TestStragglers takes checkpoints while a rank computes that the others wait for: they are committed before it comes where
// that is possible, and otherwise say for whom they wait. BYSSUS_TEST_LONG=1: all calls in all places.
func TestStragglers(t *testing.T) {
	site, refs := ready(t)
	for _, s := range stragglings() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			harness.Share(t, harness.Light)
			begin := time.Now()
			if err := s.run(t, site, refs, scratch(t)); err != nil {
				t.Errorf("-seed %d: %v", *seed, err)
			}
			t.Logf("%d stages in %.1f s", len(s.stages), time.Since(begin).Seconds())
		})
	}
}

// synchronising are the blocking calls in front of which ranks may wait for each other, or for a root.
func synchronising() []string {
	return []string{
		"bcast", "scatter",
		"barrier", "allreduce", "allreduce_inplace", "allreduce_user", "allgather", "alltoall", "reduce_scatter_block", "allreduce_inplace_user",
		"allreduce_strided", "allreduce_typed", "allgather_inplace", "allgather_strided", "alltoall_inplace", "alltoall_strided",
		"reduce_scatter_block_inplace", "reduce_scatter_block_user",
		"bcast_strided", "bcast_large", "scatter_inplace", "scatter_strided", "scatter_large",
	}
}

// rooted are those where who waits is inside the MPI; with two ranks the one that is not late waits.
func rooted() []stage {
	var all []stage
	for _, name := range []string{"gather", "gatherv", "scatterv", "reduce", "allgatherv", "alltoallv", "alltoallw", "reduce_scatter"} {
		all = append(all, stage{name, waits, "MPI_" + strings.ToUpper(name[:1]) + name[1:], -1})
	}
	all = append(all, stage{"scan:late=0", waits, "MPI_Scan", 0}, stage{"exscan:late=0", waits, "MPI_Exscan", 0})
	for _, name := range []string{"allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw"} {
		all = append(all, stage{"neighbor_" + name, waits, "MPI_Neighbor_" + name, -1})
	}
	return all
}

// completed are posted, and rank 0 has seen its own part complete: the late rank must not be told something else later. Of
// Iscatterv and Igatherv both MPIs let it see that, of the others MPICH.
func completed() []stage {
	var all []stage
	for _, name := range []string{"iscatterv:root=0", "ibcast:root=0", "iscatter:root=0", "igatherv:root=-1", "igather:root=-1", "ireduce:root=-1", "iscan"} {
		all = append(all, stage{name + ":observe=1", seen, "", -1})
	}
	return all
}

// posted are several calls each, open at the same time.
func posted() []stage {
	return []stage{
		{"ibarrier,iallreduce,iallreduce_user,iallgather,ibcast,ialltoall", taken, "", -1},
		{"iallreduce_inplace,iallreduce_strided,ialltoall_inplace,iallgather_inplace,ireduce_scatter_block_inplace,ireduce_inplace", taken, "", -1},
		{"igather,igatherv,iscatter,iscatterv,iallgatherv,ialltoallv,ialltoallw_strided,ireduce_user,ireduce_scatter,ireduce_scatter_block", taken, "", -1},
		{"iscan:late=0", taken, "", 0},
		{"iexscan_user,iscan_inplace,iscan_strided,iexscan,iscan_typed:late=0", taken, "", 0},
		{"ineighbor_alltoallw,ineighbor_allgather,ineighbor_allgatherv_strided,ineighbor_alltoall,ineighbor_alltoallv:on=cart", taken, "", -1},
		{"ineighbor_alltoallw_strided,ineighbor_alltoallv,ineighbor_alltoall_strided,ineighbor_allgatherv,ineighbor_allgather:on=graph", taken, "", -1},
		{"ibcast_strided,igather_inplace,igatherv_inplace_strided,iscatter_inplace,iscatterv_strided,iallgatherv_inplace:on=reversed", taken, "", -1},
		{"iallreduce_large,ibcast_large,ialltoallv_large,ireduce_scatter_large:on=world", taken, "", -1},
		{"ibarrier:on=world", taken, "", -1},
		{"iallreduce_typed,iallreduce_typed_strided,ireduce_typed", taken, "", -1},
	}
}

// large overwrite their input, which is too large, or in too many pieces, to be kept.
func large() []stage {
	return []stage{
		{"iallreduce_inplace_large", either, "", -1},
		{"ialltoall_inplace_large", either, "", -1},
		{"iallreduce_inplace_strided", either, "", -1},
		{"ireduce_scatter_block_inplace_large,ibarrier", either, "", -1},
		{"iscan_inplace_large:late=0", either, "", 0},
	}
}

// tight are synchronising calls in a tight loop, which the ranks enter without waiting for each other.
func tight() []stage {
	return []stage{
		{"barrier:tight=200", either, "MPI_Barrier", -1},
		{"allreduce:coarse=70:more=130", either, "MPI_Allreduce", -1},
		{"alltoall:tight=200", either, "MPI_Alltoall", -1},
		{"allreduce_inplace:tight=300", either, "MPI_Allreduce", -1},
		{"allgather:tight=200", either, "MPI_Allgather", -1},
		{"reduce_scatter_block:tight=200", either, "MPI_Reduce_scatter_block", -1},
		{"barrier:tight=130:coarse=130", taken, "", -1},
		{"bcast:tight=200", either, "MPI_Bcast", -1},
		{"scatter:coarse=70:more=130", either, "MPI_Scatter", -1},
		{"bcast:tight=130:coarse=130", taken, "", -1},
	}
}

func completions() []string {
	return []string{"wait", "waitall", "test", "testall", "waitany", "testany", "waitsome", "testsome", "status"}
}

// with completes the calls of each stage by another completion call.
func with(stages []stage, first int) []stage {
	stages = slices.Clone(stages)
	for i := range stages {
		stages[i].spec += ":completion=" + completions()[(first+i)%len(completions())]
	}
	return stages
}

// stragglings are all jobs.
func stragglings() []straggling {
	if long() {
		return allStragglings()
	}
	var all []straggling
	for i, mpi := range harness.MPIs() {
		face := harness.MPIs()[(i+1)%2]
		half := synchronising()[:9]
		var blocking []stage
		for k, name := range half {
			spec := name
			switch (k + 4*i) % 9 {
			case 0:
				spec += ":on=world"
			case 1:
				spec += ":coarse=70"
			case 2, 4:
				spec += ":on=reversed:coarse=3"
			}
			blocking = append(blocking, stage{spec, taken, "", -1})
		}
		pending := with(posted(), i*4)
		all = append(all,
			straggling{"blocking/" + mpi, face, mpi, 2, 1, append(blocking, tight()[2*i:2*i+2]...)},
			straggling{"posted/" + mpi, face, mpi, 2, 1, slices.Concat(pending[4*i:4*i+4], large()[i:i+1])},
			straggling{"inside/" + mpi, face, mpi, 2, 1, slices.Concat(rooted()[i*5:i*5+6], completed()[i*3:i*3+2])},
		)
	}
	all = append(all, straggling{"generations", "openmpi", "openmpi", 3, 3, []stage{{"allreduce_user:on=world", taken, "", -1}, with(posted()[:1], 5)[0]}})
	return all
}

// allStragglings are jobs of some stages each: every call, before, between and after others, with every number of ranks.
func allStragglings() []straggling {
	random := rand.New(rand.NewPCG(*seed, 1))
	var all []straggling
	for _, face := range harness.MPIs() {
		for _, mpi := range harness.MPIs() {
			for n := 2; n <= 4; n++ {
				stages := everyStage(n, random)
				if face == "mpich" {
					stages = append(stages, stage{"iallreduce:free=1", waits, "", -1}, stage{"ibarrier:free=1", waits, "", -1})
				}
				random.Shuffle(len(stages), func(i, k int) { stages[i], stages[k] = stages[k], stages[i] })
				for i, some := range slices.Collect(slices.Chunk(stages, 12)) {
					all = append(all, straggling{fmt.Sprintf("face=%s/driver=%s/n=%d/%d", face, mpi, n, i), face, mpi, n, 1 + random.IntN(3), some})
				}
			}
		}
	}
	return all
}

// everyStage is every call with n ranks. With more than two, who gathers nothing is through before the late rank comes.
func everyStage(n int, random *rand.Rand) []stage {
	var all []stage
	for _, name := range synchronising() {
		for _, on := range []string{"", ":on=world", ":on=reversed"} {
			for _, rounds := range []string{"", ":coarse=5", ":coarse=70"} {
				all = append(all, stage{name + on + rounds, taken, "", -1})
			}
		}
	}
	inside := rooted()
	pending := posted()
	for i := range pending {
		if n > 2 && strings.Contains(pending[i].spec, "gather") || n > 2 && strings.Contains(pending[i].spec, "ireduce_") ||
			n > 2 && strings.Contains(pending[i].spec, "ineighbor") || n > 2 && pending[i].late == 0 {
			pending[i].what = either
		}
	}
	for i := range inside {
		if n > 2 {
			inside[i].call = "" // some are through, and in the next call
		}
	}
	for range 3 {
		all = append(all, with(pending, random.IntN(9))...)
	}
	all = append(all, inside...)
	all = append(all, completed()...)
	all = append(all, with(large(), random.IntN(9))...)
	return append(all, tight()...)
}

// run takes the job through its stages.
func (s straggling) run(t *testing.T, site harness.Site, refs *harness.References, dir string) error {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+time.Duration(len(s.stages)*s.lives)*10*time.Second)
	defer cancel()
	var specs []string
	for _, g := range s.stages {
		specs = append(specs, g.spec)
	}
	args := []string{"--seed", fmt.Sprint(*seed), "--stages", strings.Join(specs, "/")}
	ref, err := refs.Get(ctx, harness.Program{Name: "stragglers", Args: args}, s.face, s.ranks, dir)
	if err != nil {
		return err
	}
	until := filepath.Join(dir, "go")
	job := site.NewJob("straggler", dir)
	defer job.Close()
	argv := site.Command(harness.Program{Name: "stragglers", Args: append(args, "--until", until)}, s.face)
	if err := job.Run(ctx, s.mpi, s.ranks, []string{"--retries", "0"}, argv...); err != nil {
		return err
	}
	driver := s.mpi
	for i, g := range s.stages {
		moment := fmt.Sprintf("%s.%d", until, i)
		if err = s.through(ctx, t, job, g, moment, &driver); err != nil {
			err = fmt.Errorf("stage %d, %s, under %s: %w", i, g.spec, driver, err)
			break
		}
	}
	if err == nil {
		err = os.WriteFile(until+".end", nil, 0o600)
	}
	if err == nil {
		var found harness.Results
		if found, err = job.Finish(ctx); err == nil {
			err = found.Compare(ref)
		}
	}
	if err != nil {
		return fmt.Errorf("%w\n%s\n%s", err, strings.Join(job.Failures(), "\n"), job.Story())
	}
	return nil
}

// through takes the job through one stage: lives in it where the checkpoint does not wait, then the late rank comes.
func (s straggling) through(ctx context.Context, t *testing.T, job *harness.Job, g stage, moment string, driver *string) error {
	if err := allReady(ctx, job.Proc(), moment, s.ranks); err != nil {
		return err
	}
	if _, err := os.Stat(moment + ".seen.0"); g.what == seen && err == nil {
		g.what = waits
	}
	if g.what != taken {
		return s.waiting(ctx, t, job, g, moment)
	}
	for i := range s.lives + 1 {
		if i > 0 {
			*driver = harness.Other(*driver)
			if err := nextLife(ctx, job, *driver); err != nil {
				return err
			}
		}
		took, err := timedCheckpoint(ctx, job)
		if err != nil {
			return err
		}
		t.Logf("%s, %d ranks, life %d under %s: checkpoint in %.0f ms", g.spec, s.ranks, i+1, *driver, 1e3*took.Seconds())
	}
	return os.WriteFile(moment, nil, 0o600)
}

// timedCheckpoint is momentCheckpoint with the time of the attempt that succeeded.
func timedCheckpoint(ctx context.Context, job *harness.Job) (took time.Duration, err error) {
	err = harness.Poll(ctx, "the job to take a checkpoint while the late rank computes", func() bool {
		begin := time.Now()
		_, err := job.Checkpoint(ctx)
		took = time.Since(begin)
		return err == nil
	})
	if err == nil {
		err = job.Verify(ctx)
	}
	return took, err
}

// waiting asks for a checkpoint, which must say for whom it waits, lets the late rank come, and waits for the commit.
func (s straggling) waiting(ctx context.Context, t *testing.T, job *harness.Job, g stage, moment string) error {
	late := g.late
	if late < 0 {
		late = s.ranks - 1
	}
	done := make(chan error, 1)
	go func() {
		_, err := job.Checkpoint(ctx)
		done <- err
	}()
	short, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var last string
	over := false
	err := harness.Poll(short, "the checkpoint to wait for the late rank", func() bool {
		if over = len(done) > 0; over {
			return true
		}
		ranks, call := job.WaitsFor(ctx)
		if ranks != nil {
			last = fmt.Sprintf("for ranks %v in %q", ranks, call)
		}
		return slices.Equal(ranks, []int{late}) && (g.call == "" || call == g.call)
	})
	if err != nil {
		return fmt.Errorf("%w: it waits %s, want for [%d] in %q", err, last, late, g.call)
	}
	if over && g.what == waits {
		return fmt.Errorf("the checkpoint did not wait for rank %d (%v)", late, <-done)
	}
	if over {
		t.Logf("%s, %d ranks: the checkpoint did not wait", g.spec, s.ranks)
	} else {
		t.Logf("%s, %d ranks: the checkpoint waits %s", g.spec, s.ranks, last)
	}
	if err := os.WriteFile(moment, nil, 0o600); err != nil {
		return err
	}
	if err := <-done; err != nil {
		return err
	}
	return job.Verify(ctx)
}
