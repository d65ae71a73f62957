package cli

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/host/elfcheck"
	"github.com/byssus-hpc/byssus/internal/host/launch"
	"github.com/byssus-hpc/byssus/internal/host/sandbox"
	"github.com/byssus-hpc/byssus/internal/host/spawn"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// runFlags are the options of run, some of which restart has too.
type runFlags struct {
	ranks   int
	mpi     string
	job     string
	every   time.Duration
	keep    int
	retries int
	most    int
	notAnew bool
	runWay
	fsync   bool
	lazy    bool
	policy  string
	files   string
	refused string
	mpiArgs []string
	verbose bool
	writers int
	grace   time.Duration
	hosts   []string
	spares  int
	rsh     string
	address string
	sandbox string
	silent  time.Duration
	wait    time.Duration
	groups  []string
	caches  dataset.Caches
}

// runWay is how a program is run.
type runWay struct {
	resume, plain, script bool
	survivors             string
	shrink                bool
	route                 routeFlags
}

func (f *runFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.IntVarP(&f.ranks, "ranks", "n", 1, "number of ranks")
	fl.StringVar(&f.mpi, "mpi", "auto", "MPI to run under: auto, mpich or openmpi")
	fl.DurationVar(&f.every, "every", 0, "take a checkpoint every so often, as 10m, at least 1s (default: only on request)")
	fl.IntVar(&f.keep, "keep", 2, "committed checkpoints to keep")
	fl.IntVar(&f.retries, "retries", 3, "restarts without a checkpoint beyond the point of the death before giving up")
	fl.IntVar(&f.most, "max-restarts", dataset.DefaultRestarts, "and in all, 0: any number")
	fl.BoolVar(&f.notAnew, "no-restart-from-start", false, "when a node is lost before the first checkpoint: end the job, do not begin it anew")
	fl.BoolVar(&f.fsync, "fsync", true, "a checkpoint counts only when it is on stable storage")
	fl.BoolVar(&f.lazy, "lazy", false, "map images on restart and verify them in the background instead of reading them first")
	fl.StringVar(&f.policy, "policy", "refuse", "when something cannot be saved: refuse the checkpoint, or drop it")
	fl.StringVar(&f.files, "save-files", "4GiB", "how much of files that the job reads and writes in place a checkpoint may save, or none")
	fl.StringVar(&f.refused, "refused", "end", "a call of an MPI function that is refused: end the job with the reason, or answer with an MPI error")
	fl.StringArrayVar(&f.mpiArgs, "mpi-args", nil, "an argument for mpirun (repeat for more)")
	fl.IntVar(&f.writers, "writers", 1, "threads of a rank that write its image")
	fl.DurationVar(&f.grace, "grace", coord.DefaultGrace, "from SIGTERM to the end of the job, with or without a checkpoint")
	fl.StringSliceVar(&f.hosts, "hosts", nil, "run on these nodes, with an agent on each; all must see the store under the same path")
	fl.IntVar(&f.spares, "spares", 0, "of the hosts, how many at the end of the list to keep for when one of the others is lost")
	fl.StringVar(&f.rsh, "rsh", "", "command that starts another on a host: its words, the host's name, the command (default ssh)")
	fl.StringVar(&f.address, "address", "", "address of this machine that the hosts can reach (default: that of its name)")
	fl.DurationVar(&f.silent, "silent-after", time.Duration(control.DefaultPatience), "for how long a node may be silent before it counts as lost, 300ms to 1h")
	fl.DurationVar(&f.wait, "wait-for-nodes", time.Minute, "for how long a job that cannot go on without lost nodes waits for them, 0: not at all")
	fl.StringVar(&f.sandbox, "sandbox", "", "run on the nodes of this sandbox (byssus sandbox); the store must be in its prefix")
	f.addCaches(cmd)
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "tell about every checkpoint; of run: also what doctor says of the program")
	complete := func(values ...string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return values, cobra.ShellCompDirectiveNoFileComp
		}
	}
	for name, f := range map[string]func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective){
		"mpi": complete("auto", launch.MPICH, launch.OpenMPI), "policy": complete("refuse", "drop"),
		"refused": complete("end", "error"), "redundancy": complete("single", "partner", "partner:2", "partner:3", "xor"),
		"transport": complete("encrypted", "authenticated"),
	} {
		if err := cmd.RegisterFlagCompletionFunc(name, f); err != nil {
			panic(err) // the flag was defined a few lines above
		}
	}
}

// check finds what is wrong with the options.
func (f *runFlags) check() error {
	switch {
	case f.ranks < 1:
		return usage(fmt.Errorf("run: %d ranks, wanted at least 1", f.ranks))
	case f.keep < 1:
		return usage(fmt.Errorf("run: --keep %d, wanted at least 1", f.keep))
	case f.retries < 0:
		return usage(fmt.Errorf("run: --retries %d, wanted at least 0", f.retries))
	case f.most < 0:
		return usage(fmt.Errorf("run: --max-restarts %d, wanted at least 0", f.most))
	case f.every < 0 || f.every > 0 && f.every < time.Second:
		return usage(fmt.Errorf("run: --every %v, wanted at least 1s", f.every))
	case f.grace < time.Second || f.grace > 24*time.Hour:
		return usage(fmt.Errorf("run: --grace %v, wanted 1s to 24h", f.grace))
	case f.policy != "refuse" && f.policy != "drop":
		return usage(fmt.Errorf("run: --policy %q, wanted refuse or drop", f.policy))
	case f.saveFiles() < 0:
		return usage(fmt.Errorf("run: --save-files %q, wanted a size, as 4GiB, or none", f.files))
	case f.refused != "end" && f.refused != "error":
		return usage(fmt.Errorf("run: --refused %q, wanted end or error", f.refused))
	case f.mpi != "auto" && f.mpi != launch.MPICH && f.mpi != launch.OpenMPI:
		return usage(fmt.Errorf("run: --mpi %q, wanted auto, mpich or openmpi", f.mpi))
	case f.silent < time.Duration(control.LeastPatience) || f.silent > time.Duration(control.MostPatience):
		return usage(fmt.Errorf("run: --silent-after %v, wanted %v to %v", f.silent, control.LeastPatience, control.MostPatience))
	case f.wait < 0:
		return usage(fmt.Errorf("run: --wait-for-nodes %v, wanted at least 0", f.wait))
	case f.sandbox != "" && len(f.hosts)+f.spares > 0:
		return usage(errors.New("run: --sandbox has its own nodes and spares, wanted neither --hosts nor --spares"))
	case f.spares < 0 || f.spares > 0 && f.spares >= len(f.hosts):
		return usage(fmt.Errorf("run: --spares %d of %d hosts, wanted fewer than there are", f.spares, len(f.hosts)))
	case f.writers < 1 || f.writers > 64:
		return usage(fmt.Errorf("run: --writers %d, wanted 1 to 64", f.writers))
	}
	if err := f.checkCaches(); err != nil {
		return err
	}
	if err := errors.Join(checkSurvivors(f), checkShrink(f)); err != nil {
		return err
	}
	return f.route.check(&f.runWay, &f.caches)
}

func (e *env) run() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] -- PROGRAM [ARG...]",
		Short: "Run an MPI program so that it can be checkpointed",
		Long: `Run an unmodified MPI program through the mpirun of the MPI that this machine has. Standard input, output and
error, the environment and the exit code are those of the program.

Standard input goes to rank 0, and is kept in the store: when the job goes back to a checkpoint, also by byssus restart,
the program reads on from where it was then. A file is copied when the job begins.

A checkpoint is taken on request (byssus checkpoint), every so often (--every), on SIGUSR1, and before leaving on
SIGTERM, also when a batch system sends that to all processes of the job: it leaves within --grace, with exit code 123
after a checkpoint, or 143 when there was none in time, and never goes on by itself. On SIGINT the job ends at once;
committed checkpoints stay. When a rank dies the job goes on from its newest good checkpoint by itself, at most
--retries times without a checkpoint beyond the point at which it died, and at most --max-restarts times in all. It goes
back to the newest checkpoint twice, then to older ones, since what kills it may be in the newest.

PROGRAM may be a wrapper that starts the MPI program as a child: the process that calls MPI_Init is the rank, and is
saved. At a restart the wrapper is run again from its beginning, with BYSSUS_RESTART in its environment, and the MPI
program goes on from its image when it is started with the same arguments.

A call of an MPI function that is refused (byssus doctor lists them) ends the job with the reason, exit code 125. With
--refused=error it is answered with an MPI error, as the error handler of its communicator wants it, for programs that
handle it; after that no checkpoint of the job can be taken.

With --resume one line does for all parts of a job that is longer than its time slices: it runs the job when there is
none of that name, or none that has a checkpoint; goes on from the newest checkpoint otherwise, as byssus restart does;
and ends with 0 at once when the job has finished.

A node that says nothing for --silent-after counts as lost, and its ranks end; the job goes on on the others and spares.
A long time bridges hiccups of the network of about half its length, and makes a dead node be noticed late. When more is
lost than redundancy covers, or no node is left, the job waits --wait-for-nodes for lost nodes that come back with their
caches, as byssus restart on the same nodes would find them. It goes on as soon as enough of them are there for the newest
checkpoint, or after half of that time from an older one that is whole.

On nodes a job that loses one before its first checkpoint begins anew, since nothing is lost; what it has printed it
prints again. --no-restart-from-start ends it.

With --files a program that writes checkpoint files, and knows nothing of Byssus, gets caches, redundancy and spares for them: files
whose names the expression has are led into the memory of nodes, count when nothing happens to them any more, and are copied to
where the program has put them. After the loss of a node all of the newest are there again, and --restart-cmd goes on from them.
With --survivors keep the ranks of a program that makes snapshots of its memory, and has no MPI, live on when one dies: another process
takes its place, and all restore the newest. With --shrink, a program that goes on on any number of ranks (of package amt, say) is started
again on the nodes that are left, with so many ranks fewer as the lost node had, unless there is a spare.

A job without --job is called after its program, and leaves nothing behind when it finishes with exit code 0.`,
		Example: `  byssus run -n 4 -- lmp -in in.melt
  byssus run -n 2 --job melt --every 10m --keep 3 -- ./app input
  byssus run --resume --job melt -n 64 --every 30m -- ./app input
  byssus run -n 64 --hosts a,b,c,d,e --spares 1 --cache /dev/shm/byssus --every 10m -- ./app
  byssus run --plain --survivors keep -n 64 --hosts a,b,c,d,e --spares 1 --cache /dev/shm/byssus -- ./app
  byssus run --plain --shrink -n 64 --hosts a,b,c,d --cache /dev/shm/byssus -- ./tasks
  byssus run -n 64 --hosts a,b,c,d,e --spares 1 --cache /dev/shm/byssus \
      --files 'rst\.(\d+)\..*' --restart-cmd 'lmp -in in.again' -- lmp -in in.melt`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(errors.New("run: no program given"))
			}
			return f.check()
		},
		RunE: func(cmd *cobra.Command, args []string) error { return e.runOrResume(cmd, &f, args) },
	}
	cmd.Flags().SetInterspersed(false)
	f.add(cmd)
	cmd.Flags().StringVar(&f.job, "job", "", "name of the job (default: the program's name, made unique)")
	addPlain(cmd, &f)
	cmd.Flags().BoolVar(&f.resume, "resume", false, "go on with --job if it has something to go on from; if it has finished, do nothing")
	return cmd
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// jobName is the name asked for, or a free one after the program.
func (f *runFlags) jobName(program string) string {
	if f.job != "" {
		return f.job
	}
	name := notInNames.ReplaceAllString(filepath.Base(program), "")
	for name != "" && (name[0] == '.' || name[0] == '_' || name[0] == '-') {
		name = name[1:]
	}
	if name == "" {
		name = "job"
	}
	return name[:min(len(name), 48)] + "*"
}

// runOrResume goes on with a job when that is wanted and there is something to go on from, else runs it.
func (e *env) runOrResume(cmd *cobra.Command, f *runFlags, app []string) error {
	switch {
	case f.plain || f.script || f.route.pattern != "":
		return runOrResumePlain(e, cmd, f, app)
	case !f.resume:
		return e.runNew(f, app)
	}
	if f.job == "" {
		return usage(errors.New("run: --resume, wanted --job with it"))
	}
	store, err := e.store()
	if err != nil {
		return err
	}
	job, err := store.Open(f.job)
	if errors.Is(err, dataset.ErrNoJob) {
		return e.runNew(f, app)
	}
	if err != nil {
		return err
	}
	return resume(e, cmd, f, app, job, func(e *env, f *runFlags, app []string) error { return e.runNew(f, app) })
}

// resume goes on with a job that there is, or runs it if it has nothing to go on from.
func resume(e *env, cmd *cobra.Command, f *runFlags, app []string, job *dataset.Job, run func(*env, *runFlags, []string) error) error {
	name := job.Meta.Name
	own, err := mainStream(job).Own()
	switch {
	case err != nil:
		return err
	case job.Meta.State == dataset.StateFinished:
		e.say(fmt.Sprintf("job %s has finished: nothing is left to do (without --resume it is run again)", name))
		return nil
	case len(own) == 0 && job.Meta.Cached == 0 && !job.Locked():
		return run(e, f, app)
	case len(job.Meta.App) > 0 && !sameProgram(job.Meta, app):
		return exitError{ExitNot, fmt.Errorf("cli: run --resume: job %s is %q, asked for %q: choose another name", name, strings.Join(job.Meta.App, " "), strings.Join(app, " "))}
	case len(job.Meta.App) == 0: // it has not run yet, and what it has was adopted
		return run(e, f, app)
	}
	return e.restartJob(cmd, name, f, chosen{})
}

// sameProgram says whether a job runs this command. The program of a plain one is known by its whole path.
func sameProgram(meta dataset.Meta, app []string) bool {
	if meta.Plain {
		found, err := findProgram(app)
		if err != nil {
			return false
		}
		app = found
	}
	return slices.Equal(meta.App, app)
}

func (e *env) runNew(f *runFlags, app []string) error {
	if f.job != "" {
		if err := dataset.CheckName(f.job); err != nil {
			return usage(err)
		}
	}
	report, err := elfcheck.Check(app[0], faces())
	if err != nil {
		return err
	}
	if err := e.warn(report, f.verbose); err != nil {
		return err
	}
	under := report.Face
	if under == "" && f.mpi == "auto" { // it may start the MPI program
		under = elfcheck.FaceOf(app)
	}
	spec, err := makeSpec(f, report.Face, under)
	if err != nil {
		return err
	}
	store, err := e.store()
	if err != nil {
		return err
	}
	if err := coordsrv.CheckStore(filepath.Join(store.Dir, f.jobName(app[0]))); err != nil {
		return err
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	cwd, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("cli: run: %w", err)
	}
	job, err := store.Create(dataset.Meta{Name: f.jobName(app[0]), ID: hex.EncodeToString(id), App: app, Dir: cwd,
		Ranks: f.ranks, MPI: spec.MPI.Name, Face: report.Face, MPIArgs: f.mpiArgs, Every: f.every, Keep: f.keep, Retries: f.retries, Restarts: &f.most, NotAnew: f.notAnew, Patience: f.silent, Wait: &f.wait,
		Fsync: f.fsync, Lazy: f.lazy, Policy: f.policy, Files: f.files, Refused: f.refused, Writers: f.writers, Grace: f.grace, Caches: f.ownCaches(), State: dataset.StateRunning, Started: time.Now()})
	if errors.Is(err, dataset.ErrExists) {
		return fmt.Errorf("%w: go on with byssus restart %s, or choose another name", err, f.job)
	}
	if err != nil {
		return err
	}
	spec.App = app
	opt := coordsrv.Options{Grace: f.grace, Files: uint64(f.saveFiles()), Patience: control.Patience(f.silent)}
	if err := f.onHosts(&opt); err != nil {
		e.unstarted(job)
		job.Unlock()
		return err
	}
	return e.drive(job, spec, opt, f)
}

// findProgram finds a program as a shell does.
func findProgram(app []string) ([]string, error) {
	path, err := exec.LookPath(app[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, exitError{ExitStart, fmt.Errorf("cli: run: %w", err)}
	}
	return append([]string{path}, app[1:]...), nil
}

// warn says in a line why the program will not start, as doctor does. What it may call, and what is refused then, it need not
// call: that is said by doctor, with --verbose, and when it does.
func (e *env) warn(r *elfcheck.Report, verbose bool) error {
	found, err := judge(r)
	if err != nil {
		return err
	}
	if !verbose {
		found = slices.DeleteFunc(found, func(f finding) bool { return !f.start })
	}
	if text := worst(r, found); text != "" {
		e.say(text)
	}
	return nil
}

// makeSpec finds the MPI and our own files. The program itself was linked against the one that face names, or to none; what is started in
// the end, against that which under names.
func makeSpec(f *runFlags, face, under string) (launch.Spec, error) {
	libDir, err := launch.LibDir()
	if err != nil {
		return launch.Spec{}, err
	}
	program, err := launch.RankProgram(libDir)
	if err != nil {
		return launch.Spec{}, exitError{ExitStart, err}
	}
	mpi, err := launch.Choose(f.mpi, under)
	if err != nil {
		return launch.Spec{}, exitError{ExitStart, fmt.Errorf("%w (byssus doctor tells more)", err)}
	}
	if err := checkArgs(mpi.Name, f.mpiArgs, f.onNodes()); err != nil {
		return launch.Spec{}, err
	}
	return launch.Spec{MPI: mpi, Ranks: f.ranks, Program: program, Args: f.mpiArgs, Face: face, LibDir: libDir, Verbose: f.verbose,
		Saving: launch.Saving{Writers: f.writers, Policy: f.policy, NoFiles: f.saveFiles() == 0, Refused: f.refused, Lazy: f.lazy}}, nil
}

// saveFiles is how many bytes of files that are read and written in place a checkpoint may have, negative if that is no size.
func (f *runFlags) saveFiles() int64 {
	if f.files == "none" {
		return 0
	}
	n, err := sandbox.ParseSize(f.files)
	if err != nil {
		return -1
	}
	return n
}

// checkArgs names what mpirun would be told and cannot do here.
func checkArgs(mpi string, args []string, nodes bool) error {
	if nodes && mpi == launch.MPICH && len(args) > 0 {
		return usage(errors.New("run: --mpi-args are for mpirun, which does not start the ranks of MPICH on several nodes"))
	}
	input := map[string][]string{launch.MPICH: {"-s", "--s"}, launch.OpenMPI: {"-stdin", "--stdin"}}
	for _, a := range args {
		if slices.Contains(input[mpi], a) {
			return usage(fmt.Errorf("run: --mpi-args %s: standard input is for rank 0, and does not come from mpirun", a))
		}
	}
	return nil
}

// onNodes says whether the job is to run on several nodes.
func (f *runFlags) onNodes() bool { return f.sandbox != "" || len(f.hosts) > 0 }

// drive runs a job, or goes on with it, to its end. When it cannot go on without nodes that it has lost, these are waited for.
func (e *env) drive(job *dataset.Job, spec launch.Spec, opt coordsrv.Options, f *runFlags) error {
	signals, stop := catch(len(opt.Hosts) > 0)
	defer stop()
	broken := make(chan os.Signal, 1) // who read what we say may be gone: the job stays. Caught, not ignored: children inherit that
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	defer job.Unlock()
	if job.Weak != nil && job.Meta.Fsync {
		e.say(job.Weak.Error())
	}
	opt.Signals, opt.Until = signals, allocationEnd()
	if f.verbose {
		e.say(fmt.Sprintf("job %s: %d ranks under %s (%s)", job.Meta.Name, spec.Ranks, spec.MPI.Name, spec.MPI.Mpirun))
	}
	end, err := e.live(job, spec, opt, f.verbose)
	if err != nil {
		e.unstarted(job)
		return err
	}
	if end.Robbed && len(opt.Hosts) > 0 && f.wait > 0 {
		end = e.outlast(end, job, spec, opt, f)
	}
	return e.record(job, end, signals)
}

// outlast goes on with a job that has lost nodes, as often as it comes to new checkpoints, and --retries times without.
func (e *env) outlast(end coordsrv.End, job *dataset.Job, spec launch.Spec, opt coordsrv.Options, f *runFlags) coordsrv.End {
	last := newest(job)
	for tries := 0; end.Robbed && tries <= f.retries; tries++ {
		opt.Starts = end.Starts
		again, ok := e.goOn(job, spec, opt, f)
		if !ok {
			break
		}
		end = again
		if n := newest(job); n > last {
			tries, last = 0, n
		}
	}
	return end
}

// newest is the number of the newest checkpoint that a job has had, 0: none.
func newest(job *dataset.Job) uint64 {
	own, _ := mainStream(job).Own() // a store that does not answer now is told of elsewhere
	return max(job.Meta.Cached, slices.Max(append(own, 0)))
}

// tryEvery is how often nodes that were lost are called again.
const tryEvery = time.Second

// goOn goes on with a job as restart would, when its nodes are there again; false: they are not in time, or somebody wants to leave.
// For half of the time an older checkpoint does not take the place of one that nodes that are still away may have.
// The job stays locked, in its term: should this byssus give up, its nodes still copy to the store what they have.
func (e *env) goOn(job *dataset.Job, spec launch.Spec, opt coordsrv.Options, f *runFlags) (coordsrv.End, bool) {
	e.say(fmt.Sprintf("waiting for the lost nodes, %v at most (--wait-for-nodes)", f.wait))
	opt.Restart, opt.Only, opt.Say = true, 0, e.sayOnce()
	begun, late := time.Now(), time.After(f.wait)
	why := errors.New("none has been called")
	for {
		select {
		case sig := <-opt.Signals:
			if coordsrv.EndsWaiting(sig) {
				return coordsrv.End{}, false
			}
			continue
		case <-late:
			e.say(fmt.Sprintf("the lost nodes have not come back within %v: %v", f.wait, why))
			return coordsrv.End{}, false
		case <-time.After(tryEvery):
		}
		opt.Hosts, opt.Patient = nil, time.Since(begun) < f.wait/2
		if why = f.onHosts(&opt); why != nil { // those of a sandbox that are up now
			continue
		}
		var end coordsrv.End
		if end, why = e.live(job, spec, opt, f.verbose); why == nil && !end.Lacked {
			return end, true
		}
		if why == nil {
			why = errors.New(job.Meta.Reason)
		}
		opt.Starts = max(opt.Starts, end.Starts)
	}
}

// sayOnce says to the user what it has not said yet.
func (e *env) sayOnce() func(string) {
	said := map[string]bool{}
	return func(text string) {
		if !said[text] {
			e.say(text)
		}
		said[text] = true
	}
}

// live runs a job, or goes on with it, until it ends or cannot go on.
func (e *env) live(job *dataset.Job, spec launch.Spec, opt coordsrv.Options, verbose bool) (coordsrv.End, error) {
	runDir, err := makeRunDir(job)
	if err != nil {
		return coordsrv.End{}, err
	}
	defer removeRunDir(runDir)
	if len(opt.Hosts) == 0 {
		if opt.Spawn, err = spawn.Start(); err != nil {
			return coordsrv.End{}, err
		}
		defer opt.Spawn.Close()
	}
	spec.Job = job.Meta.Name
	opt.Job, opt.Spec, opt.RunDir, opt.Version = job, spec, runDir, Version
	opt.Environ, opt.Fault, opt.Input = os.Environ(), os.Getenv("BYSSUS_FAULT"), os.Stdin
	if opt.Say == nil {
		opt.Say = e.say
	}
	opt.Took = func(r coord.Result) {
		if verbose {
			e.say(took(r))
		}
	}
	opt.Progress = func(text func() string) func() { return ui.Start(os.Stderr, text).Stop }
	return coordsrv.Run(opt)
}

// storePatience is how long a job that is over waits for a store that may not answer, to record how it has ended.
const storePatience = 10 * time.Second

// record records how a job has ended, unless the store does not answer; then it is left with its locks, which end with this process.
func (e *env) record(job *dataset.Job, end coordsrv.End, signals <-chan os.Signal) error {
	patience := storePatience
	if end.Silent {
		patience = time.Second
	}
	done, own := make(chan error, 1), *job
	go func() { done <- e.ended(&own, end.Code) }()
	late := time.After(patience)
	for {
		select {
		case err := <-done:
			return err
		case sig := <-signals:
			if sig != syscall.SIGINT && sig != syscall.SIGQUIT {
				continue
			}
		case <-late:
		}
		job.AbandonLocks()
		e.say(fmt.Sprintf("%s does not answer: how the job has ended is not recorded there (exit code %d)", job.Dir, end.Code))
		return exitWith(end.Code)
	}
}

// unstarted removes a job that has never run, and one that was named by us.
func (e *env) unstarted(job *dataset.Job) {
	images, err := mainStream(job).List()
	if err != nil || len(images) > 0 || job.Term > 1 && (!job.Meta.Auto || job.Meta.Caches != nil) {
		return
	}
	if err := job.Remove(); err != nil {
		e.say(err.Error())
	}
}

// took describes a checkpoint. Of ranks that have not gone on after it there is no time for which they stood still.
func took(r coord.Result) string {
	stall := ""
	if r.Stall > 0 {
		stall = ", stall " + ui.Duration(r.Stall)
	}
	return fmt.Sprintf("checkpoint %d: %s%s, committed after %s", r.Checkpoint, ui.Bytes(int64(r.Bytes)), stall, ui.Duration(r.Took))
}

// ended records how a job ended. One that was named by us and has finished is removed.
func (e *env) ended(job *dataset.Job, code int) error {
	job.Meta.Exit, job.Meta.Ended = code, time.Now()
	switch code {
	case 0:
		job.Meta.State = dataset.StateFinished
	case ExitStopped:
		job.Meta.State = dataset.StateStopped
	default:
		job.Meta.State = dataset.StateFailed
	}
	images, err := mainStream(job).List()
	if job.Meta.Auto && (code == 0 || err == nil && len(images) == 0) {
		if err := job.Remove(); err != nil {
			e.say(err.Error())
		}
		return exitWith(code)
	}
	_ = os.Remove(filepath.Join(job.Dir, "run"))
	own, err := mainStream(job).Own()
	own = slices.DeleteFunc(own, func(n uint64) bool { return slices.Contains(job.Meta.Aside, n) })
	if err := job.Save(); err != nil {
		e.say(err.Error())
	}
	if code != 0 && code != ExitStart && err == nil && len(own) > 0 { // which would only fail again
		e.say(fmt.Sprintf("go on from %s with: byssus restart %s", called(job, own[len(own)-1]), job.Meta.Name))
	}
	return exitWith(code)
}

// catch collects the signals that mean something to a running job; the rest keep their default.
func catch(nodes bool) (<-chan os.Signal, func()) {
	ch := make(chan os.Signal, 16)
	list := []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGPIPE,
		syscall.SIGWINCH, syscall.SIGCONT}
	if nodes {
		list = append(list, syscall.SIGTSTP) // Ctrl-Z would let the agents' lease run out
	}
	for _, sig := range list {
		if !signal.Ignored(sig) {
			signal.Notify(ch, sig)
		}
	}
	return ch, func() { signal.Stop(ch) }
}
