// Package core holds the core of a rank by itself against programs that use no MPI: test/apps/core_*, under
// test/core/agent.py. Each runs natively, then with checkpoints at random moments in every way to go on after one:
// killed and restarted, ended by order and restarted, and let go; also with lazy restarts, with two writers, and where
// userfaultfd is denied.
//
// It guarantees that what a program prints and returns is, byte for byte, what it prints and returns natively (a killed
// rank is held from its image on, so nothing is printed twice), that at least one checkpoint was taken in each run, and
// that what cannot be saved is named and harms nobody. It decides nothing by time, and prints the seed.
//
//	go test ./test/core                        a selection (part of make test)
//	BYSSUS_TEST_LONG=1 go test ./test/core     all programs x all ways to go on, more checkpoints
//	-seed N -run PATTERN                       one of them again
package core

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/store/format/imagetest"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
	"github.com/byssus-hpc/byssus/test/harness"
)

var seed = flag.Uint64("seed", 0, "of the random moments; 0: from the clock")

// usual is how long programs run at most for the choice of moments: a native run may have been disturbed.
const usual = 2 * time.Second

// patience is how long a command may take before it is ended. The longest takes five seconds on a
// machine that does nothing else.
const patience = 5 * time.Minute

// A program of test/apps. Its arguments make it run for about two seconds.
type program struct {
	file   string
	args   []string
	native []string // more arguments of the native run, which is then much shorter
	rank   string   // that it needs; "": the core without any client
	prints string   // what it must print, when it cannot run natively
}

func programs() []program {
	return []program{
		{file: "core_attributes.c", args: []string{"own", "60"}},
		{file: "core_bulk.c", args: []string{"160", "2"}},
		{file: "core_children.c", args: []string{"8"}},
		{file: "core_count.c", args: []string{"30"}},
		{file: "core_cross.c", native: []string{"native"}, rank: "test/byssus-rank-test"},
		{file: "core_disguise.c", args: []string{"10", "", "two words", "--", "x"}},
		{file: "core_exceptions.cpp", args: []string{"1800"}},
		{file: "core_exec.c", args: []string{"12"}},
		{file: "core_fds.c", args: []string{"60"}},
		{file: "core_layout.c", args: []string{"8"}},
		{file: "core_leader.c", args: []string{"200"}},
		{file: "core_low.c", args: []string{"40"}},
		{file: "core_limits.c", args: []string{"50", "own"}},
		{file: "core_memory.c", args: []string{"45"}},
		{file: "core_mutexes.c", args: []string{"50"}},
		{file: "core_pages.c", args: []string{"45"}},
		{file: "core_pages.c", args: []string{"44"}},
		{file: "core_openmp.c", args: []string{"800"}},
		{file: "core_python.py", args: []string{"5000"}},
		{file: "core_shell.sh", args: []string{"240"}},
		{file: "core_signals.c", args: []string{"50"}},
		{file: "core_space.c", args: []string{"400000"}},
		{file: "core_threads.c", args: []string{"80"}},
		{file: "core_vectors.c", args: []string{"1.2"}},
		{file: "core_drop.c", args: []string{"36"}},
		{file: "core_storm.c", args: []string{"10"}},
		{file: "core_timers.c", args: []string{"100"}},
		{file: "core_window.c", prints: "wrong 0, handled, by the window\n", rank: "test/byssus-rank-test"},
	}
}

// asking are programs that say themselves when they are checkpointed: always after the same lines. Each runs in all ways.
func asking() []program {
	return []program{
		{file: "core_calls.c"},
		{file: "core_dirs.c"},
		{file: "core_full.c"},
		{file: "core_marks.c"},
		{file: "core_objects.c"},
		{file: "core_sockets.c"},
	}
}

func (p program) name() string { return strings.TrimSuffix(p.file, filepath.Ext(p.file)) }

// A way to go on after a checkpoint, as options of the agent.
type way struct {
	mode    string
	options []string
}

func (w way) name() string { return strings.Join(append([]string{w.mode}, w.options...), "") }

// everyWay is the full product; without a restart none is lazy.
func everyWay() []way {
	var all []way
	for _, mode := range []string{"kill", "exit", "go"} {
		all = append(all, way{mode, nil}, way{mode, []string{"--writers=2"}})
		if mode != "go" {
			all = append(all, way{mode, []string{"--lazy"}}, way{mode, []string{"--lazy", "--writers=2"}}, way{mode, []string{"--confined"}})
		}
	}
	return all
}

// ways are those that the i-th program takes: each mode once, the options in turn.
func ways(i int) []way {
	all := everyWay()
	if long() {
		return all
	}
	return []way{all[i%5], all[5+(i+1)%5], all[10+i%2]}
}

func long() bool { return os.Getenv("BYSSUS_TEST_LONG") != "" }

// checkpoints is how many a run has, when it lasts as long as the native one.
func checkpoints() int {
	if long() {
		return 6
	}
	return 3
}

// bench is where programs run: the tree with its build.
type bench struct{ root string }

// ready builds what is run here, one test process after the other.
func ready(t *testing.T) bench {
	t.Helper()
	site, err := harness.Here()
	if err != nil {
		t.Fatal(err)
	}
	build := filepath.Join(site.Root, "build")
	if err := os.MkdirAll(build, 0o777); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(build, "core_test.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, args := range [][]string{{"-C", "rank", "test", "BUILD=" + build}, {"-C", "test/apps", "core"}} {
		cmd := exec.CommandContext(ctx, "make", append([]string{"-s", "-j2"}, args...)...)
		cmd.Dir = site.Root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	if *seed == 0 {
		*seed = harness.Seed()
	}
	t.Logf("-seed %d", *seed)
	return bench{site.Root}
}

// forOthers copies into dir what another user runs here, who may have no way into the tree.
func (b bench) forOthers(t *testing.T, dir string) bench {
	t.Helper()
	for _, part := range []string{"build/lib/byssus", "build/test/core", "test/core"} {
		to := filepath.Join(dir, part)
		if err := os.CopyFS(to, os.DirFS(filepath.Join(b.root, part))); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("chmod", "-R", "a+rX", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bench{dir}
}

// command is the program's command line.
func (b bench) command(p program) []string {
	source := filepath.Join(b.root, "test/apps", p.file)
	switch filepath.Ext(p.file) {
	case ".py":
		return append([]string{"/usr/bin/python3", source}, p.args...)
	case ".sh":
		return append([]string{"/bin/bash", source}, p.args...)
	}
	return append([]string{filepath.Join(b.root, "build/test/core", p.name())}, p.args...)
}

// agent is the command line that runs the program with a checkpoint at each moment.
func (b bench) agent(p program, moments []string, images string, options ...string) []string {
	script := filepath.Join(b.root, "test/core/agent.py")
	argv := []string{"/usr/bin/python3", script, "--times", "--at=" + strings.Join(moments, ","), "--dir=" + images}
	if p.rank != "" {
		argv = append(argv, "--rank="+filepath.Join(b.root, "build", p.rank))
	}
	return append(append(append(argv, options...), "--"), b.command(p)...)
}

// A run is what became of a command.
type run struct {
	argv           []string
	code           int
	stdout, stderr string
	took           time.Duration
}

// do carries out a command in dir, which is also where it finds room for temporary files.
func do(ctx context.Context, dir string, argv []string) (run, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	proc, err := harness.Start(ctx, dir, harness.Environment("TMPDIR="+dir), argv...)
	if err != nil {
		return run{}, err
	}
	r := run{argv: argv, code: proc.ExitCode(), took: proc.Took(), stdout: proc.Stdout.String(), stderr: proc.Stderr.String()}
	if err := ctx.Err(); err != nil {
		return r, fmt.Errorf("%w\n%s", err, r.story())
	}
	return r, nil
}

// taken counts the checkpoints that an agent has taken.
func (r run) taken() int { return strings.Count("\n"+r.stderr, "\nagent: checkpoint ") }

// story is how to carry it out again, and what was said last.
func (r run) story() string {
	again := slices.DeleteFunc(slices.Clone(r.argv), func(arg string) bool { return strings.HasPrefix(arg, "--dir=") })
	return strings.Join(again, " ") + "\n" + harness.Tail(r.stderr)
}

// differs says how r differs from the native run; nil when it does not.
func (r run) differs(native run) error {
	if r.code == native.code && r.stdout == native.stdout {
		return nil
	}
	found, want := strings.Split(r.stdout, "\n"), strings.Split(native.stdout, "\n")
	i := 0
	for i < min(len(found), len(want)) && found[i] == want[i] {
		i++
	}
	line := func(lines []string) string {
		if i < len(lines) {
			return lines[i]
		}
		return "nothing more"
	}
	return fmt.Errorf("exit code %d, want %d; line %d of %d: found %q, want %q\n%s", r.code, native.code, i+1, len(want),
		line(found), line(want), r.story())
}

// scratch is a directory in memory, whose name is short enough for a socket's. It is kept when the test has failed and
// BYSSUS_TEST_DIR says where.
func scratch(t *testing.T) string {
	t.Helper()
	base := os.Getenv("BYSSUS_TEST_DIR")
	if base == "" {
		base = "/dev/shm"
	}
	dir, err := os.MkdirTemp(base, "byssus-core.")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && base != "/dev/shm" {
			t.Logf("kept: %s", dir)
			return
		}
		os.RemoveAll(dir)
	})
	return dir
}

// moments draws when checkpoints are taken: seconds since the program's start or since the checkpoint before, so that
// n of them fit into a run of this length. Now and then one is taken at once.
func moments(random *rand.Rand, n int, length time.Duration) []string {
	list := make([]string, n)
	for i := range list {
		at := random.Float64() * length.Seconds() * 2 / float64(n+1)
		if random.IntN(8) == 0 {
			at = 0
		}
		list[i] = fmt.Sprintf("%.4f", at)
	}
	return list
}

// source is the randomness of one subtest, whatever other subtests run.
func source(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name)) // to a sum
	return rand.New(rand.NewPCG(*seed, h.Sum64()))
}

// TestPrograms runs every program natively and in its ways.
func TestPrograms(t *testing.T) {
	b := ready(t)
	t.Parallel()
	for i, p := range programs() {
		if !harness.Chosen(i) {
			continue
		}
		t.Run(p.name(), func(t *testing.T) {
			t.Parallel()
			harness.Share(t, harness.Light)
			native, err := run{stdout: p.prints}, error(nil)
			if p.prints == "" {
				native, err = do(t.Context(), scratch(t), append(b.command(p), p.native...))
			}
			if err == nil && strings.Contains(native.stdout, "wrong: ") {
				err = fmt.Errorf("natively: %s", native.stdout)
			}
			if err != nil {
				t.Fatal(err)
			}
			length := min(native.took, usual)
			if p.native != nil || p.prints != "" {
				length = usual
			}
			for _, w := range ways(i) {
				t.Run(w.name(), func(t *testing.T) { throughCheckpoints(t, b, p, w, native, length) })
			}
		})
	}
}

// throughCheckpoints runs a program with checkpoints. When it has ended before the first of them, it runs once more and
// is checkpointed at once.
func throughCheckpoints(t *testing.T, b bench, p program, w way, native run, length time.Duration) {
	random := source(t.Name())
	for _, at := range [][]string{moments(random, checkpoints(), length), {"0"}} {
		dir := scratch(t)
		argv := b.agent(p, at, filepath.Join(dir, "images"), append([]string{"--mode=" + w.mode}, w.options...)...)
		r, err := do(t.Context(), dir, argv)
		if err == nil {
			err = r.differs(native)
		}
		if err != nil {
			t.Fatalf("-seed %d: %v", *seed, err)
		}
		if n := r.taken(); n > 0 {
			t.Logf("%d checkpoints at %s; %.1f s, natively %.1f s", n, strings.Join(at, ","), r.took.Seconds(), native.took.Seconds())
			return
		}
	}
	t.Errorf("-seed %d: the program ended before its first checkpoint", *seed)
}

// TestAsking runs programs that ask for their checkpoints, natively and in every way to go on; core_objects also as on a
// kernel that does not tell what kind of counter an eventfd is.
func TestAsking(t *testing.T) {
	b := ready(t)
	t.Parallel()
	for _, p := range asking() {
		t.Run(p.name(), func(t *testing.T) {
			t.Parallel()
			harness.Share(t, harness.Light)
			dir := scratch(t)
			native, err := do(t.Context(), dir, b.command(p))
			if err == nil && strings.Contains(native.stdout, "wrong: ") {
				err = fmt.Errorf("natively: %s", native.stdout)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range []way{{"kill", nil}, {"go", nil}, {"exit", []string{"--lazy"}}, {"kill", []string{"--confined"}}} {
				t.Run(w.name(), func(t *testing.T) { asked(t, b, p, w, native) })
			}
			if p.file == "core_objects.c" {
				w := way{"kill", []string{"--old-kernel"}}
				t.Run(w.name(), func(t *testing.T) { asked(t, b, p, w, native) })
			}
		})
	}
}

// TestDirectories runs core_dirs on overlays, over ext4 or whatever the machine's disk has, and over memory.
func TestDirectories(t *testing.T) {
	b := ready(t)
	for _, base := range []string{t.TempDir(), scratch(t)} {
		dir := scratch(t)
		ask, on := filepath.Join(dir, "ask"), filepath.Join(base, "on")
		mount := "mkdir lower upper work on && mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=work on"
		if r, err := do(t.Context(), base, []string{"unshare", "-m", "sh", "-c", mount}); err != nil || r.code != 0 {
			t.Skipf("SKIP: no overlay on %s: %v %s", base, err, r.stderr)
		}
		mount = strings.TrimPrefix(mount, "mkdir lower upper work on && ")
		p := program{file: "core_dirs.c", args: []string{ask}}
		argv := b.agent(p, slices.Repeat([]string{ask}, 6), filepath.Join(dir, "images"))
		argv = append([]string{"unshare", "-m", "sh", "-c", mount + ` && DIRS=$0 exec "$@"`, on}, argv...)
		asNatively(t, base, argv, run{stdout: "wrong 0\n"})
	}
}

// asked runs a program with a checkpoint whenever it asks, which is at least three times.
func asked(t *testing.T, b bench, p program, w way, native run) {
	dir := scratch(t)
	ask := filepath.Join(dir, "ask")
	p.args = append(slices.Clone(p.args), ask)
	argv := b.agent(p, slices.Repeat([]string{ask}, 60), filepath.Join(dir, "images"), append([]string{"--mode=" + w.mode}, w.options...)...)
	asNatively(t, dir, argv, native)
}

// asNatively runs an agent whose program must print what it does natively, through three checkpoints or more.
func asNatively(t *testing.T, dir string, argv []string, native run) {
	t.Helper()
	r, err := do(t.Context(), dir, argv)
	if err == nil {
		err = r.differs(native)
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := r.taken(); n < 3 {
		t.Errorf("%d checkpoints\n%s", n, r.story())
	}
}

// TestBusy: while the application is checkpointed, and while its descriptors are put back, a thread of the lower half makes
// descriptors all the time, as an MPI's does that accepts connections. Neither finds the other's. (Programs that count on the
// lowest free number cannot run beside such a thread, natively either.)
func TestBusy(t *testing.T) {
	b := ready(t)
	t.Parallel()
	harness.Share(t, harness.Light)
	for _, p := range []program{{file: "core_fds.c", args: []string{"60"}}, {file: "core_calls.c"}, {file: "core_marks.c"}} {
		t.Run(p.name(), func(t *testing.T) {
			native, err := do(t.Context(), scratch(t), b.command(p))
			if err != nil {
				t.Fatal(err)
			}
			p.rank = "test/byssus-rank-test"
			for _, mode := range []string{"kill", "go"} {
				t.Run(mode, func(t *testing.T) { busy(t, b, p, mode, native) })
			}
		})
	}
}

func busy(t *testing.T, b bench, p program, mode string, native run) {
	dir := scratch(t)
	moments := []string{"0.1", "0.1", "0.1", "0.1"}
	if p.args == nil { // it asks
		moments = slices.Repeat([]string{filepath.Join(dir, "ask")}, 60)
		p.args = moments[:1]
	}
	argv := append([]string{"env", "CLIENT_BUSY=yes"}, b.agent(p, moments, filepath.Join(dir, "images"), "--mode="+mode)...)
	asNatively(t, dir, argv, native)
}

// TestEveryProgramIsRun finds programs that nobody has entered above.
func TestEveryProgramIsRun(t *testing.T) {
	files, err := filepath.Glob("../apps/core_*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d programs, %v", len(files), err)
	}
	for _, file := range files {
		base := filepath.Base(file)
		all := append(programs(), asking()...)
		known := base == "core_refused.c" || base == "core_stuck.c" || slices.ContainsFunc(all, func(p program) bool { return p.file == base })
		if !known {
			t.Errorf("%s: no test runs it", base)
		}
	}
}

// TestRefused asks for a checkpoint of a program that holds what cannot be saved. The refusal must name all of it, with
// process and descriptor. The program goes on as if nothing had been, and can be checkpointed when it has let go.
func TestRefused(t *testing.T) {
	kinds := []string{"socket", "listener", "fifo", "sysv", "aio", "seccomp", "child", "secret", "inotify", "uring", "userfault", "perf",
		"bpf", "fanotify", "notify", "stranger", "owner", "filter", "named", "orphans", "huge", "pidfd", "message", "netlink", "unconnected",
		"hidden", "huge_pages", "watched", "guarded", "poisoned", "directory", "user", "namespace"}
	b := ready(t)
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			harness.Share(t, harness.Waiting)
			refusal(t, b, "core_refused.c", kind)
		})
	}
}

// TestHeld runs the programs of test/apps/refused: each holds one thing of the ledger of system calls that no image can
// keep. The refusal must name it; the program goes on, and is checkpointed and restarted when it has given the thing up.
// Where the results of calls are all that Byssus sees of the thing, a kernel that lacks it is made to give them; what else a
// machine lacks is skipped by name.
func TestHeld(t *testing.T) {
	b := ready(t)
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(b.root, "test/apps/refused/*.c"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d programs, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".c")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			harness.Share(t, harness.Waiting)
			native, kernel, err := b.held(t, name)
			if err != nil || strings.Contains(native.stdout, "wrong: ") {
				t.Fatalf("natively: %v\n%s", err, native.stdout)
			}
			if _, what, lacks := strings.Cut(native.stdout, "lacks: "); lacks {
				t.Skipf("SKIP: %s", strings.TrimSpace(what))
			}
			after := 1
			if strings.Contains(native.stdout, "for ever\n") {
				after = 0
			}
			dir := scratch(t)
			ask := filepath.Join(dir, "ask")
			p := program{file: "../refused/" + name + ".c", args: []string{ask}}
			argv := append(kernel, b.agent(p, []string{ask, ask}, filepath.Join(dir, "images"), "--patient")...)
			refused(t, argv, dir, native, after)
		})
	}
}

// held runs a program of test/apps/refused natively. Where it lacks calls, that is on a kernel which has them, and the second
// result is what stands before a command for that kernel.
func (b bench) held(t *testing.T, name string) (run, []string, error) {
	argv := b.command(program{file: "../refused/" + name + ".c"})
	native, err := do(t.Context(), scratch(t), argv)
	_, rules, lacks := strings.Cut(native.stdout, "\nwith: ")
	if err != nil || !lacks {
		return native, nil, err
	}
	kernel := append([]string{"/usr/bin/python3", filepath.Join(b.root, "test/core/kernel.py")}, strings.Fields(rules)...)
	kernel = append(kernel, "--")
	native, err = do(t.Context(), scratch(t), append(slices.Clone(kernel), argv...))
	return native, kernel, err
}

// TestDropped lets a program be checkpointed without what it holds: that is said, and gone after the restart.
func TestDropped(t *testing.T) {
	b := ready(t)
	harness.Share(t, harness.Light)
	dir := scratch(t)
	ask := filepath.Join(dir, "ask")
	p := program{file: "../refused/landlock.c", args: []string{ask}}
	r, err := do(t.Context(), dir, b.agent(p, []string{ask}, filepath.Join(dir, "images"), "--drop"))
	switch _, what, lacks := strings.Cut(r.stdout, "lacks: "); {
	case err != nil:
		t.Fatal(err)
	case lacks:
		t.Skipf("SKIP: %s", strings.TrimSpace(what))
	case r.taken() != 1 || !strings.Contains(r.stdout, "wrong: the rules") ||
		!regexp.MustCompile(`not in the image:\n(pid .*\n)*pid .* has called landlock_restrict_self\(2\)`).MatchString(r.stderr):
		t.Errorf("%d checkpoints, %q\n%s", r.taken(), r.stdout, r.story())
	}
}

// TestStuck asks for a checkpoint of a program with a thread that cannot be stopped: after a while the checkpoint fails
// by the thread's name. The program goes on, and can be checkpointed when the thread can be stopped.
func TestStuck(t *testing.T) {
	b := ready(t)
	t.Parallel()
	harness.Share(t, harness.Waiting)
	var all sync.WaitGroup
	for _, kind := range []string{"masked", "vforked", "traced", "inside"} { // each waits for half a minute: at the same time
		all.Go(func() { t.Run(kind, func(t *testing.T) { refusal(t, b, "core_stuck.c", kind) }) })
	}
	all.Wait()
}

// refusal asks for a checkpoint of a program that holds something of a kind, and for one when it has let go.
func refusal(t *testing.T, b bench, file, kind string) {
	forever := slices.Contains([]string{"user", "namespace"}, kind) // nobody can let go of these
	if forever && os.Geteuid() != 0 {
		t.Skip("SKIP: needs the rights of root")
	}
	dir := scratch(t)
	p := program{file: file, args: []string{kind}}
	if kind == "inside" {
		p.rank = "test/byssus-rank-test"
	}
	native, err := do(t.Context(), dir, b.command(p))
	if err != nil {
		t.Fatal(err)
	}
	ask := filepath.Join(dir, "ask")
	p.args = append(p.args, ask)
	at := []string{ask, ask}
	refused(t, b.agent(p, at, filepath.Join(dir, "images")), dir, run{code: 3}, 0)
	if forever {
		return
	}
	if err := os.Remove(ask); err != nil {
		t.Fatal(err)
	}
	after := 1
	if kind == "seccomp" { // it keeps its filter
		after = 0
	}
	refused(t, b.agent(p, at, filepath.Join(dir, "images"), "--patient"), dir, native, after)
}

// TestLockTaken restarts a program that had a lock, or a lease, at the checkpoint. It has it again before it says that others may go on.
// Where somebody else has it now, the restart waits: for one who ends it goes on, as a rank of the job's previous life that the kernel
// has not ended yet, and for one who does not it fails, and names file and process.
func TestLockTaken(t *testing.T) {
	b := ready(t)
	t.Parallel()
	for _, kind := range []string{"flock", "ofd", "record", "lease"} {
		for option, want := range map[string]string{"--locked": "", "--lend": "waits for ", "--steal": kind} {
			t.Run(kind+option, func(t *testing.T) {
				t.Parallel()
				harness.Share(t, harness.Waiting)
				lockTaken(t, b, kind, option, want)
			})
		}
	}
}

func lockTaken(t *testing.T, b bench, kind, option, want string) {
	dir := scratch(t)
	ask, file := filepath.Join(dir, "ask"), filepath.Join(dir, "core_refused.lock")
	p := program{file: "core_refused.c", args: []string{kind, ask}}
	r, err := do(t.Context(), dir, b.agent(p, []string{ask, ask}, filepath.Join(dir, "images"), option+"="+file))
	if err != nil {
		t.Fatal(err)
	}
	ends, code := 2, 4
	if want == kind {
		ends, code = 1, 1
		want = file + ": was locked, and the lock is now held by another process, "
		if kind == "lease" {
			want = file + ": had a lease, and is now open elsewhere"
		}
		if kind == "record" || kind == "flock" {
			want += regexp.MustCompile(`[0-9]+ \(python3\)`).FindString(r.stderr)
		}
	}
	if r.code != code || r.taken() != ends || !strings.Contains(r.stderr, want) {
		t.Errorf("%s: exit code %d, want %d; %d checkpoints, want %d; want %q\n%s", option, r.code, code, r.taken(), ends, want, r.story())
	}
}

// TestSurroundings restarts a program that has set nothing about itself where priority, processors, limits and umask are
// others: it must take what it finds.
func TestSurroundings(t *testing.T) {
	b := ready(t)
	harness.Share(t, harness.Light)
	dir := scratch(t)
	p := program{file: "core_attributes.c", args: []string{"natural", "40"}}
	again := `sh -c 'umask 027; ulimit -S -s 3000; ulimit -S -c 0; exec nice -n 5 taskset -c 1 "$@"' sh`
	argv := b.agent(p, []string{"0.1", "0.1"}, filepath.Join(dir, "images"), "--again="+again)
	r, err := do(t.Context(), dir, argv)
	if err == nil {
		err = r.differs(run{stdout: "nice 5 umask 27 stack 3072000 core 0 processors 1\n"})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestPinned restarts a program that has chosen a processor where that is not given to it, which is said, and then where it is: the
// choice outlives the time for which it could not be granted.
func TestPinned(t *testing.T) {
	b := ready(t)
	dir := scratch(t)
	p := program{file: "core_attributes.c", args: []string{"pinned", "60"}}
	again := `sh -c 'if [ -e was ]; then exec "$@"; fi; >was; exec taskset -c 0 "$@"' sh`
	r, err := do(t.Context(), dir, b.agent(p, []string{"0.2", "0.2"}, filepath.Join(dir, "images"), "--again="+again))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.stdout, "processors 1\n") || r.taken() != 2 || strings.Count(r.stderr, "none of the processors that it has chosen") != 1 {
		t.Errorf("%d checkpoints, %q\n%s", r.taken(), r.stdout, r.story())
	}
}

// TestWrapped restarts a program that was started by others which had set its priority and processors: that is part of the
// program, not of the surroundings.
func TestWrapped(t *testing.T) {
	b := ready(t)
	harness.Share(t, harness.Light)
	for first, script := range map[string]string{ // when the first checkpoint is taken
		"0.4": `umask 07; exec nice -n 3 taskset -c 0 "$@"`,
		"set": `umask 07; >set; while [ -e set ]; do :; done; exec nice -n 3 taskset -c 0 "$@"`, // before the next one is executed
	} {
		dir := scratch(t)
		p := program{file: "core_attributes.c", args: []string{"natural", "40"}}
		argv := b.agent(p, []string{first, "0.4"}, filepath.Join(dir, "images"), "--again=sh -c 'ulimit -S -s 3000; exec \"$@\"' sh")
		i := slices.Index(argv, "--")
		argv = slices.Concat(argv[:i+1], []string{"/bin/sh", "-c", script, "sh"}, argv[i+1:])
		r, err := do(t.Context(), dir, argv)
		if err == nil {
			err = r.differs(run{stdout: "nice 3 umask 7 stack 3072000 core 0 processors 0\n"})
		}
		if err != nil || r.taken() == 0 {
			t.Errorf("%s: %d checkpoints, %v", first, r.taken(), err)
		}
	}
}

// TestEndedWhileStopped sends a program the signals of a batch system while it stands still for its image: they end it, and
// are not in the image, or every restart would be ended too.
func TestEndedWhileStopped(t *testing.T) {
	b := ready(t)
	harness.Share(t, harness.Light)
	dir := scratch(t)
	p := program{file: "core_count.c", args: []string{"30"}}
	native, err := do(t.Context(), dir, b.command(p))
	if err != nil {
		t.Fatal(err)
	}
	r, err := do(t.Context(), dir, b.agent(p, []string{"0.3", "0.3", "0.2"}, filepath.Join(dir, "images"), "--mode=kill", "--term"))
	if err == nil {
		err = r.differs(native)
	}
	if err != nil || r.taken() == 0 {
		t.Fatalf("%d checkpoints, %v", r.taken(), err)
	}
}

// TestEndedWhileClaiming ends a job while a rank, which restarts, waits for another answer: the rank ends all the same.
func TestEndedWhileClaiming(t *testing.T) {
	b := ready(t)
	harness.Share(t, harness.Light)
	dir := scratch(t)
	p := program{file: "core_memory.c", args: []string{"45"}}
	r, err := do(t.Context(), dir, b.agent(p, []string{"0.3"}, filepath.Join(dir, "images"), "--mode=kill", "--end"))
	if err != nil || r.code != 128+int(syscall.SIGTERM) {
		t.Fatalf("exit code %d, wanted %d; %v", r.code, 128+int(syscall.SIGTERM), err)
	}
}

// TestWithoutRights runs a program that is not dumpable as a user without rights: what /proc says of such a process is
// root's, and a list that cannot be read must not pass for an empty one.
func TestWithoutRights(t *testing.T) {
	b := ready(t)
	harness.Share(t, harness.Light)
	if os.Getuid() != 0 {
		t.Skip("SKIP: only root can become somebody else")
	}
	dir := scratch(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	b = b.forOthers(t, dir)
	p := program{file: "core_attributes.c", args: []string{"own", "50"}}
	nobody := []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}
	native, err := do(t.Context(), dir, append(slices.Clone(nobody), b.command(p)...))
	if err != nil {
		t.Fatal(err)
	}
	r, err := do(t.Context(), dir, append(nobody, b.agent(p, []string{"0.3", "0.2"}, filepath.Join(dir, "images"))...))
	if err == nil {
		err = r.differs(native)
	}
	if err != nil || r.taken() == 0 {
		t.Fatalf("%d checkpoints, %v", r.taken(), err)
	}
}

// TestNoRoom asks for a checkpoint when something cannot be looked at for want of room: a full pipe whose user may have no
// other as large, and more descriptors in messages than the process may have. The checkpoint must fail and name it; when
// there is room again all is saved.
func TestNoRoom(t *testing.T) {
	b := ready(t)
	harness.Share(t, harness.Light)
	if os.Getuid() != 0 {
		t.Skip("SKIP: only root can become somebody else, and may have so many descriptors in messages")
	}
	for kind, with := range map[string][]string{
		"pipes": {"setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"},
		"crowd": {"prlimit", "--nofile=1024:1024"},
	} {
		t.Run(kind, func(t *testing.T) {
			dir := scratch(t)
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			b := b.forOthers(t, dir)
			p := program{file: "core_refused.c", args: []string{kind}}
			native, err := do(t.Context(), dir, append(slices.Clone(with), b.command(p)...))
			if err != nil {
				t.Fatal(err)
			}
			ask := filepath.Join(dir, "ask")
			p.args = append(p.args, ask)
			refused(t, append(with, b.agent(p, []string{ask, ask}, filepath.Join(dir, "images"), "--patient")...), dir, native, 1)
		})
	}
}

// TestOtherProcessor restarts images as they would come from a processor that keeps its registers elsewhere, or more of
// them: what the kernel would answer by clearing registers in silence must be refused, with the reason.
func TestOtherProcessor(t *testing.T) {
	b := ready(t)
	harness.Share(t, harness.Light)
	dir := scratch(t)
	images := filepath.Join(dir, "images")
	if _, err := do(t.Context(), dir, b.agent(program{file: "core_vectors.c", args: []string{"1"}}, []string{"0.1"}, images, "--mode=go")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(images, "ckpt.000000", "rank-00000.0.img")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	im, err := imagetest.Open(whole)
	if err != nil || im.Header.XsaveSize <= 576 {
		t.Skipf("no extended state: %v", err)
	}
	const magic, size, inUse = 464, 480, 512 // in a frame's extended state
	cases := []struct {
		name, want string
		change     func(*imagetest.Image)
	}{
		{"nothing", "", func(*imagetest.Image) {}},
		{"offset", "has processor state 2 (AVX) at offset 640", func(im *imagetest.Image) { im.Header.XsaveLayout[4] += 64 }},
		{"size", "has processor state 2 (AVX) at offset 576, 320 bytes", func(im *imagetest.Image) { im.Header.XsaveLayout[5] += 64 }},
		{"more state", "needs processor state", func(im *imagetest.Image) { im.Header.XCR0 |= 1 << 30 }},
		{"larger frame", "bytes of processor state, this kernel takes", func(im *imagetest.Image) { im.GrowFrame(64) }},
		{"no frame", "its frame has no extended state", func(im *imagetest.Image) { im.PatchFrame(magic, make([]byte, 4)) }},
		{"frame without end", "has no end", func(im *imagetest.Image) { im.PatchFrame(size, []byte{0x80, 0x02, 0, 0}) }},
		{"more in use", "its frame has processor state 0x40000", func(im *imagetest.Image) { im.PatchFrame(inUse+4, []byte{0, 0, 4, 0}) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			im, err := imagetest.Open(slices.Clone(whole))
			if err != nil {
				t.Fatal(err)
			}
			c.change(im)
			if err := os.WriteFile(file, im.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := do(t.Context(), dir, []string{filepath.Join(b.root, "build/lib/byssus/byssus-rank-none"), "--restart", filepath.Dir(file)})
			want := run{stdout: "wrong 0\n"}
			if c.want != "" {
				want = run{code: abi.ExitInternal}
			}
			if err == nil {
				err = r.differs(want)
			}
			if err != nil || !strings.Contains(r.stderr, c.want) {
				t.Errorf("want %q, %v\n%s", c.want, err, r.story())
			}
		})
	}
}

// TestNoMemory lets each allocation of a checkpoint fail in turn, until there is none left to fail. The checkpoint then
// fails with a sentence, the program goes on as if nothing had been, and the next checkpoint is taken and restarted from.
func TestNoMemory(t *testing.T) {
	b := ready(t)
	harness.Share(t, harness.Light)
	for n, failed := 1, 0; ; n++ {
		dir := scratch(t)
		p := program{file: "core_refused.c", args: []string{"nothing"}}
		native, err := do(t.Context(), dir, b.command(p))
		if err != nil {
			t.Fatal(err)
		}
		ask := filepath.Join(dir, "ask")
		p.args = append(p.args, ask)
		argv := append([]string{"/usr/bin/env", fmt.Sprintf("BYSSUS_FAULT=%s:%d", faults.Memory, n)},
			b.agent(p, []string{ask, ask}, filepath.Join(dir, "images"), "--patient", "--writers=2")...)
		r, err := do(t.Context(), dir, argv)
		if err == nil {
			err = r.differs(native)
		}
		if err != nil {
			t.Fatalf("allocation %d: %v", n, err)
		}
		switch refused := strings.Contains(r.stderr, "agent: refused: "); {
		case refused && r.taken() == 1:
			failed++
		case refused || r.taken() != 2:
			t.Fatalf("allocation %d: %d checkpoints: %s", n, r.taken(), r.story())
		case failed == 0 && n < 10: // of the start
		case failed < 10:
			t.Fatalf("only %d allocations can fail", failed)
		default:
			t.Logf("%d allocations failed in turn", failed)
			return
		}
	}
}

// refused carries out a command, in which the first checkpoint is refused and so many are taken.
func refused(t *testing.T, argv []string, dir string, want run, taken int) {
	t.Helper()
	r, err := do(t.Context(), dir, argv)
	if err == nil {
		err = r.differs(want)
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := r.taken(); n != taken {
		t.Errorf("%d checkpoints, want %d", n, taken)
	}
	_, refusal, _ := strings.Cut(r.stderr, "agent: refused: ")
	names := regexp.MustCompile(`(?m)^wants: (.+?) *$`).FindAllStringSubmatch(r.stderr, -1)
	if len(names) == 0 {
		t.Error("the program does not say what it holds")
	}
	for _, m := range names {
		if !strings.Contains("\n"+refusal, "\n"+m[1]) {
			t.Errorf("the refusal does not name %q:\n%s", m[1], r.story())
		}
	}
}

// TestSavedMemory runs the allocator of the MPI half's saved memory by itself, under the address sanitizer.
func TestSavedMemory(t *testing.T) {
	alone(t, "heap/heap.c", []string{"rank/mpi/table/heap.c"}, "20000")
}

// TestPrice runs the price of an arrival wait by itself: one that is seen wrongly for a while does not take the waits away for good, or
// a checkpoint would wait for a rank that computes.
func TestPrice(t *testing.T) { alone(t, "price/price.c", nil) }

// TestDrained runs what takes messages off the network at a checkpoint, and hands them out, over an MPI whose calls fail: no message
// is lost in silence.
func TestDrained(t *testing.T) { alone(t, "drain/drain.c", nil) }

// TestProcessors runs what counts the processors that a rank may use, on a kernel that seems to be for thousands.
func TestProcessors(t *testing.T) { alone(t, "processors/processors.c", nil) }

// TestCapture runs what copies regions for snapshots, as a whole, or what was written to, on memory of all kinds that is written to in all
// ways: each snapshot has what the regions had.
func TestCapture(t *testing.T) {
	steps := "60"
	if os.Getenv("BYSSUS_TEST_LONG") != "" {
		steps = "2000"
	}
	alone(t, "capture/capture.c", []string{"client/snap/track.c", "client/snap/file.c", "client/snap/hand.c"}, steps)
}

// alone compiles a test of a part of ours that is in C with the files of that part (none: a header), and runs it with the arguments and a seed.
func alone(t *testing.T, test string, parts []string, args ...string) {
	t.Helper()
	harness.Share(t, harness.Light)
	site, err := harness.Here()
	if err != nil {
		t.Fatal(err)
	}
	if *seed == 0 {
		*seed = harness.Seed()
	}
	dir := scratch(t)
	program := filepath.Join(dir, "alone")
	compile := []string{"gcc", "-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover",
		"-I", filepath.Join(site.Root, "rank"), "-o", program, filepath.Join(site.Root, "test/core", test)}
	for _, part := range parts {
		compile = append(compile, filepath.Join(site.Root, part))
	}
	for _, argv := range [][]string{compile, append(append([]string{program}, args...), fmt.Sprint(*seed))} {
		r, err := do(t.Context(), dir, argv)
		if err != nil || r.code != 0 {
			t.Fatalf("-seed %d: exit code %d, %v\n%s%s", *seed, r.code, err, r.stdout, r.stderr)
		}
		t.Log(r.stdout)
	}
}
