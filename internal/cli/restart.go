package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/coordsrv"
	"github.com/byssus-hpc/byssus/internal/dataset"
)

func (e *env) restart() *cobra.Command {
	var f runFlags
	var only uint64
	cmd := &cobra.Command{
		Use:   "restart [flags] JOB",
		Short: "Go on with a job from a checkpoint",
		Long: `Go on with a job from its newest good checkpoint, or from the one given with --checkpoint. The number of ranks is
that of the checkpoint; the MPI may be another one than before. What is not given stays as it was.

A job that goes on from an older checkpoint, because --checkpoint names it or because it has died again and again from
the newer one, leaves the newer ones aside: it changes files that they count on. They stay until there are enough new
ones, and it goes on from them only when --checkpoint names one.`,
		Example: `  byssus restart melt
  byssus restart melt --mpi openmpi
  byssus restart melt --checkpoint 3`,
		Args:              jobArg,
		ValidArgsFunction: e.completeJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return e.restartJob(cmd, args[0], &f, only)
		},
	}
	f.add(cmd)
	cmd.Flags().Uint64Var(&only, "checkpoint", 0, "number of the checkpoint (default: the newest good one)")
	return cmd
}

func (e *env) restartJob(cmd *cobra.Command, name string, f *runFlags, only uint64) error {
	job, err := e.job(name)
	if err != nil {
		return err
	}
	if err := job.Lock(); err != nil {
		return err
	}
	defer job.Unlock()
	if job.Damage != nil {
		e.say(fmt.Sprintf("job %s: %v", name, job.Damage))
	}
	notes, err := job.Heal()
	for _, note := range notes {
		e.say(note)
	}
	if err != nil {
		return err
	}
	images, err := job.Checkpoints()
	if err == nil && len(images) == 0 && job.Meta.Caches == nil {
		err = exitError{ExitNot, fmt.Errorf("cli: restart %s: there is no checkpoint to go on from", name)}
	}
	if err == nil && job.Meta.Ranks < 1 {
		err = exitError{ExitNot, fmt.Errorf("cli: restart %s: %w", name, job.Damage)}
	}
	if err != nil {
		return err
	}
	meta := &job.Meta
	changed := cmd.Flags().Changed
	if changed("ranks") && f.ranks != meta.Ranks {
		return exitError{ExitNot, fmt.Errorf("cli: restart %s: asked for %d ranks, its checkpoints have %d", name, f.ranks, meta.Ranks)}
	}
	f.keepOld(changed, meta)
	spec, err := makeSpec(f, meta.Face)
	if err != nil {
		return err
	}
	meta.MPI, meta.Every, meta.Keep, meta.Retries = spec.MPI.Name, f.every, f.keep, f.retries
	meta.Grace, meta.Reason = f.grace, ""
	meta.Fsync, meta.Lazy, meta.Policy, meta.MPIArgs, meta.Writers = f.fsync, f.lazy, f.policy, f.mpiArgs, f.writers
	meta.Refused, meta.Caches = f.refused, f.ownCaches()
	meta.State, meta.Exit, meta.Ended = dataset.StateRunning, 0, time.Time{}
	if err := job.Save(); err != nil { // a store that is full or read-only can be read all the same
		e.say(fmt.Sprintf("%v; the job goes on all the same", err))
	}
	dir := meta.Dir
	if _, err := os.Stat(dir); err != nil {
		dir = "" // the ranks say so if they need it
	}
	opt := coordsrv.Options{Restart: true, Only: only, Dir: dir, Grace: f.grace}
	if err := f.onHosts(&opt); err != nil {
		return err
	}
	return e.drive(job, spec, opt, f.verbose)
}

// keepOld takes over what was not given.
func (f *runFlags) keepOld(changed func(string) bool, meta *dataset.Meta) {
	f.ranks = meta.Ranks
	if !changed("mpi") {
		f.mpi = "auto"
		if _, err := makeSpec(&runFlags{mpi: meta.MPI}, ""); err == nil {
			f.mpi = meta.MPI
		}
	}
	if !changed("every") {
		f.every = meta.Every
	}
	if !changed("keep") {
		f.keep = meta.Keep
	}
	if !changed("retries") {
		f.retries = meta.Retries
	}
	if !changed("fsync") {
		f.fsync = meta.Fsync
	}
	if !changed("lazy") {
		f.lazy = meta.Lazy
	}
	if !changed("policy") {
		f.policy = meta.Policy
	}
	if !changed("refused") && meta.Refused != "" {
		f.refused = meta.Refused
	}
	f.keepOldCaches(changed, meta)
	if !changed("mpi-args") && f.mpi == meta.MPI {
		f.mpiArgs = meta.MPIArgs
	}
	if !changed("grace") && meta.Grace > 0 {
		f.grace = meta.Grace
	}
	if !changed("writers") && meta.Writers > 0 {
		f.writers = meta.Writers
	}
}
