package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Process is a process that descends from this one, known by its id and the time of its start, so that an id that was
// given anew is not mistaken for it.
type Process struct {
	Pid, Parent int
	Stopped     bool
	start       string
	zombie      bool
}

// readProcess reads /proc/PID/stat; ok is false when there is no such process.
func readProcess(pid int) (Process, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, false
	}
	text := string(b)
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 20 {
		return Process{}, false
	}
	parent, err := strconv.Atoi(f[1])
	return Process{Pid: pid, Parent: parent, Stopped: f[0] == "T", start: f[19], zombie: f[0] == "Z"}, err == nil
}

// Descendants lists the processes below pid, parents first.
func Descendants(pid int) []Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]Process{}
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			if p, ok := readProcess(n); ok {
				children[p.Parent] = append(children[p.Parent], p)
			}
		}
	}
	var all []Process
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		for _, p := range children[queue[0]] {
			all = append(all, p)
			queue = append(queue, p.Pid)
		}
	}
	return all
}

// Tree tells of each process below pid its state, what the kernel does for it, and its command line.
func Tree(pid int) string {
	var b strings.Builder
	for _, p := range Descendants(pid) {
		part := func(name string) string {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.Pid, name)) // it may have ended
			return strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " "))
		}
		stat := part("stat")
		state, _, _ := strings.Cut(strings.TrimSpace(stat[strings.LastIndexByte(stat, ')')+1:]), " ")
		fmt.Fprintf(&b, "  %d below %d, %s, in %q: %s\n", p.Pid, p.Parent, state, part("wchan"), part("cmdline"))
	}
	return b.String()
}

// Ranks lists the rank processes below pid. A rank may bear the application's name, so they are known by their executable; so do
// children that it has forked, which are none.
func Ranks(pid int) []Process {
	all := Descendants(pid)
	ranks := map[int]bool{}
	return slices.DeleteFunc(all, func(p Process) bool {
		none := p.zombie || ranks[p.Parent] || !p.runs("byssus-rank")
		ranks[p.Pid] = ranks[p.Parent] || !none
		return none
	})
}

// runs says whether the process executes a file of one of these names.
func (p Process) runs(names ...string) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.Pid))
	return err == nil && slices.Contains(names, filepath.Base(exe))
}

// alive says whether this very process still runs.
func (p Process) alive() bool {
	now, ok := readProcess(p.Pid)
	return ok && now.start == p.start && !now.zombie
}

func (p Process) kill() {
	if p.alive() {
		_ = syscall.Kill(p.Pid, syscall.SIGKILL) // it may have ended meanwhile
	}
}

// stopped stops all processes below pid, which must stand still itself, so that none of them makes another one.
func stopped(pid int) []Process {
	for known := 0; ; {
		all := Descendants(pid)
		for _, p := range all {
			_ = syscall.Kill(p.Pid, syscall.SIGSTOP) // it may have ended
		}
		if len(all) <= known {
			return all
		}
		known = len(all)
	}
}

// adoptOrphans makes this process the parent of descendants whose own parent has ended, so that they are found.
func adoptOrphans() error {
	const prSetChildSubreaper = 36
	if _, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); e != 0 {
		return fmt.Errorf("harness: subreaper: %w", e)
	}
	return nil
}

// Orphans lists what jobs have left behind: ranks and launchers whose own parent is gone and who have the mark (NAME=VALUE) in their
// environment. A launcher that somebody else here has just started looks like an orphan, but for the mark.
func Orphans(mark string) []Process {
	self := os.Getpid()
	return slices.DeleteFunc(Descendants(self), func(p Process) bool {
		return p.Parent != self || p.zombie || !p.runs("byssus-rank", "mpiexec.hydra", "hydra_pmi_proxy", "orterun", "orted") || !p.has(mark)
	})
}

// has says whether the process was started with this NAME=VALUE in its environment.
func (p Process) has(mark string) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.Pid))
	return err == nil && slices.Contains(strings.Split(string(env), "\x00"), mark)
}

// KillOrphans ends the Orphans with that mark and takes their exit codes.
func KillOrphans(mark string) {
	for _, p := range Orphans(mark) {
		for _, d := range append(Descendants(p.Pid), p) {
			d.kill()
		}
		_, _ = syscall.Wait4(p.Pid, nil, 0, nil) // it is a child and was killed
	}
}

// EndBelow ends everything that descends from this process, so that nobody waits for it any longer.
func EndBelow() {
	for _, p := range stopped(os.Getpid()) {
		p.kill()
	}
}
