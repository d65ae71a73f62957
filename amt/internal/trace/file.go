package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// A file is one object of JSON, whose last line says what the ones before are:
//
//	{"displayTimeUnit":"ns","traceEvents":[
//	events, one a line
//	],"otherData":{a footer}}
const (
	opening = `{"displayTimeUnit":"ns","traceEvents":[` + "\n"
	ending  = `],"otherData":`
)

// A Footer says which ranks have written.
type Footer struct {
	Ranks int       `json:"ranks"` // of the program
	Node  string    `json:"node"`  // whose clock it is
	Wall  int64     `json:"wall"`  // nanoseconds that the time of day is ahead of that
	Zero  int64     `json:"zero"`  // what is 0 in the file, by that clock
	Parts []Written `json:"parts"` // in the order of the file
}

// Written is a part in a file.
type Written struct {
	Rank    int    `json:"rank"`
	Begin   int64  `json:"begin"` // where it lies
	End     int64  `json:"end"`
	Dropped uint64 `json:"dropped"` // older events that are not there
}

// margin is by how much what is 0 in a file comes before the first event of the rank that writes first: others may have begun before it.
const margin = 60e9 // nanoseconds

// Remove removes the file of a run before.
func Remove(path string) error {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return nil // it is found out when it is written
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// locked does something with a file that no other rank does anything with meanwhile.
func locked(path string, flags int, do func(f *os.File) error) (err error) {
	f, err := os.OpenFile(path, flags, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }() // which unlocks it
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			if err != nil {
				return fmt.Errorf("%s: lock: %w", path, err)
			}
			return do(f)
		}
	}
}

// Complete tells whether all ranks have written their parts.
func Complete(path string) bool {
	all := false
	err := locked(path, os.O_RDWR, func(f *os.File) error {
		foot, _, err := footer(f)
		all = err == nil && len(foot.Parts) >= foot.Ranks
		return err
	})
	return err == nil && all
}

// Write adds the part of a rank to a file, which is made if it is not there. A part that the same rank has written before, a program that
// was restored from a time before that, gives way.
func Write(path string, ranks int, p *Part) error {
	return locked(path, os.O_RDWR|os.O_CREATE, func(f *os.File) error {
		foot, end, err := footer(f)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if foot.Node == "" {
			foot = Footer{Ranks: ranks, Node: p.Node, Wall: p.Wall, Zero: p.first() - margin}
			if _, err := f.WriteAt([]byte(opening), 0); err != nil {
				return err
			}
			end = int64(len(opening))
		}
		if end, err = foot.without(f, p.Rank, end); err != nil {
			return err
		}
		return foot.add(f, p, end)
	})
}

// first is when the part begins.
func (p *Part) first() int64 {
	var first int64
	p.Log.Each(func(e *Event) {
		if first == 0 || e.At < first {
			first = e.At
		}
	})
	return first
}

// add writes a part where the last line begins, and another last line.
func (foot *Footer) add(f *os.File, p *Part, end int64) error {
	out := &counted{to: io.NewOffsetWriter(f, end)}
	w := writer{to: bufio.NewWriterSize(out, 1<<20), p: p, shift: -foot.Zero}
	if p.Node != foot.Node {
		w.shift += p.Wall - foot.Wall
	}
	w.begun = len(foot.Parts) > 0
	if err := w.write(); err != nil {
		return err
	}
	foot.Parts = append(foot.Parts, Written{p.Rank, end, end + out.n + int64(w.to.Buffered()), p.Log.dropped})
	text, err := json.Marshal(foot)
	if err != nil {
		return err
	}
	fmt.Fprintf(w.to, "\n%s%s}\n", ending, text)
	if err := w.to.Flush(); err != nil {
		return err
	}
	return f.Truncate(end + out.n)
}

// counted counts what is written.
type counted struct {
	to io.Writer
	n  int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.n += int64(n)
	return n, err
}

// footer reads the last line, and says where what is before it ends; an empty file has none.
func footer(f *os.File) (foot Footer, end int64, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return foot, 0, err
	}
	if !info.Mode().IsRegular() {
		return foot, 0, errors.New("it is no file that can be written from its middle on")
	}
	for n := min(info.Size(), 64<<10); ; n = min(info.Size(), 2*n) {
		b := make([]byte, n)
		if _, err := f.ReadAt(b, info.Size()-n); err != nil {
			return foot, 0, err
		}
		at := bytes.LastIndexByte(bytes.TrimSuffix(b, []byte("\n")), '\n')
		if at < 0 && n < info.Size() {
			continue
		}
		line, ok := bytes.CutPrefix(b[at+1:], []byte(ending))
		line = bytes.TrimSuffix(line, []byte("}\n"))
		if at < 0 || !ok || json.Unmarshal(line, &foot) != nil || len(foot.Parts) == 0 {
			return foot, 0, errors.New("it is no trace of package amt, and stays as it is")
		}
		return foot, info.Size() - n + int64(at), nil
	}
}

// without takes the part of a rank out of the file, if there is one, and says where what is left ends.
func (foot *Footer) without(f *os.File, rank int, end int64) (int64, error) {
	n := slices.IndexFunc(foot.Parts, func(w Written) bool { return w.Rank == rank })
	if n < 0 {
		return end, nil
	}
	cut := foot.Parts[n]
	rest := make([]byte, end-cut.End)
	if _, err := f.ReadAt(rest, cut.End); err != nil {
		return 0, err
	}
	if n == 0 { // what follows is the first then
		skipped := min(len(",\n"), len(rest))
		rest, cut.End = rest[skipped:], cut.End+int64(skipped)
	}
	if _, err := f.WriteAt(rest, cut.Begin); err != nil {
		return 0, err
	}
	gone := cut.End - cut.Begin
	foot.Parts = slices.Delete(foot.Parts, n, n+1)
	for i := n; i < len(foot.Parts); i++ {
		foot.Parts[i].Begin, foot.Parts[i].End = foot.Parts[i].Begin-gone, foot.Parts[i].End-gone
	}
	if n == 0 && len(foot.Parts) > 0 {
		foot.Parts[0].Begin = int64(len(opening))
	}
	return end - gone, nil
}
