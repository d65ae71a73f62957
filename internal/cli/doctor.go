package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/elfcheck"
	"github.com/byssus-hpc/byssus/internal/launch"
	"github.com/byssus-hpc/byssus/internal/machine"
	"github.com/byssus-hpc/byssus/internal/ui"
	"github.com/byssus-hpc/byssus/mpispec"
)

// diagnosis is what doctor prints.
type diagnosis struct {
	Machine []machine.Check  `json:"machine"`
	Byssus  []machine.Check  `json:"byssus"`
	MPIs    []launch.MPI     `json:"mpis"`
	App     *elfcheck.Report `json:"app,omitempty"`
	AppErr  string           `json:"app_error,omitempty"`
	Refused []refusal        `json:"refused"`
}

// refusal is an MPI function that the application imports and that will not work.
type refusal struct {
	Function string `json:"function"`
	Reason   string `json:"reason"`
	Missing  bool   `json:"missing,omitempty"` // the program would not even start
}

func (e *env) doctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor [flags] [-- PROGRAM]",
		Short: "Say what of this machine and of a program will not work, and why",
		Long: `Examine this machine (kernel features, limits, MPIs) and, when one is given, a program: its architecture, the
libraries that it needs, and those of its MPI functions that are refused under Byssus, each with the reason. What a
program opens only later (dlopen, Python modules) is not seen.

The exit code is 124 when ranks cannot be started on this machine, 125 when the program cannot be run or imports
something that is refused, 126 or 127 when it is not executable or not found, else 0.`,
		Example: "  byssus doctor\n  byssus doctor -- lmp\n  byssus doctor --json -- ./app",
		Args:    cobra.ArbitraryArgs,
		RunE:    func(_ *cobra.Command, args []string) error { return e.diagnose(args) },
	}
	cmd.Flags().SetInterspersed(false)
	e.addJSON(cmd)
	return cmd
}

func (e *env) diagnose(app []string) error {
	d := diagnosis{Machine: machine.Checks(), MPIs: []launch.MPI{}, Refused: []refusal{}}
	d.Byssus = e.checkBase()
	for _, name := range []string{launch.MPICH, launch.OpenMPI} {
		m, err := launch.Find(name)
		if err != nil {
			d.Byssus = append(d.Byssus, machine.Check{Name: name, Detail: err.Error()})
			continue
		}
		d.MPIs = append(d.MPIs, m)
	}
	var appErr error
	if len(app) > 0 {
		if d.App, appErr = elfcheck.Check(app[0]); appErr != nil {
			d.AppErr = appErr.Error()
		} else {
			var err error
			if d.Refused, err = refusals(d.App); err != nil {
				return err
			}
		}
	}
	if e.json {
		if err := e.printJSON(d); err != nil {
			return err
		}
	} else {
		e.printDiagnosis(d)
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
	case len(d.Refused) > 0:
		return exitError{ExitRefused, fmt.Errorf("doctor: %s imports %d MPI functions that fail when they are called", d.App.Path, len(d.Refused))}
	}
	return nil
}

// checkBase looks at our own files and directories.
func (e *env) checkBase() []machine.Check {
	var checks []machine.Check
	add := func(name, detail string, err error) {
		c := machine.Check{Name: name, OK: err == nil, Fatal: err != nil, Detail: detail}
		if err != nil {
			c.Detail = err.Error()
		}
		checks = append(checks, c)
	}
	dir, err := launch.LibDir()
	program := ""
	if err == nil {
		program, err = launch.RankProgram(dir)
	}
	add("byssus-rank", program, err)
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

// refusals lists the application's imports that will not work.
func refusals(r *elfcheck.Report) ([]refusal, error) {
	spec, err := mpispec.Load()
	if err != nil {
		return nil, fmt.Errorf("cli: doctor: %w", err)
	}
	out := []refusal{}
	for _, name := range r.Imports {
		if strings.HasPrefix(name, "mpi_") {
			out = append(out, refusal{name, "the Fortran binding is not there yet", true})
			continue
		}
		if reason, ok := spec.RefusedReason(name); ok {
			out = append(out, refusal{Function: name, Reason: reason})
		} else if spec.Function(strings.TrimPrefix(name, "P")) == nil && isFunction(name) {
			out = append(out, refusal{name, "not a function of MPI that Byssus knows", true})
		}
	}
	return out, nil
}

// isFunction tells a function's name (MPI_Send) from the name of a type or constant that some libraries export.
func isFunction(name string) bool {
	_, rest, ok := strings.Cut(name, "MPI_")
	return ok && len(rest) > 1 && rest[0] >= 'A' && rest[0] <= 'Z' && strings.ToUpper(rest) != rest
}

func (e *env) printDiagnosis(d diagnosis) {
	var rows [][]string
	for _, c := range append(d.Machine, d.Byssus...) {
		rows = append(rows, []string{mark(c), c.Name, c.Detail})
	}
	for _, m := range d.MPIs {
		rows = append(rows, []string{"ok", m.Name, fmt.Sprintf("%s %s, %s", m.Mpirun, m.Version, m.Library)})
	}
	if d.AppErr != "" {
		rows = append(rows, []string{"NO", "program", d.AppErr})
	}
	if r := d.App; r != nil {
		rows = append(rows, []string{"ok", "program", fmt.Sprintf("%s, %s", r.Path, r.Machine)})
		if r.Interpreter != "" {
			rows = append(rows, []string{"ok", "interpreter", r.Interpreter})
		}
		rows = append(rows, []string{"ok", "built for", orNone(r.Face)})
		for _, l := range r.Libraries {
			if l.Path == "" {
				rows = append(rows, []string{"NO", "library", l.Name + ": not found"})
			}
		}
	}
	for _, r := range d.Refused {
		rows = append(rows, []string{"NO", r.Function, r.Reason})
	}
	ui.Table(e.out, rows)
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
