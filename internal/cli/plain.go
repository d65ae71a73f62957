package cli

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/host/elfcheck"
	"github.com/byssus-hpc/byssus/internal/host/launch"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

// plainJob is the name of a plain job that has none.
const plainJob = "scr"

// prefix is the directory below which a plain program's files have their names.
func prefix() (string, error) {
	if dir := os.Getenv("SCR_PREFIX"); dir != "" {
		return filepath.Abs(dir)
	}
	return os.Getwd()
}

// mayMake are the rights that making a file in a directory needs: to write it, and to search it.
const mayMake = 0o3

// checkPrefix looks whether files can be written in the prefix, if there is one yet.
func checkPrefix() error {
	dir, err := prefix()
	if err != nil {
		return err
	}
	found := ""
	if st, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil // it is made
	} else if err != nil {
		found = err.Error()
	} else if !st.IsDir() {
		found = "a file"
	} else if err := syscall.Access(dir, mayMake); err != nil {
		found = "a directory that cannot be written: " + err.Error()
	}
	if found == "" {
		return nil
	}
	return fmt.Errorf("cli: run --plain: prefix %s (SCR_PREFIX, else the working directory): found %s, wanted a directory that user %d can write", dir, found, os.Geteuid())
}

// plainStore is the store of a plain job: beside what its program writes, unless another is named.
func plainStore(e *env) (dataset.Store, error) {
	if storeNamed(e) {
		return e.store()
	}
	dir, err := prefix()
	return dataset.Store{Dir: filepath.Join(dir, ".scr")}, err
}

// runPlain runs a program as it is, which writes its checkpoints itself. What is known of those of an earlier run is what it begins with,
// also if that has finished: as with SCR, it is for the program to say whether it restarts.
func runPlain(e *env, f *runFlags, app []string) error {
	if f.every > 0 {
		return usage(errors.New("run: --every is for checkpoints of memory: a program that is run as it is takes its own (SCR_CHECKPOINT_SECONDS says how often)"))
	}
	app, err := findProgram(app)
	if err != nil {
		return err
	}
	face := elfcheck.FaceOf(app)
	spec, err := makeSpec(f, "", face)
	if err != nil {
		return err
	}
	survivors, err := survivorsOf(f, face, spec.MPI.Name)
	if err != nil {
		return err
	}
	spec.App = app
	route, err := f.route.route()
	if err != nil {
		return err
	}
	if err := checkPrefix(); err != nil {
		return err
	}
	store, err := plainStore(e)
	if err != nil {
		return err
	}
	job, err := takePlain(e, store, plainName(f))
	if err != nil {
		return err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	old := job.Meta
	job.Meta = dataset.Meta{Name: plainName(f), ID: old.ID, App: app, Dir: cwd, Ranks: f.ranks, Known: dataset.Known{Plain: true, Outputs: old.Outputs, Route: route, Survivors: survivors}, Cached: old.Cached, MPI: spec.MPI.Name,
		MPIArgs: f.mpiArgs, Keep: f.keep, Retries: f.retries, Restarts: &f.most, NotAnew: f.notAnew, Patience: f.silent, Wait: &f.wait,
		Fsync: f.fsync, Policy: f.policy, Grace: f.grace, Caches: f.ownCaches(), State: dataset.StateRunning, Started: time.Now()}
	if err := job.Save(); err != nil {
		job.Unlock()
		return err
	}
	opt := coordsrv.Options{Plain: true, Anew: route != nil && old.State == dataset.StateFinished, Script: f.script, Shrink: f.shrink, Grace: f.grace, Patience: control.Patience(f.silent)}
	if err := f.onHosts(&opt); err != nil {
		job.Unlock()
		return err
	}
	if f.script { // one start for each node that computes
		spec.Ranks = max(len(opt.Hosts)-opt.Spares, 1)
	}
	return e.drive(job, spec, opt, f)
}

// addPlain adds the flags of programs that are started as they are, and of those whose files are led.
func addPlain(cmd *cobra.Command, f *runFlags) {
	cmd.Flags().BoolVar(&f.plain, "plain", false, "start PROGRAM as it is: it writes its checkpoints itself, by SCR's interface, and restarts from them")
	cmd.Flags().BoolVar(&f.script, "script", false, "run PROGRAM once, as it is: it starts launchers (mpirun) by itself, of programs that write their checkpoints themselves")
	cmd.Flags().StringVar(&f.survivors, "survivors", "end", "of a plain program without MPI, when a rank dies: end them and start all again, or keep them; another process takes its place")
	cmd.Flags().BoolVar(&f.shrink, "shrink", false, "of a plain program that goes on on any number of ranks: start so many fewer when a node is lost for which there is no spare")
	f.route.add(cmd)
}

// keepSurvivors is the value of --survivors by which the survivors of a death go on.
const keepSurvivors = "keep"

// checkSurvivors finds what is wrong with --survivors.
func checkSurvivors(f *runFlags) error {
	switch {
	case f.survivors == "" || f.survivors == "end": // "" of other commands
	case f.survivors != keepSurvivors:
		return usage(fmt.Errorf("run: --survivors %q, wanted end or keep", f.survivors))
	case !f.plain || f.script || f.route.pattern != "":
		return usage(errors.New("run: --survivors keep is for a program that makes snapshots by itself, wanted --plain, and neither --script nor --files"))
	case !f.onNodes() || f.caches.Dir == "":
		return usage(errors.New("run: --survivors keep goes on from what other nodes have, wanted --hosts or --sandbox, and --cache"))
	}
	return nil
}

// checkShrink finds what is wrong with --shrink.
func checkShrink(f *runFlags) error {
	switch {
	case !f.shrink:
		return nil
	case !f.plain || f.script || f.route.pattern != "" || f.survivors == keepSurvivors:
		return usage(errors.New("run: --shrink is for a program that goes on on fewer ranks by itself, wanted --plain, and none of --script, --files and --survivors keep"))
	case !f.onNodes():
		return usage(errors.New("run: --shrink is for the loss of a node, wanted --hosts or --sandbox"))
	}
	return nil
}

// survivorsOf is what ranks do when one has died, of a program of this MPI, or with none.
func survivorsOf(f *runFlags, face, mpi string) (dataset.Survivors, error) {
	switch {
	case f.survivors != keepSurvivors:
		return dataset.SurvivorsEnd, nil
	case face == "":
		return dataset.SurvivorsRejoin, nil
	case mpi == launch.OpenMPI:
		return dataset.SurvivorsSpares, nil
	}
	return "", usage(fmt.Errorf("run: --survivors keep: found a program of %s, wanted one of Open MPI, or without MPI: other launchers end all ranks when one dies", mpi))
}

// plainName is the name of a plain job.
func plainName(f *runFlags) string { return cmp.Or(f.job, plainJob) }

// runOrResumePlain goes on with a plain job if that is wanted and it has something to go on from, else runs it.
func runOrResumePlain(e *env, cmd *cobra.Command, f *runFlags, app []string) error {
	if f.route.pattern != "" && !cmd.Flags().Changed("flush") {
		f.caches.Flush = 1 // its files are to be where it writes them
	}
	if !f.resume {
		return runPlain(e, f, app)
	}
	store, err := plainStore(e)
	if err != nil {
		return err
	}
	job, err := store.Open(plainName(f))
	if errors.Is(err, dataset.ErrNoJob) {
		return runPlain(e, f, app)
	}
	if err != nil {
		return err
	}
	return resume(e, cmd, f, app, job, runPlain)
}

// takePlain locks the plain job of this name, or makes it. What nodes have copied to the store is put together.
func takePlain(e *env, store dataset.Store, name string) (*dataset.Job, error) {
	job, err := store.Open(name)
	if errors.Is(err, dataset.ErrNoJob) {
		id := make([]byte, 16)
		_, _ = rand.Read(id) // never fails
		return store.Create(dataset.Meta{Name: name, ID: hex.EncodeToString(id), Ranks: 1, Known: dataset.Known{Plain: true}, Fsync: true, State: dataset.StateRunning, Started: time.Now()})
	}
	if err == nil && !job.Meta.Plain {
		err = exitError{ExitNot, errors.New("cli: run --plain: job " + name + " is not a plain one: choose another name")}
	}
	if err == nil {
		err = job.Scavenged().Await(scavengePatience)
	}
	if err == nil {
		err = job.Lock()
	}
	if errors.Is(err, dataset.ErrLocked) {
		err = fmt.Errorf("%w: found its lock in %s, wanted one program at a time for a prefix (--job names another job)", err, job.Dir)
	}
	if err != nil {
		return nil, err
	}
	if err := coordsrv.Assemble(job, 0, e.say); err != nil {
		job.Unlock()
		return nil, err
	}
	return job, nil
}
