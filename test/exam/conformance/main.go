// Command conformance runs the tests in C and Fortran of MPICH's own test suite (the directory test/mpi of a source tree of MPICH,
// which is not part of this one) natively and under Byssus, and says by directory how many are right, how many end because they call a
// function that Byssus refuses by name, how many differ as docs/limits.md says, and how many are wrong: right natively and not so under
// Byssus.
//
//	go run ./test/exam/conformance -suite mpich/test/mpi                        everything, with both MPIs as driver
//	go run ./test/exam/conformance -suite mpich/test/mpi -only coll,attr -driver openmpi
//	go run ./test/exam/conformance -suite mpich/test/mpi -only f77,f90,f08 -face mpich,openmpi
//
// The suite is built against the machine's MPICH, or each MPI that -face names, into build/conformance, where the output of each wrong
// test is kept as well. Its tests in Fortran need gfortran and perl, with which the suite makes some of others. It is run by hand, after
// `make build`. The exit code is 0 when tests were run and none was wrong.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
)

// abreast is how many tests run at a time: each has several processes that wait by spinning.
const abreast = 2

// An exam is what all runs have in common.
type exam struct {
	site    harness.Site
	suite   string        // the suite's directory
	face    string        // the MPI that the tests are built against, and that runs them natively
	into    string        // what is built, and kept outputs
	drivers []string      // Byssus runs each test with these
	longest time.Duration // for runs whose test has no limit of its own

	building *sync.Mutex
}

func main() {
	var o options
	flag.StringVar(&o.suite, "suite", "", "the directory test/mpi of MPICH's source")
	face := flag.String("face", "mpich", "MPIs that the tests are built against")
	driver := flag.String("driver", strings.Join(harness.MPIs(), ","), "MPIs that Byssus runs the tests with")
	only := flag.String("only", "", "directories of the suite, or tests (coll/bcast), with commas between them; all without")
	flag.StringVar(&o.report, "json", "", "file for what was found of each test")
	flag.DurationVar(&o.longest, "limit", 3*time.Minute, "time for one run, where the test does not name its own")
	flag.Parse()
	o.faces, o.drivers, o.only = fields(*face), fields(*driver), fields(*only)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := all(ctx, o)
	stop()
	harness.EndBelow()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// options are what the command line asks for.
type options struct {
	suite                string
	faces, drivers, only []string
	report               string
	longest              time.Duration
}

// fields are the words between commas.
func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// all builds and runs the chosen tests, face by face, and prints a table of each.
func all(ctx context.Context, o options) error {
	site, err := harness.Here()
	if err != nil {
		return err
	}
	if o.suite, err = filepath.Abs(o.suite); err != nil {
		return err
	}
	var tests []*test
	for _, face := range o.faces {
		into := filepath.Join(site.Root, "build/conformance", face)
		x := exam{site: site, suite: o.suite, face: face, into: into, drivers: o.drivers, longest: o.longest, building: new(sync.Mutex)}
		found, err := x.tests(ctx, o.only)
		if err != nil {
			return err
		}
		if err := x.prepare(ctx); err != nil {
			return err
		}
		x.runAll(ctx, found)
		fmt.Printf("compiled with %s\n%s", face, table(found, o.drivers))
		tests = append(tests, found...)
	}
	if o.report != "" {
		if err := write(o.report, tests); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return outcome(tests)
}

// tests are the chosen ones, of C and then of Fortran.
func (x exam) tests(ctx context.Context, only []string) ([]*test, error) {
	tests, err := read(x.suite, fortran)
	if err != nil {
		return nil, err
	}
	written := filepath.Join(x.into, "suite")
	if err := writeFortran(ctx, x.suite, written); err != nil {
		return nil, err
	}
	more, err := read(written, nil)
	if err != nil {
		return nil, err
	}
	tests = slices.DeleteFunc(append(tests, more...), func(t *test) bool { return !t.chosen(only) })
	for _, t := range tests {
		t.Face = x.face
	}
	return tests, nil
}

// outcome is an error if tests were wrong, or none was right.
func outcome(tests []*test) error {
	right, wrong := 0, 0
	for _, t := range tests {
		for _, r := range t.Under {
			switch r.Verdict {
			case isRight:
				right++
			case isWrong:
				wrong++
			}
		}
	}
	switch {
	case wrong > 0:
		return fmt.Errorf("%d runs were wrong", wrong)
	case right == 0:
		return errors.New("no run was right")
	}
	return nil
}

// runAll examines the tests, some at a time, and says of each that is wrong what was found.
func (x exam) runAll(ctx context.Context, tests []*test) {
	work := make(chan *test)
	var group sync.WaitGroup
	for range abreast {
		group.Go(func() {
			for t := range work {
				x.examine(ctx, t)
				fmt.Print(t.wrongLines())
			}
		})
	}
	for _, t := range tests {
		if ctx.Err() == nil {
			work <- t
		}
	}
	close(work)
	group.Wait()
}

// write stores what was found of each test.
func write(file string, tests []*test) error {
	b, err := json.MarshalIndent(tests, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o666)
}
