package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/byssus-hpc/byssus/test/harness"
)

// An output is what a program printed natively, and what the lives of a job print, compared with it.
type output interface {
	total() int                                                 // results, or lines that tell of progress
	anew(dir string) output                                     // of a job in dir, which has printed nothing yet
	until(ctx context.Context, p *harness.Proc, goal int) error // waits until this life has printed so many of them
	add(stdout string) error                                    // what a life has printed
	whole() error                                               // nil when all is the same
}

// outputOf is that of a program which has run in dir.
func outputOf(p program, dir, stdout string) (output, error) {
	if p.text != nil {
		return textOf(p.text, dir, stdout)
	}
	want := map[string]string{}
	if err := results(want, stdout); err != nil {
		return nil, err
	}
	if len(want) == 0 {
		return nil, errors.New("no results")
	}
	return resultLines{want: want}, nil
}

// resultLines are an output of lines `result KEY VALUES`.
type resultLines struct{ want, found map[string]string }

func (r resultLines) total() int              { return len(r.want) }
func (r resultLines) anew(string) output      { return resultLines{r.want, map[string]string{}} }
func (r resultLines) add(stdout string) error { return results(r.found, stdout) }
func (r resultLines) whole() error            { return compare(r.found, r.want) }
func (r resultLines) until(ctx context.Context, p *harness.Proc, goal int) error {
	return p.Until(ctx, "results", func(s string) bool { return strings.Count("\n"+s, "\nresult ") >= goal })
}

// results adds the whole result lines of an output by key; two different lines of one key are an error.
func results(into map[string]string, stdout string) error {
	for line := range strings.Lines(stdout) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "result" || !strings.HasSuffix(line, "\n") {
			continue
		}
		line = strings.Join(f, " ")
		if before, ok := into[f[1]]; ok && before != line {
			return fmt.Errorf("result %s: found %q and %q", f[1], before, line)
		}
		into[f[1]] = line
	}
	return nil
}

// compare names the results that are not those of the native run.
func compare(found, want map[string]string) error {
	var wrong []error
	for key, line := range want {
		if found[key] != line {
			wrong = append(wrong, fmt.Errorf("result %s: found %q, want %q", key, found[key], line))
		}
	}
	for key, line := range found {
		if _, ok := want[key]; !ok {
			wrong = append(wrong, fmt.Errorf("result %s: found %q, which the native run never printed", key, line))
		}
	}
	return errors.Join(wrong...)
}

// texts is an output of which all counts that the program's text says, in files as well.
type texts struct {
	text   *text
	native string
	dir    string
	script *harness.Transcript
	files  map[string]*harness.Transcript
}

func textOf(how *text, dir, stdout string) (output, error) {
	t := texts{how, stdout, dir, harness.NewTranscript(stdout, how.counts), map[string]*harness.Transcript{}}
	for _, name := range how.files {
		written, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		t.files[name] = harness.NewTranscript(string(written), how.counts)
	}
	if t.total() == 0 {
		return nil, fmt.Errorf("no line with %q", how.step)
	}
	return t, nil
}

func (t texts) total() int {
	n := t.steps(t.native)
	for _, script := range t.files {
		n += t.steps(strings.Join(script.Lines(), "\n"))
	}
	return n
}

func (t texts) steps(s string) int { return strings.Count(s, t.text.step) }

func (t texts) anew(dir string) output {
	return texts{t.text, t.native, dir, harness.NewTranscript(t.native, t.text.counts), maps.Clone(t.files)}
}

func (t texts) add(stdout string) error { return t.script.Add(stdout) }

// until counts what has come to the files since it was called: a life that goes back writes there again.
func (t texts) until(ctx context.Context, p *harness.Proc, goal int) error {
	before := t.written()
	ended := false
	err := harness.Poll(ctx, "lines with "+t.text.step, func() bool {
		ended = !p.Running()
		return ended || t.steps(p.Stdout.String())+t.written()-before >= goal
	})
	if err == nil && ended {
		return harness.ErrEnded
	}
	return err
}

// written is how many steps are in the files.
func (t texts) written() int {
	n := 0
	for name := range t.files {
		text, _ := os.ReadFile(filepath.Join(t.dir, name)) // it may not be there yet
		n += t.steps(string(text))
	}
	return n
}

// whole compares the files, too. The job has ended: what is not in them now will never be.
func (t texts) whole() error {
	wrong := []error{t.script.Whole()}
	for name, script := range t.files {
		text, err := os.ReadFile(filepath.Join(t.dir, name))
		if err == nil {
			err = script.Same(string(text))
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(wrong...)
}
