package house

import (
	"strings"
	"testing"
)

const smallPlan = `
door low/numbers.h
given client
low:
high: low
front both: low
top/...: both
`

// TestRoomsFindsViolations gives the checker small trees, good and bad.
func TestRoomsFindsViolations(t *testing.T) {
	headers := map[string]string{"low/low.h": "", "low/own.h": "", "low/numbers.h": "", "high/high.h": ""}
	for _, c := range []struct{ name, file, text, want string }{
		{"downwards", "high/a.c", `#include "low/low.h"`, ""},
		{"its own", "low/a.c", `#include "own.h"`, ""},
		{"a door", "top/deep/a.c", `#include "low/numbers.h"`, ""},
		{"upwards", "low/a.c", `#include "high/high.h"`, "rank/low/a.c: includes high/high.h"},
		{"another's own header", "high/a.c", `#include "low/own.h"`, "rank/high/a.c: includes low/own.h"},
		{"behind a front", "top/a.c", `#include "low/low.h"`, "rank/top/a.c: includes low/low.h"},
		{"by a relative path", "low/a.c", `#include "../high/high.h"`, "rank/low/a.c: includes high/high.h"},
		{"no such header", "low/a.c", `#include "none.h"`, "found nowhere"},
		{"no room", "else/a.c", "", "rank/else/a.c: found in no room"},
		{"code in a front", "both/a.c", "", "rank/both/a.c: found in no room"},
		{"extern", "low/a.c", "\textern int x;", `found "extern int x;"`},
		{"a declaration", "low/a.c", "long *f(int a);", "a declaration of f"},
		{"a declaration of its own function", "low/a.c", "long f(int a);\nlong f(int a)\n{", ""},
		{"a static one", "low/a.c", "static long f(int a);", ""},
	} {
		p, wrong := readPlan(smallPlan)
		sources := map[string]string{c.file: c.text}
		for h, text := range headers {
			sources[h] = text
		}
		expect(t, c.name, append(wrong, p.checkSources(sources)...), c.want)
	}
}

func TestRoomsFindsUpwardSymbols(t *testing.T) {
	p, _ := readPlan(smallPlan)
	for _, c := range []struct{ name, file, symbol, want string }{
		{"downwards", "high/a.c", "below", ""},
		{"through a front", "top/a.c", "below", ""},
		{"outside", "low/a.c", "printf", ""},
		{"given", "low/a.c", "client", ""},
		{"upwards", "low/a.c", "above", "rank/low/a.c: uses above, found in rank/high/high.c; want it in one of: low"},
		{"not behind the front", "top/a.c", "above", "rank/top/a.c: uses above"},
	} {
		expect(t, c.name, p.checkSymbols(map[string]object{
			"low/low.c":   {defined: []string{"below"}},
			"high/high.c": {defined: []string{"above", "client"}},
			c.file:        {taken: []string{c.symbol}},
		}), c.want)
	}
}

func TestRoomsFindsWrongPlans(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"good", smallPlan, ""},
		{"a circle", "a: b\nb: a", "rooms.txt:1: a may not use b"},
		{"itself", "a: a", "rooms.txt:1: a may not use a"},
		{"twice", "a:\na:", "rooms.txt:2: a stands there twice"},
		{"no word of ours", "windows a", `rooms.txt:1: found "windows a"`},
	} {
		_, wrong := readPlan(c.text)
		expect(t, c.name, wrong, c.want)
	}
}

// expect wants exactly one complaint with these words, or none when there are no words.
func expect(t *testing.T, name string, found []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(found) > 0:
		t.Errorf("%s: found %q, want nothing", name, found)
	case want != "" && (len(found) != 1 || !strings.Contains(found[0], want)):
		t.Errorf("%s: found %q, want %q", name, found, want)
	}
}
