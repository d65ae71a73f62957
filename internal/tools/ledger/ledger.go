// Package ledger is the ledger of system calls: what each makes of a process, and what becomes of that at a checkpoint.
//
// It reads x86_64.txt, whose head explains its grammar, and guarantees that every number up to the newest has exactly one
// row, and every row a reason, or a state with what sees to it and a test, or the word why there is none. The filter of
// rank/core and docs/syscalls.md are generated from it.
package ledger

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:generate go run ./genledger -root ../../..

//go:embed x86_64.txt
var text string

// A Kind is what becomes of the state that a call makes.
type Kind string

// The kinds of rows. A gap is no call at all.
const (
	Harmless Kind = "harmless"
	Saved    Kind = "saved"
	Refused  Kind = "refused"
	Noted    Kind = "noted"
	gap      Kind = "gap"
)

// A Row is one verdict: about a call, or about some of its options.
type Row struct {
	Line     int
	Name     string // of the call, or what the options are
	Kind     Kind
	State    string   // what it makes
	How      string   // noted: how it is decided whether the state is there
	Files    []string // saved, refused: of rank/core
	Reason   string   // harmless: why
	Tests    []Test
	Untested string // why there is no test
	Values   []Span // of noted options
}

// A Test shows a row. Where says what a machine needs for it, when the one where the row was written has not got it.
type Test struct{ Name, Argument, Where string }

// A Span is a range of values of an argument, as C writes them.
type Span struct{ Lo, Hi string }

// A Trap is a condition on which a call is trapped, other than to be noted.
type Trap struct {
	When      string // "", "restart", "lazy" or "low"
	Condition string // "always", "set", "ours", "in", "bits", "mmap", "mask" or "pi"
	Argument  int
	Spans     []Span
}

// A Call is a number of the kernel's table.
type Call struct {
	Row
	Number   int
	Argument int // in which the options of noted rows stand; -1: there are none
	Options  []Row
	Traps    []Trap
}

// NotedOptions are the options of a call that are noted.
func (c Call) NotedOptions() []Row {
	var list []Row
	for _, o := range c.Options {
		if o.Kind == Noted {
			list = append(list, o)
		}
	}
	return list
}

// Load reads the ledger of this tree.
func Load() ([]Call, error) { return Parse(text) }

// Parse reads a ledger. Errors begin with the number of their line.
func Parse(text string) ([]Call, error) {
	p := parser{reasons: map[string]string{}}
	for n, line := range strings.Split(text, "\n") {
		p.line = n + 1
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		if err := p.take(line); err != nil {
			return nil, fmt.Errorf("x86_64.txt:%d: %w", p.line, err)
		}
	}
	for _, c := range p.calls {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("x86_64.txt:%d: %s: %w", c.Line, c.Name, err)
		}
	}
	return p.calls, nil
}

type parser struct {
	line    int
	next    int // the number that must come
	reasons map[string]string
	calls   []Call
}

func (p *parser) take(line string) error {
	f := strings.Fields(line)
	switch {
	case line[0] == ' ' && len(p.calls) == 0:
		return fmt.Errorf("options of no call: %q", f[0])
	case line[0] == ' ':
		return p.belongs(&p.calls[len(p.calls)-1], f)
	case f[0] == "reason" && len(f) > 2:
		p.reasons[f[1]] = strings.Join(f[2:], " ")
		return nil
	case len(f) < 3:
		return fmt.Errorf("found %q, wanted a number, a name and what becomes of it", line)
	case f[1] == string(gap):
		return p.gap(f[0])
	}
	number, err := strconv.Atoi(f[0])
	if err != nil || number != p.next {
		return fmt.Errorf("found number %s, wanted %d", f[0], p.next)
	}
	p.next++
	if slices.ContainsFunc(p.calls, func(c Call) bool { return c.Name == f[1] }) {
		return fmt.Errorf("%s stands there twice", f[1])
	}
	row, err := p.row(f[1:])
	p.calls = append(p.calls, Call{Row: row, Number: number, Argument: -1})
	return err
}

func (p *parser) gap(numbers string) error {
	from, to, _ := strings.Cut(numbers, "-")
	lo, err1 := strconv.Atoi(from)
	hi, err2 := strconv.Atoi(to)
	if err1 != nil || err2 != nil || lo != p.next || hi < lo {
		return fmt.Errorf("found a gap of %s, wanted one from %d", numbers, p.next)
	}
	p.next = hi + 1
	return nil
}

// belongs takes a line of a call: its argument of options, a trap, or a row of options.
func (p *parser) belongs(c *Call, f []string) error {
	switch f[0] {
	case "option":
		n, err := argument(f, 1)
		c.Argument = n
		return err
	case "trap":
		t, err := trap(f[1:])
		c.Traps = append(c.Traps, t)
		return err
	}
	row, err := p.row(f)
	if err == nil && row.Kind == Noted {
		row.Name, row.Values, err = values(row.Name)
	}
	c.Options = append(c.Options, row)
	return err
}

func argument(f []string, at int) (int, error) {
	if at < len(f) && len(f[at]) == 1 && f[at][0] >= '0' && f[at][0] <= '5' {
		return int(f[at][0] - '0'), nil
	}
	return -1, fmt.Errorf("%q: wanted an argument's number, 0 to 5", strings.Join(f, " "))
}

func trap(f []string) (t Trap, err error) {
	if len(f) > 0 && slices.Contains([]string{"restart", "lazy", "low"}, f[0]) {
		t.When, f = f[0], f[1:]
	}
	if len(f) == 0 {
		return t, fmt.Errorf("a trap without a condition")
	}
	t.Condition = f[0]
	switch f[0] {
	case "always", "mmap", "mask", "pi":
		if len(f) > 1 {
			err = fmt.Errorf("trap %s: found %q behind it, wanted nothing", f[0], f[1])
		}
	case "set", "ours":
		t.Argument, err = argument(f, 1)
	case "in", "bits":
		if t.Argument, err = argument(f, 1); err == nil && len(f) < 3 {
			err = fmt.Errorf("trap %s %s: wanted values", f[0], f[1])
		}
		for _, s := range f[min(2, len(f)):] {
			t.Spans = append(t.Spans, span(s))
		}
	default:
		err = fmt.Errorf("trap %s: no such condition", f[0])
	}
	return t, err
}

func span(s string) Span {
	lo, hi, two := strings.Cut(s, "..")
	if !two {
		hi = lo
	}
	return Span{lo, hi}
}

// values takes the numbers of noted options, NAME=VALUES with commas between, out of their names.
func values(options string) (names string, spans []Span, err error) {
	var list []string
	for _, o := range strings.Split(options, ", ") {
		name, numbers, _ := strings.Cut(o, "=")
		for _, v := range strings.Split(numbers, "+") {
			s := span(v)
			_, err1 := strconv.ParseUint(s.Lo, 0, 32)
			_, err2 := strconv.ParseUint(s.Hi, 0, 32)
			if err1 != nil || err2 != nil {
				return "", nil, fmt.Errorf("%s: found values %q, wanted numbers, for it is noted", name, v)
			}
			spans = append(spans, s)
		}
		list = append(list, name)
	}
	return strings.Join(list, ", "), spans, nil
}

// row takes what stands behind a number, or in a line of options: words up to a kind, the kind, and what it asks for.
func (p *parser) row(f []string) (Row, error) {
	k := slices.IndexFunc(f, func(w string) bool { return slices.Contains([]Kind{Harmless, Saved, Refused, Noted}, Kind(w)) })
	if k < 1 {
		return Row{}, fmt.Errorf("%s: neither saved, refused, noted nor harmless", strings.Join(f, " "))
	}
	r := Row{Line: p.line, Name: strings.Join(f[:k], " "), Kind: Kind(f[k])}
	rest := strings.Join(f[k+1:], " ")
	if rest == "" {
		return r, fmt.Errorf("%s: %s, and no word why", r.Name, r.Kind)
	}
	if r.Kind == Harmless {
		r.Reason = rest
		if known, ok := p.reasons[rest]; ok {
			r.Reason = known
		} else if !strings.Contains(rest, " ") {
			return r, fmt.Errorf("%s: no reason has the name %q", r.Name, rest)
		}
		return r, nil
	}
	part := strings.Split(rest, " | ")
	if len(part) != 3 || slices.Contains(part, "") {
		return r, fmt.Errorf("%s: found %d parts, wanted a state, what sees to it and tests, with | between", r.Name, len(part))
	}
	r.State = part[0]
	if r.Kind == Noted {
		r.How = part[1]
	} else {
		r.Files = strings.Split(part[1], ", ")
	}
	return r, r.takeTests(part[2])
}

func (r *Row) takeTests(s string) error {
	if why, ok := strings.CutPrefix(s, "untested: "); ok {
		r.Untested = why
		return nil
	}
	for _, t := range strings.Split(s, ", ") {
		what, where, _ := strings.Cut(t, " where ")
		name, arg, _ := strings.Cut(what, " ")
		if name == "" || strings.Contains(arg, " ") {
			return fmt.Errorf("%s: %q names no test", r.Name, t)
		}
		r.Tests = append(r.Tests, Test{Name: name, Argument: arg, Where: where})
	}
	return nil
}

// check compares what a call's lines say with each other.
func (c Call) check() error {
	options := c.NotedOptions()
	switch {
	case len(options) > 0 && c.Argument < 0:
		return fmt.Errorf("%s is noted, and no line says in which argument it stands", options[0].Name)
	case len(options) > 0 && c.Kind == Noted:
		return fmt.Errorf("%s is noted, and the whole call is already", options[0].Name)
	case len(c.Traps) > 0 && (c.Kind == Noted || len(options) > 0):
		return fmt.Errorf("it is noted, and trapped for another reason as well")
	}
	return nil
}
