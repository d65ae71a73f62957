package job

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// A Checkpoint is what `byssus checkpoint --json` says of the checkpoint that it took.
type Checkpoint struct {
	Number  uint64        `json:"checkpoint"`
	Bytes   int64         `json:"bytes"`
	StallNS int64         `json:"stall_ns"` // of the rank that stood still longest
	Took    time.Duration `json:"-"`        // the whole command
	Began   time.Time     `json:"-"`
}

// Checkpoint takes a checkpoint of a running job and returns when it is committed.
func (t Tree) Checkpoint(ctx context.Context, name string) (Checkpoint, error) {
	c := Checkpoint{Began: time.Now()}
	err := t.query(ctx, &c, "checkpoint", name)
	c.Took = time.Since(c.Began)
	return c, err
}

// Pids returns the process ids of a running job's ranks, in the order of the ranks.
func (t Tree) Pids(ctx context.Context, name string) ([]int, error) {
	var jobs []struct {
		Job   string `json:"job"`
		Dir   string `json:"dir"`
		Ranks []struct {
			Pid int `json:"pid"`
		} `json:"rank_status"`
	}
	if err := t.query(ctx, &jobs, "ps"); err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if j.Job != name || filepath.Dir(j.Dir) != t.Dir {
			continue
		}
		var pids []int
		for _, r := range j.Ranks {
			pids = append(pids, r.Pid)
		}
		return pids, nil
	}
	return nil, fmt.Errorf("job: byssus ps: no job %s", name)
}
