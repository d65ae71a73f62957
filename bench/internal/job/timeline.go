package job

import (
	"context"
	"time"
)

// An Event is a line of what `byssus show --timeline --json` says of a job.
type Event struct {
	Time time.Time     `json:"time"`
	Kind string        `json:"event"`
	Node string        `json:"node"`
	Took time.Duration `json:"took_ns"`
}

// Timeline returns what happened to a job so far, oldest first.
func (t Tree) Timeline(ctx context.Context, name string) (events []Event, err error) {
	return events, t.query(ctx, &events, "show", name, "--timeline")
}
