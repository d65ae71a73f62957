package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Where there is no cgroup, a node is frozen by SIGSTOP to each of its processes: those that descend from its first one,
// which also has the orphans, in whatever pid namespace they are.

// A seen process is one that the hub finds in /proc.
type seen struct {
	pid, parent int
	state       byte // as in proc_pid_stat(5)
}

// processes lists all processes that the hub sees: those of all nodes.
func processes() ([]seen, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var list []seen
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) { // it has ended
			continue
		}
		if err != nil {
			return nil, err
		}
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // a name may hold anything
		if len(f) < 2 {
			return nil, fmt.Errorf("/proc/%d/stat: found %q", pid, text)
		}
		parent, err := strconv.Atoi(f[1])
		if err != nil {
			return nil, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		list = append(list, seen{pid, parent, f[0][0]})
	}
	return list, nil
}

// family picks a process and all that descend from it.
func family(all []seen, first int) []seen {
	in := map[int]bool{first: true}
	for grown := true; grown; { // the order in /proc is not that of birth
		grown = false
		for _, p := range all {
			if in[p.parent] && !in[p.pid] {
				in[p.pid], grown = true, true
			}
		}
	}
	var list []seen
	for _, p := range all {
		if in[p.pid] {
			list = append(list, p)
		}
	}
	return list
}

// stopAll stops a process and all that descend from it, the first one first, and waits until all of them stand still:
// one that has been born meanwhile is found in the next round.
func stopAll(first int) error {
	told := map[int]bool{}
	deadline := time.Now().Add(hang)
	for {
		all, err := processes()
		if err != nil {
			return err
		}
		moving := 0
		for _, p := range family(all, first) {
			if told[p.pid] && strings.IndexByte("TtZX", p.state) >= 0 {
				continue
			}
			moving, told[p.pid] = p.pid, true // again, if one that still ran has woken it
			if err := unix.Kill(p.pid, unix.SIGSTOP); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("stop pid %d: %w", p.pid, err)
			}
		}
		if moving == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("stop: pid %d does not stop", moving)
		}
		time.Sleep(time.Millisecond) // between two looks
	}
}

// continueAll lets a process and all that descend from it go on.
func continueAll(first int) error {
	all, err := processes()
	if err != nil {
		return err
	}
	var failures []error
	for _, p := range family(all, first) {
		if err := unix.Kill(p.pid, unix.SIGCONT); err != nil && !errors.Is(err, unix.ESRCH) {
			failures = append(failures, fmt.Errorf("continue pid %d: %w", p.pid, err))
		}
	}
	return errors.Join(failures...)
}
