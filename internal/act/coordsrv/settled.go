package coordsrv

import (
	"errors"
	"fmt"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/decide/settings"
)

// begin: a program begins, with its settings. One that is refused keeps it from beginning.
func (w *written) begin(ask outputs.Ask, m control.Asked) {
	if m.Settings == nil {
		w.done(ask, errors.New("a program begins without settings"))
		return
	}
	if w.memory.inUse() {
		w.done(ask, errors.New("this program makes snapshots: it cannot use SCR's calls as well"))
		return
	}
	found, notes := w.resolve(*m.Settings)
	for _, n := range notes {
		if n.Level == settings.Refused {
			w.done(ask, errors.New(n.Text))
			return
		}
		if !w.told[n.Text] {
			w.told[n.Text] = true
			w.Say(n.Text)
		}
	}
	plan := found.Plan()
	if !plan.Enable {
		w.done(ask, errors.New("SCR_ENABLE=0"))
		return
	}
	q := w.asks[ask.Number]
	q.inForce = found.InForce()
	w.asks[ask.Number] = q
	w.s.halting.programWants(w.s, plan.Ending)
	w.book.Begin(ask, int(m.NRanks), policyOf(plan, w.s.opt.Caches),
		outputs.First{Purge: plan.CachePurge, PurgeAll: plan.PrefixPurge, Current: plan.Restarting.Current})
}

// config answers what a setting is.
func (w *written) config(ask outputs.Ask, m control.Asked) {
	if m.Settings == nil {
		w.done(ask, errors.New("a question without settings"))
		return
	}
	found, _ := w.resolve(*m.Settings)
	value, ok := found.Query(m.Question)
	w.Answer(ask, outputs.Answer{Yes: ok, Why: value})
}

// resolve adds what options of byssus run imply.
func (w *written) resolve(src settings.Sources) (*settings.Settings, []settings.Note) {
	if c := w.s.opt.Caches; c != nil {
		src.Run = []string{"SCR_CACHE_BYPASS=0", "SCR_CACHE_BASE=" + c.Dir, fmt.Sprintf("SCR_FLUSH=%d", c.Flush)}
		for name, scheme := range map[string]redset.Scheme{"SINGLE": redset.Single, "PARTNER": redset.Partner, "XOR": redset.XOR} {
			if scheme == c.Scheme || scheme.Copies() > 0 && c.Scheme.Copies() > 0 {
				src.Run = append(src.Run, "SCR_COPY_TYPE="+name)
			}
		}
		if c.Size > 0 {
			src.Run = append(src.Run, fmt.Sprintf("SCR_SET_SIZE=%d", c.Size))
		}
	}
	found, notes := settings.Resolve(src)
	if p := found.Plan(); w.keeper == nil && !p.Bypass && p.BypassSet {
		notes = append(notes, settings.Note{Name: "SCR_CACHE_BYPASS", Text: "SCR_CACHE_BYPASS=0: there are no caches (byssus run --cache): files are written in the prefix"})
	}
	return found, append(notes, elsewhere(found.Plan(), &w.s.opt)...)
}

// elsewhere says which settings have no effect because of what the job has, or nobody knows.
func elsewhere(p settings.Plan, opt *Options) (notes []settings.Note) {
	c := opt.Caches
	for _, s := range p.Stores {
		switch {
		case c == nil || s.Dir == c.Dir || s.Dir == p.CacheBase:
		case s.Group == settings.GroupWorld:
			notes = append(notes, settings.Note{Name: "STORE", Text: fmt.Sprintf("STORE=%s GROUP=WORLD: the prefix is what all nodes see: files are written there at once", s.Dir)})
		default:
			notes = append(notes, settings.Note{Name: "STORE", Text: fmt.Sprintf("STORE=%s has no effect: a job has one cache on each node, %s (byssus run --cache), "+
				"and keeps all there", s.Dir, c.Dir)})
		}
	}
	if p.HaltSeconds > 0 && p.EndTime == 0 && opt.Until.IsZero() {
		notes = append(notes, settings.Note{Name: "SCR_HALT_SECONDS", Text: fmt.Sprintf("SCR_HALT_SECONDS=%d has no effect: nobody knows when the allocation ends (SCR_END_TIME, $SLURM_JOB_END_TIME)", p.HaltSeconds)})
	}
	return notes
}

// staying is how many checkpoints stay in the cache: what is said of it as a store, else of all.
func staying(p settings.Plan, c *Caches) int {
	for _, s := range p.Stores {
		if c != nil && s.Dir == c.Dir {
			return s.Count
		}
	}
	return p.CacheSize
}

// policyOf is what a plan means for datasets.
func policyOf(p settings.Plan, caches *Caches) outputs.Policy {
	o := outputs.Policy{Prefix: p.Prefix, Bypass: caches == nil, Keep: staying(p, caches), Flush: p.Flush, FlushWait: p.FlushAsyncSet && !p.FlushAsync, InPrefix: p.PrefixSize,
		Every: outputs.Need{Calls: p.CheckpointInterval, After: seconds(p.CheckpointSeconds), Overhead: p.CheckpointOverhead}, Kept: p.Descriptors}
	o.Restart = outputs.Restart{NotCaches: !p.Distribute, NotPrefix: !p.Fetch, InPrefix: p.FetchBypass || p.GlobalRestart, Flush: p.FlushOnRestart,
		DropAfter: p.DropAfterCurrent}
	if caches != nil && !p.CopyTypeSet && caches.Scheme.Copies() > 0 { // PARTNER, of which SCR does not say how many
		o.Kept.Implied.Scheme = caches.Scheme
		o.Kept.Ckpts = []settings.Ckpt{o.Kept.Implied}
	}
	return o
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
