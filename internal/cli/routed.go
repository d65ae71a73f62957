package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/decide/routed"
	"github.com/byssus-hpc/byssus/internal/host/notify"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

// routeFlags are the options of run for programs that know nothing of datasets.
type routeFlags struct {
	pattern string
	marker  string
	quiet   time.Duration
	restart string
}

// defaultQuiet is for how long nothing must happen to a checkpoint that is taken for complete.
const defaultQuiet = 3 * time.Second

func (f *routeFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.pattern, "files", "", `lead files into the caches whose path below the working directory is this, as 'rst\.(\d+)\..*' (RE2), where the group tells one checkpoint from another; implies --plain`)
	fl.StringVar(&f.marker, "files-done", "", "path of a file that PROGRAM writes when a checkpoint is complete, with the same group")
	fl.DurationVar(&f.quiet, "files-quiet", defaultQuiet, "a checkpoint is complete when nothing has happened to it for so long, if nothing else says so before")
	fl.StringVar(&f.restart, "restart-cmd", "", "what goes on from a checkpoint, for a shell; {key} is what the group of --files has (default: PROGRAM)")
}

// check finds what is wrong with them.
func (f *routeFlags) check(way *runWay, c *dataset.Caches) error {
	if f.pattern == "" {
		if f.marker != "" || f.restart != "" {
			return usage(errors.New("run: --files-done and --restart-cmd are for --files"))
		}
		return nil
	}
	for name, text := range map[string]string{"--files": f.pattern, "--files-done": f.marker} {
		if text == "" {
			continue
		}
		if _, err := routed.Parse(text); err != nil {
			return usage(fmt.Errorf("run: %s %s: %s", name, text, words(err)))
		}
	}
	switch {
	case c.Dir == "":
		return usage(errors.New("run: --files leads files into the caches of nodes, wanted --cache, too"))
	case c.Flush == 0:
		return usage(errors.New("run: --flush 0 with --files: what is not copied is removed in the end, wanted at least 1"))
	case way.script:
		return usage(errors.New("run: --files is for a program that byssus starts, wanted it without --script"))
	case f.quiet < 100*time.Millisecond || f.quiet > time.Hour:
		return usage(fmt.Errorf("run: --files-quiet %v, wanted 100ms to 1h", f.quiet))
	case strings.Contains(f.restart, "'{key}'") || strings.Contains(f.restart, `"{key}"`):
		return usage(fmt.Errorf("run: --restart-cmd %s: {key} is quoted already where it is put in: leave the quotes out", f.restart))
	}
	return nil
}

// route is what the job remembers of them; nil: the program says by itself what its datasets are.
func (f *routeFlags) route() (*dataset.Route, error) {
	if f.pattern == "" {
		return nil, nil
	}
	dir, err := prefix()
	if err != nil {
		return nil, err
	}
	return &dataset.Route{Prefix: dir, Files: f.pattern, Marker: f.marker, Quiet: f.quiet, Restart: f.restart}, nil
}

// routeVerb becomes a program whose files are led.
func routeVerb() *cobra.Command {
	return &cobra.Command{
		Use:                agent.RouteVerb + " SOCKET -- PROGRAM [ARG...]",
		Short:              "Become a program whose files an agent leads into its cache (an agent starts it)",
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.MinimumNArgs(3),
		RunE: func(_ *cobra.Command, args []string) error {
			return exitError{ExitStart, notify.Exec(args[0], args[2:])}
		},
	}
}
