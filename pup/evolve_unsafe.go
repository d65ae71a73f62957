package pup

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// plan is how data of an older version of a type is read.
type plan struct {
	info    *typeInfo
	version int
	hand    bool // the type's own code asks for the version
	data    *table
	steps   []oldField
	fresh   []field // fields that the data does not have
}

// oldField is a field in the data.
type oldField struct {
	expr string
	to   *field // where it goes now; nil: it is dropped
	wide bool   // its type was narrower
}

// Version returns the version of T that is packed, or that is in the data which is unpacked.
func Version[T any](p *Stream) int {
	if p.mode == failed {
		return 1
	}
	i := infoFor[T](p)
	if p.evolving {
		if o := p.old[i]; o != nil {
			return o.version
		}
	}
	if i.reg == nil {
		return 1
	}
	return i.reg.version
}

func (p *Stream) readOld(t reflect.Type, v unsafe.Pointer) bool {
	if p.mode == failed {
		return p.probe == nil || !p.probe.old(t, v)
	}
	return p.visitOld(p.infoOf(t).info, v)
}

// visitOld reads a value of another version by its plan; it tells whether there was one.
func (p *Stream) visitOld(i *typeInfo, v unsafe.Pointer) bool {
	o := p.old[i]
	switch {
	case o != nil && o.hand:
		return false
	case o != nil:
		p.follow(o, v)
		return true
	case i.layout != nil && (i.t.Kind() == reflect.Struct || i.t.Kind() == reflect.Array):
		p.walk(i.t, v)
		return true
	}
	return false
}

// walk visits a plain value part by part, because a part may be of another version.
func (p *Stream) walk(t reflect.Type, v unsafe.Pointer) {
	if t.Kind() == reflect.Array {
		e := known.info(t.Elem())
		p.each(v, t.Len(), t.Elem().Size(), e.value)
		return
	}
	for _, f := range known.info(t).visited() {
		p.value(f.info, unsafe.Add(v, f.off))
	}
}

// visited lists the fields of a structure that are visited.
func (i *typeInfo) visited() []field {
	if i.layout == nil {
		return i.fields
	}
	var list []field
	for n := range i.t.NumField() {
		f := i.t.Field(n)
		if _, skip := skipTag(f); !skip && f.Name != "_" {
			list = append(list, field{f.Name, f.Offset, known.info(f.Type)})
		}
	}
	return list
}

// follow reads a structure as the data has it.
func (p *Stream) follow(o *plan, v unsafe.Pointer) {
	o.refresh(v)
	r := reader{p, o.data}
	for _, s := range o.steps {
		switch {
		case p.mode == failed:
			return
		case s.to == nil:
			r.drop(s.expr)
		case s.wide:
			r.widen(s.expr, s.to.info.t, unsafe.Add(v, s.to.off))
		default:
			p.value(s.to.info, unsafe.Add(v, s.to.off))
		}
	}
}

// refresh gives the fields that the data does not have what a new value has there.
func (o *plan) refresh(v unsafe.Pointer) {
	if len(o.fresh) == 0 {
		return
	}
	fresh := reflect.New(o.info.t).UnsafePointer()
	if o.info.init != nil {
		o.info.init(fresh)
	}
	for _, f := range o.fresh {
		reflect.NewAt(f.info.t, unsafe.Add(v, f.off)).Elem().Set(reflect.NewAt(f.info.t, unsafe.Add(fresh, f.off)).Elem())
	}
}

// compareRoot compares the schema in a header with the program's type.
func (p *Stream) compareRoot(i *typeInfo, h *header) error {
	mine, err := i.schemaOf()
	if err != nil {
		return err
	}
	if h.hash == mine.hash && string(h.schema) == mine.text {
		return nil
	}
	return p.compare(i, string(h.schema))
}

// compare finds out how data with a schema is read into a type of the program: as it is, by plans, or not at all.
func (p *Stream) compare(i *typeInfo, text string) error {
	mine, err := i.schemaOf()
	if err != nil || mine.text == text {
		return err
	}
	data, err := parseTable(text)
	if err != nil {
		return err
	}
	data.translate()
	if data.root != mine.root {
		return fmt.Errorf("%w: the data holds a %s, want a %s", ErrSchema, data.root, mine.root)
	}
	for name, was := range data.entries {
		if i, now := mine.find(name, was); now != nil && was.String() != now.String() {
			o, err := planFor(i, was, now)
			if err != nil {
				return err
			}
			o.data = data
			if p.old == nil {
				p.old = map[*typeInfo]*plan{}
			}
			p.old[i], p.evolving, p.direct = o, true, false
		}
	}
	return nil
}

// find returns what the program has for a type of the data: as a part of the value, or, when a field was removed that
// only the code of its type can read, as a type that is still registered.
func (t *table) find(name string, was *line) (*typeInfo, *line) {
	if now := t.entries[name]; now != nil || was.form != "visits" {
		return t.infos[name], now
	}
	r := known.named(name)
	if r == nil {
		return nil, nil
	}
	i := known.info(r.t)
	own, err := i.schemaOf()
	if err != nil {
		return nil, nil
	}
	return i, own.entries[name]
}

// translate puts today's names of types for those that the data uses.
func (t *table) translate() {
	names := map[string]string{}
	for name := range t.entries {
		if r := known.named(name); r != nil && r.name != name {
			names[name] = r.name
		}
	}
	if len(names) == 0 {
		return
	}
	t.root = renameTypes(t.root, names)
	entries := map[string]*line{}
	for name, l := range t.entries {
		if now := names[name]; now != "" {
			l.name = now
		}
		for i := range l.fields {
			l.fields[i].expr = renameTypes(l.fields[i].expr, names)
		}
		entries[l.name] = l
	}
	t.entries = entries
}

// renameTypes replaces names in a type expression.
func renameTypes(expr string, names map[string]string) string {
	var b strings.Builder
	for len(expr) > 0 {
		n := strings.IndexAny(expr, "*[]{}, ")
		if n < 0 {
			n = len(expr)
		}
		for name := range names { // a name with type arguments holds brackets of its own
			if len(name) > n && strings.HasPrefix(expr, name) {
				n = len(name)
			}
		}
		word := expr[:n]
		if now := names[word]; now != "" {
			word = now
		}
		b.WriteString(word)
		if expr = expr[n:]; n == 0 {
			b.WriteByte(expr[0])
			expr = expr[1:]
		}
	}
	return b.String()
}

// planFor says how a value of version was is read as version now, if the rules allow it.
func planFor(i *typeInfo, was, now *line) (*plan, error) {
	if was.version > now.version {
		return nil, fmt.Errorf("%w: %s: the data has version %d, this program knows up to %d%s", ErrSchema, now.name,
			was.version, now.version, difference(was, now))
	}
	if was.form == "visits" && now.form == "visits" && was.version < now.version {
		return &plan{info: i, version: was.version, hand: true}, nil
	}
	if was.form != "struct" || now.form != "struct" {
		return nil, fmt.Errorf("%w: %s, version %d in the data, %d here:\n  data %s\n  here %s", ErrSchema, now.name,
			was.version, now.version, was, now)
	}
	list, why := migrate(i.changes(), was, now)
	if why != "" {
		return nil, fmt.Errorf("%w: %s, version %d in the data, %d here: %s%s", ErrSchema, now.name, was.version,
			now.version, why, difference(was, now))
	}
	fields := i.visited()
	o := &plan{info: i, version: was.version}
	for _, f := range list {
		at := slices.IndexFunc(fields, func(x field) bool { return x.name == f.now && f.now != "" })
		switch {
		case f.was == "" && f.now == "": // came and went since
		case f.was == "" && at >= 0:
			o.fresh = append(o.fresh, fields[at])
		case at < 0:
			o.steps = append(o.steps, oldField{expr: f.was})
		default:
			o.steps = append(o.steps, oldField{f.was, &fields[at], f.was != f.expr})
		}
	}
	return o, nil
}

func (i *typeInfo) changes() []change {
	if i.reg == nil {
		return nil
	}
	return i.reg.changes
}

// moved is a field on its way through the versions.
type moved struct {
	now  string // its name, "" when it was removed
	expr string // its type, "" when it was added: the rule does not say
	was  string // its type in the data, "" when it is not there
}

// migrate applies the changes that are younger than the data, oldest first, to the data's fields; what comes out must be
// the program's fields. It answers with what does not fit.
func migrate(changes []change, was, now *line) (list []moved, why string) {
	for _, f := range was.fields {
		list = append(list, moved{f.name, f.expr, f.expr})
	}
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].since == changes[0].since {
			n++
		}
		if since := changes[0].since; since > was.version && since <= now.version {
			if list, why = applyVersion(list, changes[:n]); why != "" {
				return nil, why
			}
		}
		changes = changes[n:]
	}
	return list, unfit(list, now)
}

// applyVersion applies the changes of one version, all at once: names may be exchanged.
func applyVersion(list []moved, changes []change) ([]moved, string) {
	at := make([]int, len(changes))
	for n, c := range changes {
		name := c.field
		if c.kind == renamed {
			name = c.was
		}
		at[n] = slices.IndexFunc(list, func(m moved) bool { return m.now == name && name != "" })
		if c.kind == widened && at[n] < 0 { // the new name of a field that is renamed in the same version
			for k := range n {
				if changes[k].kind == renamed && changes[k].field == name {
					at[n] = at[k]
				}
			}
		}
		if (at[n] >= 0) == (c.kind == added) {
			return nil, fmt.Sprintf("the rule of version %d for %s does not fit the data", c.since, name)
		}
	}
	for n, c := range changes {
		switch c.kind {
		case added:
			list = append(list, moved{now: c.field})
		case removed:
			list[at[n]].now = ""
		case renamed:
			list[at[n]].now = c.field
		case widened:
			m := &list[at[n]]
			if from := goExpr(c.was); m.expr != from && m.expr != "" {
				return nil, fmt.Sprintf("%s is a %s in the data, the rule of version %d says %s", c.field, m.expr, c.since, from)
			}
			m.expr = ""
		}
	}
	return list, ""
}

// unfit says what differs between the fields after all rules and those of the program.
func unfit(list []moved, now *line) string {
	for _, f := range now.fields {
		at := slices.IndexFunc(list, func(m moved) bool { return m.now == f.name })
		if at < 0 {
			return "no rule for what differs"
		}
		m := &list[at]
		if m.expr != "" && m.expr != f.expr {
			return "no rule for what differs"
		}
		if m.was != "" && m.was != f.expr && !widens(m.was, f.expr) {
			return fmt.Sprintf("%s: a %s does not hold every %s", f.name, f.expr, m.was)
		}
		m.expr = f.expr
	}
	for _, m := range list {
		if m.now != "" && !slices.ContainsFunc(now.fields, func(f fieldLine) bool { return f.name == m.now }) {
			return "no rule for what differs"
		}
	}
	return ""
}

// goExpr is a Go type's name as schemas have it.
func goExpr(name string) string {
	at := strings.LastIndexByte(name, ']') + 1
	switch name[at:] {
	case "int":
		return name[:at] + "int64"
	case "uint", "uintptr":
		return name[:at] + "uint64"
	case "byte":
		return name[:at] + "uint8"
	case "rune":
		return name[:at] + "int32"
	}
	return name
}

// difference lists, field by field, how the data differs from the program's type.
func difference(was, now *line) string {
	var b strings.Builder
	for _, f := range was.fields {
		at := slices.IndexFunc(now.fields, func(x fieldLine) bool { return x.name == f.name })
		if at < 0 {
			fmt.Fprintf(&b, "\n  %.100s %.100s: in the data, not here", f.name, f.expr)
		} else if now.fields[at].expr != f.expr {
			fmt.Fprintf(&b, "\n  %s: %.100s in the data, %.100s here", f.name, f.expr, now.fields[at].expr)
		}
	}
	for _, f := range now.fields {
		if !slices.ContainsFunc(was.fields, func(x fieldLine) bool { return x.name == f.name }) {
			fmt.Fprintf(&b, "\n  %s %s: here, not in the data", f.name, f.expr)
		}
	}
	if b.Len() == 0 {
		b.WriteString("\n  the same fields in another order")
	}
	return b.String()
}
