package coord

import (
	"fmt"
	"slices"
)

// ranksDied: the survivors go on, and other processes take the places of those that have died, as long as the job may be started again; all
// of them go on from the newest snapshot that counts. If an older one is to be gone back to, all ranks are ended, and started again.
func (e *ending) ranksDied(ev RanksDied) {
	if e.run.phase == Running && !e.verdict.ordered && !e.leaving.leaves() && e.restarts.replaces(ev) {
		e.turn.do(Replace{ev.Ranks})
		return
	}
	if ev.Node != "" {
		e.nodeLost(NodeLost{Name: ev.Node, Ranks: ev.Ranks, Why: ev.Why})
		return
	}
	e.unreplaced(Unreplaced{ev.because()})
}

// because is why, in a sentence.
func (ev RanksDied) because() string {
	if ev.Node != "" {
		return ev.Node + " was lost: " + ev.Why
	}
	name := fmt.Sprint("signal ", ev.Signal)
	if ev.Signal > 0 && ev.Signal < len(signalNames) && signalNames[ev.Signal] != "" {
		name = "SIG" + signalNames[ev.Signal]
	}
	return fmt.Sprintf("rank %d was killed by %s", ev.Ranks[0], name)
}

// unreplaced: all are ended, and started again if that may be.
func (e *ending) unreplaced(ev Unreplaced) {
	if e.run.phase != Running || e.verdict.ordered {
		return
	}
	e.verdict.blame(ev.Why)
	e.begun()
	e.run.kill(KillBoth)
}

// replaces says whether ranks that have died are replaced, and tells the user so. What counts for restarts counts for this: once for several
// that die before there is another snapshot, as long as none of them has been replaced before.
func (r *restarts) replaces(ev RanksDied) bool {
	why, innocent := ev.because(), ev.Node != ""
	good := r.images.good()
	newest := uint64(0)
	if len(good) > 0 {
		newest = good[len(good)-1]
	}
	if innocent && newest == 0 && !r.cfg.Anew {
		return false
	}
	switch {
	case innocent:
		r.turn.say("%s; the others go on, and their ranks begin on other nodes", why)
	case len(r.replaced) > 0 && !slices.ContainsFunc(ev.Ranks, func(rank int) bool { return r.replaced[rank] }):
		r.turn.say("%s, too", why)
	default:
		before := *r.setbacks
		r.setbacks.died(r.turn.now, r.run.image, good)
		if r.usedUp() != "" || r.images.candidate() != newest {
			*r.setbacks = before // it is counted when all have ended
			return false
		}
		clear(r.replaced)
		r.turn.say("%s; the others go on (restart %d of %d)", why, r.setbacks.count, r.cfg.Retries)
	}
	for _, rank := range ev.Ranks {
		r.replaced[rank] = true
	}
	r.run.image = newest
	r.setbacks.start(newest, r.turn.now)
	return true
}
