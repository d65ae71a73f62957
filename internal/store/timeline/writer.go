package timeline

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/store/own"
)

const (
	mostQueued = 4096            // events that the file has not taken yet
	mostBytes  = 8 << 20         // of a file, before a new one is begun
	patience   = 2 * time.Second // at the end, for a file system that does not answer
)

// Writer logs the events of one term of a job. Add and Close are for one goroutine; another one writes the file.
type Writer struct {
	term    uint64
	began   time.Time
	queue   chan Event
	dropped int           // events that found the queue full, since the last that did not
	done    chan struct{} // closed when everything is written
	handler slog.Handler
	failed  int // events that could not be written since the last that could; the writing goroutine's
	told    bool
	say     func(text string)
}

// Open returns the log of the job in that directory. The file is opened when there is something to write. That it cannot be
// written is said once, by any goroutine.
func Open(dir string, term uint64, say func(text string)) *Writer {
	return newWriter(&file{dir: dir, most: mostBytes}, term, say)
}

func newWriter(to io.WriteCloser, term uint64, say func(text string)) *Writer {
	w := &Writer{term: term, began: time.Now(), queue: make(chan Event, mostQueued), done: make(chan struct{}), say: say,
		handler: slog.NewJSONHandler(to, &slog.HandlerOptions{ReplaceAttr: rename})}
	go w.run(to)
	return w
}

// Add logs an event, with the time that it is now. It does not wait.
func (w *Writer) Add(e Event) {
	if w.dropped > 0 && w.put(Event{Kind: Missing, Count: w.dropped}) {
		w.dropped = 0
	}
	if w.dropped > 0 || !w.put(e) {
		w.dropped++
	}
}

func (w *Writer) put(e Event) bool {
	select {
	case w.queue <- w.stamp(e):
		return true
	default:
		return false
	}
}

func (w *Writer) stamp(e Event) Event {
	e.Time, e.Term = time.Now(), w.term
	e.Since = e.Time.Sub(w.began)
	return e
}

// Close waits until everything is written, but not for ever.
func (w *Writer) Close() {
	limit, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if w.dropped > 0 {
		select {
		case w.queue <- w.stamp(Event{Kind: Missing, Count: w.dropped}):
		case <-limit.Done():
		}
	}
	close(w.queue)
	select {
	case <-w.done:
	case <-limit.Done():
	}
}

func (w *Writer) run(to io.Closer) {
	defer close(w.done)
	defer to.Close()
	for e := range w.queue {
		if w.failed > 0 && w.write(w.stamp(Event{Kind: Missing, Count: w.failed})) {
			w.failed = 0
		}
		if w.failed > 0 || !w.write(e) {
			w.failed++
		}
	}
}

func (w *Writer) write(e Event) bool {
	err := w.handler.Handle(context.Background(), record(e))
	if err != nil && !w.told {
		w.told = true
		w.say(fmt.Sprintf("the log of the job cannot be written: %v; the job goes on, and what happens is not logged as long as that is so", err))
	}
	return err == nil
}

// record is an event as package slog writes it.
func record(e Event) slog.Record {
	r := slog.NewRecord(e.Time, slog.LevelInfo, string(e.Kind), 0)
	for f, v := range reflect.ValueOf(e).Fields() {
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "time" && name != "event" && !(option == "omitempty" && v.IsZero()) {
			r.AddAttrs(slog.Any(name, v.Interface()))
		}
	}
	return r
}

// rename gives slog's own fields the names of ours: its message is the event, and there are no levels.
func rename(groups []string, a slog.Attr) slog.Attr {
	switch {
	case len(groups) > 0:
	case a.Key == slog.LevelKey:
		return slog.Attr{}
	case a.Key == slog.MessageKey:
		a.Key = "event"
	}
	return a
}

// file is the newest file of a log, which is opened when it is needed, and again after an error.
type file struct {
	dir  string
	most int64
	f    *os.File
	size int64
	torn bool // the last line has no end
}

// Write appends a line.
func (f *file) Write(line []byte) (int, error) {
	if err := f.open(); err != nil {
		return 0, err
	}
	if f.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := f.f.Write(line)
	f.size += int64(n)
	if n > 0 {
		f.torn = err != nil
	}
	if err != nil {
		f.Close()
	}
	return n, err
}

// open makes sure that there is a file, and one with room.
func (f *file) open() error {
	path := filepath.Join(f.dir, newest)
	if f.f == nil {
		if err := f.reach(path); err != nil {
			return err
		}
	}
	if f.size <= f.most {
		return nil
	}
	f.Close()
	if err := os.Rename(path, filepath.Join(f.dir, older)); err != nil {
		return err
	}
	return f.reach(path)
}

// reach opens the file, and looks whether somebody was killed in the midst of a line.
func (f *file) reach(path string) error {
	opened, st, err := own.Open(path, os.O_RDWR|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return err
	}
	f.f, f.size, f.torn = opened, st.Size(), false
	if f.size == 0 {
		return nil
	}
	last := make([]byte, 1)
	if _, err := f.f.ReadAt(last, f.size-1); err != nil {
		f.Close()
		return err
	}
	f.torn = last[0] != '\n'
	return nil
}

// Close closes the file, if there is one.
func (f *file) Close() error {
	if f.f == nil {
		return nil
	}
	opened := f.f
	f.f = nil
	return opened.Close()
}
