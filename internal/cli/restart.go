package cli

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/host/elfcheck"
	"github.com/byssus-hpc/byssus/internal/host/launch"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/ui"
)

func (e *env) restart() *cobra.Command {
	var f runFlags
	var only string
	cmd := &cobra.Command{
		Use:   "restart [flags] JOB",
		Short: "Go on with a job from a checkpoint",
		Long: `Go on with a job from its newest good checkpoint, or from the one given with --checkpoint. The number of ranks is
that of the checkpoint; the MPI may be another one than before. What is not given stays as it was.

When the job's command is a wrapper around the MPI program, it is run again from its beginning; the MPI program goes on
from its image when it is started with the same arguments.

A job that goes on from an older checkpoint, because --checkpoint names it or because it has died again and again from
the newer one, leaves the newer ones aside: it changes files that they count on. They stay until there are enough new
ones, and it goes on from them only when --checkpoint names one.

A job of byssus run --plain is started again, and its program restarts from its newest dataset, or from the one whose number
or name is given with --checkpoint. It may have another number of ranks, if the program can do that.`,
		Example: `  byssus restart melt
  byssus restart melt --mpi openmpi
  byssus restart melt --checkpoint 3
  byssus restart scr --checkpoint timestep.400`,
		Args:              jobArg,
		ValidArgsFunction: e.completeJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			which, err := parseChosen("restart", only)
			if err != nil {
				return err
			}
			return e.restartJob(cmd, args[0], &f, which)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&only, "checkpoint", "", "number of the checkpoint, or number or name of the dataset (default: the newest good one)")
	return cmd
}

func (e *env) restartJob(cmd *cobra.Command, name string, f *runFlags, which chosen) error {
	job, err := e.job(name)
	if err != nil {
		return err
	}
	onNodes := f.onNodes()
	only, err := which.asked(job)
	if err != nil {
		return err
	}
	if err := e.assemble(job, onNodes, only); err != nil {
		return err
	}
	defer job.Unlock()
	if job.Damage != nil {
		e.say(fmt.Sprintf("job %s: %v", name, job.Damage))
	}
	notes, err := job.Checkpoints().Heal()
	for _, note := range notes {
		e.say(note)
	}
	if err == nil && job.Meta.Plain && len(job.Meta.App) == 0 {
		err = exitError{ExitNot, fmt.Errorf("cli: restart %s: it has not been run yet: byssus run --plain", name)}
	}
	if err == nil && job.Meta.Ranks < 1 {
		err = exitError{ExitNot, fmt.Errorf("cli: restart %s: %w", name, job.Damage)}
	}
	if err != nil {
		return err
	}
	meta := &job.Meta
	if err := gaveUp(job, only); err != nil {
		return err
	}
	changed := cmd.Flags().Changed
	ranks := f.ranks
	if changed("ranks") && f.ranks != meta.Ranks && !meta.Plain {
		return exitError{ExitNot, fmt.Errorf("cli: restart %s: asked for %d ranks, its checkpoints have %d", name, f.ranks, meta.Ranks)}
	}
	f.keepOld(changed, meta)
	under := meta.Face
	if meta.Plain {
		if under = elfcheck.FaceOf(meta.App); changed("ranks") {
			f.ranks, meta.Ranks = ranks, ranks
		}
	}
	spec, err := makeSpec(f, meta.Face, under)
	if err != nil {
		return err
	}
	remember(f, meta, spec.MPI.Name)
	if err := job.Save(); err != nil { // a store that is full or read-only can be read all the same
		e.say(fmt.Sprintf("%v; the job goes on all the same", err))
	}
	spec.App = meta.App
	dir := meta.Dir
	if _, err := os.Stat(dir); err != nil {
		dir = "" // the ranks say so if they need it
	}
	opt := coordsrv.Options{Restart: true, Plain: meta.Plain, Only: which.number, Called: which.text, Dir: dir, Grace: f.grace, Files: uint64(f.saveFiles()), Patience: control.Patience(f.silent)}
	if err := f.onHosts(&opt); err != nil {
		return err
	}
	return e.drive(job, spec, opt, f)
}

// remember has a job begin anew with what was given.
func remember(f *runFlags, meta *dataset.Meta, mpi string) {
	meta.MPI, meta.Every, meta.Keep, meta.Retries, meta.Restarts = mpi, f.every, f.keep, f.retries, &f.most
	meta.NotAnew, meta.Patience, meta.Wait = f.notAnew, f.silent, &f.wait
	meta.Grace, meta.Reason = f.grace, ""
	meta.Fsync, meta.Lazy, meta.Policy, meta.MPIArgs, meta.Writers = f.fsync, f.lazy, f.policy, f.mpiArgs, f.writers
	meta.Refused, meta.Caches, meta.Files = f.refused, f.ownCaches(), f.files
	meta.State, meta.Exit, meta.Ended = dataset.StateRunning, 0, time.Time{}
}

// asked is the number of what was chosen in a job, or one that stands for it, 0: nothing was.
func (c chosen) asked(job *dataset.Job) (uint64, error) {
	switch {
	case c.none() || c.number != 0:
		return c.number, nil
	case !job.Meta.Plain:
		return 0, usage(fmt.Errorf("restart: --checkpoint %q, wanted a number", c.text))
	}
	return anyNumber, nil
}

// anyNumber stands for that of a dataset that was named.
const anyNumber = math.MaxUint64

// kindOf is how a checkpoint or dataset is called of which the store has nothing.
func kindOf(job *dataset.Job, n uint64) string {
	if job.Meta.Plain {
		return fmt.Sprintf("dataset %d", n)
	}
	return fmt.Sprintf("checkpoint %d", n)
}

// checkNewest says that there is nothing that a job can go on from, or not the newest that it had, unless one was asked for.
// Copied: nodes have copied what they had, and what is there of it is in the store.
func checkNewest(job *dataset.Job, onNodes, copied bool, only uint64) error {
	images, earlier, err := pickOwn(job, 0)
	if err != nil || only != 0 || onNodes && job.Meta.Caches != nil {
		return err
	}
	newest := uint64(0)
	if len(images) > 0 {
		newest = images[len(images)-1]
	}
	if n := job.Meta.Cached; n > newest && !onNodes {
		text := fmt.Sprintf("cli: restart %s: %s is in the caches of its nodes: restart there, with --hosts or --sandbox", job.Meta.Name, kindOf(job, n))
		if c := job.Meta.Caches; c != nil && c.Scavenge > 0 && !copied {
			text += fmt.Sprintf(", or wait until they have copied it to the store, %v after the end of byssus", c.Scavenge)
		}
		if newest > 0 {
			text += fmt.Sprintf(", or give it up: --checkpoint %d", newest)
		}
		return exitError{ExitNot, errors.New(text)}
	}
	if newest > 0 {
		return nil
	}
	text := "there is no checkpoint to go on from"
	switch {
	case len(earlier) > 0:
		text += fmt.Sprintf(": %s is of an earlier job of this name", numberList(earlier))
	case job.Meta.State == dataset.StateFinished:
		text = "it has finished, and no checkpoint of it is kept"
	}
	return exitError{ExitNot, fmt.Errorf("cli: restart %s: %s", job.Meta.Name, text)}
}

// assemble puts together what the nodes have copied to the store, and locks the job. What is still being copied is waited for,
// as long as that comes on: who locks the job ends it.
func (e *env) assemble(job *dataset.Job, onNodes bool, only uint64) error {
	parts, err := job.Scavenged().Parts()
	if err != nil {
		return err
	}
	if len(parts) == 0 && !job.Locked() {
		if err := checkNewest(job, onNodes, false, only); err != nil {
			return err
		}
	}
	shown := ui.Start(os.Stderr, func() string { return "waiting for nodes that copy their caches to the store" })
	err = job.Scavenged().Await(scavengePatience)
	shown.Stop()
	if err == nil {
		err = job.Lock()
	}
	if err != nil {
		return err
	}
	wanted := only
	if job.Meta.Plain { // all streams are put together as far as they can be
		wanted = 0
	}
	if err = coordsrv.Assemble(job, wanted, e.say); err == nil {
		err = checkNewest(job, onNodes, len(parts) > 0, only)
	}
	if err != nil {
		job.Unlock()
	}
	return err
}

// scavengePatience is how long what a node copies may not grow before it counts as lost.
const scavengePatience = 20 * time.Second

// keepOld takes over what was not given.
func (f *runFlags) keepOld(changed func(string) bool, meta *dataset.Meta) {
	f.ranks = meta.Ranks
	if !changed("mpi") {
		f.mpi = "auto"
		if _, err := makeSpec(&runFlags{mpi: meta.MPI}, "", ""); err == nil {
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
	if !changed("silent-after") && meta.Patience > 0 {
		f.silent = meta.Patience
	}
	if !changed("wait-for-nodes") && meta.Wait != nil {
		f.wait = *meta.Wait
	}
	if !changed("no-restart-from-start") {
		f.notAnew = meta.NotAnew
	}
	if !changed("max-restarts") {
		f.most = meta.MostRestarts()
	}
	if !changed("fsync") {
		f.fsync = meta.Fsync
	}
	if !changed("lazy") {
		f.lazy = meta.Lazy
	}
	if !changed("save-files") && meta.Files != "" {
		f.files = meta.Files
	}
	if !changed("policy") {
		f.policy = meta.Policy
	}
	if !changed("refused") && meta.Refused != "" {
		f.refused = meta.Refused
	}
	f.keepOldCaches(changed, meta)
	if !changed("mpi-args") && f.mpi == meta.MPI && !(f.mpi == launch.MPICH && f.onNodes()) { // which has no mpirun there
		f.mpiArgs = meta.MPIArgs
	}
	if !changed("grace") && meta.Grace > 0 {
		f.grace = meta.Grace
	}
	if !changed("writers") && meta.Writers > 0 {
		f.writers = meta.Writers
	}
}

// gaveUp refuses to go on with a job that has finished, and whose newest checkpoint was in the caches of nodes, which gave it
// up then: an older one does not take its place in silence.
func gaveUp(job *dataset.Job, only uint64) error {
	if job.Meta.State != dataset.StateFinished || only != 0 {
		return nil
	}
	own, err := mainStream(job).Own()
	switch {
	case err != nil || len(own) > 0 && slices.Max(own) >= job.Meta.Cached:
		return err
	case job.Meta.Cached == 0:
		return exitError{ExitNot, fmt.Errorf("cli: restart %s: it has finished, and no checkpoint of it is kept", job.Meta.Name)}
	}
	text := "nothing of it is kept"
	if len(own) > 0 {
		text = fmt.Sprintf("to do again what follows an older checkpoint: --checkpoint %d", slices.Max(own))
	}
	return exitError{ExitNot, fmt.Errorf("cli: restart %s: it has finished, and its nodes have given %s up; %s", job.Meta.Name, kindOf(job, job.Meta.Cached), text)}
}
