package house

import (
	"debug/elf"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A routine is a piece of machine code from one label to the next, as far as the rule for ANY_FS functions looks at it.
type routine struct {
	name                      string
	file                      string   // where it is defined, if the symbol table says so
	anyFS, global             bool     // is marked; can be called from other files
	next                      []string // addresses of routines that it calls, jumps to, runs into or hands on
	libc                      []string // functions outside of this program that it calls
	indirect, touches, change bool     // calls through pointers; accesses memory relative to FS; changes FS
}

// An allowance is a line of anyfs.txt.
type allowance struct {
	kind, name string
	used       bool
}

// An exempt list is what anyfs.txt says.
type exempt []*allowance

// readExempt parses anyfs.txt, whose head explains its lines. Each must have a reason.
func readExempt(text string) (exempt, []string) {
	var list exempt
	var wrong []string
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case len(f) > 2 && slices.Contains([]string{"libc", "calls", "indirect", "touches", "changes"}, f[0]):
			list = append(list, &allowance{kind: f[0], name: f[1]})
		default:
			wrong = append(wrong, fmt.Sprintf("anyfs.txt:%d: found %q, want a kind, a name and a reason", n+1, line))
		}
	}
	return list, wrong
}

// allows reports whether there is a line of this kind for the name, which is used then. What the compiler has made of a
// function (name.part.0) counts as the function.
func (e exempt) allows(kind, name string) bool {
	name, _, _ = strings.Cut(name, ".")
	found := false
	for _, a := range e {
		if ok, err := path.Match(a.name, name); a.kind == kind && err == nil && ok {
			a.used, found = true, true
		}
	}
	return found
}

// checkAnyFS follows all calls from the marked routines, which are keyed by their addresses, and returns what it finds
// against the rule.
func checkAnyFS(code map[string]*routine, e exempt) []string {
	var wrong []string
	seen := map[string]bool{}
	var follow func(at, way string)
	follow = func(at, way string) {
		r := code[at]
		if r == nil || seen[at] {
			return
		}
		seen[at] = true
		complain := func(found, want string) {
			wrong = append(wrong, fmt.Sprintf("%s: %s (ANY_FS%s): found %s, want %s", r.file, r.name, way, found, want))
		}
		for _, name := range r.libc {
			if !e.allows("libc", name) {
				complain("a call of libc's "+name, "no libc but what anyfs.txt lists")
			}
		}
		if r.indirect && !e.allows("indirect", r.name) {
			complain("a call through a pointer", "a direct one, or a line in anyfs.txt")
		}
		if r.touches && !e.allows("touches", r.name) {
			complain("memory relative to FS (%fs:)", "no thread-local variable")
		}
		if r.change && !e.allows("changes", r.name) {
			complain("a change of FS", "none")
		}
		for _, to := range r.next {
			c := code[to]
			if c == nil || !c.anyFS && e.allows("calls", c.name) {
				continue
			}
			if c.global && !c.anyFS {
				complain("a use of "+c.name+" in "+c.file+", which is not marked", "it marked ANY_FS in its header")
				continue
			}
			follow(to, ", by way of "+r.name)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(code)) {
		if code[at].anyFS {
			follow(at, "")
		}
	}
	for _, a := range e {
		if !a.used {
			wrong = append(wrong, fmt.Sprintf("anyfs.txt: %s %s: found nothing that needs it, want the line gone", a.kind, a.name))
		}
	}
	return wrong
}

var (
	labelLine  = regexp.MustCompile(`^0*([0-9a-f]+) <([^>]+)>:$`)
	branchLine = regexp.MustCompile(`^\s*[0-9a-f]+:\s+(?:(?:bnd|notrack) )?(call|j\w+)\s+(.*)$`)
	targetName = regexp.MustCompile(`^([0-9a-f]+) <([^>+]+)(\+0x[0-9a-f]+)?>`)
	leaLine    = regexp.MustCompile(`\slea\s.*# ([0-9a-f]+) <[^>+]+>$`)
	endLine    = regexp.MustCompile(`\s(ret|jmp|hlt|ud2|call)\b`) // a call at the end is of a function that does not return
	padding    = regexp.MustCompile(`\s(nop|nopw|nopl|data16|xchg +%ax,%ax|cs nopw)\b`)
)

// readCode parses what objdump prints of the sections with code.
func readCode(text string) map[string]*routine {
	code := map[string]*routine{}
	var r *routine
	ended := true
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := labelLine.FindStringSubmatch(line); m != nil {
			if r != nil && !ended {
				r.next = append(r.next, m[1])
			}
			r = &routine{name: m[2]}
			code[m[1]] = r
			ended = false
			continue
		}
		if r == nil || !strings.HasPrefix(line, " ") || padding.MatchString(line) {
			continue
		}
		r.note(line)
		ended = endLine.MatchString(line)
	}
	return code
}

// note looks at one instruction.
func (r *routine) note(line string) {
	r.touches = r.touches || strings.Contains(line, "%fs:")
	r.change = r.change || strings.Contains(line, "wrfsbase")
	if m := leaLine.FindStringSubmatch(line); m != nil {
		r.next = append(r.next, m[1])
	}
	m := branchLine.FindStringSubmatch(line)
	if m == nil {
		return
	}
	target := targetName.FindStringSubmatch(m[2])
	switch {
	case strings.HasPrefix(m[2], "*"):
		r.indirect = true
	case target == nil:
	case strings.HasSuffix(target[2], "@plt"):
		r.libc = append(r.libc, strings.TrimSuffix(target[2], "@plt"))
	case target[3] == "":
		r.next = append(r.next, target[1])
	case target[2] != r.name: // into the middle of another: to be seen by its name
		r.indirect = true
	}
}

// readSymbols adds what the symbol table knows of the routines.
func readSymbols(t *testing.T, program string, code map[string]*routine) {
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	file := "?"
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FILE {
			file = s.Name
		}
		r := code[fmt.Sprintf("%x", s.Value)]
		if r == nil || int(s.Section) >= len(f.Sections) || elf.ST_TYPE(s.Info) == elf.STT_SECTION {
			continue
		}
		r.anyFS = f.Sections[s.Section].Name == "any_fs"
		r.global = r.global || elf.ST_BIND(s.Info) == elf.STB_GLOBAL
		if !r.global {
			r.file = file
		}
	}
}

// noJumpTables makes each jump through a register a call of something that the code does not tell.
const noJumpTables = "CHECK=-fno-jump-tables"

// TestAnyFS follows the calls of all functions that are marked ANY_FS, and of the handlers of signals, which must be.
func TestAnyFS(t *testing.T) {
	e, wrong := readExempt(string(read(t, "internal/tools/house/anyfs.txt")))
	program := filepath.Join(filepath.Dir(filepath.Dir(rankObjects(t))), "lib/byssus/byssus-rank-none")
	code := readCode(run(t, "objdump", "-d", "--no-show-raw-insn", program))
	readSymbols(t, program, code)
	definers := map[string]string{}
	for file, text := range rankSources(t) {
		for _, m := range regexp.MustCompile(`(?m)^(?:\w.*[\s*])?(\w+)(?:\(.*\)|:)(?:\s*\{.*)?$`).FindAllStringSubmatch(text, -1) {
			definers[m[1]] = "rank/" + file
		}
		for _, m := range regexp.MustCompile(`our_action\((\w+)\)`).FindAllStringSubmatch(text, -1) {
			if !regexp.MustCompile(`ANY_FS void `+m[1]+`\(`).MatchString(text) && !strings.Contains(m[1], "fn") {
				wrong = append(wrong, fmt.Sprintf("rank/%s: %s handles a signal: want it marked ANY_FS", file, m[1]))
			}
		}
	}
	marked := 0
	for _, r := range code {
		if name, _, _ := strings.Cut(r.name, "."); r.global || r.file == "" {
			r.file = definers[name]
		}
		if r.anyFS {
			marked++
		}
	}
	if marked < 40 {
		t.Errorf("%s: found %d functions that are marked, want them all in their section", program, marked)
	}
	for _, w := range append(wrong, checkAnyFS(code, e)...) {
		t.Error(w)
	}
}
