package harness

import (
	"strings"
	"testing"
)

const undisturbed = "start\n\n step 1\ntime 3 s\n step 2\n step 3\n step 2\nend\n"

// TestTranscript: lives may print again what came after their checkpoints, with other times, and break a line between them.
func TestTranscript(t *testing.T) {
	for _, c := range []struct {
		what  string
		lives []string
		wrong string // part of the error; "": right
	}{
		{"one life", []string{undisturbed}, ""},
		{"again", []string{"start\n step 1\n step 2\n", " step 1\ntime 9 s\n step 2\n step 3\n", " step 3\n step 2\nend\n"}, ""},
		{"cut short", []string{"start\n step 1\n st", " step 2\n step 3\n step 2\nend\n"}, ""},
		{"broken line", []string{"start\n step 1\n st", "ep 2\n step 3\n step 2\nend\n"}, ""},
		{"one is quiet", []string{"start\n step 1\n", "", " step 2\n step 3\n step 2\nend\n"}, ""},
		{"a gap", []string{"start\n step 1\n", " step 3\n step 2\nend\n"}, `found " step 3"`},
		{"another value", []string{"start\n step 1\n", " step 2\n step 4\n"}, `found " step 4", want " step 3"`},
		{"a line more", []string{undisturbed + "end\n"}, `found "end", want nothing more`},
		{"not to the end", []string{"start\n step 1\n step 2\n"}, `lines 4 to 6 were never printed, the first of them " step 3"`},
		{"nothing", []string{""}, "lines 1 to 6 were never printed"},
	} {
		err := lives(NewTranscript(undisturbed, But("^time")), c.lives)
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: found %v, want %q", c.what, err, c.wrong)
		}
	}
	if err := NewTranscript("\n", But("^time")).Whole(); err == nil {
		t.Error("a run that prints nothing passes")
	}
}

func lives(t *Transcript, printed []string) error {
	for _, text := range printed {
		if err := t.Add(text); err != nil {
			return err
		}
	}
	return t.Whole()
}

// TestTranscriptOfFile: a file has all lines, each once.
func TestTranscriptOfFile(t *testing.T) {
	script := NewTranscript(undisturbed, But("^time"))
	for text, wrong := range map[string]string{
		undisturbed: "",
		strings.Replace(undisturbed, "3 s", "4 s", 1):           "",
		undisturbed + "end\n":                                   "want the end",
		strings.Replace(undisturbed, "step 3", "step 5", 1):     `found " step 5", want " step 3"`,
		strings.Replace(undisturbed, " step 2\nend\n", "", 1):   "found the end",
		strings.Replace(undisturbed, "start\n", "restart\n", 1): `found "restart", want "start"`,
	} {
		err := script.Same(text)
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%q: found %v, want %q", text, err, wrong)
		}
	}
}
