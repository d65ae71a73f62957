package harness

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Transcript is what a program prints when nobody disturbs it: the lines that count, in their order. What the lives of a job print must
// be pieces of it, each beginning where those before it have come to, or earlier: a life prints again what the one before
// it printed after its last checkpoint.
type Transcript struct {
	counts func(line string) bool
	want   []string
	seen   int // lines from the beginning that lives have printed
}

// NewTranscript takes the output of an undisturbed run. counts says which lines are the same in each run: not those with times.
func NewTranscript(native string, counts func(line string) bool) *Transcript {
	t := &Transcript{counts: counts}
	t.want = t.lines(native)
	return t
}

// Lines are what counts of the undisturbed run.
func (t *Transcript) Lines() []string { return t.want }

// But says that all lines count which have something else than blanks, and do not match noise.
func But(noise string) func(line string) bool {
	match := regexp.MustCompile(noise)
	return func(line string) bool { return strings.TrimSpace(line) != "" && !match.MatchString(line) }
}

// lines are the whole lines that count, without blanks at their ends.
func (t *Transcript) lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if whole, ok := strings.CutSuffix(line, "\n"); ok && t.counts(whole) {
			all = append(all, strings.TrimRight(whole, " \r"))
		}
	}
	return all
}

// Add takes over what a life has printed. Its last line may be cut short by the life's end. Its first one may be the end of a line of
// which the beginning was printed by the life before: C and Fortran write what they have buffered when the buffer is full.
func (t *Transcript) Add(stdout string) error {
	found := t.lines(stdout)
	if len(found) == 0 {
		return nil
	}
	best, most := 0, -1
	for at := min(t.seen, len(t.want)); at >= 0; at-- {
		n := t.same(at, found)
		if n == len(found) {
			t.seen = max(t.seen, at+n)
			return nil
		}
		if n > most {
			best, most = at, n
		}
	}
	want := "nothing more"
	if best+most < len(t.want) {
		want = fmt.Sprintf("%q", t.want[best+most])
	}
	return fmt.Errorf("harness: transcript: line %d: found %q, want %s", best+most+1, found[most], want)
}

// same is how many of the lines found are those of the transcript from line at on.
func (t *Transcript) same(at int, found []string) int {
	for i, line := range found {
		if at+i >= len(t.want) || line != t.want[at+i] && (i > 0 || at == 0 || !strings.HasSuffix(t.want[at], line)) {
			return i
		}
	}
	return len(found)
}

// Whole is nil when the lives have come to the end of the transcript.
func (t *Transcript) Whole() error {
	switch {
	case len(t.want) == 0:
		return errors.New("harness: transcript: the undisturbed run printed nothing that counts")
	case t.seen < len(t.want):
		return fmt.Errorf("harness: transcript: lines %d to %d were never printed, the first of them %q", t.seen+1, len(t.want), t.want[t.seen])
	}
	return nil
}

// Same compares a whole text, of a file, with that of the undisturbed run.
func (t *Transcript) Same(text string) error {
	found := t.lines(text)
	if slices.Equal(found, t.want) {
		return nil
	}
	for i := range max(len(found), len(t.want)) {
		switch {
		case i >= len(found):
			return fmt.Errorf("harness: transcript: line %d: found the end, want %q", i+1, t.want[i])
		case i >= len(t.want):
			return fmt.Errorf("harness: transcript: line %d: found %q, want the end", i+1, found[i])
		case found[i] != t.want[i]:
			return fmt.Errorf("harness: transcript: line %d: found %q, want %q", i+1, found[i], t.want[i])
		}
	}
	return nil
}
