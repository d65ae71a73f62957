// Package timeline is the log of a job's life: what became of its checkpoints, what it lost, and how it went on.
//
//	<store>/<job>/timeline.jsonl      an Event in each line, appended by every byssus that runs the job
//	<store>/<job>/timeline.1.jsonl    what that was until it had 8 MiB
//
// It guarantees: who logs never waits for the file, but for 2 s at the end, and is not disturbed when it cannot be written; what is
// not logged because of that is counted, and the log says so as soon as it can. A line that cannot be read, as the last one of a
// byssus that was killed, costs nothing but itself. Files are 0600, in two generations at most, with nothing secret in them.
//
// Nothing is decided by what the log says: it is for people, lines have no checksum and are not synced.
package timeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/byssus-hpc/byssus/internal/store/own"
)

// Kind is what has happened.
type Kind string

// The kinds; docs/format/timeline.md says what each of them tells.
const (
	Began     Kind = "began"
	Started   Kind = "started"
	Running   Kind = "running"
	Asked     Kind = "asked"
	Agreed    Kind = "agreed"
	Stopped   Kind = "stopped"
	Written   Kind = "written"
	Sealed    Kind = "sealed"
	Encoded   Kind = "encoded"
	Recorded  Kind = "recorded"
	Committed Kind = "committed"
	Taken     Kind = "taken"
	Failed    Kind = "failed"
	Withdrawn Kind = "withdrawn"
	Dropped   Kind = "dropped"
	Flushing  Kind = "flushing"
	Copied    Kind = "copied"
	Flushed   Kind = "flushed"
	Unflushed Kind = "unflushed"
	Opened    Kind = "opened"
	Adopted   Kind = "adopted"
	Evicted   Kind = "evicted"
	Restarted Kind = "restarted"
	Unread    Kind = "unread"
	Lost      Kind = "lost"
	Replaced  Kind = "replaced"
	Decided   Kind = "decided"
	Inspected Kind = "inspected"
	Repaired  Kind = "repaired"
	Rebuilt   Kind = "rebuilt"
	Unable    Kind = "unable"
	Ended     Kind = "ended"
	Missing   Kind = "missing"
)

// Who asks for a checkpoint.
const (
	ByTimer   = "timer"
	ByRequest = "request"
	BySignal  = "signal"
	ByStop    = "stop"
)

// Event is a line of the log. What has nothing to say is left out.
type Event struct {
	Time       time.Time     `json:"time"`
	Kind       Kind          `json:"event"`
	Term       uint64        `json:"term"`
	Since      time.Duration `json:"since_ns"` // the beginning of the term, whatever is done to the clock
	Start      uint64        `json:"start,omitempty"`
	Checkpoint uint64        `json:"checkpoint,omitempty"`
	Dataset    uint64        `json:"dataset,omitempty"`
	Name       string        `json:"name,omitempty"`
	Node       string        `json:"node,omitempty"`
	LostRanks  []int         `json:"lost_ranks,omitempty"`
	By         string        `json:"by,omitempty"`
	Attempt    int           `json:"attempt,omitempty"`
	Bytes      int64         `json:"bytes,omitempty"`
	Stall      time.Duration `json:"stall_ns,omitempty"`
	Took       time.Duration `json:"took_ns,omitempty"`
	Noticed    time.Duration `json:"noticed_ns,omitempty"`
	PartsOf    []string      `json:"parts_of,omitempty"`
	InsteadOf  Kind          `json:"instead_of,omitempty"`
	Restart    bool          `json:"restart,omitempty"`
	MPI        string        `json:"mpi,omitempty"`
	Ranks      int           `json:"ranks,omitempty"`
	Nodes      []string      `json:"nodes,omitempty"`
	Spares     int           `json:"spares,omitempty"`
	Code       int           `json:"code,omitempty"`
	Count      int           `json:"count,omitempty"`
	Reason     string        `json:"reason,omitempty"`
}

// Names of the files in the job's directory.
const (
	newest = "timeline.jsonl"
	older  = "timeline.1.jsonl"
)

// mostRead bounds what is read of a file; writers stay far below.
const mostRead = 64 << 20

// Read returns what is logged of the job in that directory, oldest first, and notes of what could not be read. The error is
// fs.ErrNotExist where there is no log.
func Read(dir string) (events []Event, notes []error, err error) {
	// The newest is opened first: if it becomes the older one meanwhile, it is met again, and nothing between them is missed.
	last, lastState, err := own.Open(filepath.Join(dir, newest), os.O_RDONLY)
	if err == nil {
		defer last.Close()
	}
	first, firstState, ferr := own.Open(filepath.Join(dir, older), os.O_RDONLY)
	if ferr == nil {
		defer first.Close()
	}
	switch {
	case ferr == nil && (err != nil || !os.SameFile(firstState, lastState)):
		events, notes = readFile(first)
	case ferr != nil && !errors.Is(ferr, fs.ErrNotExist):
		notes = append(notes, fmt.Errorf("timeline: %w", ferr))
	}
	if err != nil {
		if ferr == nil && errors.Is(err, fs.ErrNotExist) {
			return events, notes, nil
		}
		return nil, nil, fmt.Errorf("timeline: %w", err)
	}
	more, moreNotes := readFile(last)
	return append(events, more...), append(notes, moreNotes...), nil
}

func readFile(f *os.File) ([]Event, []error) {
	b, err := io.ReadAll(io.LimitReader(f, mostRead))
	events, unread := parse(b)
	if err == nil {
		err = unread
	}
	if err != nil {
		return events, []error{fmt.Errorf("timeline: %s: %w", f.Name(), err)}
	}
	return events, nil
}

// parse reads lines; the error says of which nothing is known. A byssus that goes on behind a torn line leaves it alone in its line.
func parse(b []byte) ([]Event, error) {
	var events []Event
	var why error
	unread, where, n := 0, 0, 0
	for line := range bytes.Lines(b) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e Event
		err := json.Unmarshal(line, &e)
		if err == nil && e.Kind == "" {
			err = errors.New("found no event")
		}
		if err == nil {
			events = append(events, e)
			continue
		}
		if unread++; unread == 1 {
			where, why = n, err
		}
	}
	if unread > 0 {
		return events, fmt.Errorf("lines that cannot be read, and are left out: %d, the first is line %d: %w", unread, where, why)
	}
	return events, nil
}
