package ui

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"
)

func TestOutput(t *testing.T) {
	for in, want := range map[string]string{
		"plain äöü → 漢\n":           "plain äöü → 漢\n",
		"a\x1b[2J\rb\x00\x7f":       `a\x1b[2J\x0db\x00\x7f`,
		"\u202egnp\u009b1m\u2028":   `\u202egnp\u009b1m\u2028`,
		"broken \xff\xc3":           `broken \xff\xc3`,
		"tab\tstays, \U000e0001 no": `tab` + "\t" + `stays, \ue0001 no`,
	} {
		var b strings.Builder
		if _, err := NewOutput(&b).Write([]byte(in)); err != nil || b.String() != want {
			t.Errorf("%q: found %q, %v, wanted %q", in, b.String(), err, want)
		}
	}
	if s := Line("a\nb\tc\x1b"); s != `a\nb\tc\x1b` {
		t.Errorf("a line: %q", s)
	}
	var table strings.Builder
	Table(&table, [][]string{{"A", "B"}, {"x\ny\tz\x1b", "end"}})
	if want := "A             B\n" + `x\ny\tz\x1b   end` + "\n"; strings.ReplaceAll(table.String(), " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("a table: %q", table.String())
	}
}

func TestJSONKeepsTheValue(t *testing.T) {
	const text = "\u009b\x7f\u202e\U000e0001 ä\x1b\n"
	b, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	out := JSON(b)
	for _, r := range out {
		if unicode.IsControl(r) || !unicode.IsPrint(r) {
			t.Errorf("%U is there", r)
		}
	}
	var found string
	if err := json.Unmarshal([]byte(out), &found); err != nil || found != text {
		t.Errorf("%s: %q, %v", out, found, err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestOutputKeepsItsError(t *testing.T) {
	o := NewOutput(full{})
	Table(o, [][]string{{"x"}})
	if !errors.Is(o.Err(), io.ErrShortWrite) {
		t.Errorf("found %v", o.Err())
	}
}
