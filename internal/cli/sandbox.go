package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/host/launch"
	"github.com/byssus-hpc/byssus/internal/host/sandbox"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// sandboxVerbs is the verb sandbox with all that can be done with one.
func (e *env) sandboxVerbs() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "Make a cluster of several nodes on this machine, to try failures of nodes",
		Long: `Make nodes out of namespaces on this machine: each with its own name, network address, processes, and directories for
temporary files, memory files, sockets, home and cache. What fails is chosen: a node is killed (its peers notice at
once), crashes (it falls silent), freezes, is cut off, gets a slow or lossy link or full directories, and comes back.

The nodes see the files of this machine, read-only; they share and may write the prefix, which plays the cluster's
shared file system, and the directories given with --bind. Nothing outside is disturbed. Everything ends with destroy,
also when the sandbox's first process is killed.

Where a NODE is asked for, and more than one sandbox is running, it is SANDBOX/NODE. The login node, where jobs are
started, is called login, the others node1, node2 and so on.`,
		Example: `  byssus sandbox create --nodes 4 --spares 1
  byssus sandbox run sandbox --node node2 -- hostname
  byssus sandbox crash node2
  byssus sandbox ps
  byssus sandbox start node2
  byssus sandbox destroy sandbox`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("sandbox: no verb %q", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(e.sandboxCreate(), e.sandboxList(), e.sandboxPs(), e.sandboxRun(), e.sandboxDestroy(), e.sandboxCap(), e.sandboxDrop(), e.sandboxDisk())
	for _, s := range sandboxSimple() {
		cmd.AddCommand(e.sandboxVerb(s))
	}
	return cmd
}

// sandboxInit is how the processes that hold a sandbox up begin.
func (e *env) sandboxInit() *cobra.Command {
	return &cobra.Command{
		Use: "sandbox-init", Hidden: true, DisableFlagParsing: true, Short: "The first process of a sandbox or a node of one",
		RunE: func(_ *cobra.Command, args []string) error { return exitWith(sandbox.Init(args)) },
	}
}

// createFlags are the options of create.
type createFlags struct {
	nodes, spares, cpus  int
	memory, disk, prefix string
	binds                []string
}

func (e *env) sandboxCreate() *cobra.Command {
	var f createFlags
	cmd := &cobra.Command{
		Use:   "create [flags] [NAME]",
		Short: "Make a sandbox",
		Long: `Make a sandbox and return when all its nodes are up. It is called "sandbox" unless it is given a name.

A node has some of this machine's processors, by turns. Each of its own directories (/tmp, /var/tmp, /dev/shm, /run, its
home, its cache) is in memory and holds --disk bytes. A limit of memory needs the memory controller of cgroups, and the
right to make cgroups: root mostly has it, others where it was delegated to them.

The current directory and Byssus's own files are to be seen on the nodes also when they lie below such a directory.`,
		Example: `  byssus sandbox create --nodes 4
  byssus sandbox create trial --nodes 8 --spares 2 --disk 2G --prefix /scratch/trial
  byssus sandbox create --nodes 2 --cpus 1 --memory 1G --bind ~/data`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(fmt.Errorf("create: %d arguments, wanted the name of a sandbox at most", len(args)))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			name := "sandbox"
			if len(args) == 1 {
				name = args[0]
			}
			return e.createSandbox(name, f)
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&f.nodes, "nodes", 0, fmt.Sprintf("number of nodes, 1 to %d", sandbox.Most))
	fl.IntVar(&f.spares, "spares", 0, "number of further nodes that stand by")
	fl.IntVar(&f.cpus, "cpus", 0, "processors of a node (default: this machine's by the number of nodes)")
	fl.StringVar(&f.memory, "memory", "", "memory of a node, as 1G (default: no limit)")
	fl.StringVar(&f.disk, "disk", "", "size of each of a node's own directories, as 512M (default: half of this machine's memory by the number of nodes)")
	fl.StringVar(&f.prefix, "prefix", "", "directory that all nodes share (default: one that goes with the sandbox)")
	fl.StringArrayVar(&f.binds, "bind", nil, "a further directory that all nodes share and may write (repeat for more)")
	return cmd
}

func (e *env) createSandbox(name string, f createFlags) error {
	if f.nodes == 0 {
		return usage(errors.New("create: --nodes is missing"))
	}
	o := sandbox.Options{Name: name, Nodes: f.nodes, Spares: f.spares, CPUs: f.cpus, Prefix: f.prefix, Binds: f.binds}
	for _, size := range []struct {
		text string
		to   *int64
	}{{f.memory, &o.Memory}, {f.disk, &o.Disk}} {
		if size.text == "" {
			continue
		}
		var err error
		if *size.to, err = sandbox.ParseSize(size.text); err != nil {
			return err
		}
	}
	var err error
	if o.Visible, err = sandboxVisible(); err != nil {
		return err
	}
	c, err := sandbox.Create(o)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.out, "%s: %d nodes, prefix %s\n", c.Name, f.nodes+f.spares, c.Prefix)
	return nil
}

// sandboxVisible are the directories that are of use on a node wherever they lie.
func sandboxVisible() ([]string, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("cli: sandbox: %w", err)
	}
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return nil, fmt.Errorf("cli: sandbox: own executable: %w", err)
	}
	visible := []string{cwd, filepath.Dir(exe)}
	lib, err := launch.LibDir()
	if err != nil {
		return nil, err
	}
	if st, err := os.Stat(lib); err == nil && st.IsDir() {
		visible = append(visible, lib)
	}
	return visible, nil
}

func (e *env) sandboxList() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list [flags]",
		Short:   "List the sandboxes of this user",
		Long:    withJSON("List the sandboxes of this user.", "a list of objects", jsonSandbox),
		Example: "  byssus sandbox list",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			list, err := sandbox.List()
			if e.json {
				return errors.Join(e.printJSON(append([]sandbox.Summary{}, list...)), err)
			}
			rows := [][]string{{"SANDBOX", "STATE", "NODES", "SPARES", "MADE", "PREFIX"}}
			for _, s := range list {
				rows = append(rows, []string{s.Name, s.State, fmt.Sprint(s.Nodes), fmt.Sprint(s.Spares), ui.Ago(s.Created, time.Now()), s.Prefix})
			}
			ui.Table(e.out, rows)
			return err
		},
	}
	e.addJSON(cmd)
	return cmd
}

func (e *env) sandboxPs() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ps [flags] [NAME]",
		Short: "List the nodes of a sandbox",
		Long: withJSON(`List the nodes of a sandbox: up, frozen, cut (off the network), dead(kill) or dead(crash). The group is what fails
together: a node by itself.`, "a list of objects", jsonNode),
		Example: "  byssus sandbox ps\n  byssus sandbox ps trial --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(fmt.Errorf("ps: %d arguments, wanted the name of a sandbox", len(args)))
			}
			return nil
		},
		ValidArgsFunction: completeSandboxes,
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := theSandbox(strings.Join(args, ""))
			if err != nil {
				return err
			}
			nodes, err := c.Nodes()
			if err != nil {
				return err
			}
			if e.json {
				return e.printJSON(nodes)
			}
			e.printNodes(nodes)
			return nil
		},
	}
	e.addJSON(cmd)
	return cmd
}

func (e *env) printNodes(nodes []sandbox.Node) {
	rows := [][]string{{"NODE", "STATE", "ADDRESS", "GROUP", "CPUS", "LINK", "SPARE"}}
	for _, n := range nodes {
		spare := ""
		if n.Spare {
			spare = "spare"
		}
		rows = append(rows, []string{n.Name, string(n.State), n.Address, n.Group, strings.Trim(fmt.Sprint(n.CPUs), "[]"), n.Link(), spare})
	}
	ui.Table(e.out, rows)
}

// theSandbox opens a sandbox by name, or the only one that is running.
func theSandbox(name string) (*sandbox.Cluster, error) {
	if name != "" {
		return sandbox.Open(name)
	}
	list, err := sandbox.List()
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if s.State != "running" {
			continue
		}
		if name != "" {
			return nil, usage(fmt.Errorf("sandbox: %s and %s are running: which one?", name, s.Name))
		}
		name = s.Name
	}
	if name == "" {
		return nil, fmt.Errorf("sandbox: %w is running", sandbox.ErrNone)
	}
	return sandbox.Open(name)
}

// theNode finds the sandbox of NODE or SANDBOX/NODE.
func theNode(arg string) (c *sandbox.Cluster, node string, err error) {
	name, node, ok := strings.Cut(arg, "/")
	if !ok {
		name, node = "", arg
	}
	c, err = theSandbox(name)
	return c, node, err
}

func (e *env) sandboxRun() *cobra.Command {
	var node string
	cmd := &cobra.Command{
		Use:   "run [flags] NAME -- CMD [ARG...]",
		Short: "Run a command on a node",
		Long: `Run a command on a node, by default on the login node. It has the standard streams, the arguments, the environment and
the current directory of byssus, but for HOME, TMPDIR, XDG_RUNTIME_DIR and XDG_CACHE_HOME, which are the node's. The exit
code is that of the command, 128 and the number of the signal that has ended it, 137 when the node died.

Signals go to the command and its children, which are killed when byssus is, and die with the node. It leads a session
of its own without a terminal to control, even when it reads and writes one.`,
		Example: `  byssus sandbox run trial -- byssus run -n 2 -- ./app
  byssus sandbox run trial --node node2 -- sh -c 'hostname; df /tmp'`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case dash != 1:
				return usage(errors.New("run: wanted the name of a sandbox, -- and a command"))
			case len(args) == 1:
				return usage(errors.New("run: no command given"))
			}
			return nil
		},
		ValidArgsFunction: completeSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.runOnNode(cmd.Context(), args[0], node, args[1:])
		},
	}
	cmd.Flags().StringVar(&node, "node", sandbox.Login, "the node")
	return cmd
}

// forwarded are the signals that a command on a node gets in our place.
var forwarded = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT}

func (e *env) runOnNode(ctx context.Context, name, node string, args []string) error {
	c, err := sandbox.Open(name)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 16)
	for _, sig := range forwarded {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	defer signal.Stop(signals)
	p, err := c.Start(ctx, node, sandbox.Command{Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
	if errors.Is(err, sandbox.ErrDied) { // the command may have been started already
		return exitError{128 + int(syscall.SIGKILL), err}
	}
	if err != nil {
		return err
	}
	for {
		select {
		case sig := <-signals:
			if s, ok := sig.(syscall.Signal); ok {
				_ = p.Signal(s) // it may just have ended
			}
		case <-p.Done():
			code, err := p.Wait()
			if err != nil {
				return exitError{code, err}
			}
			return exitWith(code)
		}
	}
}

func (e *env) sandboxDestroy() *cobra.Command {
	return &cobra.Command{
		Use:   "destroy NAME...",
		Short: "End sandboxes and remove all that there is of them",
		Long: `End sandboxes, running or not, and remove all that there is of them: processes, network, and the prefix, unless that was
given with --prefix.`,
		Example: "  byssus sandbox destroy trial",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(errors.New("destroy: wanted the name of a sandbox"))
			}
			return nil
		},
		ValidArgsFunction: completeSandboxes,
		RunE: func(_ *cobra.Command, args []string) error {
			var failures []error
			for _, name := range args {
				failures = append(failures, sandbox.Destroy(name))
			}
			return errors.Join(failures...)
		},
	}
}

// completeSandboxes offers the names of sandboxes to the shell.
func completeSandboxes(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	list, err := sandbox.List()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
