package settings

import (
	"fmt"
	"strings"
)

// entry is a value and where it comes from.
type entry struct {
	value string
	at    Origin
}

// descriptor is a value with what follows it on its line: STORE=/ssd COUNT=3. Of a parameter nothing follows.
type descriptor struct {
	entry
	keys map[string]entry
}

// below is what is said of a key; d may be nil.
func (d *descriptor) below(key string) (entry, bool) {
	if d == nil {
		return entry{}, false
	}
	e, ok := d.keys[key]
	return e, ok
}

// descriptors are the values of a name.
type descriptors struct {
	by   map[string]*descriptor
	last *descriptor // that was set
}

// find is the descriptor with this value; nil: there is none.
func (l *descriptors) find(value string) *descriptor {
	if l == nil {
		return nil
	}
	return l.by[value]
}

// current is the value that was set last.
func (l *descriptors) current() (e entry, ok bool) {
	if l == nil || l.last == nil {
		return e, false
	}
	return l.last.entry, true
}

// layer is what one source says, by name.
type layer map[string]*descriptors

// set adds a value to a name, or to what follows a value that it has already.
func (l layer) set(name, value string, keys map[string]entry, at Origin) {
	list := l[name]
	if list == nil {
		list = &descriptors{by: map[string]*descriptor{}}
		l[name] = list
	}
	d := list.by[value]
	if d == nil {
		d = &descriptor{keys: map[string]entry{}}
	}
	d.entry = entry{value, at}
	for k, e := range keys {
		if e.value == "" {
			delete(d.keys, k)
		} else {
			d.keys[k] = e
		}
	}
	list.by[value], list.last = d, d
}

// add adds what another list has of a name.
func (l layer) add(name string, list *descriptors) {
	for value, d := range list.by {
		l.set(name, value, d.keys, d.at)
	}
}

// readAll fills the layers.
func (r *resolver) readAll() {
	r.vars = lookup(r.src.Variables, r.src.Environ)
	for i := range r.s.layers {
		r.s.layers[i] = layer{}
	}
	for _, s := range r.src.Environ {
		name, value, _ := strings.Cut(s, "=")
		value = r.expanded(name, value, Origin{Source: Environment})
		r.s.environ[name] = value
		if strings.HasPrefix(name, "SCR_") {
			delete(r.s.layers[Environment], name)
			r.s.layers[Environment].set(name, value, nil, Origin{Source: Environment})
		}
	}
	for _, f := range []struct{ what, name, why string }{
		{"the user's file", r.src.UserName, r.src.UserErr}, {"the system's file", r.src.SystemName, r.src.SystemErr},
	} {
		if f.why != "" {
			r.note(Wrong, "", "%s, %s, is not read: %s", f.what, f.name, f.why)
		}
	}
	r.readFile(r.src.User, Origin{UserFile, r.src.UserName, 0})
	r.readFile(r.src.System, Origin{SystemFile, r.src.SystemName, 0})
	for _, s := range r.src.App {
		r.readConfig(s)
	}
	for _, s := range r.src.Run {
		name, value, _ := strings.Cut(s, "=")
		delete(r.s.layers[RunOption], name)
		r.s.layers[RunOption].set(name, value, nil, Origin{Source: RunOption})
	}
}

// lookup makes a table of lists of NAME=value; the last wins.
func lookup(lists ...[]string) map[string]string {
	table := map[string]string{}
	for _, list := range lists {
		for _, s := range list {
			if name, value, ok := strings.Cut(s, "="); ok {
				table[name] = value
			}
		}
	}
	return table
}

// readFile reads lines NAME=value, or KEY=value KEY=value... of a descriptor. Names are those of SCR in any case.
func (r *resolver) readFile(text string, at Origin) {
	l := r.s.layers[at.Source]
	for line := range strings.SplitSeq(text, "\n") {
		at.Line++
		pairs, wrong := parseLine(strings.TrimSuffix(line, "\r"))
		if wrong != "" {
			r.note(Wrong, "", "%v: %s: the line is not used", at, wrong)
			continue
		}
		if len(pairs) == 0 {
			continue
		}
		top, keys, undefined := pairs[0], map[string]entry{}, ""
		for i := range pairs {
			p := &pairs[i]
			p.name = strings.ToUpper(p.name)
			value, missing := expand(p.value, r.vars, true)
			if p.value = value; missing != "" && undefined == "" {
				undefined = missing
			}
			if i > 0 {
				keys[p.name] = entry{p.value, at}
			}
		}
		top.name, top.value = pairs[0].name, pairs[0].value
		switch {
		case undefined != "":
			r.note(Wrong, top.name, "%v: there is no variable %s in the environment: the line is not used", at, undefined)
			continue
		case len(keys) > 0 && !kinds[top.name]:
			r.note(Wrong, top.name, "%v: %s stands behind %s and has no effect there: give it a line of its own", at, pairs[1].name, top.name)
			keys = nil
		}
		if old, twice := l[top.name].current(); twice && !kinds[top.name] {
			r.note(Hint, top.name, "%v: %s stands in line %d, too: the last holds", at, top.name, old.at.Line)
			delete(l, top.name)
		}
		l.set(top.name, top.value, keys, at)
	}
}

// readConfig takes what a program has given to SCR_Config. What it says of a descriptor is added to those that held before.
func (r *resolver) readConfig(s string) {
	q, wrong := parseConfig(s)
	if wrong == "" && q.asked != "" {
		wrong = "a question, wanted NAME=value"
	}
	if wrong != "" {
		name, _, _ := strings.Cut(strings.Trim(s, " "), " ") // what follows may be a secret
		name, _, _ = strings.Cut(name, "=")
		r.note(Wrong, "", "SCR_Config of %.60q: %s", name, wrong)
		return
	}
	at := Origin{Source: Config}
	keys := map[string]entry{}
	for i := range q.pairs {
		p := &q.pairs[i]
		p.value = r.expanded(p.name, p.value, at)
		if i > 0 {
			keys[p.name] = entry{p.value, at}
		}
	}
	top, l := q.pairs[0], r.s.layers[Config]
	if len(keys) == 0 {
		delete(l, top.name)
	}
	if len(keys) > 0 && l[top.name] == nil {
		if held := r.s.layers[SystemFile][top.name]; held != nil { // where the user's file has any, they hold anyway
			l.add(top.name, held)
		}
	}
	if top.value != "" {
		l.set(top.name, top.value, keys, at)
	}
}

// expanded is a value with its variables replaced. As with SCR one that there is not counts as empty, but it is said.
func (r *resolver) expanded(name, value string, at Origin) string {
	text, missing := expand(value, r.vars, false)
	if missing != "" && (at.Source != Environment || strings.HasPrefix(name, "SCR_")) {
		r.note(Hint, name, "%s=%s (%v): there is no variable %s in the environment: it counts as empty", name, shown(name, value), at, missing)
	}
	return text
}

// pair is NAME=value.
type pair struct{ name, value string }

const (
	blanks  = " \t"
	longest = 1023 // bytes of a name or value in a file, as with SCR
)

// parseLine takes a line of a file apart. A comment begins with # where a name would; names and values have neither blanks nor =.
func parseLine(line string) (pairs []pair, wrong string) {
	if strings.ContainsRune(line, 0) {
		return nil, "a zero byte"
	}
	for rest := strings.TrimLeft(line, blanks); rest != "" && rest[0] != '#'; rest = strings.TrimLeft(rest, blanks) {
		var p pair
		p.name, rest = cutToken(rest)
		rest = strings.TrimLeft(rest, blanks)
		switch {
		case p.name == "":
			return nil, "= without a name in front of it"
		case rest == "" || rest[0] != '=':
			return nil, fmt.Sprintf("%.60q without = behind it", p.name)
		}
		p.value, rest = cutToken(strings.TrimLeft(rest[1:], blanks))
		switch {
		case p.value == "" || p.value[0] == '#':
			return nil, fmt.Sprintf("%.60q has no value", p.name)
		case rest != "" && rest[0] == '=':
			return nil, fmt.Sprintf("the value of %.60q has a =, which files cannot have there", p.name)
		case len(p.name) > longest || len(p.value) > longest:
			return nil, fmt.Sprintf("a name or value of more than %d bytes", longest)
		}
		pairs = append(pairs, p)
	}
	return pairs, ""
}

func cutToken(s string) (token, rest string) {
	if i := strings.IndexAny(s, blanks+"="); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// question is a string for SCR_Config, taken apart: pairs, and a name that is asked for.
type question struct {
	pairs []pair
	asked string
}

// parseConfig takes a string for SCR_Config apart. A value ends at a space, and may have = in it; an empty one takes a setting back.
func parseConfig(s string) (q question, wrong string) {
	if strings.ContainsRune(s, 0) {
		return q, "a zero byte"
	}
	for rest := strings.TrimLeft(s, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		if q.asked != "" {
			return q, "a name without = in front of another"
		}
		end := strings.IndexAny(rest, " =")
		if end < 0 {
			end = len(rest)
		}
		name := rest[:end]
		rest = strings.TrimLeft(rest[end:], " ")
		if name == "" {
			return q, "a value without a name"
		}
		if rest == "" || rest[0] != '=' {
			q.asked = name
			continue
		}
		value, after, _ := strings.Cut(strings.TrimLeft(rest[1:], " "), " ")
		q.pairs, rest = append(q.pairs, pair{name, value}), after
	}
	switch {
	case len(q.pairs) == 0 && q.asked == "":
		return q, "no name"
	case q.asked != "" && len(q.pairs) > 1:
		return q, "settings and a question in one"
	}
	return q, ""
}

// expand replaces $NAME and ${NAME}, as SCR does in values; what is neither stays as it is. With escapes, as in files, a backslash takes
// what follows as it is, or makes it a control character. The first variable that there is not is named.
func expand(s string, vars map[string]string, escapes bool) (text, missing string) {
	if !strings.ContainsAny(s, `$\`) {
		return s, ""
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case escapes && s[i] == '\\':
			if i++; i < len(s) {
				b.WriteByte(escaped(s[i]))
			}
		case s[i] == '$':
			name, n := variable(s[i:])
			if n == 0 {
				b.WriteByte('$')
				continue
			}
			value, ok := vars[name]
			if !ok && missing == "" && name != "" {
				missing = name
			}
			b.WriteString(value)
			i += n - 1
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), missing
}

func escaped(c byte) byte {
	if i := strings.IndexByte("abfnrtv", c); i >= 0 {
		return "\a\b\f\n\r\t\v"[i]
	}
	return c
}

// variable is the name at the beginning of a string, and how long it is with $ and braces; 0: there is none.
func variable(s string) (name string, n int) {
	open := strings.HasPrefix(s, "${")
	begin := 1
	if open {
		begin = 2
	}
	end := begin
	for end < len(s) && (s[end] == '_' || '0' <= s[end] && s[end] <= '9' || 'a' <= s[end]|0x20 && s[end]|0x20 <= 'z') {
		end++
	}
	closed := end < len(s) && s[end] == '}'
	switch {
	case open != closed, !open && end == begin:
		return "", 0
	case open:
		return s[begin:end], end + 1
	}
	return s[begin:end], end
}

// distance is how many letters must be changed, inserted or left out to make one name of the other, up to most.
func distance(a, b string, most int) int {
	if d := len(a) - len(b); d >= most || -d >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// UserPath is the user's file for a program with this working directory, environment and strings for SCR_Config, and whether it was named:
// what SCR_CONF_FILE says, else .scrconf in the prefix.
func UserPath(src Sources) (path string, named bool) {
	r := &resolver{src: Sources{Dir: src.Dir, Environ: src.Environ, Variables: src.Variables, App: src.App}, typed: map[string]value{},
		s: &Settings{environ: map[string]string{}}}
	r.readAll()
	r.settle(*find("SCR_PREFIX"))
	r.settle(*find("SCR_CONF_FILE"))
	if file := r.typed["SCR_CONF_FILE"].text; file != "" {
		return file, true
	}
	return join(r.typed["SCR_PREFIX"].text, ".scrconf"), false
}

// SystemPath is the system's file for a program with this environment, and whether it was named: what SCR_CONFIG_FILE says, else SCR's.
func SystemPath(src Sources) (path string, named bool) {
	r := &resolver{src: Sources{Dir: src.Dir, Environ: src.Environ, Variables: src.Variables}, typed: map[string]value{},
		s: &Settings{environ: map[string]string{}}}
	r.readAll()
	r.settle(*find("SCR_CONFIG_FILE"))
	v := r.typed["SCR_CONFIG_FILE"]
	return v.text, v.at.Source != BuiltIn
}
