package agent

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Moving data takes a thread for each link and one for each member, on as few processors as the ranks have, and each piece wakes the
// next thread. As the kernel schedules threads of the usual class, who is woken takes the processor from who is working, in the middle
// of a piece that lies in the cache: a fifth of the time went there. Threads for batch work (SCHED_BATCH, sched(7)) wait for their
// turn, and ranks come before them when these wake up, as it should be of what is done behind their backs.

// usual says whether the thread that asks is of the usual class: the user has chosen none.
func usual() bool {
	a, err := unix.SchedGetAttr(0, 0)
	return err == nil && a.Policy == unix.SCHED_NORMAL
}

// batch puts all threads of this process that are in one class into the other. Nothing else about them changes. Threads that are
// made later are like those that make them; so are processes, of which an agent starts none by itself while it moves data. A kernel
// that refuses costs time alone.
func batch(from, to uint32) {
	for changed := true; changed; { // by a pass: who is not yet changed may have made a thread meanwhile
		changed = false
		for _, tid := range threads() {
			a, err := unix.SchedGetAttr(tid, 0)
			if err != nil || a.Policy != from {
				continue // it has ended, or is none of ours
			}
			a.Policy = to
			if unix.SchedSetAttr(tid, a, 0) == nil {
				changed = true
			}
		}
	}
}

// threads are those of this process. None when they cannot be listed.
func threads() []int {
	entries, _ := os.ReadDir("/proc/self/task")
	var list []int
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			list = append(list, tid)
		}
	}
	return list
}
