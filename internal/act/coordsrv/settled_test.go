package coordsrv

import (
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/settings"
)

// TestSettled: what settings mean for a job with caches and for one without, and what is said of those that mean nothing there.
func TestSettled(t *testing.T) {
	cache := &Caches{Dir: "/cache", Flush: 10}
	for _, c := range []struct {
		user   string
		caches *Caches
		until  time.Time
		keep   int
		says   []string
	}{
		{"SCR_CACHE_SIZE=3", cache, time.Time{}, 3, nil},
		{"SCR_CACHE_SIZE=3\nSTORE=/cache COUNT=2", cache, time.Time{}, 2, nil},
		{"STORE=/cache COUNT=2\nSTORE=/dev/shm COUNT=1\nSTORE=/ssd", cache, time.Time{}, 2, []string{
			"STORE=/dev/shm has no effect: a job has one cache on each node, /cache (byssus run --cache), and keeps all there",
			"STORE=/ssd has no effect: a job has one cache on each node, /cache"}},
		{"STORE=/lustre GROUP=WORLD", cache, time.Time{}, 1, []string{"STORE=/lustre GROUP=WORLD: the prefix is what all nodes see: files are written there at once"}},
		{"SCR_CACHE_BASE=/ssd", cache, time.Time{}, 1, []string{"SCR_CACHE_BASE=/ssd (u:1) has no effect: byssus run --cache says where"}},
		{"STORE=/ssd COUNT=4", nil, time.Time{}, 1, nil},
		{"SCR_CACHE_BYPASS=0", nil, time.Time{}, 1, []string{"SCR_CACHE_BYPASS=0: there are no caches"}},
		{"SCR_HALT_SECONDS=60", nil, time.Time{}, 1, []string{"SCR_HALT_SECONDS=60 has no effect: nobody knows when the allocation ends"}},
		{"SCR_HALT_SECONDS=60", nil, time.Now(), 1, nil},
		{"SCR_HALT_SECONDS=60\nSCR_END_TIME=9", nil, time.Time{}, 1, nil},
		{"SCR_DEBUG=2", nil, time.Time{}, 1, []string{"SCR_DEBUG=2 (u:1) has no effect: what happened to a job is always logged"}},
	} {
		w := &written{questions: questions{s: &Server{opt: Options{Caches: c.caches, Until: c.until}}}}
		found, notes := w.resolve(settings.Sources{Dir: "/d", User: c.user, UserName: "u"})
		if p := policyOf(found.Plan(), c.caches); p.Keep != c.keep || p.Bypass != (c.caches == nil) {
			t.Errorf("%q: %d stay, bypass %v, wanted %d", c.user, p.Keep, p.Bypass, c.keep)
		}
		for i := range max(len(notes), len(c.says)) {
			if i >= len(notes) || i >= len(c.says) || !strings.HasPrefix(notes[i].Text, c.says[i]) {
				t.Errorf("%q: found %v, wanted %q", c.user, notes, c.says)
				break
			}
		}
	}
}

// TestAllocationEnds: the settings of a program and the conditions of a job say together how long before the end of the allocation it is
// told.
func TestAllocationEnds(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		left, wanted, asked int
		due                 bool
	}{
		{59, 60, 0, true}, {61, 60, 0, false}, {59, 0, 0, false}, {59, 0, 60, true}, {59, 60, 30, false}, {29, 60, 30, true},
	} {
		h := halting{allocation: allocation{end: now.Add(time.Duration(c.left) * time.Second), seconds: c.wanted}}
		h.Seconds = c.asked
		if why := h.due(now); (why != "") != c.due {
			t.Errorf("%+v: %q", c, why)
		}
	}
}
