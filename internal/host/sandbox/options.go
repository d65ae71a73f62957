package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Reasons that a caller may want to tell apart.
var (
	ErrName        = errors.New("not a possible name")
	ErrOption      = errors.New("not possible")
	ErrExists      = errors.New("a sandbox of this name exists")
	ErrNone        = errors.New("no such sandbox")
	ErrNotRunning  = errors.New("the sandbox is not running")
	ErrNode        = errors.New("no such node")
	ErrState       = errors.New("not possible now")
	ErrUnsupported = errors.New("not supported here")
	ErrDied        = errors.New("the node died")
	ErrNotFound    = errors.New("not found")
	ErrNotExec     = errors.New("not executable")
)

// Login is the name of the login node, from which jobs are started.
const Login = "login"

// Most is how many nodes a sandbox may have, spares included.
const Most = 200

const (
	subnet       = "10.77.0"
	loginAddress = 254
	minMemory    = 32 << 20
	minDisk      = 1 << 20
)

// Options say what to make. The zero value of a field that says so is replaced by a default.
type Options struct {
	Name    string
	Nodes   int      // node1 to nodeN
	Spares  int      // further nodes, numbered on, which are meant to stand by
	CPUs    int      // of each node; 0: the machine's by the number of nodes, at least 1
	Memory  int64    // that the processes of a node may use, its own directories included; 0: no limit
	Disk    int64    // size of each directory of a node's own; 0: a share of the machine's memory
	Prefix  string   // the shared directory; empty: one in the sandbox's directory, which goes with it
	Binds   []string // further directories that all nodes share and may write
	Visible []string // directories that are to be seen, read-only, though they lie in one of a node's own
	Exe     string   // this program or one that calls Init for sandbox-init; empty: this program
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)

// CheckName says whether a sandbox may be called that.
func CheckName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("sandbox: sandbox name %q: wanted letters, digits, '.', '_' and '-', at most 32, beginning with a letter or digit: %w", name, ErrName)
	}
	return nil
}

// check finds what is wrong with the numbers.
func (o Options) check() error {
	if err := CheckName(o.Name); err != nil {
		return err
	}
	type limit struct {
		what         string
		n, low, high int64
	}
	limits := []limit{
		{"nodes", int64(o.Nodes), 1, Most},
		{"spares", int64(o.Spares), 0, Most},
		{"nodes and spares", int64(o.Nodes) + int64(o.Spares), 1, Most},
		{"processors of a node", int64(o.CPUs), 0, math.MaxInt32},
	}
	if o.Memory != 0 {
		limits = append(limits, limit{"bytes of memory of a node", o.Memory, minMemory, math.MaxInt64})
	}
	if o.Disk != 0 {
		limits = append(limits, limit{"bytes of a directory of a node's own", o.Disk, minDisk, math.MaxInt64})
	}
	for _, l := range limits {
		switch {
		case l.n < l.low:
			return fmt.Errorf("sandbox: create %s: %d %s, wanted at least %d: %w", o.Name, l.n, l.what, l.low, ErrOption)
		case l.n > l.high:
			return fmt.Errorf("sandbox: create %s: %d %s, wanted at most %d: %w", o.Name, l.n, l.what, l.high, ErrOption)
		}
	}
	return nil
}

// complete fills in what was left to us, for a machine of so many processors, and follows the links in all paths.
func (o Options) complete(processors int) (Options, error) {
	if o.CPUs == 0 {
		o.CPUs = max(1, (processors+o.Nodes/2)/o.Nodes)
	}
	if o.CPUs > processors {
		return o, fmt.Errorf("sandbox: create %s: %d processors of a node, there are %d: %w", o.Name, o.CPUs, processors, ErrOption)
	}
	if o.Disk == 0 {
		var machine unix.Sysinfo_t
		if err := unix.Sysinfo(&machine); err != nil {
			return o, fmt.Errorf("sandbox: create %s: memory of this machine: %w", o.Name, err)
		}
		share := int64(machine.Totalram) * int64(machine.Unit) / 2 / int64(o.Nodes+o.Spares+1)
		o.Disk = max(share&^(minDisk-1), minDisk)
	}
	if o.Exe == "" {
		o.Exe = "/proc/self/exe"
	}
	var shared []string
	for _, dir := range append([]string{o.Prefix}, o.Binds...) {
		real, err := resolve(dir)
		if err == nil {
			err = shareable(real)
		}
		if err != nil {
			return o, fmt.Errorf("sandbox: create %s: shared directory: %w", o.Name, err)
		}
		shared = append(shared, real)
	}
	o.Prefix, o.Binds = shared[0], shared[1:]
	var visible []string
	for _, dir := range o.Visible {
		real, err := resolve(dir)
		if err != nil {
			return o, fmt.Errorf("sandbox: create %s: visible directory: %w", o.Name, err)
		}
		if own(real) != "" && !slices.Contains(OwnDirs(), real) {
			visible = append(visible, real)
		}
	}
	o.Visible = visible
	return o, nil
}

// resolve finds the directory behind a path.
func resolve(path string) (string, error) {
	real, err := filepath.Abs(path)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	st, err := os.Stat(real)
	if err != nil {
		return "", err
	}
	if !st.IsDir() {
		return "", fmt.Errorf("%s: not a directory: %w", path, ErrOption)
	}
	if !utf8.ValidString(real) {
		return "", fmt.Errorf("%q: a path that is not UTF-8: %w", real, ErrOption)
	}
	return real, nil
}

// shareable says whether nodes may share a directory: none in which or around which they have something of their own.
func shareable(dir string) error {
	for _, mine := range append(OwnDirs(), "/proc", "/sys", "/dev", "/etc") {
		if dir == mine || within(mine, dir) {
			return fmt.Errorf("%s: a node has %s of its own: %w", dir, mine, ErrOption)
		}
	}
	for _, kernels := range []string{"/proc", "/sys", "/dev"} {
		if within(dir, kernels) && own(dir) == "" {
			return fmt.Errorf("%s: the kernel's, not to be shared: %w", dir, ErrOption)
		}
	}
	return nil
}

// within says whether a path lies below a directory.
func within(path, dir string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") && path != dir
}

// deal hands out the machine's processors in turn: so many to each of n nodes. Nodes share some when there are too few.
func deal(processors []int, n, each int) [][]int {
	sets := make([][]int, n)
	for i := range n * each {
		sets[i/each] = append(sets[i/each], processors[i%len(processors)])
	}
	return sets
}

// processors are those that this process may use.
func processors() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sandbox: processors of this machine: %w", err)
	}
	var list []int
	for cpu := 0; len(list) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list, nil
}
