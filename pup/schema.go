package pup

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
)

// A table is the schema of a type and of all types that it is made of, in text: the expression of the type itself on the
// first line, then a line for each type with a name, sorted.
//
//	[]sim.Cell
//	sim.Cell 3 struct ID int64; Label string; Next *sim.Cell
//	sim.Grid 1 is [][]float64
//	sim.Mesh 2 visits Cells []sim.Cell; - uint64
//
// Words are those of Go, int, uint and uintptr as int64 and uint64. "visits" stands for types with code of their own: what
// it visits in a zero value, "-" for variables that are no fields.
type table struct {
	text    string
	bytes   []byte // the same, of the program's own types only
	hash    uint64
	root    string
	entries map[string]*line
	infos   map[string]*typeInfo // of the program's own types only
	last    atomic.Pointer[sealed]
}

// sealed is the checksum of a header: small values of one type mostly have the same again.
type sealed struct {
	flags uint16
	body  uint64
	sum   uint64
}

// line is a named type of a table.
type line struct {
	name    string
	version int
	form    string // "struct", "is", "visits" or "binary"
	fields  []fieldLine
}

type fieldLine struct{ name, expr string }

func (l *line) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d %s", l.name, l.version, l.form)
	for i, f := range l.fields {
		if i > 0 {
			b.WriteByte(';')
		}
		if f.name != "" {
			b.WriteString(" " + f.name)
		}
		b.WriteString(" " + f.expr)
	}
	return b.String()
}

// schemaOf makes the table of a type, once.
func (i *typeInfo) schemaOf() (*table, error) {
	if t := i.schema.Load(); t != nil {
		return t, nil
	}
	t := &table{entries: map[string]*line{}, infos: map[string]*typeInfo{}}
	t.root = t.expr(i)
	if err := t.clash(); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(t.root + "\n")
	for _, name := range slices.Sorted(maps.Keys(t.entries)) {
		b.WriteString(t.entries[name].String() + "\n")
	}
	t.text = b.String()
	t.bytes = []byte(t.text)
	sum := sha256.Sum256(t.bytes)
	t.hash = binary.LittleEndian.Uint64(sum[:])
	i.schema.Store(t)
	return t, nil
}

// schemaOf is the schema of what v points to, if there is any and it was needed before.
func (k *registry) schemaOf(v any) *table {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer {
		return nil
	}
	i, ok := k.infos.Load(t.Elem())
	if !ok {
		return nil
	}
	return i.(*typeInfo).schema.Load()
}

// clash reports two types of one name: types declared in functions have none of their own.
func (t *table) clash() error {
	for name, i := range t.infos {
		if i == nil {
			return fmt.Errorf("%w: two types are called %s: register one under another name", ErrType, name)
		}
	}
	return nil
}

// expr is how a schema says a type, and puts what it names into the table.
func (t *table) expr(i *typeInfo) string {
	switch {
	case i.special != "" && i.special != "binary":
		return i.special
	case i.class == RefusedClass:
		return "refused"
	case i.name != "":
		t.enter(i)
		return i.name
	}
	return t.unnamed(i.t)
}

func (t *table) unnamed(r reflect.Type) string {
	of := func(r reflect.Type) string { return t.expr(known.info(r)) }
	switch r.Kind() {
	case reflect.Int:
		return "int64"
	case reflect.Uint, reflect.Uintptr:
		return "uint64"
	case reflect.Pointer:
		return "*" + of(r.Elem())
	case reflect.Slice:
		return "[]" + of(r.Elem())
	case reflect.Array:
		return fmt.Sprintf("[%d]%s", r.Len(), of(r.Elem()))
	case reflect.Map:
		return "map[" + of(r.Key()) + "]" + of(r.Elem())
	case reflect.Struct:
		var list []string
		for _, f := range t.structFields(r) {
			list = append(list, f.name+" "+f.expr)
		}
		return "struct{" + strings.Join(list, ",") + "}"
	}
	return r.Kind().String()
}

func (t *table) structFields(r reflect.Type) []fieldLine {
	var list []fieldLine
	for _, f := range known.info(r).visited() {
		list = append(list, fieldLine{f.name, t.expr(f.info)})
	}
	return list
}

// enter puts a named type into the table.
func (t *table) enter(i *typeInfo) {
	if other, ok := t.infos[i.name]; ok {
		if other != nil && other.t != i.t {
			t.infos[i.name] = nil
		}
		return
	}
	l := &line{name: i.name, version: 1}
	if i.reg != nil {
		l.version = i.reg.version
	}
	t.entries[i.name], t.infos[i.name] = l, i
	switch {
	case i.special == "binary":
		l.form = "binary"
	case i.hand:
		l.form, l.fields = "visits", t.visits(i)
	case i.t.Kind() == reflect.Struct:
		l.form, l.fields = "struct", t.structFields(i.t)
	default:
		l.form, l.fields = "is", []fieldLine{{"", t.unnamed(i.t)}}
	}
}

// visits lists what a type's own code visits in a zero value.
func (t *table) visits(i *typeInfo) (list []fieldLine) {
	v := reflect.New(i.t)
	d := &describer{table: t, root: i.t, base: v.Pointer()}
	p := &Stream{state: state{mode: observing, watch: d, maxDepth: 1 << 10}}
	p.push(frame{t: i.t, val: v.UnsafePointer()})
	defer func() {
		if recover() != nil {
			list = append(d.list, fieldLine{"-", "code that needs a value"})
		}
	}()
	i.visit(p, v.UnsafePointer())
	return d.list
}

// parseTable reads a table that somebody stored.
func parseTable(text string) (*table, error) {
	t := &table{text: text, entries: map[string]*line{}}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	t.root = lines[0]
	for _, s := range lines[1:] {
		l, err := parseLine(s)
		if err != nil {
			return nil, err
		}
		t.entries[l.name] = l
	}
	return t, nil
}

func parseLine(s string) (*line, error) {
	word := strings.SplitN(s, " ", 4)
	l := &line{}
	if len(word) < 3 {
		return nil, fmt.Errorf("%w: schema line %.100q", ErrData, s)
	}
	if _, err := fmt.Sscanf(word[1], "%d", &l.version); err != nil || l.version < 1 {
		return nil, fmt.Errorf("%w: schema line %.100q: version %q", ErrData, s, word[1])
	}
	l.name, l.form = word[0], word[2]
	if len(word) < 4 {
		return l, nil
	}
	if l.form == "is" {
		l.fields = []fieldLine{{"", word[3]}}
		return l, nil
	}
	for _, f := range strings.Split(word[3], "; ") {
		name, expr, ok := strings.Cut(f, " ")
		if !ok {
			return nil, fmt.Errorf("%w: schema line %.100q: field %q", ErrData, s, f)
		}
		l.fields = append(l.fields, fieldLine{name, expr})
	}
	return l, nil
}
