package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/host/elfcheck"
	"github.com/byssus-hpc/byssus/internal/host/launch"
	"github.com/byssus-hpc/byssus/internal/host/machine"
	"github.com/byssus-hpc/byssus/internal/host/notify"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// diagnosis is what doctor prints.
type diagnosis struct {
	Machine []machine.Check  `json:"machine"`
	Byssus  []machine.Check  `json:"byssus"`
	MPIs    []launch.MPI     `json:"mpis"`
	App     *elfcheck.Report `json:"app,omitempty"`
	AppErr  string           `json:"app_error,omitempty"`
	Found   []finding        `json:"findings"`
}

func (e *env) doctor() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "doctor [flags] [-- PROGRAM]",
		Short: "Say what of this machine and of a program will not work, and why",
		Long: `Examine this machine (kernel features, limits, MPIs) and, when one is given, a program: its architecture, the
libraries that it needs, symbols that nobody has, and those of its MPI functions that are refused under Byssus, each with
the reason. NO stands before what keeps the program from starting and before refused functions that its own file calls;
-- before what a library of it can call: the job ends with the reason if it does. Methods of the C++ classes in mpi.h
that the program does not call are left out. What a program opens only later (dlopen, Python modules) is not seen.
With a program, of the machine only what is not as it should be is told, and all with --verbose.

The exit code is 124 when ranks cannot be started on this machine, 125 when a NO stands before something of the program,
126 or 127 when it is not executable or not found, else 0.

--json prints one object: machine and byssus (lists of name, ok, fatal, detail), mpis (name, mpirun, library, version),
with a program also app (path, interpreter, machine, mpi_abi, mpi_library, libraries, mpi_functions: function, by, program;
missing_symbols: symbol, by, at_start; unfit: what, reason, by) or app_error, and findings (name, reason, by, verdict: "no" or "maybe").`,
		Example: "  byssus doctor\n  byssus doctor -- lmp\n  byssus doctor --json -- ./app",
		Args:    cobra.ArbitraryArgs,
		RunE:    func(_ *cobra.Command, args []string) error { return e.diagnose(args, all) },
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolVarP(&all, "verbose", "v", false, "with a program: tell also what is as it should be on this machine")
	e.addJSON(cmd)
	return cmd
}

// diagnose examines the machine and a program; all: what is as it should be is said of the machine, too.
func (e *env) diagnose(app []string, all bool) error {
	d := diagnosis{Machine: machine.Checks(), MPIs: []launch.MPI{}, Found: []finding{}}
	d.Byssus = e.checkBase()
	for _, name := range []string{launch.MPICH, launch.OpenMPI} {
		m, err := launch.Find(name)
		if err != nil {
			d.Byssus = append(d.Byssus, machine.Check{Name: name, Detail: words(err)})
			continue
		}
		d.MPIs = append(d.MPIs, m)
	}
	var appErr error
	if len(app) > 0 {
		if d.App, appErr = elfcheck.Check(app[0], faces()); appErr != nil {
			d.AppErr = words(appErr)
		} else {
			var err error
			if d.Found, err = judge(d.App); err != nil {
				return err
			}
		}
	}
	if e.json {
		if err := e.printJSON(d); err != nil {
			return err
		}
	} else {
		e.printDiagnosis(d, all || len(app) == 0)
	}
	return d.verdict(appErr)
}

// verdict turns the findings into an exit code.
func (d *diagnosis) verdict(appErr error) error {
	for _, c := range append(d.Machine, d.Byssus...) {
		if c.Fatal {
			return exitError{ExitStart, fmt.Errorf("doctor: %s: %s", c.Name, c.Detail)}
		}
	}
	switch {
	case len(d.MPIs) == 0:
		return exitError{ExitStart, errors.New("doctor: no MPI found")}
	case appErr != nil:
		return appErr
	case slices.ContainsFunc(d.Found, func(f finding) bool { return f.Verdict == verdictNo }):
		return exitError{ExitRefused, fmt.Errorf("doctor: %s", worst(d.App, d.Found))}
	}
	return nil
}

// checkBase looks at our own files and directories.
func (e *env) checkBase() []machine.Check {
	var checks []machine.Check
	add := func(name, detail string, err error) {
		c := machine.Check{Name: name, OK: err == nil, Fatal: err != nil, Detail: detail}
		if err != nil {
			c.Detail = words(err)
		}
		checks = append(checks, c)
	}
	dir, err := launch.LibDir()
	program := ""
	if err == nil {
		program, err = launch.RankProgram(dir)
	}
	add("byssus-rank", program, err)
	led := machine.Check{Name: "run --files", OK: true, Detail: "names of files can be heard (seccomp)"}
	if err := notify.Check(); err != nil {
		led.OK, led.Detail = false, words(err)
	}
	checks = append(checks, led)
	store, err := e.store()
	add("run directory", firstBase(store), nil)
	if err == nil {
		err = writable(store.Dir)
	}
	add("store", store.Dir, err)
	return checks
}

// writable tries to write into a directory, or into the nearest one above it that is there.
func writable(dir string) error {
	for {
		if _, err := os.Stat(dir); err == nil || dir == "/" {
			break
		}
		dir = filepath.Dir(dir)
	}
	f, err := os.CreateTemp(dir, ".byssus-doctor")
	if err != nil {
		return fmt.Errorf("cli: store: %w", err)
	}
	f.Close()
	return os.Remove(f.Name())
}

// printDiagnosis speaks of the program first, and then, if there is one, only of what is not as it should be here.
func (e *env) printDiagnosis(d diagnosis, all bool) {
	rows := d.program()
	for _, c := range append(d.Machine, d.Byssus...) {
		if all || !c.OK {
			rows = append(rows, []string{mark(c), c.Name, c.Detail})
		}
	}
	for _, m := range d.MPIs {
		if all {
			rows = append(rows, []string{"ok", m.Name, fmt.Sprintf("%s %s, %s", m.Mpirun, m.Version, m.Library)})
		}
	}
	ui.Table(e.out, rows)
}

// program are the rows about the program, if one was given.
func (d *diagnosis) program() [][]string {
	var rows [][]string
	if d.AppErr != "" {
		rows = append(rows, []string{"NO", "program", d.AppErr})
	}
	if r := d.App; r != nil {
		rows = append(rows, []string{"ok", "program", fmt.Sprintf("%s, %s", r.Path, r.Machine)})
		if r.Interpreter != "" {
			rows = append(rows, []string{"ok", "interpreter", r.Interpreter})
		}
		rows = append(rows, []string{"ok", "built for", orNone(r.Face)})
		if r.Face == "" {
			rows = append(rows, []string{"--", "MPI", "none is linked: what the program opens while it runs (Python's mpi4py, R's Rmpi) is not seen here"})
		}
	}
	for _, f := range d.Found {
		mark := map[string]string{verdictNo: "NO", verdictMaybe: "--"}[f.Verdict]
		rows = append(rows, []string{mark, f.Name, f.text(d.App)})
	}
	return rows
}

// faces is the directory of the faces, or "": checkBase says so.
func faces() string {
	dir, err := launch.LibDir()
	if err != nil {
		return ""
	}
	return dir
}

func mark(c machine.Check) string {
	switch {
	case c.OK:
		return "ok"
	case c.Fatal:
		return "NO"
	}
	return "--"
}
