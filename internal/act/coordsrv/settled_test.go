package coordsrv

import (
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
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

// TestCopies: how many copies there are of what is written by SCR's calls, in whose words that has no number, byssus run says; unless these
// calls have other redundancy.
func TestCopies(t *testing.T) {
	for _, c := range []struct {
		user   string
		run    redset.Scheme
		wanted redset.Scheme
	}{
		{"", redset.PartnerOf(2), redset.PartnerOf(2)}, {"", redset.Partner, redset.Partner}, {"", redset.XOR, redset.XOR}, {"", redset.Single, redset.Single},
		{"SCR_COPY_TYPE=PARTNER", redset.PartnerOf(2), redset.Partner}, {"SCR_COPY_TYPE=XOR", redset.PartnerOf(3), redset.XOR},
		{"SCR_COPY_TYPE=FILE\nCKPT=0 TYPE=PARTNER", redset.PartnerOf(3), redset.Partner},
	} {
		caches := &Caches{Dir: "/cache", Flush: 10, Scheme: c.run}
		w := &written{questions: questions{s: &Server{opt: Options{Caches: caches}}}}
		found, _ := w.resolve(settings.Sources{Dir: "/d", User: c.user, UserName: "u"})
		kept := policyOf(found.Plan(), caches).Kept
		if how := kept.Descriptor(1, false); how.Scheme != c.wanted {
			t.Errorf("%q with %v: found %v, wanted %v", c.user, c.run, how.Scheme, c.wanted)
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
