// Package ui writes for people: sizes, times, tables, text without control characters, and a progress line on a terminal for what takes long.
//
// A progress line appears on a terminal only, after a second, and is gone when the work is over; other output is never
// mixed into it.
package ui

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// Bytes writes a size.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	div, exp := int64(unit), 0
	for m := n / unit; m >= unit && exp < 5; m /= unit {
		div *= unit
		exp++
	}
	return fmt.Sprintf("%.1f %ciB", float64(n)/float64(div), "KMGTPE"[exp])
}

// Duration writes a time with three digits or so.
func Duration(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.String()
}

// Ago writes how long ago something was.
func Ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// Table writes rows in columns.
func Table(w io.Writer, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, r := range rows {
		cells := make([]string, len(r))
		for i, c := range r {
			cells[i] = Line(c)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	t.Flush()
}

// Progress shows a line that changes while something is going on.
type Progress struct {
	w     *os.File
	stop  chan struct{}
	done  chan struct{}
	shown bool
}

// delay is how long something may take before it is shown, period how often the line changes.
const (
	delay  = time.Second
	period = 200 * time.Millisecond
)

// Start begins to show what text returns, on w if that is a terminal. Stop ends it.
func Start(w *os.File, text func() string) *Progress {
	p := &Progress{w: w, stop: make(chan struct{}), done: make(chan struct{})}
	if !IsTerminal(w) {
		close(p.done)
		return p
	}
	go p.run(text)
	return p
}

func (p *Progress) run(text func() string) {
	defer close(p.done)
	next := time.NewTimer(delay)
	defer next.Stop()
	for {
		select {
		case <-p.stop:
			if p.shown {
				fmt.Fprint(p.w, "\r\x1b[K")
			}
			return
		case <-next.C:
			p.shown = true
			fmt.Fprintf(p.w, "\r\x1b[K%.100s", Line(text()))
			next.Reset(period)
		}
	}
}

// Stop removes the line.
func (p *Progress) Stop() {
	close(p.stop)
	<-p.done
}
