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

	"github.com/byssus-hpc/byssus/internal/abi"
	"github.com/byssus-hpc/byssus/internal/coord"
)

// This file finds out who else has what a rank has open or mapped. Other processes are looked at when a checkpoint is asked
// for, while the ranks still run; again, once in an attempt, when a rank stands that has memory or files without a name.
// Seen are the processes that this user may look at: those of the same user, or all.

const sysKcmp = 312

// holder is a process that has an object.
type holder struct {
	pid    int
	path   string // as that process sees it
	writes bool
}

// look is what was found in one attempt.
type look struct {
	mu    sync.Mutex
	epoch uint64
	early <-chan map[name]holder // of the time of REQUEST; holds one value, which is put back
	back  chan map[name]holder
	late  map[name]holder       // of the time when the first rank stood
	open  map[name][]descriptor // of the ranks that stand
}

// descriptor is a rank's open file.
type descriptor struct {
	rank, pid int
	fd        int32
}

// survey begins to look at all other processes, once in an attempt.
func (s *Server) survey(epoch uint64) {
	l := &s.look
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch == epoch {
		return
	}
	found := make(chan map[name]holder, 1)
	l.epoch, l.early, l.back, l.late, l.open = epoch, found, found, nil, map[name][]descriptor{}
	ours := s.pids()
	s.wg.Go(func() { found <- strangers(ours) })
}

// pids are the processes that are no strangers: the ranks, and this one.
func (s *Server) pids() map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ours := map[int]bool{os.Getpid(): true}
	for _, p := range s.procs {
		ours[p.pid] = true
	}
	return ours
}

// objects hands on what a rank has, with what is known of others that have it too.
func (s *Server) objects(ses *session, m abi.Message) error {
	list := make([]abi.Object, len(m.Body)/objectBytes)
	rest, err := abi.Decode(m.Body, list)
	if err != nil || len(rest) != 0 {
		return fmt.Errorf("agent: objects of rank %d: found %d bytes, wanted a multiple of %d", ses.rank, len(m.Body), objectBytes)
	}
	s.survey(m.Epoch) // the rank may not have been asked by this agent
	ev := coord.Objects{Rank: ses.rank, Epoch: m.Epoch, Host: ses.host}
	s.look.mu.Lock()
	for _, o := range list {
		ev.Objects = append(ev.Objects, s.look.judge(s.pids, ses, o))
	}
	s.look.mu.Unlock()
	s.cfg.Event(ev)
	return nil
}

const objectBytes = 32

// judge says who else has an object.
func (l *look) judge(ours func() map[int]bool, ses *session, o abi.Object) coord.Object {
	n := name{o.Dev, o.Inode}
	out := coord.Object{Object: o}
	h, found := l.find(ours, n, o.Flags)
	if found && (h.writes || o.Flags&(abi.ObjectNameless|abi.ObjectMemory|abi.ObjectKernel) != 0) {
		out.Foreign = fmt.Sprintf("%s that process %d (%s) has too", h.path, h.pid, command(h.pid))
	}
	if o.FD < 0 {
		return out
	}
	d := descriptor{ses.rank, ses.pid(), o.FD}
	for _, e := range l.open[n] {
		if e.rank != d.rank && sameFile(d, e) {
			out.Twin = fmt.Sprintf("open file that rank %d has too, as fd %d", e.rank, e.fd)
			break
		}
	}
	l.open[n] = append(l.open[n], d)
	return out
}

// find looks an object up in what was found last that is new enough for it.
func (l *look) find(ours func() map[int]bool, n name, flags uint32) (holder, bool) {
	if flags&(abi.ObjectNameless|abi.ObjectMemory) != 0 {
		if l.late == nil {
			l.late = strangers(ours())
		}
		h, ok := l.late[n]
		return h, ok
	}
	early := <-l.early
	l.back <- early
	h, ok := early[n]
	return h, ok
}

// sameFile says whether two descriptors are one open file, with one offset (kcmp, KCMP_FILE).
func sameFile(a, b descriptor) bool {
	r, _, errno := syscall.Syscall6(sysKcmp, uintptr(a.pid), uintptr(b.pid), 0, uintptr(a.fd), uintptr(b.fd), 0)
	return errno == 0 && r == 0
}

func command(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "it has ended"
	}
	return string(bytes.TrimSpace(b))
}

// strangers finds the files that other processes have open or mapped for sharing.
func strangers(ours map[int]bool) map[name]holder {
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
		descriptors(pid, dir, found)
		mappings(pid, dir, found)
	}
	return found
}

// note keeps one holder of an object, a writer before others.
func note(found map[name]holder, n name, h holder) {
	if old, ok := found[n]; !ok || h.writes && !old.writes {
		found[n] = h
	}
}

func descriptors(pid int, dir string, found map[name]holder) {
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return
	}
	for _, fd := range fds {
		var st syscall.Stat_t
		path, err := os.Readlink(dir + "/fd/" + fd.Name())
		if err != nil || strings.HasPrefix(path, "anon_inode:") || strings.HasPrefix(path, "/dev/") && !strings.HasPrefix(path, "/dev/shm/") {
			continue
		}
		if syscall.Stat(dir+"/fd/"+fd.Name(), &st) != nil {
			continue
		}
		info, err := os.Lstat(dir + "/fd/" + fd.Name()) // its mode says what it was opened for
		note(found, name{uint64(st.Dev), st.Ino}, holder{pid, path, err == nil && info.Mode()&0o200 != 0})
	}
}

// mappings reads lines "start-end perms offset major:minor inode path".
func mappings(pid int, dir string, found map[name]holder) {
	text, err := os.ReadFile(dir + "/maps")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 5 || len(f[1]) < 4 || f[1][3] != 's' || f[4] == "0" {
			continue
		}
		var major, minor uint64
		ino, err := strconv.ParseUint(f[4], 10, 64)
		if _, e := fmt.Sscanf(f[3], "%x:%x", &major, &minor); e != nil || err != nil {
			continue
		}
		note(found, name{device(major, minor), ino}, holder{pid, strings.Join(f[5:], " "), f[1][1] == 'w'})
	}
}

// device is the number that stat gives for a device.
func device(major, minor uint64) uint64 {
	return major&0xfff<<8 | minor&0xff | minor&^0xff<<12 | major&^0xfff<<32
}
