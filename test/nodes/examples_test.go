package nodes

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/wire/faults"
	"github.com/byssus-hpc/byssus/test/harness"
)

var source = flag.String("scr", "", "a directory with the source of SCR 3.1, whose examples are to be run")

// An example is a program of SCR's own.
type example struct {
	files    string // of SCR's folder examples
	args     string
	long     string // arguments with which it lasts for some seconds; empty: it never does, and
	dies     int    // node2's agent dies when its rank has written so many datasets
	bypass   bool   // files are written in the prefix
	pattern  string // of files that SCR's interposer is to take for a checkpoint's, built with libscr: the program does not call SCR; empty: it does
	restarts bool   // a second run restarts by SCR's calls from what the first has written
}

var examples = []example{
	{files: "test_api.c test_common.c", long: "--times 6 --seconds 1", restarts: true},
	{files: "test_api.c test_common.c", args: "--output 2 --flush 3 --times 8", long: "--output 2 --flush 3 --times 6 --seconds 1", restarts: true},
	{files: "test_api.c test_common.c", args: "--config-api=true", long: "--config-api=true --times 6 --seconds 1", restarts: true},
	{files: "test_api.c test_common.c", args: "--shared-file", long: "--shared-file --times 6 --seconds 1", bypass: true, restarts: true},
	{files: "test_api_multiple.c test_common.c", long: "524288 6 1", restarts: true},
	{files: "test_api_multiple.c test_common.c", long: "524288 6 1", bypass: true, restarts: true},
	{files: "test_api_file.c test_common.c", args: "out", long: "524288 6 1 out"},
	{files: "test_api_multiple_file.c test_common.c", args: "out", long: "524288 6 1 out"},
	{files: "test_ckpt.cpp", dies: 1},
	{files: "test_ckpt.F", dies: 5, restarts: true},
	{files: "test_ckpt.F90", dies: 5, restarts: true},
	{files: "test_interpose.c test_common.c", dies: 2, pattern: "0-N:rank_[0-9]+.ckpt"},
}

// TestExamples runs SCR's own examples, unchanged, on nodes with caches: started as they are and by a script's mpirun, with each redundancy.
// They are run, run again, and run while a node dies: go test ./test/nodes -run TestExamples -timeout 2h -scr DIRECTORY.
func TestExamples(t *testing.T) {
	if *source == "" {
		t.Skip("the source of SCR is not here")
	}
	c := newCluster(t)
	for _, mpi := range harness.MPIs() {
		for i, e := range examples {
			exe := ""
			for _, start := range []string{"plain", "script"} {
				for _, scheme := range []string{"SINGLE", "PARTNER", "XOR"} {
					name := fmt.Sprintf("%s_%s_%s_%d_%s%s", mpi, start, scheme, i, strings.Fields(e.files)[0], strings.ReplaceAll(e.args, " ", ""))
					if e.bypass && scheme != "SINGLE" { // there is nothing in caches
						continue
					}
					t.Run(name, func(t *testing.T) {
						harness.Share(t, harness.Light)
						if exe == "" {
							exe = c.compile(t, mpi, fmt.Sprintf("example%d.%s", i, mpi), e)
						}
						r := &exampleRun{cluster: c, example: e, mpi: mpi, exe: exe, script: start == "script", dir: filepath.Join(c.dir, name),
							env: append([]string{"SCR_COPY_TYPE=" + scheme, "SCR_CONF_FILE=" + filepath.Join(c.dir, "none"), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}, c.env...)}
						r.life(t)
					})
				}
			}
		}
	}
}

// compile makes an example, where all nodes see it.
func (c *cluster) compile(t *testing.T, mpi, name string, e example) string {
	t.Helper()
	exe, lib := filepath.Join(c.dir, name), filepath.Join(filepath.Dir(filepath.Dir(c.site.Byssus)), "lib/byssus/scr")
	argv := []string{"mpicc." + mpi}
	switch filepath.Ext(e.files) {
	case ".cpp":
		argv[0] = "mpicxx." + mpi
	case ".F90", ".F":
		argv[0] = "mpif90." + mpi
	}
	compiled := func(argv ...string) {
		argv = append(argv, "-w", "-I"+lib, "-L"+lib, "-lscrf", "-lscr", "-lm", "-Wl,-rpath,"+lib)
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
		}
	}
	argv = append(argv, "-o", exe)
	for f := range strings.FieldsSeq(e.files) {
		argv = append(argv, filepath.Join(*source, "examples", f))
	}
	compiled(argv...)
	if e.pattern == "" {
		return exe
	}
	compiled("mpicc."+mpi, "-shared", "-fPIC", "-o", exe+".so", filepath.Join(*source, "src/scr_interpose.c"))
	text := fmt.Sprintf("#!/bin/sh\nexport LD_PRELOAD=\"$LD_PRELOAD %s.so\" SCR_CHECKPOINT_PATTERN='%s'\nexec %s\n", exe, e.pattern, exe)
	if err := os.WriteFile(exe+".sh", []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return exe + ".sh"
}

// exampleRun are the runs of an example in a directory of theirs.
type exampleRun struct {
	*cluster
	example
	mpi, exe, dir string
	script        bool
	env           []string
}

// life runs it, runs it again, and runs it while node2 dies.
func (r *exampleRun) life(t *testing.T) {
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if r.bypass {
		r.env = append(r.env, "SCR_CACHE_BYPASS=1")
	}
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	for pass := range 2 {
		before := r.happened(t)
		p := r.start(ctx, t, r.args)
		r.well(ctx, t, p, before, pass > 0)
	}
	before := r.happened(t)
	defer r.sandbox(t, "start", "nodes/node2")
	if r.long == "" {
		defer r.sandbox(t, "kill", "nodes/node2") // its agent alone has died
		point := fmt.Sprintf("BYSSUS_FAULT=%s:%d@node2", faults.WrittenSaid, r.dies)
		r.env = append(r.env, point)
		r.well(ctx, t, r.start(ctx, t, r.args), before, true)
	} else {
		p := r.start(ctx, t, r.long)
		if err := harness.Poll(ctx, "datasets", func() bool { return !p.Running() || r.happened(t)["committed"] >= before["committed"]+3 }); err != nil || !p.Running() {
			t.Fatalf("no datasets: %v\n%s%s", err, p.Stdout.String(), p.Stderr.String())
		}
		r.sandbox(t, "crash", "nodes/node2")
		r.well(ctx, t, p, before, true)
	}
	after := r.happened(t)
	t.Logf("restarted %d times, made again %d parts of what node2 had, could not have %d datasets", after["restarted"]-before["restarted"],
		after["rebuilt"]-before["rebuilt"], after["unable"]-before["unable"])
}

// start starts it.
func (r *exampleRun) start(ctx context.Context, t *testing.T, args string) *harness.Proc {
	t.Helper()
	argv := []string{r.site.Byssus, "run", "--plain", "-n", fmt.Sprint(ranks)}
	program := append([]string{r.exe}, strings.Fields(args)...)
	if r.script {
		file, text := filepath.Join(r.dir, "job.sh"), fmt.Sprintf("exec mpirun.%s -n %d %s\n", r.mpi, ranks, strings.Join(program, " "))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		argv, program = []string{r.site.Byssus, "run", "--script"}, []string{"sh", file}
	}
	argv = append(argv, "--mpi", r.mpi, "--sandbox", "nodes", "--cache", cache, "--silent-after", "3s", "--")
	p, err := harness.Start(ctx, r.dir, harness.Environment(r.env...), append(argv, program...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

var complaint = regexp.MustCompile(`(?i)fail|error|invalid|not valid|mismatch|corrupt|don't agree`)

// well waits for a good end without complaints of the program. It has written datasets, and restarted if it is to.
func (r *exampleRun) well(ctx context.Context, t *testing.T, p *harness.Proc, before map[string]int, again bool) {
	t.Helper()
	select {
	case <-p.Done():
	case <-ctx.Done():
		t.Fatalf("it does not end\n%s%s", p.Stdout.String(), p.Stderr.String())
	}
	out, _ := os.ReadFile(filepath.Join(r.dir, "out")) // of those that write to a file
	all, after := p.Stdout.String()+string(out), r.happened(t)
	if i := strings.LastIndex(all, "Init: "); i >= 0 { // before that a node may have been lost while calls were made
		all = all[i:]
	}
	if p.ExitCode() != 0 || complaint.MatchString(all) || after["committed"] == before["committed"] || again && r.restarts && after["restarted"] == before["restarted"] {
		t.Fatalf("exit code %d; before %v, then %v\n%s%s", p.ExitCode(), before, after, all, p.Stderr.String())
	}
}

// happened counts the events of the job so far.
func (r *exampleRun) happened(t *testing.T) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n := map[string]int{}
	p, err := harness.Start(ctx, r.dir, harness.Environment(r.env...), r.site.Byssus, "show", "scr", "--timeline")
	if err != nil {
		t.Fatal(err)
	}
	p.Took()
	for line := range strings.Lines(p.Stdout.String()) {
		if words := strings.Fields(line); len(words) > 2 {
			n[words[2]]++
		}
	}
	return n
}
