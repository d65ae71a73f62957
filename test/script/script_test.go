// Package script runs the command line's tests: testdata/*.txtar, one situation each, every message that a user can
// meet with its exit code. Scripts are those of rogpeppe's testscript with the commands listed at commands.
//
// Mounts are made in a mount namespace of the test's own, which ends with it. Background jobs end with their script.
package script

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/byssus-hpc/byssus/test/harness"
)

// inNamespace is set in the environment of the process that has its own mounts, or could not get them.
const inNamespace = "BYSSUS_SCRIPT_NAMESPACE"

// mountsLock is the descriptor of that process at which it has the lock of the machine's mounts, until they are copied.
const mountsLock = 3

// TestMain runs the tests again in a mount namespace of their own.
func TestMain(m *testing.M) {
	if os.Getenv(inNamespace) != "" {
		if os.Getenv(inNamespace) == "yes" {
			os.NewFile(mountsLock, "the lock of the mounts").Close() // they are copied
		}
		os.Exit(m.Run())
	}
	unshare := []string{"unshare", "--mount"}
	if os.Getuid() != 0 {
		unshare = []string{"unshare", "--user", "--map-root-user", "--mount"}
	}
	if exec.Command(unshare[0], append(unshare[1:], "true")...).Run() != nil {
		os.Setenv(inNamespace, "no")
		os.Exit(m.Run())
	}
	cmd := exec.Command(unshare[0], append(unshare[1:], os.Args...)...)
	cmd.Env = append(os.Environ(), inNamespace+"=yes", harness.SharesVariable())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	lock, err := harness.MountsLock(false)
	if err == nil {
		cmd.ExtraFiles = []*os.File{lock} // mountsLock
		err = errors.Join(cmd.Start(), lock.Close())
	}
	if err == nil {
		err = cmd.Wait()
	}
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || cmd.ProcessState == nil) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(cmd.ProcessState.ExitCode())
}

// limit is how long all scripts together may take, with what they wait for their shares of the machine.
const limit = 50 * time.Minute

func TestScripts(t *testing.T) {
	site, err := harness.Here()
	if err != nil {
		t.Fatal(err)
	}
	if err := site.Build(); err != nil {
		t.Fatal(err)
	}
	// A script that is cut off waits for whoever holds its pipes.
	watchdog := time.AfterFunc(limit+2*time.Minute, harness.EndBelow)
	t.Cleanup(func() { watchdog.Stop() }) // after the scripts, which run beside each other
	testscript.Run(t, testscript.Params{
		Files: scripts(t),
		Cmds:  commands(),
		Setup: func(e *testscript.Env) error {
			release, err := harness.ShareFor(t.Context(), e.T().Log, harness.Light)
			if err != nil {
				return err
			}
			e.Defer(release)
			s := newState(e, site)
			e.Values[stateKey{}] = s
			e.Defer(s.close)
			e.Setenv("PATH", filepath.Dir(site.Byssus)+":"+os.Getenv("PATH"))
			e.Setenv("BYSSUS_DIR", filepath.Join(e.WorkDir, "store"))
			e.Setenv("APPS", filepath.Join(site.Root, "build/test"))
			e.Setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
			e.Setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
			e.Setenv("MPIR_CVAR_POLLS_BEFORE_YIELD", "1") // as harness.Environment has it
			e.Setenv("OMPI_MCA_mpi_yield_when_idle", "1")
			e.Setenv("TMPDIR", "/tmp")
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "mounts":
				return os.Getenv(inNamespace) == "yes", nil
			case "queues":
				return os.Getenv(inNamespace) == "yes" && queues(t.TempDir()), nil
			}
			return false, fmt.Errorf("unknown condition %s", name)
		},
		Deadline: time.Now().Add(limit),
	})
}

// scripts are all but two thirds of those that take longest.
func scripts(t *testing.T) []string {
	longest := []string{"input", "nodes", "caches", "scavenge", "hosts", "stores", "finalize", "clocks", "moments", "terminate", "children", "room", "hiccups"}
	all, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(file string) bool {
		i := slices.Index(longest, strings.TrimSuffix(filepath.Base(file), ".txtar"))
		return i >= 0 && !harness.Chosen(i)
	})
}

// queues says whether POSIX message queues can be mounted here, in the test's own namespace.
func queues(dir string) bool {
	return exec.Command("mount", "-t", "mqueue", "none", dir).Run() == nil && exec.Command("umount", dir).Run() == nil
}

// commands are what scripts can use beyond testscript's own.
func commands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"byssus": cmdByssus, // byssus CODE ARG...    runs byssus; its exit code must be CODE (fail: any but 0)
		"says":   cmdSays,   // [!] says REGEXP       the last byssus said so on standard error
		"prints": cmdPrints, // [!] prints REGEXP     the last byssus printed that on standard output
		"start":  cmdStart,  // start NAME [<FILE] ARG...   starts byssus in the background; <-: its standard input is a pipe
		"feed":   cmdFeed,   // feed NAME [FILE]      writes a file into that; none: its end
		"until":  cmdUntil,  // until NAME REGEXP     waits until it prints that
		"await":  cmdAwait,  // await NAME CODE       waits until it ends; says and prints look at it then
		"signal": cmdSignal, // signal NAME SIGNAL [all|timeout]   INT to its process group, others to it; all: to it and all below it;
		// timeout: to it, then to its group, as timeout(1) does
		"signal-launcher": cmdSignalLauncher, // signal-launcher NAME SIGNAL
		"gone":            cmdGone,           // gone              waits until no rank or launcher is left whose byssus is gone
		"signal-rank":     cmdSignalRank,     // signal-rank NAME RANK SIGNAL
		"until2":          cmdUntil2,         // until2 NAME REGEXP    waits until it says that on standard error
		"lose":            cmdLose,           // lose NAME RANK        kills a rank of it
		"appear":          cmdAppear,         // appear FILE...        waits until one of the files exists
		"tmpfs":           cmdTmpfs,          // tmpfs DIR OPTIONS     mounts a tmpfs (or remounts it with remount,...)
		"fill":            cmdFill,           // fill FILE             writes until the file system is full
		"cut":             cmdCut,            // cut FILE BYTES        shortens a file by so many bytes
		"flip":            cmdFlip,           // flip FILE OFFSET      turns one bit; OFFSET may be data (in the middle of the memory)
		"poke":            cmdPoke,           // poke FILE OFFSET HEX  overwrites bytes
		"future":          cmdFuture,         // future DIR            gives a checkpoint's images a format version to come
	}
}

// state is what the commands of one script share.
type state struct {
	site   harness.Site
	env    *testscript.Env
	jobs   map[string]*harness.Proc
	inputs map[string]*os.File // pipes to them
	stdout string
	stderr string
	mounts []string
}

type stateKey struct{}

func newState(e *testscript.Env, site harness.Site) *state {
	return &state{site: site, env: e, jobs: map[string]*harness.Proc{}, inputs: map[string]*os.File{}}
}

func (s *state) close() {
	for _, p := range s.jobs {
		p.Kill()
	}
	for _, w := range s.inputs {
		w.Close() // once more, perhaps
	}
	harness.KillOrphans(s.mark())
	s.destroySandboxes()
	for _, dir := range s.mounts {
		_ = exec.Command("umount", "-l", dir).Run() // the namespace ends soon anyway
	}
}

// mark is what the script's own processes have in their environment: others run beside it.
func (s *state) mark() string { return "WORK=" + s.env.WorkDir }

// destroySandboxes ends what a script that has failed did not end: sandboxes in $WORK/run.
func (s *state) destroySandboxes() {
	run := filepath.Join(s.env.WorkDir, "run")
	left, _ := filepath.Glob(filepath.Join(run, "byssus/sandboxes/[a-z]*")) // the pattern is sound
	for _, dir := range left {
		cmd := exec.Command(s.site.Byssus, "sandbox", "destroy", filepath.Base(dir))
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+run)
		_ = cmd.Run() // the script has failed anyway
	}
}

// of returns the state of a script.
func of(ts *testscript.TestScript) *state { return ts.Value(stateKey{}).(*state) }

// environment is the script's, for a child.
func environment(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"PATH", "BYSSUS_DIR", "BYSSUS_FAULT", "APPS", "WORK", "HOME", "TMPDIR", "XDG_RUNTIME_DIR", "TEST_RESULTS",
		"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "MPIR_CVAR_POLLS_BEFORE_YIELD", "OMPI_MCA_mpi_yield_when_idle"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// need ends the script when the number of arguments is not as documented.
func need(ts *testscript.TestScript, args []string, least int) {
	if len(args) < least {
		ts.Fatalf("%d arguments, want %d: %s", len(args), least, strings.Join(args, " "))
	}
}
