package coord

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// plainJob is a running job whose survivors are kept, with snapshots that count.
func plainJob(t *testing.T, cfg Config, snapshots ...uint64) (*Machine, *time.Duration) {
	t.Helper()
	cfg.Ranks, cfg.Plain, cfg.Keep = 4, true, 1
	m, now := New(cfg), new(time.Duration)
	m.Step(*now, Start{})
	*now += time.Second
	m.Step(*now, Launched{})
	for _, n := range snapshots {
		*now += time.Second
		m.Step(*now, Counts{Checkpoint: n, Counts: true})
	}
	return m, now
}

// did says in short what a machine orders.
func did(actions []Action) string {
	var list []string
	for _, a := range actions {
		switch a := a.(type) {
		case Replace:
			list = append(list, fmt.Sprint("replace ", a.Ranks))
		case Kill:
			list = append(list, "kill "+a.How.String())
		case Say:
			list = append(list, a.Text)
		}
	}
	return strings.Join(list, "; ")
}

// TestSurvivors: who dies is replaced as long as the job may be started again, and the newest snapshot is to be gone back to.
func TestSurvivors(t *testing.T) {
	killed := func(rank int) RanksDied { return RanksDied{Ranks: []int{rank}, Signal: 9} }
	node := RanksDied{Ranks: []int{1, 2}, Node: "node b", Why: "silent"}
	for name, c := range map[string]struct {
		cfg       Config
		snapshots []uint64
		events    []Event
		want      []string
	}{
		"one": {Config{Retries: 3}, []uint64{4}, []Event{killed(2)}, []string{"rank 2 was killed by SIGKILL; the others go on (restart 1 of 3); replace [2]"}},
		"two at once": {Config{Retries: 1}, []uint64{4}, []Event{killed(2), killed(0)},
			[]string{"rank 2 was killed by SIGKILL; the others go on (restart 1 of 1); replace [2]", "rank 0 was killed by SIGKILL, too; replace [0]"}},
		"again and again": {Config{Retries: 1}, []uint64{4}, []Event{killed(2), killed(2)},
			[]string{"rank 2 was killed by SIGKILL; the others go on (restart 1 of 1); replace [2]", "kill both"}},
		"an older one is to be tried": {Config{Retries: 5}, []uint64{4, 5}, []Event{killed(2), killed(2), killed(2)},
			[]string{"rank 2 was killed by SIGKILL; the others go on (restart 1 of 5); replace [2]", "rank 2 was killed by SIGKILL; the others go on (restart 2 of 5); replace [2]", "kill both"}},
		"a snapshot between": {Config{Retries: 1}, []uint64{4}, []Event{killed(2), Tick{}, Counts{Checkpoint: 5, Counts: true}, killed(2)},
			[]string{"rank 2 was killed by SIGKILL; the others go on (restart 1 of 1); replace [2]", "", "", "rank 2 was killed by SIGKILL; the others go on (restart 1 of 1); replace [2]"}},
		"before the first": {Config{Retries: 1}, nil, []Event{killed(3)}, []string{"rank 3 was killed by SIGKILL; the others go on (restart 1 of 1); replace [3]"}},
		"no retries":       {Config{}, []uint64{4}, []Event{killed(3)}, []string{"kill both"}},
		"a node":           {Config{}, []uint64{4}, []Event{node}, []string{"node b was lost: silent; the others go on, and their ranks begin on other nodes; replace [1 2]"}},
		"a node, not anew": {Config{}, nil, []Event{node}, []string{"kill both"}},
		"a node, anew":     {Config{Anew: true}, nil, []Event{node}, []string{"node b was lost: silent; the others go on, and their ranks begin on other nodes; replace [1 2]"}},
		"not replaced":     {Config{Retries: 1}, []uint64{4}, []Event{killed(2), Unreplaced{"no such file"}}, []string{"rank 2 was killed by SIGKILL; the others go on (restart 1 of 1); replace [2]", "kill both"}},
		"while it leaves":  {Config{Retries: 1}, []uint64{4}, []Event{Interrupt{130}, killed(2)}, []string{"kill ask", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			m, now := plainJob(t, c.cfg, c.snapshots...)
			for i, ev := range c.events {
				*now += 3 * time.Second
				if found := did(m.Step(*now, ev)); found != c.want[i] {
					t.Errorf("%d: %+v: found %q, wanted %q", i, ev, found, c.want[i])
				}
			}
		})
	}
}
