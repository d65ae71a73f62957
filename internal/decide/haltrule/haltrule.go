// Package haltrule decides when a job that runs is to end early, after a checkpoint: the conditions that users of SCR know by scr_halt.
//
// It guarantees that a condition which holds keeps holding until it is taken back, and names the one that holds first.
package haltrule

import (
	"fmt"
	"time"
)

// Conditions under which a job ends. The zero value: none.
type Conditions struct {
	Reason      string    `json:"reason,omitempty"`      // it ends at the next checkpoint, and this is why
	Checkpoints *int      `json:"checkpoints,omitempty"` // after so many more that succeed
	Before      time.Time `json:"before,omitzero"`       // early enough to have ended by then: Seconds before
	After       time.Time `json:"after,omitzero"`        // from then on
	Seconds     int       `json:"seconds,omitempty"`     // that the job wants before the end of its allocation, or before Before
}

// Due says why a job is to end at a time, empty: it is not. End is when its nodes are taken away; zero: nothing is known.
func (c *Conditions) Due(now, end time.Time) string {
	early := time.Duration(c.Seconds) * time.Second
	switch {
	case c.Reason != "":
		return c.Reason
	case c.Checkpoints != nil && *c.Checkpoints <= 0:
		return "no checkpoints are left (halt --checkpoints)"
	case !c.After.IsZero() && !now.Before(c.After):
		return fmt.Sprintf("it is after %s (halt --after)", c.After.Format(time.DateTime))
	case !c.Before.IsZero() && !now.Before(c.Before.Add(-early)):
		return fmt.Sprintf("it ends before %s (halt --before)", c.Before.Format(time.DateTime))
	case c.Seconds > 0 && !end.IsZero() && !now.Before(end.Add(-early)):
		return fmt.Sprintf("the allocation ends at %s, and %d seconds before that are wanted (halt --seconds, SCR_HALT_SECONDS)", end.Format(time.DateTime), c.Seconds)
	}
	return ""
}

// Counted: a checkpoint has succeeded. It returns whether the conditions have changed.
func (c *Conditions) Counted() bool {
	if c.Checkpoints == nil || *c.Checkpoints <= 0 {
		return false
	}
	left := *c.Checkpoints - 1
	c.Checkpoints = &left
	return true
}

// None says whether there are no conditions.
func (c *Conditions) None() bool {
	return c.Reason == "" && c.Checkpoints == nil && c.Before.IsZero() && c.After.IsZero() && c.Seconds == 0
}
