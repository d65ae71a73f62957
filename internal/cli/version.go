package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/host/launch"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// Version of byssus.
const Version = "0.1.0"

func (e *env) version() *cobra.Command {
	var libDir bool
	cmd := &cobra.Command{
		Use:     "version [flags]",
		Short:   "Print the version of byssus and of its formats",
		Long:    withJSON("Print the version of byssus and of its formats.", "an object", jsonVersion),
		Example: "  byssus version\n  byssus version --json\n  mpicc -I$(byssus version --libdir)/scr app.c",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if libDir {
				dir, err := launch.LibDir()
				if err == nil {
					fmt.Fprintln(e.out, dir)
				}
				return err
			}
			if e.json {
				return e.printJSON(map[string]any{"byssus": Version, "protocol": abi.Version, "image": abi.ImageVersion, "go": runtime.Version()})
			}
			fmt.Fprintf(e.out, "byssus %s (protocol %d, image format %d)\n", Version, abi.Version, abi.ImageVersion)
			return nil
		},
	}
	cmd.Flags().BoolVar(&libDir, "libdir", false, "print the directory of the libraries; those of SCR's calls are in scr below it")
	e.addJSON(cmd)
	return cmd
}
