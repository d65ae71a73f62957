// Package cli is the command line: one file per verb, thin; what the verbs do lies in the packages below.
//
// Exit codes are part of the interface: an application's own code is passed through, ours begin at 120 (see exit.go and
// docs/exit-codes.md). Our lines go to standard error and begin with "byssus: "; standard output carries only what was
// asked for, with --json as JSON.
//
// To add a verb: a file with a function that returns its cobra command, a line in root, a script in test/script, and
// `go generate ./internal/cli` for its man page.
package cli

//go:generate go run ./genman -o ../../docs/man

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// env is what all verbs share.
type env struct {
	out, err io.Writer
	storeDir string
	json     bool
}

// Main runs a command line and returns the exit code.
func Main(args []string, out, errw io.Writer) int {
	stdout := ui.NewOutput(out)
	e := &env{out: stdout, err: ui.NewOutput(errw)}
	cmd := e.root()
	cmd.SetArgs(args)
	cmd.SetOut(e.out)
	cmd.SetErr(e.err)
	strictHelp(cmd)
	code := e.exitCode(cmd.Execute())
	if err := stdout.Err(); err != nil { // whoever printed may not have looked
		e.say(fmt.Sprintf("standard output: %v", err))
		code = ExitFailed
	}
	return code
}

// Root returns the command tree, for the generator of the man pages.
func Root() *cobra.Command { return (&env{out: io.Discard, err: io.Discard}).root() }

func (e *env) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "byssus",
		Short: "Checkpoint unmodified MPI programs and bring them back",
		Long: `Byssus runs an unmodified MPI program, saves its state while it computes, and brings it back after a crash,
under the same MPI library or under another one.`,
		Example: `  byssus run -n 4 -- lmp -in in.melt
  byssus checkpoint lmp
  byssus restart lmp --mpi openmpi`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.PersistentFlags().StringVar(&e.storeDir, "dir", "", "store of checkpoints (default $BYSSUS_DIR or ~/.byssus)")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	cmd.AddCommand(e.run(), e.restart(), e.checkpoint(), e.stop(), e.ps(), e.list(), e.show(), e.verify(), haltVerb(e), indexVerb(e), e.doctor(), config(e), e.version(), e.agent(), e.guard(), e.spawner(), e.shell(), routeVerb(),
		e.sandboxVerbs(), e.sandboxInit())
	return cmd
}

// strictHelp makes it an error to ask cobra's own verbs for what there is not. The output is set before, since they
// keep what it was when they were made.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			help := cmd.Run
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return usage(fmt.Errorf("help: no verb %q", args))
				}
				help(cmd, args)
				return nil
			}
		case "completion":
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// store is the store that was asked for.
func (e *env) store() (dataset.Store, error) {
	dir := e.storeDir
	if dir == "" {
		dir = os.Getenv("BYSSUS_DIR")
	}
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return dataset.Store{}, fmt.Errorf("cli: store: %w (give --dir or set BYSSUS_DIR)", err)
		}
		dir = filepath.Join(home, ".byssus")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return dataset.Store{}, fmt.Errorf("cli: store: %w", err)
	}
	return dataset.Store{Dir: dir}, nil
}

// job opens a job by name.
func (e *env) job(name string) (*dataset.Job, error) {
	_, job, err := jobPlace(e, name)
	return job, err
}

// say writes a line of ours.
func (e *env) say(text string) { ui.Say(e.err, text) }

// words are what a user is told of an error.
func words(err error) string { return ui.Plain(err.Error()) }

func (e *env) addJSON(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&e.json, "json", false, "print JSON")
}

func (e *env) printJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("cli: %w", err)
	}
	_, err = io.WriteString(e.out, ui.JSON(b)+"\n")
	return err
}

// jobArg is the check of a verb with the name of a job.
func jobArg(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(fmt.Errorf("%s: %d arguments, wanted the name of a job", cmd.Name(), len(args)))
	}
	return nil
}

// noArgs is the check of a verb without arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) != 0 {
		return usage(fmt.Errorf("%s: argument %q, wanted none", cmd.Name(), args[0]))
	}
	return nil
}

// completeJobs offers the names of jobs to the shell.
func (e *env) completeJobs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := jobPlaces(e)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, p := range all {
		names = append(names, p.name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
