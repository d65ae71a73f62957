package sandbox

import (
	"fmt"
	"slices"
	"strings"
)

// State is what a node is in.
type State string

// The states. A node that is frozen and cut off counts as frozen; Node.Cut tells the rest.
const (
	Up        State = "up"
	DeadKill  State = "dead(kill)"  // its processes ended: peers got FIN or RST
	DeadCrash State = "dead(crash)" // it fell silent
	Frozen    State = "frozen"
	Cut       State = "cut" // it lives, its link is down
)

// Dead says whether there is nothing left of a node.
func (s State) Dead() bool { return s == DeadKill || s == DeadCrash }

// Node is what is to be known of a node.
type Node struct {
	Name    string  `json:"node"`
	Address string  `json:"address"`
	Group   string  `json:"group"` // failure group: what fails together. SCR's default, a node by itself
	Spare   bool    `json:"spare,omitempty"`
	State   State   `json:"state"`
	Cut     bool    `json:"cut,omitempty"`  // the link is down
	Rate    uint64  `json:"rate,omitempty"` // bytes a second that the link passes, each way; 0: as many as it can
	Drop    float64 `json:"drop,omitempty"` // percent of the packets that the link loses, each way
	CPUs    []int   `json:"cpus"`
}

// Link describes the state of a node's link, as far as it is not as it should be.
func (n Node) Link() string {
	var words []string
	if n.Cut {
		words = append(words, "cut")
	}
	if n.Rate != 0 {
		words = append(words, FormatRate(n.Rate))
	}
	if n.Drop != 0 {
		words = append(words, fmt.Sprintf("loses %g %%", n.Drop))
	}
	return strings.Join(words, ", ")
}

// plan lists the nodes of a sandbox as they are made: those that compute, spares, the login node.
func plan(o Options, processors []int) []Node {
	sets := deal(processors, o.Nodes+o.Spares, o.CPUs)
	var nodes []Node
	for i, set := range sets {
		name := fmt.Sprintf("node%d", i+1)
		nodes = append(nodes, Node{Name: name, Address: address(i + 1), Group: name, Spare: i >= o.Nodes, CPUs: set})
	}
	return append(nodes, Node{Name: Login, Address: address(loginAddress), Group: Login, CPUs: processors})
}

func address(n int) string { return fmt.Sprintf("%s.%d", subnet, n) }

// hosts is the text of /etc/hosts on all nodes.
func hosts(nodes []Node) string {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n")
	for _, n := range nodes {
		fmt.Fprintf(&b, "%s %s\n", n.Address, n.Name)
	}
	return b.String()
}

// The directories of a node's own that the machine has not: its home and its cache.
const (
	Home  = "/run/byssus/home"
	Cache = "/run/byssus/cache"
)

// OwnDirs are the directories that each node has of its own: tmpfs that begin empty and are gone with the node.
func OwnDirs() []string { return []string{"/tmp", "/var/tmp", "/dev/shm", "/run", Home, Cache} }

// own is the directory of a node's own in which a path lies, the innermost; empty: none.
func own(path string) string {
	found := ""
	for _, dir := range OwnDirs() {
		if (path == dir || within(path, dir)) && len(dir) > len(found) {
			found = dir
		}
	}
	return found
}

// Environ is an environment as a process in dir on a node has it: where it speaks of directories of a user, they are the
// node's.
func Environ(env []string, dir string, uid int) []string {
	own := []string{"HOME=" + Home, "TMPDIR=/tmp", "XDG_RUNTIME_DIR=" + runtimeDir(uid), "XDG_CACHE_HOME=" + Cache, "PWD=" + dir}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(v, o[:strings.Index(o, "=")+1]) })
	})
	return append(env, own...)
}

// runtimeDir is the directory for sockets of a user on a node.
func runtimeDir(uid int) string { return fmt.Sprintf("/run/user/%d", uid) }
