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

// smallProgram is what objdump prints of a program with a marked function, handler, at 1000.
const smallProgram = `
0000000000001000 <handler>:
    1000:	push   %rbp
    1001:	call   1100 <helper>
    1006:	ret
    1007:	nop

0000000000001100 <helper>:
    1100:	%s
    1108:	ret

0000000000001200 <elsewhere>:
    1200:	ret
`

// TestAnyFSFindsViolations gives the checker a small program whose marked function calls one that breaks the rule.
func TestAnyFSFindsViolations(t *testing.T) {
	for _, c := range []struct{ name, instruction, allowed, want string }{
		{"computing", "mov    %rax,%rbx", "", ""},
		{"libc", "call   1030 <printf@plt>", "", "helper (ANY_FS, by way of handler): found a call of libc's printf"},
		{"libc that is listed", "call   1030 <memcpy@plt>", "libc memcpy plain computing", ""},
		{"a thread-local variable", "mov    %fs:0xfffffffffffffff8,%rax", "", "found memory relative to FS"},
		{"a pointer", "call   *%rax", "", "found a call through a pointer"},
		{"a pointer by a jump", "jmp    *0x8(%rax)", "", "found a call through a pointer"},
		{"a pointer that is listed", "call   *%rax", "indirect helper the kernel's own", ""},
		{"a change of FS", "wrfsbase %rax", "", "found a change of FS"},
		{"unmarked, in another file", "jmp    1200 <elsewhere>", "", "found a use of elsewhere"},
		{"unmarked, handed on", "lea    0xf9(%rip),%rdi        # 1200 <elsewhere>", "", "found a use of elsewhere"},
		{"unmarked and listed", "jmp    1200 <elsewhere>", "calls elsewhere on a lower FS", ""},
		{"a line that nothing needs", "mov    %rax,%rbx", "libc memcpy plain computing", "anyfs.txt: libc memcpy: found nothing that needs it"},
		{"a line without a reason", "mov    %rax,%rbx", "libc memcpy", "anyfs.txt:1: found"},
	} {
		code := readCode(strings.Replace(smallProgram, "%s", c.instruction, 1))
		code["1000"].anyFS, code["1200"].global = true, true
		e, wrong := readExempt(c.allowed)
		expect(t, c.name, append(wrong, checkAnyFS(code, e)...), c.want)
	}
}
