package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/host/resman"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

func (s *scr) downNodes() *cobra.Command {
	var reason bool
	var down string
	cmd := &cobra.Command{Use: "scr_list_down_nodes [flags] [NODES...]", Short: "As SCR's: the nodes that the job that runs has lost",
		RunE: func(cmd *cobra.Command, args []string) error {
			lost, err := s.lost(cmd.Context())
			if err != nil {
				return err
			}
			named, err := resman.Expand(down)
			if err != nil {
				return exitError{scrUsage, err}
			}
			for _, n := range named {
				lost[n] = "it was named with --down"
			}
			only, err := resman.Expand(strings.Join(args, ","))
			if err != nil {
				return exitError{scrUsage, err}
			}
			names := slices.DeleteFunc(slices.Sorted(maps.Keys(lost)), func(n string) bool { return len(only) > 0 && !slices.Contains(only, n) })
			if !reason {
				fmt.Fprintln(s.out, strings.Join(names, ","))
				return nil
			}
			for _, n := range names {
				fmt.Fprintf(s.out, "%s: %s\n", n, lost[n])
			}
			return nil
		}}
	fl := cmd.Flags()
	fl.StringP("joblauncher", "j", "", "ignored: byssus starts the ranks itself")
	fl.BoolVarP(&reason, "reason", "r", false, "say why")
	fl.BoolP("free", "f", false, "ignored: room is looked for when a checkpoint is written")
	fl.StringVarP(&down, "down", "d", "", "these are down, too")
	fl.BoolP("log", "l", false, "ignored: what is lost stands in the timeline of the job")
	fl.StringP("secs", "s", "", "ignored")
	return cmd
}

// lost are the nodes that the job of the prefix has lost, and why; none, if it does not run here.
func (s *scr) lost(ctx context.Context) (map[string]string, error) {
	lost := map[string]string{}
	job, err := s.scrJob("", false)
	if errors.Is(err, dataset.ErrNoJob) {
		return lost, nil
	}
	if err != nil {
		return nil, err
	}
	st, err := dial(job).Status(ctx)
	if errors.Is(err, coordsrv.ErrNotRunning) {
		s.say("scr_list_down_nodes: no job runs here, and no node is tried: byssus run finds out which of its hosts are down, and does without them")
		return lost, nil
	}
	for _, n := range st.Nodes {
		if n.State == coordsrv.NodeLost || n.State == coordsrv.NodeAbsent {
			lost[n.Name] = n.Reason
		}
	}
	return lost, err
}

func (s *scr) shouldExit() *cobra.Command {
	var dir, down string
	var least, runs int
	cmd := &cobra.Command{Use: "scr_should_exit [flags]", Short: "As SCR's: exit code 0 if no more runs should be started, 1 if there may be more", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			job, err := s.scrJob(dir, false)
			if err != nil && !errors.Is(err, dataset.ErrNoJob) {
				return exitError{scrUsage, err}
			}
			why := ""
			if job != nil {
				c, err := job.Halt()
				if err != nil {
					return exitError{scrUsage, err}
				}
				if why = c.Due(time.Now(), allocationEnd()); why == "" && job.Meta.State == dataset.StateFinished {
					why = "the job has finished"
				}
			}
			if nodes, known := allocated(down); why == "" && known && least > nodes {
				why = fmt.Sprintf("%d nodes are left, wanted %d", nodes, least)
			}
			if why == "" && cmd.Flags().Changed("runs") && runs == 0 {
				why = "no runs are left"
			}
			if s.verbose && why != "" {
				fmt.Fprintln(s.out, why)
			}
			if why == "" {
				return exitWith(scrFailed)
			}
			return nil
		}}
	fl := cmd.Flags()
	fl.StringVarP(&dir, "prefix", "p", "", "prefix directory (default $SCR_PREFIX, or here)")
	fl.StringVar(&down, "down", "", "nodes that are down")
	fl.IntVar(&least, "min-nodes", number("SCR_MIN_NODES"), "how many nodes a run needs")
	fl.IntVar(&runs, "runs", 0, "how many runs are left")
	fl.BoolVarP(&s.verbose, "verbose", "v", false, "say why")
	return cmd
}

// number is a number in the environment, 0: there is none.
func number(name string) int {
	n, _ := strconv.Atoi(os.Getenv(name))
	return n
}

// allocationEnd is when the nodes are taken away, as far as the user or the resource manager tells; zero: nobody knows.
func allocationEnd() time.Time {
	for _, name := range []string{"SCR_END_TIME", "SLURM_JOB_END_TIME"} {
		if n := number(name); n > 0 {
			return time.Unix(int64(n), 0)
		}
	}
	return time.Time{}
}

// nodeList is the list of the nodes of the allocation, empty: there is none.
func nodeList() string {
	for _, name := range []string{"SCR_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"} {
		if list := os.Getenv(name); list != "" {
			return list
		}
	}
	return ""
}

// allocated is how many nodes of the allocation are left without some; false: nobody knows.
func allocated(down string) (int, bool) {
	all, err := resman.Expand(nodeList())
	if err != nil || len(all) == 0 {
		return 0, false
	}
	gone, err := resman.Expand(down)
	if err != nil {
		return 0, false
	}
	return len(slices.DeleteFunc(all, func(n string) bool { return slices.Contains(gone, n) })), true
}

func (s *scr) run() *cobra.Command {
	return &cobra.Command{Use: "scr_run LAUNCHER [ARG...] PROGRAM [ARG...]", Short: "As SCR's: byssus run --plain, or --script", DisableFlagParsing: true,
		Long: `Run a program that writes its checkpoints by SCR's interface, as byssus run --plain does, which starts the ranks itself: the words
of mpirun and srun are read for their number and the nodes (-n, -np, --ntasks, --host). Another command, or one with other options,
is run as it is, by byssus run --script. $SCR_RUNS is how often it is started at most, $SCR_NODELIST, or Slurm's list, are the
nodes.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
				return cmd.Help()
			}
			if len(args) == 0 {
				return usage(errors.New("scr_run: wanted a launcher and a program"))
			}
			l, err := readLauncher(args)
			own := err != nil // it has to start the program itself: its words say what is not understood
			if own {
				l = launcherWords{ranks: 1, program: args}
			}
			f, err := s.scrFlags(l)
			if err != nil {
				return err
			}
			f.plain, f.script = !own, own
			return runPlain(s.env, f, l.program)
		}}
}

// scrFlags are the options of byssus run for what a launcher was told, and the environment says.
func (s *scr) scrFlags(l launcherWords) (*runFlags, error) {
	var f runFlags
	shown := &cobra.Command{Use: "run"}
	f.add(shown) // for the defaults
	f.ranks, f.plain = l.ranks, true
	switch runs := number("SCR_RUNS"); {
	case runs < 0:
		f.most = 0 // any number
	case runs > 0: // one that dies beyond a new checkpoint is started once more: none at all there is not
		f.most, f.retries = max(runs-1, 1), min(f.retries, runs-1)
	}
	hosts := l.hosts
	if len(hosts) == 0 {
		var err error
		if hosts, err = resman.Expand(nodeList()); err != nil {
			return nil, usage(err)
		}
	}
	if name, err := os.Hostname(); len(hosts) > 1 || len(hosts) == 1 && (err != nil || hosts[0] != name) {
		f.hosts = hosts
		if l.nodes > 0 && l.nodes < len(hosts) {
			f.spares = len(hosts) - l.nodes
		}
	}
	return &f, f.check()
}

// launcherWords are what is understood of a launcher's command line.
type launcherWords struct {
	ranks, nodes int
	hosts        []string
	program      []string
}

// readLauncher reads the words of mpirun or srun up to the program.
func readLauncher(args []string) (launcherWords, error) {
	l := launcherWords{ranks: 1}
	if len(args) == 0 {
		return l, errors.New("wanted a launcher, mpirun or srun, and a program")
	}
	meaning := map[string]map[string]string{
		"mpirun": {"-n": "ranks", "-np": "ranks", "--np": "ranks", "-host": "hosts", "--host": "hosts", "-hosts": "hosts", "-H": "hosts"},
		"srun":   {"-n": "ranks", "--ntasks": "ranks", "-N": "nodes", "--nodes": "nodes", "-w": "hosts", "--nodelist": "hosts"},
	}[args[0]]
	if meaning == nil {
		return l, fmt.Errorf("launcher %q, wanted mpirun or srun", args[0])
	}
	rest := args[1:]
	for len(rest) > 0 && strings.HasPrefix(rest[0], "-") {
		word, value, given := strings.Cut(rest[0], "=")
		if short := word[:min(2, len(word))]; !given && meaning[word] == "" && meaning[short] != "" && !strings.HasPrefix(word, "--") { // as in -n4
			word, value, given = short, word[2:], true
		}
		rest = rest[1:]
		if meaning[word] == "" {
			return l, fmt.Errorf("option %s of %s is not understood", word, args[0])
		}
		if !given {
			if len(rest) == 0 {
				return l, fmt.Errorf("option %s of %s, without its value", word, args[0])
			}
			value, rest = rest[0], rest[1:]
		}
		if err := l.take(meaning[word], value); err != nil {
			return l, fmt.Errorf("option %s of %s: %w", word, args[0], err)
		}
	}
	if len(rest) == 0 {
		return l, errors.New("there is no program")
	}
	l.program = rest
	return l, nil
}

func (l *launcherWords) take(what, value string) error {
	var err error
	switch what {
	case "hosts":
		l.hosts, err = resman.Expand(value)
		return err
	case "nodes":
		l.nodes, err = strconv.Atoi(value)
	default:
		l.ranks, err = strconv.Atoi(value)
	}
	if err != nil || l.ranks < 1 || l.nodes < 0 {
		return fmt.Errorf("found %q, wanted a number", value)
	}
	return nil
}
