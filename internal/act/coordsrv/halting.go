package coordsrv

import (
	"fmt"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/decide/haltrule"
	"github.com/byssus-hpc/byssus/internal/decide/settings"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

// haltEvery is how often the conditions under which the job is to end early are read: others write them.
const haltEvery = time.Second

// halting ends the job early when it is asked to. It belongs to the loop's goroutine.
type halting struct {
	haltrule.Conditions
	allocation
	bad  string // why they cannot be read, as far as that has been told
	done bool   // the job was told
}

// allocation is what is known of the end of the job's nodes.
type allocation struct {
	end     time.Time // zero: nothing
	seconds int       // that the program wants before that (SCR_HALT_SECONDS), unless the conditions say more; 0: it wants none
}

// programWants takes in what the settings of a program say, so that it is told at its beginning.
func (h *halting) programWants(s *Server, p settings.Ending) {
	h.seconds = p.HaltSeconds
	if p.EndTime > 0 {
		h.end = time.Unix(p.EndTime, 0)
	}
	h.read(s, h.Conditions, nil)
}

// due says why the job is to end now, empty: it is not.
func (h *halting) due(now time.Time) string {
	c := h.Conditions
	if c.Seconds == 0 {
		c.Seconds = h.seconds
	}
	return c.Due(now, h.end)
}

// watch reads the conditions until the job is over.
func (h *halting) watch(s *Server) {
	again := time.NewTicker(haltEvery)
	defer again.Stop()
	job := *s.opt.Job
	for {
		c, err := job.Halt()
		if !s.ask(func() { h.read(s, c, err) }) {
			return
		}
		select {
		case <-again.C:
		case <-s.stop:
			return
		}
	}
}

// read takes in what was read.
func (h *halting) read(s *Server, c haltrule.Conditions, err error) {
	if err != nil {
		if h.bad != err.Error() {
			h.bad = err.Error()
			s.opt.Say(h.bad)
		}
		return
	}
	h.Conditions, h.bad = c, ""
	why := h.due(time.Now())
	if s.written.halted == "" {
		s.written.book.Halt(why)
	}
	if why == "" {
		h.done = false
		return
	}
	if h.done || s.machine.Status().Phase != coord.Running.String() {
		return
	}
	h.done = true
	s.opt.Say(fmt.Sprintf("the job is to end: %s", why))
	if !s.opt.Plain {
		s.step(coord.Request{Stop: true})
	}
}

// count: a checkpoint has succeeded.
func (h *halting) count(s *Server) {
	if !h.Counted() {
		return
	}
	job, c := *s.opt.Job, h.Conditions
	s.wg.Go(func() {
		// Others may have changed them meanwhile.
		if _, err := dataset.EditHalt(&job, func(c *haltrule.Conditions) { c.Counted() }); err != nil {
			s.ask(func() { s.opt.Say(err.Error()) })
		}
	})
	h.read(s, c, nil)
}
