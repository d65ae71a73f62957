package agent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// This file finds out who else has what a rank has open or mapped. Other processes are looked at before a checkpoint is
// asked for, while the ranks run; again, once in an attempt and only for what a rank has reported, when that rank stands
// and has memory or files without a name.
// Seen are the processes that this user may look at: those of the same user, or all. One that does not let itself be looked at
// within a time, because a file of its lies in a file system that hangs, is left out.

// holder is a process that has an object.
type holder struct {
	pid    int
	path   string // a link below /proc that names it, or the name itself
	writes bool
}

// look is what was found in one attempt. Its lock protects all but observer, which has its own, and is not held while all processes are
// looked at before the attempt.
type look struct {
	observer observer

	mu      sync.Mutex
	domains *domains
	others  []int // processes of the job that belong to other agents
	epoch   uint64
	early   map[name]holder       // before the attempt; nil: not yet
	late    map[name]*holder      // what was looked for again; nil: nobody has it
	open    map[name][]descriptor // of the ranks that stand
}

// descriptor is a rank's open file.
type descriptor struct {
	rank, pid int
	fd        int32
}

// survey looks at all processes but those of the job: the ranks, and those of other agents.
func (l *look) survey(ranks map[int]bool, others []int) {
	l.mu.Lock()
	l.others = others
	ours := l.ours(ranks)
	l.mu.Unlock()
	found := l.observer.strangers(ours, nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.early = found
}

// ours adds to the ranks the other processes that are no strangers: this one, and those of other agents. It is locked.
func (l *look) ours(ranks map[int]bool) map[int]bool {
	ranks[os.Getpid()] = true
	for _, pid := range l.others {
		ranks[pid] = true
	}
	return ranks
}

// begin forgets what was found in an earlier attempt.
func (l *look) begin(epoch uint64) {
	if l.epoch != epoch {
		l.epoch, l.late, l.open = epoch, map[name]*holder{}, map[name][]descriptor{}
	}
}

// objects is what a rank has, with what is known of others that have it too.
func (l *look) objects(ses *session, m abi.Message, ranks func() map[int]bool) (node.Report, error) {
	list := make([]abi.Object, len(m.Body)/objectBytes)
	rest, err := abi.Decode(m.Body, list)
	if err != nil || len(rest) != 0 {
		return nil, fmt.Errorf("agent: objects of rank %d: found %d bytes, wanted a multiple of %d", ses.rank, len(m.Body), objectBytes)
	}
	out := node.Objects{Rank: ses.rank, Epoch: m.Epoch}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin(m.Epoch)
	l.again(ranks, list)
	for _, o := range list {
		judged := l.judge(ses, o)
		judged.Domain = l.domains.of(o.Dev)
		out.Objects = append(out.Objects, judged)
	}
	return out, nil
}

const objectBytes = 32

// withContent marks objects whose content is in an image.
const withContent = abi.ObjectNameless | abi.ObjectMemory

// again looks for those objects with content that nobody has looked for in this attempt, and for those whose holder has ended
// or closed them since: another may have them all the same.
func (l *look) again(ranks func() map[int]bool, list []abi.Object) {
	wanted := map[name]bool{}
	for _, o := range list {
		n := name{o.Dev, o.Inode}
		if _, done := l.late[n]; !done && (o.Flags&withContent != 0 || l.gone(n)) {
			wanted[n], l.late[n] = true, nil
		}
	}
	if len(wanted) == 0 {
		return
	}
	for n, h := range l.observer.strangers(l.ours(ranks()), wanted) {
		l.late[n] = &h
	}
}

// judge says who else has an object.
func (l *look) judge(ses *session, o abi.Object) node.Object {
	n := name{o.Dev, o.Inode}
	out := node.Object{Object: o}
	h, found := l.early[n]
	if late, looked := l.late[n]; looked {
		if found = late != nil; found {
			h = *late
		}
	}
	if found && (h.writes || o.Flags&(withContent|abi.ObjectKernel) != 0) {
		out.Foreign = fmt.Sprintf("%s that process %d (%s) has too", h.name(), h.pid, command(h.pid))
	}
	if o.FD < 0 {
		return out
	}
	d := descriptor{ses.rank, ses.pid(), o.FD}
	if o.Flags&abi.ObjectInPlace != 0 {
		out.Name, _ = os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", d.pid, d.fd)) // for messages
	}
	for _, e := range l.open[n] {
		if e.rank != d.rank && sameFile(d, e) {
			out.Twin = fmt.Sprintf("open file that rank %d has too, as fd %d", e.rank, e.fd)
			break
		}
	}
	l.open[n] = append(l.open[n], d)
	return out
}

// gone says whether the process that had an object does not have it any more.
func (l *look) gone(n name) bool {
	h, found := l.early[n]
	if !found {
		return false
	}
	return len(l.observer.holds(h.pid, map[name]bool{n: true})) == 0
}

// name is what the process calls the object.
func (h holder) name() string {
	if to, err := os.Readlink(h.path); err == nil {
		return to
	}
	return h.path
}

// sameFile says whether two descriptors are one open file, with one offset (kcmp, KCMP_FILE).
func sameFile(a, b descriptor) bool {
	r, _, errno := syscall.Syscall6(unix.SYS_KCMP, uintptr(a.pid), uintptr(b.pid), 0, uintptr(a.fd), uintptr(b.fd), 0)
	return errno == 0 && r == 0
}

func command(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "it has ended"
	}
	return string(bytes.TrimSpace(b))
}

// strangers finds the files, pipes and sockets that other processes have open, and those that they have mapped for sharing:
// the wanted ones, or all when wanted is nil.
func (o *observer) strangers(ours map[int]bool, wanted map[name]bool) map[name]holder {
	found := map[name]holder{}
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return found
	}
	uid := os.Getuid()
	for _, p := range procs {
		pid, err := strconv.Atoi(p.Name())
		if err != nil || ours[pid] {
			continue
		}
		dir := filepath.Join("/proc", p.Name())
		var st syscall.Stat_t
		if syscall.Stat(dir, &st) != nil || uid != 0 && int(st.Uid) != uid {
			continue
		}
		for n, h := range o.holds(pid, wanted) {
			note(found, n, h)
		}
	}
	return found
}

// observer looks at processes.
type observer struct {
	mu   sync.Mutex
	busy map[int]time.Time // processes that are being looked at, since when
}

// lookLimit is how long a process may take to be looked at. It is for file systems that hang, and costs each process once.
const lookLimit = 5 * time.Second

// holds finds what one process has.
func (o *observer) holds(pid int, wanted map[name]bool) map[name]holder {
	o.mu.Lock()
	if since, busy := o.busy[pid]; busy && time.Since(since) >= lookLimit {
		o.mu.Unlock()
		return nil
	}
	if o.busy == nil {
		o.busy = map[int]time.Time{}
	}
	o.busy[pid] = time.Now()
	o.mu.Unlock()
	seen := make(chan map[name]holder, 1)
	go func() {
		found := map[name]holder{}
		dir := fmt.Sprintf("/proc/%d/", pid)
		descriptors(pid, dir+"fd/", wanted, found)
		mappings(pid, dir+"maps", wanted, found)
		o.mu.Lock()
		delete(o.busy, pid)
		o.mu.Unlock()
		seen <- found
	}()
	select {
	case found := <-seen:
		return found
	case <-time.After(lookLimit):
		return nil
	}
}

// note keeps one holder of an object, a writer before others.
func note(found map[name]holder, n name, h holder) {
	if old, ok := found[n]; !ok || h.writes && !old.writes {
		found[n] = h
	}
}

func descriptors(pid int, dir string, wanted map[name]bool, found map[name]holder) {
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	fds, _ := f.Readdirnames(-1) // of a process that ends, what is left
	for _, fd := range fds {
		n, kind, ok := known(dir + fd)
		if !ok {
			continue
		}
		if wanted != nil && !wanted[n] || kind != syscall.S_IFREG && kind != syscall.S_IFIFO && kind != syscall.S_IFSOCK {
			continue
		}
		info, err := os.Lstat(dir + fd) // its mode says what it was opened for
		note(found, n, holder{pid, dir + fd, err == nil && info.Mode()&0o200 != 0})
	}
}

// known is what the kernel knows of a file: the file system is not asked, where statx is not denied (old containers).
func known(path string) (n name, kind uint32, ok bool) {
	var x unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &x)
	if err == nil {
		return name{device(uint64(x.Dev_major), uint64(x.Dev_minor)), x.Ino}, uint32(x.Mode) & syscall.S_IFMT, true
	}
	var st syscall.Stat_t
	if err != unix.ENOSYS && err != unix.EPERM || syscall.Stat(path, &st) != nil {
		return n, 0, false
	}
	return name{st.Dev, st.Ino}, st.Mode & syscall.S_IFMT, true
}

// mappings reads lines "start-end perms offset major:minor inode path".
func mappings(pid int, file string, wanted map[name]bool, found map[name]holder) {
	text, err := os.ReadFile(file)
	if err != nil {
		return
	}
	for line := range bytes.Lines(text) {
		_, perms, _ := bytes.Cut(line, []byte(" "))
		if len(perms) < 4 || perms[3] != 's' {
			continue
		}
		f := strings.Fields(string(line))
		if len(f) < 5 || f[4] == "0" {
			continue
		}
		var major, minor uint64
		ino, err := strconv.ParseUint(f[4], 10, 64)
		if _, e := fmt.Sscanf(f[3], "%x:%x", &major, &minor); e != nil || err != nil {
			continue
		}
		if n := (name{device(major, minor), ino}); wanted == nil || wanted[n] {
			note(found, n, holder{pid, strings.Join(f[5:], " "), f[1][1] == 'w'})
		}
	}
}

// device is the number that stat gives for a device.
func device(major, minor uint64) uint64 {
	return major&0xfff<<8 | minor&0xff | minor&^0xff<<12 | major&^0xfff<<32
}
