// Package harness runs MPI test programs natively and under Byssus, takes checkpoints at random moments, kills ranks,
// restarts them, and compares what the programs print with an undisturbed run.
//
// It sees Byssus as a user does: through the command line, its JSON and its exit codes. It guarantees that
//   - every random decision follows from the seed of a Plan (the moments themselves also depend on the machine's speed);
//   - it waits for conditions with a deadline, never for a while, except to choose a random moment;
//   - it ends only processes that descend from those it started, each by its id, and leaves none behind;
//   - a result line that is missing, torn, doubled with another value, or different from the native run is an error.
package harness

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A Site is a source tree with its build.
type Site struct {
	Root   string // of the source tree
	Byssus string // the command
}

// Here finds the tree that the working directory lies in. BYSSUS_EXE names another build's command to be tested.
func Here() (Site, error) {
	dir, err := os.Getwd()
	if err != nil {
		return Site{}, fmt.Errorf("harness: %w", err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return Site{Root: dir, Byssus: cmp.Or(os.Getenv("BYSSUS_EXE"), filepath.Join(dir, "build/bin/byssus"))}, nil
		}
	}
	return Site{}, fmt.Errorf("harness: no go.mod above the working directory")
}

// Build compiles the test programs for both MPIs and asks for the byssus command, which `make build` makes.
func (s Site) Build() error {
	cmd := exec.Command("make", "--no-print-directory", "-j2", "-C", filepath.Join(s.Root, "test/apps"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("harness: test programs: %w\n%s", err, out)
	}
	if _, err := os.Stat(s.Byssus); err != nil {
		return fmt.Errorf("harness: %w (make build)", err)
	}
	return nil
}

// BuildProgram compiles a test program of one MPI that Build leaves out.
func (s Site) BuildProgram(mpi, name string) error {
	dir := filepath.Join(s.Root, "test/apps")
	cmd := exec.Command("make", "--no-print-directory", "-C", dir, "../../build/test/"+mpi+"/"+name)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("harness: test program %s of %s: %w\n%s", name, mpi, err, out)
	}
	return nil
}

// MPIs are the implementations that both sides of every test know.
func MPIs() []string { return []string{"mpich", "openmpi"} }

// Other is the MPI that is not mpi.
func Other(mpi string) string {
	if mpi == "mpich" {
		return "openmpi"
	}
	return "mpich"
}

// A Program is a test program with its arguments.
type Program struct {
	Name string
	Args []string
}

// Command is the program's command line when it is built for an MPI.
func (s Site) Command(p Program, mpi string) []string {
	if filepath.Ext(p.Name) == ".py" {
		return append([]string{"/usr/bin/python3", filepath.Join(s.Root, "test/apps", p.Name)}, p.Args...)
	}
	return append([]string{filepath.Join(s.Root, "build/test", mpi, p.Name)}, p.Args...)
}
