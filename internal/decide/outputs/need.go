package outputs

import "time"

// pace decides when a checkpoint is due.
type pace struct {
	Need
	calls  int           // since the last
	last   time.Duration // when the last ended; 0: there was none
	began  time.Duration // when the program was first asked
	cost   time.Duration // of all
	opened time.Duration // when the present one began
}

// due says so at a time, and counts the call.
func (p *pace) due(now time.Duration) bool {
	p.calls++
	if p.began == 0 {
		p.began = now
	}
	since := max(p.last, p.began)
	switch {
	case p.Calls <= 0 && p.After <= 0 && p.Overhead <= 0:
		return true
	case p.Calls > 0 && p.calls >= p.Calls:
		return true
	case p.After > 0 && now-since >= p.After:
		return true
	}
	return p.Overhead > 0 && p.cost.Seconds() <= p.Overhead/100*(now-p.began).Seconds()
}

// open: a checkpoint begins.
func (p *pace) open(now time.Duration) { p.opened, p.calls = now, 0 }

// closed: it has been written.
func (p *pace) closed(now time.Duration) {
	p.cost, p.last = p.cost+now-p.opened, now
}

// Need: whether a checkpoint is due.
func (b *Book) Need(ask Ask, run uint64) {
	if !b.here(ask, run) {
		return
	}
	due := b.program.need.due(b.driver.Now())
	if b.halt != "" {
		due = true
		b.driver.Heeded()
	}
	b.driver.Answer(ask, Answer{Yes: due, Why: b.halt})
}

// Exit: whether the program should end.
func (b *Book) Exit(ask Ask, run uint64) {
	if !b.here(ask, run) {
		return
	}
	if b.halt != "" {
		b.driver.Heeded()
	}
	b.driver.Answer(ask, Answer{Yes: b.halt != "", Why: b.halt})
}
