package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/store/own"
	"github.com/byssus-hpc/byssus/internal/store/timeline"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// showTimeline prints what is logged of a job, or of one of its checkpoints, which may be gone by now.
func (e *env) showTimeline(name string, which chosen) error {
	job, err := e.job(name)
	if err != nil {
		return err
	}
	events, notes, err := timeline.Read(job.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exitError{ExitNot, fmt.Errorf("cli: show %s: it has no timeline", name)}
	case errors.Is(err, own.ErrForeign):
		return exitError{ExitNot, err}
	case err != nil:
		return err
	}
	for _, note := range notes {
		e.say(note.Error())
	}
	if !which.none() {
		events = slices.DeleteFunc(events, func(ev timeline.Event) bool { return !which.is(&ev) })
	}
	if !which.none() && len(events) == 0 {
		what := "checkpoint"
		if job.Meta.Plain {
			what = "dataset"
		}
		return exitError{ExitNot, fmt.Errorf("cli: show %s: nothing is logged of %s %s", name, what, which.text)}
	}
	for i := range events {
		events[i].Reason = ui.Plain(events[i].Reason)
	}
	if e.json {
		return e.printJSON(append([]timeline.Event{}, events...))
	}
	rows := [][]string{{"TIME", "SECONDS", "EVENT", ""}}
	for _, ev := range events {
		at, since := ev.Time.Local().Format("15:04:05.000"), fmt.Sprintf("+%.3f", ev.Since.Seconds())
		rows = append(rows, []string{at, since, string(ev.Kind), eventWords(&ev)})
	}
	ui.Table(e.out, rows)
	return nil
}

// eventWords says what an event tells, in the order of its fields.
func eventWords(ev *timeline.Event) string {
	var words []string
	add := func(there bool, format string, args ...any) {
		if there {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	if ev.Kind == timeline.Began {
		add(true, "%s, term %d", ev.Time.Local().Format(time.DateOnly), ev.Term)
	}
	add(ev.InsteadOf != "", "not %s", ev.InsteadOf)
	add(ev.Start != 0, "start %d", ev.Start%65536)
	add(ev.Checkpoint != 0, "checkpoint %d", ev.Checkpoint)
	add(ev.Dataset != 0, "dataset %d", ev.Dataset)
	add(ev.Name != "", "%s", ev.Name)
	add(ev.By != "", "by %s", ev.By)
	add(ev.Attempt > 1, "attempt %d", ev.Attempt)
	add(ev.Node != "", "%s", ev.Node)
	add(len(ev.LostRanks) > 0, "ranks %s", strings.Trim(fmt.Sprint(ev.LostRanks), "[]"))
	add(len(ev.PartsOf) > 0, "parts of %s", strings.Join(ev.PartsOf, " "))
	add(ev.Bytes > 0, "%s", ui.Bytes(ev.Bytes))
	add(ev.Stall > 0, "stall %s", ui.Duration(ev.Stall))
	add(ev.Took > 0, "took %s", ui.Duration(ev.Took))
	add(ev.Noticed > 0, "noticed after %s", ui.Duration(ev.Noticed))
	add(ev.Restart, "restart")
	add(ev.MPI != "", "%s", ev.MPI)
	add(ev.Ranks > 0, "%d ranks", ev.Ranks)
	add(len(ev.Nodes) > 0, "on %s", strings.Join(ev.Nodes, " "))
	add(ev.Spares > 0, "%d of them spare", ev.Spares)
	add(ev.Kind == timeline.Ended, "code %d", ev.Code)
	add(ev.Count > 0, "%d events", ev.Count)
	add(ev.Reason != "", "%s", ev.Reason)
	return strings.Join(words, ", ")
}

// is says whether an event tells of what was chosen.
func (c chosen) is(ev *timeline.Event) bool {
	return ev.Name == c.text || c.number != 0 && (ev.Checkpoint == c.number || ev.Dataset == c.number)
}
