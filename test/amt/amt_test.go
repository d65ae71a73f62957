// Package amt tests the task runtime on every transport: the same binary on goroutines, under MPICH and under Open MPI.
//
// It guarantees that what is compared is what programs print, and that random programs check their own results.
package amt

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/test/harness"
)

var (
	seed     = flag.Uint64("seed", harness.Seed(), "of the first random program")
	programs = flag.Int("programs", 100, "how many on each transport")
	lasting  = flag.Duration("lasting", 0, "play random programs for so long, on all transports together")
)

const atMost = 5 * time.Minute // a hang

// build compiles a program of the source tree, with cgo: MPI needs it.
func build(t *testing.T, dir, pkg string, flags ...string) string {
	t.Helper()
	program := filepath.Join(dir, filepath.Base(pkg))
	cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"build"}, flags...), "-o", program, pkg)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return program
}

// A start is a way to start a program.
type start struct {
	name string
	argv []string
}

// starts are all ways: as it is, and by every MPI on 2 and 4 ranks.
func starts() []start {
	list := []start{{"goroutines", nil}}
	for _, mpi := range harness.MPIs() {
		for _, n := range []int{2, 4} {
			argv := []string{"mpirun." + mpi, "-n", fmt.Sprint(n)}
			if mpi == "openmpi" {
				argv = append(argv, "--oversubscribe", "--allow-run-as-root")
			}
			list = append(list, start{fmt.Sprintf("%s on %d", mpi, n), argv})
		}
	}
	return list
}

// run runs a program and returns what it prints.
func (s start) run(t *testing.T, env []string, argv ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atMost+*lasting)
	defer cancel()
	argv = append(append([]string(nil), s.argv...), argv...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestSameOutput: the same binary, unchanged, prints the same however it is started.
func TestSameOutput(t *testing.T) {
	program := build(t, t.TempDir(), "../../amt/examples/ring")
	const want = "1000 hops, sum 499500\n"
	for _, s := range starts() {
		out, err := s.run(t, nil, program)
		if err != nil || out != strings.Repeat(want, 3) {
			t.Errorf("%s: %v\n%s", s.name, err, out)
		}
	}
}

// TestPackageMPI: every function of package mpi does what is known beforehand, on ranks that have a processor and on more.
func TestPackageMPI(t *testing.T) {
	program := build(t, t.TempDir(), "../../mpi/internal/battery/run")
	for _, n := range []int{1, 2, 3, 4} {
		for _, s := range starts()[1:] {
			s.argv[2] = fmt.Sprint(n)
			out, err := s.run(t, nil, program)
			if err != nil || out != fmt.Sprintf("right on %d\n", n) {
				t.Errorf("%v: %v\n%s", s.argv, err, out)
			}
		}
	}
}

// TestErrorText: an error holds all that MPICH says of it: the function, its arguments, and what is wrong with them.
func TestErrorText(t *testing.T) {
	program := build(t, t.TempDir(), "./testdata/errortext")
	for _, s := range starts()[1:] {
		if !strings.HasPrefix(s.name, "mpich") {
			continue
		}
		out, err := s.run(t, nil, program)
		for _, want := range []string{"MPI_Send: Invalid rank, error stack:\n", "count=1, ",
			fmt.Sprintf("Invalid rank has value %s but must be nonnegative and less than %[1]s\n", s.argv[2]),
			"MPI_Recv: Message truncated, error stack:\n", ") failed\n"} {
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("%s: %v\n%s\nwant %s", s.name, err, out, want)
			}
		}
	}
}

// TestNilPointer: a nil pointer is a panic under any MPI, and a request that nobody has waited for is told at the end.
func TestNilPointer(t *testing.T) {
	program := build(t, t.TempDir(), "./testdata/recover")
	for _, s := range starts()[1:] {
		if s.argv[2] != "2" {
			continue
		}
		out, err := s.run(t, []string{"BYSSUS_MPI_CHECK=1"}, program)
		for _, want := range []string{"<nil> runtime error: invalid memory address or nil pointer dereference\n",
			"mpi: MPI_Finalize: 1 requests were begun, and neither waited for nor freed; the first: MPI_Isend with rank ", "testdata/recover/main.go:27"} {
			if err == nil || !strings.Contains(out, want) {
				t.Errorf("%s: %v\n%s\nwant %s", s.name, err, out, want)
			}
		}
	}
}

// TestHang: a program that waits for what can never be ends, and says who waits for whom.
func TestHang(t *testing.T) {
	program := build(t, t.TempDir(), "../../amt/examples/hang")
	for _, s := range starts() {
		out, err := s.run(t, nil, program)
		for _, want := range []string{"amt: nothing can go on: these wait for each other:", `(collective 3) -> main function of rank 1: was not begun there`,
			"main function of rank 1 -> epoch "} {
			if err == nil || !strings.Contains(out, want) {
				t.Errorf("%s: %v\n%s\nwant %s", s.name, err, out, want)
			}
		}
	}
}

// TestMisuse: what programs must not do is told by name, on all transports, and none waits for ever.
func TestMisuse(t *testing.T) {
	program := build(t, t.TempDir(), "./testdata/misuse")
	for misuse, want := range map[string]string{
		"orders":   `ranks begin collective epochs, reductions or scopes in different orders, or leave some out: what is "`,
		"skip":     `ranks begin collective epochs, reductions or scopes in different orders, or leave some out: what is "`,
		"scopes":   `what is "the scope `,
		"panic":    "amt: rank 1: the handler of main.nothing declared in main.init",
		"goexit":   "it has ended its goroutine by runtime.Goexit",
		"captured": `amt: rank 1: the Context of the main function is used by another goroutine`,
	} {
		for _, s := range starts() {
			if s.argv != nil && s.argv[2] != "2" {
				continue
			}
			if out, err := s.run(t, nil, program, misuse); err == nil || !strings.Contains(out, want) {
				t.Errorf("%s, %s: %v\n%s\nwant %s", misuse, s.name, err, out, want)
			}
		}
	}
}

// TestLastWords: what a rank prints before it aborts the job is seen. MPICH's launcher lost it in 9 runs of 100.
func TestLastWords(t *testing.T) {
	program := build(t, t.TempDir(), "./testdata/lastwords")
	for _, s := range starts()[1:] {
		if s.argv[2] != "2" {
			continue
		}
		runs := 50
		if strings.Contains(s.argv[0], "openmpi") {
			runs = 3
		}
		for range runs {
			if out, err := s.run(t, nil, program); err == nil || !strings.Contains(out, "the last words") {
				t.Fatalf("%s: %v\n%s", s.name, err, out)
			}
		}
	}
}

// TestAttach: programs of C and Fortran enter and leave the runtime a thousand times, on other communicators too, and call MPI
// between. Not on more ranks than processors: there each of their own Allreduces takes MPICH some 25 ms.
func TestAttach(t *testing.T) {
	dir := t.TempDir()
	attachable(t, dir, "../../amt/examples/attach")
	for _, s := range starts()[1:] {
		if s.argv[2] != "2" {
			continue
		}
		mpi := strings.TrimPrefix(s.argv[0], "mpirun.")
		for _, source := range []struct{ compiler, file, want string }{
			{"mpicc.", "steps.c", "all steps are right\n"}, {"mpif90.", "steps.f90", "1000 steps\n"},
		} {
			out, err := s.run(t, nil, attaching(t, dir, source.compiler+mpi, "../../amt/examples/attach/use/"+source.file))
			if err != nil || out != source.want {
				t.Errorf("%s, %s: %v\n%s", s.name, source.file, err, out)
			}
		}
	}
}

// TestAttachedWrong: programs that enter the runtime within itself, have one rank fail where others wait, leave errors, or take them up
// later, end as they should on all ranks.
func TestAttachedWrong(t *testing.T) {
	dir := t.TempDir()
	attachable(t, dir, "./testdata/attached")
	for _, s := range starts()[1:] {
		program := attaching(t, dir, "mpicc."+strings.TrimPrefix(s.argv[0], "mpirun."), "./testdata/attached/use/play.c")
		for _, play := range []string{"within", "fails", "claims", "leaves", "later"} {
			if out, err := s.run(t, nil, program, play); err != nil || !strings.Contains(out, fmt.Sprintf("well on %s\n", s.argv[2])) { // UCX counts what was not received
				t.Errorf("%s, %s: %v\n%s", s.name, play, err, out)
			}
		}
	}
}

// attachable builds a library that attaches the runtime, and attaching a program that uses it.
func attachable(t *testing.T, dir, pkg string) {
	t.Helper()
	if err := os.Rename(build(t, dir, pkg, "-buildmode=c-shared"), filepath.Join(dir, "libattached.so")); err != nil {
		t.Fatal(err)
	}
}

func attaching(t *testing.T, dir, compiler, file string) string {
	t.Helper()
	program := filepath.Join(dir, compiler+"."+filepath.Base(file)+".out")
	cmd := exec.CommandContext(t.Context(), compiler, "-Wall", "-Wextra", "-Werror", "-o", program, file, "-L"+dir, "-lattached", "-Wl,-rpath,"+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return program
}

// TestScopes: collective operations that handlers ask for in different orders are performed in one; handlers that call them at
// once come to nothing, and are told.
func TestScopes(t *testing.T) {
	program := build(t, t.TempDir(), "../../amt/examples/scopes")
	const want = "50 operations in each of 3 scopes, total 153825\n"
	for _, s := range starts() {
		for n := range uint64(3) {
			out, err := s.run(t, nil, program, "-seed", fmt.Sprint(*seed+n))
			if err != nil || out != want {
				t.Errorf("%s, seed %d: %v\n%s", s.name, *seed+n, err, out)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		plain := exec.CommandContext(ctx, program, "-plain")
		if s.argv != nil {
			plain = exec.CommandContext(ctx, s.argv[0], append(s.argv[1:], program, "-plain")...)
		}
		told := &told{what: "calls MPI_Allreduce, which may block", then: cancel}
		plain.Stdout, plain.Stderr, plain.WaitDelay = told, told, time.Second
		plain.Cancel = func() error { return plain.Process.Signal(syscall.SIGTERM) }
		hang := time.AfterFunc(atMost, cancel)
		err := plain.Run()
		hang.Stop()
		if out := told.String(); err == nil || !strings.Contains(out, told.what) || !strings.Contains(out, "the handler of main.job") || strings.Contains(out, "total") {
			t.Errorf("%s, -plain: %v\n%s", s.name, err, out)
		}
	}
}

// told is what a program prints, and does something when it has printed some words.
type told struct {
	mu   sync.Mutex
	b    strings.Builder
	what string
	then func()
}

func (t *told) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b.Write(b)
	if strings.Contains(t.b.String(), t.what) {
		t.then()
	}
	return len(b), nil
}

func (t *told) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// TestRandomPrograms plays random programs whose results follow from their seeds.
func TestRandomPrograms(t *testing.T) {
	t.Logf("seed %d, %d programs on each transport", *seed, *programs)
	program := build(t, t.TempDir(), "../../amt/internal/random/soak")
	for _, s := range starts() {
		argv := []string{program, "-seed", fmt.Sprint(*seed), "-programs", fmt.Sprint(*programs)}
		if *lasting > 0 {
			argv = append(argv, "-for", (*lasting / time.Duration(len(starts()))).String())
		}
		out, err := s.run(t, nil, argv...)
		t.Logf("%s: %s", s.name, out)
		if err != nil || !strings.Contains(out, "all results are right") {
			t.Errorf("%s: %v\n%s", s.name, err, out)
		}
	}
}

// TestNoMPI: what is started as a rank where there is no MPI, or was built without cgo, says so.
func TestNoMPI(t *testing.T) {
	dir := t.TempDir()
	program := build(t, dir, "../../amt/examples/ring")
	bare := filepath.Join(dir, "bare")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", bare, "../../amt/examples/ring")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := start{}.run(t, nil, bare)
	if err != nil || !strings.Contains(out, "1000 hops") {
		t.Errorf("without cgo, without MPI: %v\n%s", err, out)
	}
	out, err = start{}.run(t, []string{"PMI_RANK=0"}, bare)
	if err == nil || !strings.Contains(out, "was built without cgo") {
		t.Errorf("without cgo, as a rank: %v\n%s", err, out)
	}
	out, err = start{}.run(t, []string{"BYSSUS_AMT_RANKS=0"}, program)
	if err == nil || !strings.Contains(out, "BYSSUS_AMT_RANKS=0: a number of ranks is wanted, at least 1") {
		t.Errorf("no ranks: %v\n%s", err, out)
	}
	out, err = start{}.run(t, []string{"BYSSUS_AMT_PATIENCE=soon"}, program)
	if err == nil || !strings.Contains(out, "BYSSUS_AMT_PATIENCE=soon: a time is wanted, such as 90s, or 0") {
		t.Errorf("no time: %v\n%s", err, out)
	}
}

// TestMPINotFound: a rank whose MPI's library cannot be had says which one, and why.
func TestMPINotFound(t *testing.T) {
	dir := t.TempDir()
	program := build(t, dir, "../../amt/examples/ring")
	for library, launcher := range map[string]string{"libmpich.so.12": "PMI_RANK=0", "libmpi.so.40": "OMPI_COMM_WORLD_SIZE=1"} {
		if err := os.WriteFile(filepath.Join(dir, library), nil, 0o600); err != nil { // is found first, and is none
			t.Fatal(err)
		}
		out, err := start{}.run(t, []string{"LD_LIBRARY_PATH=" + dir, launcher}, program)
		if want := "amt: MPI: the library " + library + ", which the launcher of this process wants, cannot be used: "; err == nil || !strings.Contains(out, want) {
			t.Errorf("%v\n%s\nwant %s", err, out, want)
		}
	}
}

// TestEdges: messages that are as long as a batch, or almost, and operations of all while much is on its way.
func TestEdges(t *testing.T) {
	program := build(t, t.TempDir(), "./testdata/edges")
	for _, s := range starts() {
		if out, err := s.run(t, nil, program); err != nil || out != "all has come\n" {
			t.Errorf("%s: %v\n%s", s.name, err, out)
		}
	}
}

// TestLarge: long messages; in a long test those that are longer than MPI can count, which takes some 20 GiB of memory.
func TestLarge(t *testing.T) {
	bytes := 20_000_001
	if os.Getenv("BYSSUS_TEST_LONG") != "" {
		bytes = 5<<29 + 12345
	}
	program := build(t, t.TempDir(), "./testdata/large")
	for _, s := range starts() {
		if s.argv != nil && s.argv[2] != "2" {
			continue
		}
		if out, err := s.run(t, []string{amt.RanksVariable + "=2"}, program, fmt.Sprint(bytes)); err != nil || out != "all has come\n" {
			t.Errorf("%s: %v\n%s", s.name, err, out)
		}
	}
}

// TestTwice: under MPI there is one Run, and a second one says so; on goroutines there are as many as one likes.
func TestTwice(t *testing.T) {
	program := build(t, t.TempDir(), "./testdata/twice")
	const want = "MPI: it is finalized in this process, and cannot be initialized again"
	for _, s := range starts() {
		says := 0 // ranks
		if s.argv != nil {
			says = 2
			if s.argv[2] != "2" {
				continue
			}
		}
		for _, by := range []string{"aa", "am", "ma"} {
			out, err := s.run(t, nil, program, by)
			if err != nil || strings.Count(out, want) != says {
				t.Errorf("%s, %s: %v\n%s", s.name, by, err, out)
			}
		}
	}
}

// TestPlugin: a handler that a plugin declares is refused.
func TestPlugin(t *testing.T) {
	dir := t.TempDir()
	program := build(t, dir, "./testdata/plugged")
	lib := build(t, dir, "./testdata/plugged/plugin", "-buildmode=plugin")
	out, err := start{}.run(t, nil, program, lib)
	if err == nil || !strings.Contains(out, "the handler of main.message declared in ") || !strings.Contains(out, "plugged/plugin.init.0") || !strings.Contains(out, " is in a plugin, which other ranks need not have") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestOtherBuilds: ranks that run two builds of one program say so.
func TestOtherBuilds(t *testing.T) {
	one, other := build(t, t.TempDir(), "../../amt/examples/ring"), build(t, t.TempDir(), "../../amt/examples/ring", "-gcflags=all=-N -l")
	for _, s := range starts()[1:] {
		if s.argv[2] != "2" {
			continue
		}
		s.argv[2] = "1"
		out, err := s.run(t, nil, one, ":", "-n", "1", other)
		if err == nil || !strings.Contains(out, "rank 1 runs another program than rank 0: the first that differs is ") || !strings.Contains(out, "the build with the id") || strings.Contains(out, "hops") {
			t.Errorf("%s: %v\n%s", s.name, err, out)
		}
	}
}

// TestUnoptimized: a build without optimization and inlining gives the same results, and the same numbers of handlers.
func TestUnoptimized(t *testing.T) {
	program := build(t, t.TempDir(), "../../amt/internal/random/soak", "-gcflags=all=-N -l")
	for _, s := range starts() {
		out, err := s.run(t, nil, program, "-seed", fmt.Sprint(*seed), "-programs", "20")
		if err != nil || !strings.Contains(out, "all results are right") {
			t.Errorf("%s: %v\n%s", s.name, err, out)
		}
	}
	table := func(flags string) string {
		cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-run", "TestTable$", flags, "../../amt")
		out, err := cmd.CombinedOutput()
		lines := ""
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "handler ") {
				lines += line
			}
		}
		if err != nil || lines == "" {
			t.Errorf("%v: %v\n%s", cmd, err, out)
		}
		return lines
	}
	if a, b := table("-gcflags="), table("-gcflags=all=-N -l"); a != b {
		t.Errorf("numbers of handlers:\n%s\nwithout optimization:\n%s", a, b)
	}
}

// TestWrongMPI: a program that is linked with another MPI than its launcher's, or with two, says so.
func TestWrongMPI(t *testing.T) {
	program := build(t, t.TempDir(), "../../amt/examples/ring")
	for _, c := range []struct{ preload, launcher, want string }{
		{"libmpich.so.12", "OMPI_COMM_WORLD_SIZE=1", "this process has the library of mpich, but was started by a launcher that wants openmpi (libmpi.so.40)"},
		{"libmpi.so.40", "PMI_RANK=0", "this process has the library of openmpi, but was started by a launcher that wants mpich (libmpich.so.12)"},
		{"libmpich.so.12 libmpi.so.40", "PMI_RANK=0", "two MPI libraries are loaded, libmpi.so.40 and libmpich.so.12"},
	} {
		out, err := start{}.run(t, []string{"LD_PRELOAD=" + c.preload, c.launcher}, program)
		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s, %s: %v\n%s", c.preload, c.launcher, err, out)
		}
	}
}

// TestOtherPrograms: ranks that run different programs say in which handler they differ, before anything runs.
func TestOtherPrograms(t *testing.T) {
	dir := t.TempDir()
	one, other := build(t, dir, "../../amt/examples/ring"), build(t, dir, "../../amt/internal/random/soak")
	for _, s := range starts()[1:] {
		if s.argv[2] != "2" {
			continue
		}
		s.argv[2] = "1"
		out, err := s.run(t, nil, one, ":", "-n", "1", other)
		if err == nil || !strings.Contains(out, "rank 1 runs another program than rank 0: the first that differs is ") || strings.Contains(out, "hops") {
			t.Errorf("%s: %v\n%s", s.name, err, out)
		}
	}
}
