package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/host/sandbox"
)

// simple is a verb that does one thing with one node.
type simple struct {
	name, short, long string
	do                func(*sandbox.Cluster, string) (note string, err error)
}

// silent makes a verb of a method that has nothing to say.
func silent(do func(*sandbox.Cluster, string) error) func(*sandbox.Cluster, string) (string, error) {
	return func(c *sandbox.Cluster, node string) (string, error) { return "", do(c, node) }
}

func sandboxSimple() []simple {
	return []simple{
		{"kill", "Kill a node: its peers notice at once",
			"Kill all processes of a node. The kernel closes their connections, as when a node is shut down or runs out of memory:\npeers get a FIN or an RST.",
			silent((*sandbox.Cluster).Kill)},
		{"crash", "Let a node crash: its peers hear nothing more",
			"Take a node off the network for good and kill its processes, as when its power fails: peers hear nothing, not even the\nend of a connection.",
			silent((*sandbox.Cluster).Crash)},
		{"start", "Start a dead node again",
			"Start a node that was killed or has crashed. It has nothing of what it had: its own directories are empty, its link is\nas at first.",
			silent((*sandbox.Cluster).Boot)},
		{"freeze", "Freeze a node: its processes stand still, its connections stay open",
			"Stop all processes of a node: at once by its cgroup where one can be made, else by SIGSTOP one after the other, which is\nsaid, and which parents on the node can see. The kernel still answers on the node's connections.",
			(*sandbox.Cluster).Freeze},
		{"thaw", "Let a frozen node go on",
			"Let a frozen node go on. After a SIGSTOP all its processes do, also those that were stopped before.",
			silent((*sandbox.Cluster).Thaw)},
		{"cut", "Cut a node off the network", "Take the link of a node down. It lives, hears nobody and is heard by nobody.",
			silent((*sandbox.Cluster).Cut)},
		{"heal", "Connect a node again", "Take the link of a node up again.", silent((*sandbox.Cluster).Heal)},
	}
}

// sandboxVerb makes the command of a simple verb.
func (e *env) sandboxVerb(s simple) *cobra.Command {
	return &cobra.Command{
		Use: s.name + " NODE", Short: s.short, Long: s.long, Args: nodeArgs(1, "a node"), ValidArgsFunction: completeNodes,
		Example: fmt.Sprintf("  byssus sandbox %s node2\n  byssus sandbox %[1]s trial/node2", s.name),
		RunE: func(_ *cobra.Command, args []string) error {
			c, node, err := theNode(args[0])
			if err != nil {
				return err
			}
			note, err := s.do(c, node)
			if err == nil && note != "" {
				e.say(fmt.Sprintf("%s: %s", node, note))
			}
			return err
		},
	}
}

// nodeArgs is the check of a verb with so many arguments, the first of which is a node.
func nodeArgs(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usage(fmt.Errorf("%s: %d arguments, wanted %s", cmd.Name(), len(args), what))
		}
		return nil
	}
}

func (e *env) sandboxCap() *cobra.Command {
	return &cobra.Command{
		Use:   "cap NODE RATE|off",
		Short: "Limit the bandwidth of a node",
		Long: `Limit what the link of a node passes, each way. The rate is as tc(8) has it: 10mbit, 1gbit; kbps, mbps and gbps are
bytes. It needs the kernel's tbf (sch_tbf).`,
		Example: "  byssus sandbox cap node2 100mbit\n  byssus sandbox cap node2 off",
		Args:    nodeArgs(2, "a node and a rate or off"), ValidArgsFunction: completeNodes,
		RunE: func(_ *cobra.Command, args []string) error {
			var rate uint64
			var err error
			if args[1] != "off" {
				if rate, err = sandbox.ParseRate(args[1]); err != nil {
					return err
				}
			}
			c, node, err := theNode(args[0])
			if err != nil {
				return err
			}
			return c.Cap(node, rate)
		},
	}
}

func (e *env) sandboxDrop() *cobra.Command {
	return &cobra.Command{
		Use:   "drop NODE PERCENT|off",
		Short: "Let the link of a node lose packets",
		Long: `Let the link of a node lose so many percent of the packets, by chance, each way. It needs the kernel's nf_tables with
netdev chains.`,
		Example: "  byssus sandbox drop node2 5\n  byssus sandbox drop node2 off",
		Args:    nodeArgs(2, "a node and a percentage or off"), ValidArgsFunction: completeNodes,
		RunE: func(_ *cobra.Command, args []string) error {
			var percent float64
			var err error
			if args[1] != "off" {
				if percent, err = sandbox.ParsePercent(args[1]); err != nil {
					return err
				}
			}
			c, node, err := theNode(args[0])
			if err != nil {
				return err
			}
			return c.Drop(node, percent)
		},
	}
}

func (e *env) sandboxDisk() *cobra.Command {
	return &cobra.Command{
		Use:   "disk-full NODE [PATH [off]]",
		Short: "Fill a directory of a node's own",
		Long: `Leave no room in the directory of a node's own in which PATH lies: /tmp, /var/tmp, /dev/shm, /run, the node's home or
its cache, which is the default. With off it has its size again. The directory is made as small as what is in it; that
takes no memory. A file that is removed from it makes room again.`,
		Example: `  byssus sandbox disk-full node2
  byssus sandbox disk-full node2 /dev/shm
  byssus sandbox disk-full node2 /dev/shm off`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 3 || len(args) == 3 && args[2] != "off" {
				return usage(fmt.Errorf("disk-full: arguments %q, wanted a node, a directory on it, and off or not", args))
			}
			return nil
		},
		ValidArgsFunction: completeNodes,
		RunE: func(_ *cobra.Command, args []string) error {
			c, node, err := theNode(args[0])
			if err != nil {
				return err
			}
			path := sandbox.Cache
			if len(args) > 1 && args[1] != "off" {
				path = args[1]
			}
			if args[len(args)-1] == "off" {
				return c.FreeDisk(node, path)
			}
			dir, err := c.FillDisk(node, path)
			if err == nil {
				e.say(fmt.Sprintf("%s: %s is full", node, dir))
			}
			return err
		},
	}
}

// completeNodes offers the names of nodes to the shell, with their sandboxes when there are several.
func completeNodes(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	list, err := sandbox.List()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, s := range list {
		c, err := sandbox.Open(s.Name)
		if err != nil {
			continue
		}
		nodes, err := c.Nodes()
		if err != nil {
			continue
		}
		for _, n := range nodes {
			if len(list) > 1 {
				n.Name = s.Name + "/" + n.Name
			}
			names = append(names, n.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
