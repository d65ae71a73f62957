// Package settings resolves the configuration of programs that hand files to be kept: SCR's parameters, by SCR's names, meanings and
// order of precedence, and its descriptors of stores, checkpoints and groups.
//
// It guarantees: every parameter that SCR 3.1 documents has a row in one table, with its built-in value and what becomes of it here;
// every value has an origin; what is unknown, not understood, or has no effect is told in a sentence, and what cannot be had is refused by
// name. Nothing is read but what Sources holds, and no text whatsoever makes it fail.
//
// A parameter has the value of the first of these that gives one: the environment, the user's file, SCR_Config, the system's file, what
// options of `byssus run` imply, what is built in. A value that is not understood is passed over. Descriptors of a kind come all from one
// of the files, or from SCR_Config.
package settings

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Sources are where settings come from. A list of NAME=value that names something twice means the last.
type Sources struct {
	Dir        string   // the working directory of the program that asks, absolute: the prefix, unless another is set
	Environ    []string // NAME=value: the environment of the program that asks. Of it parameters are what begins with SCR_
	Variables  []string // NAME=value: where variables in values are looked up that Environ has not
	User       string   // text of the user's file: .scrconf in the prefix, or what SCR_CONF_FILE names
	UserName   string   // what messages call it
	UserErr    string   // why it could not be read; empty: it was, or there is none
	App        []string // what the program has given to SCR_Config, in that order: NAME=value, NAME= to take it back
	System     string   // text of the system's file, scr.conf
	SystemName string
	SystemErr  string
	Run        []string // NAME=value: what options of byssus run imply, as SCR_CACHE_BYPASS=0 by --cache
}

// Source is a kind of origin.
type Source int

// Origins, those first that win.
const (
	Environment Source = iota
	UserFile
	Config // SCR_Config
	SystemFile
	RunOption
	BuiltIn
)

// Origin is where a value comes from.
type Origin struct {
	Source Source
	File   string // of UserFile and SystemFile
	Line   int
}

func (o Origin) String() string {
	switch o.Source {
	case Environment:
		return "environment"
	case UserFile, SystemFile:
		return fmt.Sprintf("%s:%d", o.File, o.Line)
	case Config:
		return "SCR_Config"
	case RunOption:
		return "byssus run"
	}
	return "built-in"
}

// Level is how much a note matters.
type Level int

// Levels of notes.
const (
	Hint    Level = iota // something has no effect, or is not known
	Wrong                // a value is not understood, and something else is used
	Refused              // what is asked for cannot be had: the program must not begin
)

func (l Level) String() string { return [...]string{"hint", "wrong", "refused"}[l] }

// Note is a sentence for the user.
type Note struct {
	Level Level
	Name  string // what it is about; empty: a line that is no setting
	Text  string
}

// Setting is a parameter and its value.
type Setting struct {
	Name     string
	Value    string
	Origin   Origin
	NoEffect string // why it has none here, and what does it instead; empty: it has
}

// Settings are all settings, resolved.
type Settings struct {
	list        []Setting // by name
	descriptors []Setting // lines of STORE, CKPT and GROUPS that are used
	plan        Plan
	environ     map[string]string
	layers      [BuiltIn]layer
}

// List returns every documented parameter, and what else is set, by name.
func (s *Settings) List() []Setting { return slices.Clone(s.list) }

// Get returns one of the list, by its name with or without SCR_, in any case.
func (s *Settings) Get(name string) (Setting, bool) {
	for _, try := range []string{name, strings.ToUpper(name), prefixed(strings.ToUpper(name))} {
		if i, ok := slices.BinarySearchFunc(s.list, try, func(s Setting, name string) int { return cmp.Compare(s.Name, name) }); ok {
			return s.list[i], true
		}
	}
	return Setting{}, false
}

// Descriptors returns the lines that hold, as settings called STORE=/ssd, CKPT=0, GROUPS=host, whose values are what follows.
func (s *Settings) Descriptors() []Setting { return slices.Clone(s.descriptors) }

// InForce returns NAME=value of all that has an effect and a value, by name.
func (s *Settings) InForce() []string {
	var list []string
	for _, set := range s.list {
		if set.NoEffect == "" && set.Value != "" {
			list = append(list, set.Name+"="+set.Value)
		}
	}
	return list
}

// Plan returns the values that decide what happens.
func (s *Settings) Plan() Plan { return s.plan }

// Query answers a question to SCR_Config: the value of NAME, or of KEY in "STORE=/ssd KEY". As there, what is only built in has none, nor
// has a name with several values.
func (s *Settings) Query(question string) (string, bool) {
	q, wrong := parseConfig(question)
	if wrong != "" || q.asked == "" {
		return "", false
	}
	if len(q.pairs) == 0 {
		if v, ok := s.environ[q.asked]; ok {
			return v, true
		}
	}
	for _, l := range s.layers {
		list := l[name(q)]
		e, ok := list.current()
		switch {
		case !ok:
		case len(q.pairs) == 0:
			return e.value, len(list.by) == 1
		default:
			e, ok = list.find(q.pairs[0].value).below(q.asked)
			return e.value, ok
		}
	}
	return "", false
}

func name(q question) string {
	if len(q.pairs) > 0 {
		return q.pairs[0].name
	}
	return q.asked
}

// Nearest is the documented parameter whose name is most like one that is not; empty: none is.
func Nearest(name string) string {
	name = strings.ToUpper(name)
	best, least := "", 4
	for _, p := range parameters {
		for _, try := range []string{name, prefixed(name)} {
			if d := distance(try, p.name, least); d < least && 3*d < len(try) {
				best, least = p.name, d
			}
		}
	}
	return best
}

func prefixed(name string) string { return "SCR_" + strings.TrimPrefix(name, "SCR_") }

// Resolve resolves settings. The notes about what could not be read come first, then those about files, then the rest by name.
func Resolve(src Sources) (*Settings, []Note) {
	r := &resolver{src: src, typed: map[string]value{}, s: &Settings{environ: map[string]string{}}}
	r.readAll()
	for _, p := range parameters {
		r.settle(p)
	}
	r.unknown()
	slices.SortFunc(r.s.list, func(a, b Setting) int { return cmp.Compare(a.Name, b.Name) })
	r.plan()
	if r.left > 0 {
		r.notes = append(r.notes, Note{Wrong, "", fmt.Sprintf("%d more notes are left out", r.left)})
	}
	return r.s, r.notes
}

// resolver is what Resolve knows while it works.
type resolver struct {
	src   Sources
	s     *Settings
	vars  map[string]string
	typed map[string]value // of each parameter
	notes []Note
	left  int             // notes that were left out
	names map[string]bool // of groups
}

// mostNotes is how many notes are made of hostile text.
const mostNotes = 100

// note adds a note. Its text is made only if there is room.
func (r *resolver) note(level Level, name, format string, args ...any) {
	if len(r.notes) >= mostNotes && (level != Refused || len(r.notes) >= 2*mostNotes) {
		r.left++
		return
	}
	for i, a := range args {
		if s, ok := a.(string); ok && len(s) > 200 {
			args[i] = s[:200] + "..."
		}
	}
	r.notes = append(r.notes, Note{level, name, fmt.Sprintf(format, args...)})
}

// late is text that is made only when it is written.
type late func() string

func (l late) String() string { return l() }

// meant asks whether a name was meant.
func meant(name string) string {
	if name == "" {
		return ""
	}
	return ": did you mean " + name + "?"
}

// shown is how a value is shown: not at all, if it is a secret.
func shown(name, value string) string {
	if p := find(name); p != nil && p.secret {
		return "(not shown)"
	}
	return value
}

// settle finds the value of a parameter.
func (r *resolver) settle(p parameter) {
	set := Setting{Name: p.name, Value: p.builtin, Origin: Origin{Source: BuiltIn}, NoEffect: p.instead}
	if p.name == "SCR_PREFIX" {
		set.Value = path.Clean(r.src.Dir)
	}
	v, wrong := p.parse(set.Value, r.src.Dir)
	if wrong != "" {
		v = value{text: set.Value} // N/A
	}
	var bad []entry
	var wanted []string
	for _, l := range r.s.layers {
		e, ok := l[p.name].current()
		if !ok {
			continue
		}
		if e.value == "" && (p.kind == directory || p.kind == text) {
			continue // set to nothing is not set
		}
		if p.only(e.at) {
			r.note(Hint, p.name, "%s=%s (%v) has no effect there: it is looked for before that is read", p.name, e.value, e.at)
			continue
		}
		found, wrong := p.parse(e.value, r.src.Dir)
		if why, no := p.refused[found.text]; no && wrong == "" {
			r.note(Refused, p.name, "%s=%s (%v): %s", p.name, e.value, e.at, why)
			continue
		}
		if wrong != "" {
			bad, wanted = append(bad, e), append(wanted, wrong)
			continue
		}
		v, set.Value, set.Origin = found, found.text, e.at
		break
	}
	for i, e := range bad {
		r.note(Wrong, p.name, "%s=%s (%v): wanted %s; %s is used instead (%v)", p.name, shown(p.name, e.value), e.at, wanted[i], orNone(set.Value), set.Origin)
	}
	if set.Origin.Source == RunOption {
		set.NoEffect = "" // it is what holds
	}
	if set.Origin.Source < RunOption && set.Value != p.builtin && p.instead != "" {
		r.note(Hint, p.name, "%s=%s (%v) has no effect: %s", p.name, shown(p.name, set.Value), set.Origin, p.instead)
	}
	v.at = set.Origin
	r.typed[p.name] = v
	set.Value = shown(p.name, set.Value)
	if set.Origin.Source == BuiltIn && p.secret {
		set.Value = ""
	}
	r.s.list = append(r.s.list, set)
}

func orNone(value string) string {
	if value == "" {
		return "none"
	}
	return value
}

// unknown names what is set and no parameter. It stays among the settings: programs may ask SCR_Config for it.
func (r *resolver) unknown() {
	seen := map[string]bool{}
	for _, l := range r.s.layers {
		for _, name := range slices.Sorted(maps.Keys(l)) {
			if find(name) != nil || kinds[name] || seen[name] {
				continue
			}
			seen[name] = true
			e, _ := l[name].current()
			r.s.list = append(r.s.list, Setting{Name: name, Value: e.value, Origin: e.at, NoEffect: "it is not known"})
			r.note(Hint, name, "%s (%v) is no parameter of SCR%v", name, e.at, late(func() string { return meant(Nearest(name)) }))
		}
	}
}
