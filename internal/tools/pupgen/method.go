package pupgen

import (
	"fmt"
	"go/types"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A generator writes the methods of one package's types.
type generator struct {
	*loaded
	names   *names
	targets map[*types.TypeName]*target
	plains  map[types.Type]layout
	faults  []fault
}

// method writes the method of a type.
func (g *generator) method(w *writer, t *target) {
	n := g.names
	receiver := t.name()
	if params := t.named.TypeParams(); params.Len() > 0 {
		var list []string
		for p := range params.TypeParams() {
			list = append(list, p.Obj().Name())
		}
		receiver += "[" + strings.Join(list, ", ") + "]"
	}
	old := fmt.Sprintf("if %sOld(%s, %s) {\nreturn\n}", n.gen(), n.p, n.x)
	what, blocks, body := "the value of "+t.name(), []string(nil), []string(nil)
	v := &visitor{generator: g, pos: t.spec.Pos(), object: t.name()}
	s, isStruct := t.named.Underlying().(*types.Struct)
	apart := false // visited field by field
	switch whole := g.whole(t); {
	case g.hidden(t.named.Underlying()):
		body = []string{v.converted(t)}
	case whole != "":
		what, body = t.name()+whole, []string{old, fmt.Sprintf("%sPlain(%s, %s)", n.pup, n.p, n.x)}
	case isStruct:
		apart, what = true, "every field of "+t.name()
		blocks, body = g.fields(t, s)
		body = append([]string{old}, body...)
	default:
		body = []string{old, v.statement(t.named.Underlying(), place{n.x, n.x})}
		if v.unspelled {
			v.unspelled = false
			body = []string{v.converted(t)}
		}
	}
	switch len(blocks) {
	case 0:
	case 1:
		w.f("// Fields of %s that lie side by side in memory.\nvar %s\n", t.name(), blocks[0])
	default:
		w.f("// Fields of %s that lie side by side in memory.\nvar (\n%s\n)\n", t.name(), strings.Join(blocks, "\n"))
	}
	w.f("// PUP visits %s.\nfunc (%s *%s) PUP(%s *%sStream) {", what, n.x, receiver, n.p, n.pup)
	for _, line := range body {
		w.f("%s", line)
	}
	w.f("}\n")
	if apart {
		g.short(w, t, s)
	}
}

// whole says how a type is copied at once, or "".
func (g *generator) whole(t *target) string {
	size := int64(0)
	if t.named.TypeParams().Len() == 0 && g.layout(t.named.Underlying()).dense {
		size = sizes().Sizeof(t.named)
	}
	if _, basic := t.named.Underlying().(*types.Basic); basic || size == 0 {
		return ""
	}
	return fmt.Sprintf(" in one copy of %d bytes", size)
}

// hidden says that a type is a structure with fields that only another package can name: type Stamp time.Time.
func (g *generator) hidden(t types.Type) bool {
	s, ok := t.(*types.Struct)
	if !ok {
		return false
	}
	for f := range s.Fields() {
		if !f.Exported() && f.Pkg() != g.pkg.Types {
			return true
		}
	}
	return false
}

// converted visits a type as the type that it was declared from. What is stored need not be its fields then, so no
// rules about fields can read old data: Old is not called.
func (v *visitor) converted(t *target) string {
	from := v.pkg.TypesInfo.TypeOf(t.spec.Type)
	x := fmt.Sprintf("(*%s)(%s)", v.spell(from), v.names.x)
	return v.statement(from, place{x, x})
}

// fields writes the blocks of a structure, and the statements that visit its fields.
func (g *generator) fields(t *target, s *types.Struct) (blocks, body []string) {
	n := g.names
	lines := make([]string, s.NumFields())
	before := len(g.faults)
	for i := range s.NumFields() {
		f := s.Field(i)
		if f.Name() == "_" {
			continue
		}
		v := &visitor{generator: g, pos: f.Pos(), object: t.name() + "." + f.Name()}
		field := n.x + "." + f.Name()
		switch s := g.skipOf(s, i); {
		case s.wrong != "":
			v.refuse("%s", s.wrong)
		case s.is:
			lines[i] = fmt.Sprintf("%sSkip(%s, &%s, %q)", n.pup, n.p, field, s.reason)
		default:
			lines[i] = v.statement(f.Type(), place{"&" + field, field})
		}
	}
	if len(g.faults) > before {
		return nil, nil
	}
	for i := 0; i < s.NumFields(); {
		end := g.block(t, s, i)
		if end-i < 2 {
			if lines[i] != "" {
				body = append(body, lines[i])
			}
			i++
			continue
		}
		name := n.variable("pup" + upper(t.name()))
		blocks = append(blocks, g.blockOf(name, t, s, i, end))
		body = append(body, fmt.Sprintf("%s.PUP(%s, %s) // %s", name, n.p, n.x, blockNote(s, i, end)))
		i = end
	}
	return blocks, body
}

// block is the end of the run of fields, from the i-th on, that lie side by side without padding.
func (g *generator) block(t *target, s *types.Struct, i int) int {
	if t.named.TypeParams().Len() > 0 {
		return i
	}
	offsets := sizes().Offsetsof(fieldsOf(s))
	for end := i; ; end++ {
		if end == s.NumFields() || s.Field(end).Name() == "_" || g.skipOf(s, end).is || !g.layout(s.Field(end).Type()).dense {
			return end
		}
		if end > i && offsets[end] != offsets[end-1]+sizes().Sizeof(s.Field(end-1).Type()) {
			return end
		}
	}
}

// blockOf declares the variable of a block, over several lines when it has many fields.
func (g *generator) blockOf(name string, t *target, s *types.Struct, i, end int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s = %sBlockOf[%s](", name, g.names.pup, t.name())
	width := b.Len()
	for ; i < end; i++ {
		arg := strconv.Quote(s.Field(i).Name())
		if width += len(arg) + 2; width > 100 {
			b.WriteString("\n")
			width = len(arg) + 8
		}
		b.WriteString(arg)
		if i < end-1 {
			b.WriteString(", ")
		}
	}
	return b.String() + ")"
}

func blockNote(s *types.Struct, i, end int) string {
	size := int64(0)
	var names []string
	for ; i < end; i++ {
		names = append(names, s.Field(i).Name())
		size += sizes().Sizeof(s.Field(i).Type())
	}
	list := strings.Join(names, ", ")
	if len(list) > 60 {
		list = fmt.Sprintf("%s to %s, %d fields", names[0], names[len(names)-1], len(names))
	}
	return fmt.Sprintf("%s: one copy of %d bytes", list, size)
}

// upper makes a name that follows another part of a name.
func upper(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}
