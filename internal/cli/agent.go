package cli

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/host/spawn"
)

// agent is what byssus run starts on other nodes.
func (e *env) agent() *cobra.Command {
	return &cobra.Command{
		Use:    "agent",
		Short:  "Be the agent of a node (byssus run starts it)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			// A batch system may send a SIGTERM to all processes of a job: the ranks are to be saved first. Caught, not
			// ignored: children inherit that.
			ignored := make(chan os.Signal, 1)
			signal.Notify(ignored, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
			defer signal.Stop(ignored)
			brief, err := agent.ReadBrief(os.Stdin, Version)
			if err != nil {
				return exitError{ExitStart, err}
			}
			if err := agent.Serve(brief); err != nil {
				return exitError{ExitStart, fmt.Errorf("cli: node %s: %w", brief.Node, err)}
			}
			return nil
		},
	}
}

// spawner is the process that starts others.
func (e *env) spawner() *cobra.Command {
	return &cobra.Command{
		Use:    spawn.Verb,
		Short:  "Start the processes of a job (byssus run and agents start it)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := spawn.Serve(); err != nil {
				return exitError{ExitStart, err}
			}
			return nil
		},
	}
}

// guard is the process that outlives an agent.
func (e *env) guard() *cobra.Command {
	return &cobra.Command{
		Use:    "guard",
		Short:  "Watch over an agent, and over what it leaves (an agent starts it)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ignored := make(chan os.Signal, 1) // as in agent
			signal.Notify(ignored, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
			defer signal.Stop(ignored)
			if err := agent.Guard(cmd.Context(), os.Stdin); err != nil {
				return exitError{ExitStart, err}
			}
			return nil
		},
	}
}

// shell is the remote shell of an MPI's launcher that an agent has started.
func (e *env) shell() *cobra.Command {
	return &cobra.Command{
		Use:                "shell NODE COMMAND...",
		Short:              "Have a command started on another node of a job (an MPI's launcher calls it)",
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			code, err := agent.Shell(args[0], args[1:])
			if err != nil {
				return exitError{code, err}
			}
			return exitWith(code)
		},
	}
}
