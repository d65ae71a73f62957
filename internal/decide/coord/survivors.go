package coord

// ranksDied: the survivors go on, and other processes take the places of those that have died, as long as the job may be started again; all
// of them go on from the newest snapshot that counts. If an older one is to be gone back to, all ranks are ended, and started again.
func (e *ending) ranksDied(ev RanksDied) {
	if e.run.phase == Running && !e.verdict.ordered && !e.leaving.leaves() && e.restarts.replaces(ev.because(), ev.Node != "") {
		e.turn.do(Replace{ev.Ranks})
		return
	}
	if ev.Node != "" {
		e.nodeLost(NodeLost{Name: ev.Node, Ranks: ev.Ranks, Why: ev.Why})
		return
	}
	e.unreplaced(Unreplaced{ev.Why})
}

// because is why, in a sentence.
func (ev RanksDied) because() string {
	if ev.Node != "" {
		return ev.Node + " was lost: " + ev.Why
	}
	return ev.Why
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

// replaces says whether ranks that have died are replaced, and tells the user so. What counts for restarts counts for this.
func (r *restarts) replaces(why string, innocent bool) bool {
	good := r.images.good()
	newest := uint64(0)
	if len(good) > 0 {
		newest = good[len(good)-1]
	}
	if innocent && newest == 0 && !r.cfg.Anew {
		return false
	}
	if innocent {
		r.turn.say("%s; the others go on, and their ranks begin on other nodes", why)
	} else {
		before := *r.setbacks
		r.setbacks.died(r.turn.now, r.run.image, good)
		if r.usedUp() != "" || r.images.candidate() != newest {
			*r.setbacks = before // it is counted when all have ended
			return false
		}
		r.turn.say("%s; the others go on (restart %d of %d)", why, r.setbacks.count, r.cfg.Retries)
	}
	r.run.image = newest
	r.setbacks.start(newest, r.turn.now)
	return true
}
