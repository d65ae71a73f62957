// Package machine finds out what this machine offers of what Byssus needs: kernel features, limits, room.
//
// Every check tries the thing itself where that is possible without effect, instead of comparing version numbers. A
// check that is not met says what follows from it: Fatal ones keep ranks from starting, others cost speed or comfort.
package machine

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// Check is one result.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Fatal  bool   `json:"fatal,omitempty"` // not OK, and nothing works without it
	Detail string `json:"detail"`
}

func met(name, format string, args ...any) Check {
	return Check{Name: name, OK: true, Detail: fmt.Sprintf(format, args...)}
}

func fatal(name, format string, args ...any) Check {
	return Check{Name: name, Fatal: true, Detail: fmt.Sprintf(format, args...)}
}

func poor(name, format string, args ...any) Check {
	return Check{Name: name, Detail: fmt.Sprintf(format, args...)}
}

// Checks examines the machine.
func Checks() []Check {
	return []Check{architecture(), kernel(), seccomp(), fsgsbase(), membarrier(), pagemapScan(), pidfd(), kcmp(), listing(),
		addressSpace(), descriptors(), stack(), overcommit(), sharedMemory()}
}

func architecture() Check {
	if runtime.GOARCH != "amd64" {
		return fatal("processor", "%s, wanted amd64", runtime.GOARCH)
	}
	return met("processor", "%s, %d CPUs", runtime.GOARCH, runtime.NumCPU())
}

func kernel() Check {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return poor("kernel", "%v", err)
	}
	return met("kernel", "Linux %s", strings.TrimSpace(string(b)))
}

func seccomp() Check {
	b, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail")
	switch {
	case err != nil:
		return fatal("seccomp", "no filters: %v", err)
	case !strings.Contains(string(b), "trap"):
		return fatal("seccomp", "found actions %q, wanted trap", strings.TrimSpace(string(b)))
	}
	return met("seccomp", "filters can trap")
}

// fsgsbase looks whether programs may set their FS base without a system call (AT_HWCAP2, bit 1).
func fsgsbase() Check {
	const atHWCap2, bit = 26, 2
	b, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return poor("fsgsbase", "%v", err)
	}
	for ; len(b) >= 16; b = b[16:] {
		if binary.LittleEndian.Uint64(b) == atHWCap2 && binary.LittleEndian.Uint64(b[8:])&bit != 0 {
			return met("fsgsbase", "usable: crossing into the MPI needs no system call")
		}
	}
	return poor("fsgsbase", "not usable: each MPI call costs two more system calls")
}

func membarrier() Check {
	const query, privateExpedited, number = 0, 1 << 3, 324
	cmds, _, errno := syscall.Syscall(number, query, 0, 0)
	if errno != 0 || cmds&privateExpedited == 0 {
		return fatal("membarrier", "private expedited barriers: %v, commands %#x", errno, cmds)
	}
	return met("membarrier", "private expedited barriers")
}

func pidfd() Check {
	const pidfdOpen = 434
	fd, _, errno := syscall.Syscall(pidfdOpen, uintptr(os.Getpid()), 0, 0)
	if errno != 0 {
		return fatal("pidfd", "pidfd_open: %v", errno)
	}
	_ = syscall.Close(int(fd))
	return met("pidfd", "the end of a rank is noticed at once")
}

func kcmp() Check {
	const number, file = 312, 0
	pid := uintptr(os.Getpid())
	if _, _, errno := syscall.Syscall6(number, pid, pid, file, 0, 0, 0); errno != 0 {
		return poor("kcmp", "%v: an open file that two ranks share is not noticed; epoll entries of closed numbers are refused", errno)
	}
	return met("kcmp", "open files that are shared are noticed")
}

// listing looks for what kernels may be built without: /proc/self/timers and /proc/self/task/T/children.
func listing() Check {
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		return fatal("/proc", "%v: child processes would be lost (CONFIG_PROC_CHILDREN)", err)
	}
	if _, err := os.Stat("/proc/self/timers"); err != nil {
		return poor("/proc", "%v: programs with timers (timer_create) are refused (CONFIG_CHECKPOINT_RESTORE)", err)
	}
	return met("/proc", "lists child processes and timers")
}

// unlimited is RLIM_INFINITY.
const unlimited = ^uint64(0)

func limit(which int) (syscall.Rlimit, string) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(which, &l); err != nil {
		return l, err.Error()
	}
	show := func(v uint64) string {
		if v == unlimited {
			return "unlimited"
		}
		return fmt.Sprint(v)
	}
	return l, fmt.Sprintf("%s of at most %s", show(l.Cur), show(l.Max))
}

func addressSpace() Check {
	l, text := limit(syscall.RLIMIT_AS)
	if l.Cur != unlimited {
		return poor("address space", "limited to %s (ulimit -v): ranks reserve more than they use", text)
	}
	return met("address space", "unlimited")
}

func descriptors() Check {
	const wanted = 2048 // the MPI's own descriptors lie above the application's
	l, text := limit(syscall.RLIMIT_NOFILE)
	if l.Max < wanted {
		return fatal("descriptors", "%s, wanted at least %d (ulimit -Hn)", text, wanted)
	}
	return met("descriptors", "%s", text)
}

func stack() Check {
	_, text := limit(syscall.RLIMIT_STACK)
	return met("stack", "%s", text)
}

func overcommit() Check {
	b, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
	if err == nil && strings.TrimSpace(string(b)) == "2" {
		return poor("overcommit", "vm.overcommit_memory is 2: a restart needs room for all mappings at once")
	}
	return met("overcommit", "memory is committed when it is used")
}

// sharedMemory looks at /dev/shm, which MPIs use between ranks.
func sharedMemory() Check {
	const wanted = 256 << 20
	var st syscall.Statfs_t
	if err := syscall.Statfs("/dev/shm", &st); err != nil {
		return poor("/dev/shm", "%v: an MPI may refuse to start", err)
	}
	free := st.Bavail * uint64(st.Bsize)
	if free < wanted {
		return poor("/dev/shm", "%d MiB free: an MPI may need more", free>>20)
	}
	return met("/dev/shm", "%d MiB free", free>>20)
}
