// Package notify hears of the file names that processes are about to use, before the kernel does: one that opens a file for writing,
// renames, links or truncates one waits until it is told to go on, what the call returns, or gets a descriptor (seccomp_unotify(2)). So
// names are led elsewhere in programs that are neither rebuilt nor linked dynamically. It needs no rights and no namespaces, but Linux 5.14.
//
// Guarantees: a call is answered once; one that nobody answers any more, since the listener is closed, fails with ENOSYS. Names are those
// that the call will use, unless the process changes its memory meanwhile: this leads programs, and does not guard against them.
package notify

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AMD64 is the value that the kernel gives for system calls of this architecture (audit(7)).
const archAMD64 = 0xc000003e

// toHear are flags of open with which a file is written, made or emptied, or a link not followed: these calls are heard of.
const toHear = unix.O_ACCMODE | unix.O_CREAT | unix.O_TRUNC | unix.O_NOFOLLOW

// Offsets in seccomp_data.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
)

// flagsAt is which argument has the flags of the calls that open files.
var flagsAt = []struct{ nr, arg uint32 }{{unix.SYS_OPENAT, 2}, {unix.SYS_OPEN, 1}}

// heardAlways are calls that are heard of whatever their arguments.
var heardAlways = []uint32{unix.SYS_CREAT, unix.SYS_OPENAT2, unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINK, unix.SYS_LINKAT,
	unix.SYS_TRUNCATE, unix.SYS_SYMLINK, unix.SYS_SYMLINKAT}

// filter is the program for the kernel: each block ends by returning.
func filter() []unix.SockFilter {
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	skipUnless := func(nr uint32, n uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: n}
	}
	hear, allow := ret(unix.SECCOMP_RET_USER_NOTIF), ret(unix.SECCOMP_RET_ALLOW)
	p := []unix.SockFilter{load(offArch), {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: archAMD64, Jt: 1}, allow, load(offNr)}
	for _, c := range flagsAt {
		p = append(p, skipUnless(c.nr, 4), load(offArgs+8*c.arg),
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: toHear, Jf: 1}, hear, allow)
	}
	for _, nr := range heardAlways {
		p = append(p, skipUnless(nr, 1), hear)
	}
	return append(p, allow)
}

// install makes the calling thread, and all that it executes or starts from now on, be heard. It returns the listener's descriptor.
func install() (int, error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, fmt.Errorf("notify: no_new_privs: %w", err)
	}
	code := filter()
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	// One that is killed while it waits is gone, though it was heard; before Linux 5.19 any signal ends the wait, and the call begins again.
	const killable = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, killable, uintptr(unsafe.Pointer(&prog)))
	if e == unix.EINVAL {
		fd, _, e = unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	}
	switch e {
	case 0:
		return int(fd), nil
	case unix.EBUSY:
		return -1, fmt.Errorf("notify: something around this process hears of its system calls already, as some containers do: %w", e)
	}
	return -1, fmt.Errorf("notify: seccomp: %w", e)
}
