// Command suite runs all tests of this tree and says where the time goes; `make test` is this command.
//
// It guarantees that
//   - every package's tests run, once: nothing is taken from a cache;
//   - what fails is run once more, if that is no more than five tests. What passes only then is a defect with a name: it is listed
//     last, as FLAKY, its log is kept below build/test/flaky, and it does not refuse the work of a day. Anything else that fails
//     makes the command fail;
//   - random decisions follow from the commit (BYSSUS_TEST_SEED repeats another's), so that each commit tries others;
//   - the times of all tests are in build/test/times.json, and a table compares those of packages with test/budget.txt. Times decide
//     nothing.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
)

// mostReruns is how many failures may be a matter of chance.
const mostReruns = 5

// A phase is a set of packages whose tests run beside each other.
type phase struct {
	name     string
	dir      string // of the packages' module, "" is this one's
	packages []string
	flags    []string // of go test
}

func main() {
	only := flag.String("only", "", "a part of the paths of packages: tests of others are left out")
	flag.Parse()
	err := setSeed()
	var all []phase
	if err == nil {
		all, err = phases(*only)
	}
	if err == nil {
		err = suite(all, "build/test", "test/budget.txt", os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "suite: %v\n", err)
		os.Exit(1)
	}
}

var errFailed = errors.New("tests failed")

// suite carries out phases and reports to out; what it keeps goes to dir.
func suite(phases []phase, dir, budget string, out io.Writer) error {
	begin := time.Now()
	budgets, err := harness.ReadBudgets(budget)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	var results results
	failed := false
	for _, p := range phases {
		if len(p.packages) == 0 {
			continue
		}
		events := filepath.Join(dir, p.name+".events.json")
		if err := p.run(events, mostReruns-len(results.flaky()), out); err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "suite: %s: %v\n", p.name, err)
		}
		if err := results.read(events); err != nil {
			return err
		}
	}
	if err := results.report(out, dir, budgets, time.Since(begin)); err != nil {
		return err
	}
	if failed {
		return errFailed
	}
	return nil
}

// setSeed makes the seed of this commit, unless the environment has one.
func setSeed() error {
	const name = "BYSSUS_TEST_SEED"
	if os.Getenv(name) == "" {
		commit, err := exec.Command("git", "rev-parse", "--short=8", "HEAD").Output()
		if err != nil {
			fmt.Fprintln(os.Stderr, "suite: no commit to make a seed of: each test has one from the clock")
			return nil
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(commit))[:8], 16, 64)
		if err != nil {
			return fmt.Errorf("seed: %w", err)
		}
		if err := os.Setenv(name, strconv.FormatUint(n%1_000_000+1, 10)); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	fmt.Printf("%s=%s\n", name, os.Getenv(name))
	return nil
}

// phases are the tests that compile and compute, two packages at a time, and then those that start jobs: these share the machine
// by harness.Share, so that more of them run beside each other than there are processors.
func phases(only string) ([]phase, error) {
	unit := phase{name: "units", flags: []string{"-p", "2"}}
	pup := phase{name: "bench-pup", dir: "bench/pup"} // a nested module
	jobs := phase{name: "jobs", flags: []string{"-p", "6"}}
	for _, dir := range []string{".", pup.dir} {
		out, err := exec.Command("go", "-C", dir, "list", "./...").Output()
		if err != nil {
			return nil, fmt.Errorf("go list in %s: %w", dir, err)
		}
		for _, p := range strings.Fields(string(out)) {
			switch {
			case !strings.Contains(p, only):
			case dir == pup.dir:
				pup.packages = append(pup.packages, p)
			case strings.Contains(p, "/byssus/test/"):
				jobs.packages = append(jobs.packages, p)
			default:
				unit.packages = append(unit.packages, p)
			}
		}
	}
	return []phase{unit, pup, jobs}, nil
}

// run carries out a phase and writes go test's events.
func (p phase) run(events string, reruns int, out io.Writer) error {
	tool, err := exec.Command("go", "tool", "-n", "gotestsum").Output() // of this module
	if err != nil {
		return fmt.Errorf("go tool gotestsum: %w", err)
	}
	if events, err = filepath.Abs(events); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	args := []string{"--format=pkgname-and-test-fails", "--format-hide-empty-pkg", "--format-icons=text",
		"--hide-summary=skipped,output", "--jsonfile=" + events, "--packages=" + strings.Join(p.packages, " ")}
	if reruns > 0 {
		args = append(args, "--rerun-fails=1", fmt.Sprintf("--rerun-fails-max-failures=%d", reruns))
	}
	args = append(append(args, "--", "-count=1", "-vet=off", "-timeout=60m"), p.flags...) // vet is part of lint
	cmd := exec.Command(strings.TrimSpace(string(tool)), args...)
	cmd.Dir = p.dir
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("gotestsum: %w", err)
	}
	return nil
}
