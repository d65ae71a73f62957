package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
)

// A verdict is what a run came to.
type verdict string

const (
	isRight   verdict = "right"
	isRefused verdict = "refused" // by name: it called a function that Byssus refuses
	isKnown   verdict = "known"   // it differs as docs/limits.md says
	isWrong   verdict = "wrong"
)

// A run is what one run printed, and how it ended.
type run struct {
	Code   int
	Late   bool `json:",omitempty"` // it was ended when its time was over
	Took   time.Duration
	Right  bool
	output string // standard output, then standard error
	errors string
}

// A result is what a run under Byssus came to.
type result struct {
	run
	Verdict verdict
	Refused string `json:",omitempty"` // the function
	Kept    string `json:",omitempty"` // the file with the output
}

// examine builds the test and runs it natively, then, if that was right, under Byssus.
func (x exam) examine(ctx context.Context, t *test) {
	if t.Skip != "" {
		return
	}
	if err := x.build(ctx, t); err != nil {
		t.Unbuilt = err.Error()
		return
	}
	native := x.once(ctx, t, x.site.NativeCommand(x.face, t.Ranks, x.argv(t)), 0)
	if ctx.Err() != nil {
		return
	}
	if t.Native = &native; !native.Right {
		return
	}
	t.Under = map[string]result{}
	for _, driver := range x.drivers {
		r := x.under(ctx, t, driver, native.Took)
		if ctx.Err() != nil {
			return // an interrupt has ended it as well
		}
		t.Under[driver] = r
	}
}

// slower is how many times as long as natively a run may take, where that is more than the test's limit: beside another one of
// ranks that wait by spinning, times say little.
const slower = 3

// under runs the test under Byssus. Natively it took so long.
func (x exam) under(ctx context.Context, t *test, driver string, native time.Duration) result {
	argv := append([]string{x.site.Byssus, "--dir", "store", "run", "-n", fmt.Sprint(t.Ranks), "--mpi", driver, "--"}, x.argv(t)...)
	r := result{run: x.once(ctx, t, argv, slower*native), Verdict: isWrong}
	if function, ok := refusal(r.errors); ok && r.Code == 125 {
		r.Verdict, r.Refused = isRefused, function
	} else if r.Right {
		r.Verdict = isRight
	} else {
		if known(t, driver, r.Late) {
			r.Verdict = isKnown
		}
		r.Kept = x.keep(t, driver, r.run)
	}
	return r
}

// argv is the test's command line in a directory in which its directory's programs are: some start each other.
func (x exam) argv(t *test) []string { return append([]string{"./" + t.Program}, t.Args...) }

// once runs a command for a test, in a directory of its own, for no longer than the test may take,
// or than least.
func (x exam) once(ctx context.Context, t *test, argv []string, least time.Duration) run {
	dir, err := os.MkdirTemp("", "byssus-conformance.")
	if err != nil {
		return run{Code: -1, output: err.Error()}
	}
	defer os.RemoveAll(dir)
	if err := links(filepath.Dir(x.file(t)), dir); err != nil {
		return run{Code: -1, output: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, max(cmp.Or(t.Limit, x.longest), least))
	defer cancel()
	mark := "CONFORMANCE_RUN=" + dir
	p, err := harness.Start(ctx, dir, harness.Environment(append(t.Env, mark)...), argv...)
	if err != nil {
		return run{Code: -1, output: err.Error()}
	}
	r := run{Code: p.ExitCode(), Late: ctx.Err() != nil, Took: p.Took(), errors: p.Stderr.String()}
	harness.KillOrphans(mark)
	r.output = p.Stdout.String() + r.errors
	r.Right = !r.Late && right(t.Expect, r.Code, r.output)
	return r
}

// links makes a link in dir for each program of a directory.
func links(programs, dir string) error {
	entries, err := os.ReadDir(programs)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(programs, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// right judges a run as the suite's own runner does: as a rule the program says `No Errors`, nothing else, and ends with code 0. With
// one of the words of resultTest it must end with another code. What Byssus itself says is not the program's.
func right(expect string, code int, output string) bool {
	said, more := 0, false
	for line := range strings.Lines(output) {
		switch line = strings.TrimSpace(line); {
		case strings.EqualFold(line, "No Errors"):
			said++
		case line != "" && !strings.HasPrefix(line, "byssus: "):
			more = true
		}
	}
	switch expect {
	case "TestStatus", "TestErrFatal":
		return code != 0 && said == 0
	case "TestStatusNoErrors":
		return code != 0 && said > 0
	}
	return code == 0 && said > 0 && !more
}

var refused = regexp.MustCompile(`(?m)^byssus: rank \d+: called (\w+), which is refused`)

// refusal is the function for whose call Byssus says that it has ended the job.
func refusal(stderr string) (string, bool) {
	if found := refused.FindStringSubmatch(stderr); found != nil {
		return found[1], true
	}
	return "", false
}

// keep stores what a wrong run printed, and returns the file's name.
func (x exam) keep(t *test, driver string, r run) string {
	name := strings.Join(append([]string{t.name(), fmt.Sprint(t.Ranks)}, append(t.Args, driver)...), ".")
	file := filepath.Join(x.into, "wrong", strings.ReplaceAll(name, "/", "_"))
	text := fmt.Sprintf("%s on %d ranks %v, driver %s: exit code %d, late: %t\n%s", t.name(), t.Ranks, t.Args, driver, r.Code, r.Late, r.output)
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		return err.Error()
	}
	return file
}
