package coord

import (
	"fmt"
	"time"
)

// turn is one call of Step: what time it is, and what has been ordered in it so far. A machine has one, which all of its parts write to:
// so actions go out in the order in which they were decided on. It guarantees that time never goes back.
type turn struct {
	now time.Duration
	out []Action
}

// begin starts a new turn.
func (t *turn) begin(now time.Duration) { t.now, t.out = max(now, t.now), nil }

func (t *turn) do(a Action) { t.out = append(t.out, a) }

func (t *turn) say(format string, args ...any) { t.do(Say{fmt.Sprintf(format, args...)}) }

// reply answers those of the requests that want it.
func (t *turn) reply(rs []Request, res Result) {
	for _, r := range rs {
		if r.ID != 0 {
			t.do(Reply{r.ID, res})
		}
	}
}
