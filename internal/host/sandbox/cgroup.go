package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Nodes get a cgroup (version 2) each where one can be made: below the cgroup of the caller, or below one that is around
// it. With it all processes of a node are frozen at once, and their memory has a limit; where the memory controller is one of
// version 1, they get one of that besides. Nothing that was there before is changed.

// home is a directory in which cgroups can be made, for processes that start in the caller's.
//
// mountinfo and own are the texts of /proc/self/mountinfo and /proc/self/cgroup.
func home(mountinfo, own string, memory bool) (string, error) {
	isV2 := func(kind string, _ []string) bool { return kind == "cgroup2" }
	return below(mountinfo, own, "cgroup2", isV2, "0", memory)
}

// memoryHome is one for limits of memory, where version 1 has the controller of it.
func memoryHome(mountinfo, own string) (string, error) {
	isMemory := func(kind string, options []string) bool {
		return kind == "cgroup" && slices.Contains(options, "memory")
	}
	for line := range strings.Lines(own) {
		f := strings.SplitN(line, ":", 3)
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), "memory") {
			return below(mountinfo, own, "cgroup (memory)", isMemory, f[0], false)
		}
	}
	return "", fmt.Errorf("no memory controller of cgroup version 1: %w", ErrUnsupported)
}

// below is a directory at or around the caller's cgroup in a hierarchy, of which a name for messages, what tells its file system, and its
// number in the caller's list are given.
func below(mountinfo, own, name string, in func(kind string, options []string) bool, hierarchy string, memory bool) (string, error) {
	mount, dir := "", ""
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if dash := slices.Index(f, "-"); dash > 5 && dash+1 < len(f) && in(f[dash+1], strings.Split(f[len(f)-1], ",")) {
			mount, dir = f[4], f[3]
		}
	}
	if mount == "" {
		return "", fmt.Errorf("no %s file system is mounted: %w", name, ErrUnsupported)
	}
	at := ""
	for line := range strings.Lines(own) {
		if f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(f) == 3 && f[0] == hierarchy {
			at = f[2]
		}
	}
	rel, err := filepath.Rel(dir, at)
	if at == "" || err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("our cgroup %q does not lie below %s (%s): %w", at, mount, dir, ErrUnsupported)
	}
	var why []string
	for ; ; rel = filepath.Dir(rel) {
		candidate := filepath.Join(mount, rel)
		err := usable(candidate, memory)
		if err == nil {
			return candidate, nil
		}
		if why = append(why, err.Error()); rel == "." {
			return "", fmt.Errorf("no cgroup can be made (%s): %w", strings.Join(why, "; "), ErrUnsupported)
		}
	}
}

// usable says whether cgroups can be made in one, and processes be started in them.
func usable(dir string, memory bool) error {
	for _, path := range []string{dir, filepath.Join(dir, "cgroup.procs")} {
		if err := unix.Access(path, unix.W_OK); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if !memory {
		return nil
	}
	file := filepath.Join(dir, "cgroup.subtree_control")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(string(text)), "memory") {
		return fmt.Errorf("%s: found %q, want memory in it", file, strings.TrimSpace(string(text)))
	}
	return nil
}

// makeCgroup makes the cgroup around those of the nodes.
func makeCgroup(dir string, memory bool) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("sandbox: cgroup: %w", err)
	}
	if !memory {
		return nil
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
		return fmt.Errorf("sandbox: cgroup: memory limit: %w", err)
	}
	return nil
}

// makeNodeCgroup makes the cgroup of a node, if it is not there, and opens it.
func makeNodeCgroup(dir string, memory int64) (*os.File, error) {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	if err := freeze(dir, false); err != nil { // the node may have died frozen
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	if memory > 0 {
		if err := os.WriteFile(filepath.Join(dir, "memory.max"), fmt.Append(nil, memory), 0); err != nil {
			return nil, fmt.Errorf("cgroup: memory limit: %w", err)
		}
		err := os.WriteFile(filepath.Join(dir, "memory.swap.max"), []byte("0"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without swap has no such limit
			return nil, fmt.Errorf("cgroup: memory limit: %w", err)
		}
	}
	return os.Open(dir)
}

// limitMemory puts a node's first process, which does nothing yet, into a cgroup of version 1 with a limit.
func limitMemory(dir string, pid int, bytes int64) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cgroup: %w", err)
	}
	for _, f := range []struct {
		name string
		n    int64
	}{{"memory.limit_in_bytes", bytes}, {"memory.memsw.limit_in_bytes", bytes}, {"cgroup.procs", int64(pid)}} {
		err := os.WriteFile(filepath.Join(dir, f.name), fmt.Append(nil, f.n), 0)
		if err != nil && !(f.name == "memory.memsw.limit_in_bytes" && errors.Is(err, fs.ErrNotExist)) { // where swap is not counted
			return fmt.Errorf("cgroup: memory limit: %w", err)
		}
	}
	return nil
}

// hang is how long something may take that the kernel does in moments.
const hang = time.Minute

// expose has the kernel kill a process, and those that it starts, before the first process of its node when the node has no memory
// left: a machine's first process is not killed either. Where that cannot be told, the node may die.
func expose(pid int) {
	const before = "500" // of a thousand parts of the memory
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(before), 0)
}

// freeze stops or continues all processes in a cgroup, and waits until it is so.
func freeze(dir string, frozen bool) error {
	value := "0"
	if frozen {
		value = "1"
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte(value), 0); err != nil {
		return err
	}
	return awaitEvent(dir, "frozen "+value)
}

// awaitEvent waits until a line stands in cgroup.events, of which the kernel tells by POLLPRI.
func awaitEvent(dir, line string) error {
	f, err := os.Open(filepath.Join(dir, "cgroup.events"))
	if err != nil {
		return err
	}
	defer f.Close()
	deadline := time.Now().Add(hang)
	buf := make([]byte, 4096)
	for {
		n, err := f.ReadAt(buf, 0)
		if n == 0 && err != nil {
			return err
		}
		if slices.Contains(strings.Split(string(buf[:n]), "\n"), line) {
			return nil
		}
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("%s: found %q, want %s", f.Name(), buf[:n], line)
		}
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}}, int(left.Milliseconds())+1)
		if err != nil && err != unix.EINTR {
			return err
		}
	}
}

// removeLimits removes a sandbox's cgroup of version 1, and those in it, whose processes are ending: they tell nobody when they have.
func removeLimits(dir string) error {
	if dir == "" {
		return nil
	}
	nodes, err := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
	for _, n := range append(nodes, filepath.Join(dir, "cgroup.procs")) {
		deadline := time.Now().Add(hang)
		for err == nil {
			if err = os.Remove(filepath.Dir(n)); !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
				break
			}
			err = nil
			time.Sleep(10 * time.Millisecond)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("sandbox: cgroup: %w", err)
	}
	return nil
}

// removeCgroups removes a sandbox's cgroup and those in it, whose processes are ending.
func removeCgroups(dir string) error {
	if dir == "" {
		return nil
	}
	nodes, err := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("sandbox: cgroup: %w", err)
	}
	for _, n := range nodes {
		err := awaitEvent(filepath.Dir(n), "populated 0")
		if err == nil {
			err = os.Remove(filepath.Dir(n))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sandbox: cgroup: %w", err)
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sandbox: cgroup: %w", err)
	}
	return nil
}
