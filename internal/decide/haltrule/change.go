package haltrule

import (
	"errors"
	"fmt"
	"time"
)

// OnRequest is the reason of a job that is to end at its next checkpoint because somebody wants that.
const OnRequest = "it was asked to halt"

// Change is what somebody wants to be other than it is.
type Change struct {
	Set    Conditions // what is not zero takes the place of what there was
	Unset  Unset
	Remove bool // all conditions
}

// Unset says which conditions are taken back.
type Unset struct{ Reason, Checkpoints, Before, After, Seconds bool }

// Nothing says whether a change changes nothing.
func (ch *Change) Nothing() bool { return ch.Set.None() && ch.Unset == Unset{} && !ch.Remove }

// Check says what is wrong with a change.
func (ch *Change) Check() error {
	switch s := &ch.Set; {
	case s.Checkpoints != nil && *s.Checkpoints < 0:
		return fmt.Errorf("halt: %d checkpoints, wanted at least 0", *s.Checkpoints)
	case s.Seconds < 0:
		return fmt.Errorf("halt: %d seconds, wanted at least 0", s.Seconds)
	case ch.Remove && (!s.None() || ch.Unset != Unset{}):
		return errors.New("halt: to remove all conditions, and to set or unset one")
	}
	return nil
}

// Apply changes conditions.
func (ch *Change) Apply(c *Conditions) {
	if ch.Remove {
		*c = Conditions{}
		return
	}
	ch.Unset.apply(c)
	s := ch.Set
	if s.Reason != "" {
		c.Reason = s.Reason
	}
	if s.Checkpoints != nil {
		c.Checkpoints = s.Checkpoints
	}
	if !s.Before.IsZero() {
		c.Before = s.Before
	}
	if !s.After.IsZero() {
		c.After = s.After
	}
	if s.Seconds != 0 {
		c.Seconds = s.Seconds
	}
}

func (u Unset) apply(c *Conditions) {
	if u.Reason {
		c.Reason = ""
	}
	if u.Checkpoints {
		c.Checkpoints = nil
	}
	if u.Before {
		c.Before = time.Time{}
	}
	if u.After {
		c.After = time.Time{}
	}
	if u.Seconds {
		c.Seconds = 0
	}
}

// local is how a time without a zone is written.
const local = "2006-01-02T15:04:05"

// ParseTime reads a time as scr_halt takes it, which is that of a zone, or one that names its zone (RFC 3339).
func ParseTime(text string, zone *time.Location) (time.Time, error) {
	if t, err := time.ParseInLocation(local, text, zone); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("halt: time %q, wanted YYYY-MM-DDTHH:MM:SS, or that with a zone, as in 2026-11-28T21:00:00Z or 2026-11-28T21:00:00+01:00", text)
	}
	return t, nil
}
