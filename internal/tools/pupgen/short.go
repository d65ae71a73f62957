package pupgen

import (
	"fmt"
	"go/types"
	"strings"
)

// Limits of what short code is written for: with larger structures the dispatch over the fields costs nothing.
const (
	shortFields = 24
	shortPlain  = 512 // bytes of fields without pointers
)

// short writes code that packs values of a structure of numbers, strings and slices of numbers at once, as long as the
// strings and slices are short.
func (g *generator) short(w *writer, t *target, s *types.Struct) {
	var kinds, fields []string
	plain, long := int64(0), 0
	for i := range s.NumFields() {
		f := s.Field(i)
		if f.Name() == "_" || g.skipOf(s, i).is {
			continue
		}
		kind := g.shortKind(f)
		switch kind {
		case "":
			return
		case "Plain":
			plain += sizes().Sizeof(f.Type())
		default:
			long++
		}
		kinds, fields = append(kinds, kind), append(fields, g.names.x+"."+f.Name())
	}
	few := len(fields) > 1 && len(fields) <= shortFields && plain <= shortPlain
	if !few || long == 0 || t.named.TypeParams().Len() > 0 || g.redeclares("len", "int", "byte") {
		return
	}
	g.writeShort(w, t, kinds, fields)
}

// shortKind is how short code packs a field: as Plain, Text or Slice, or "" if it cannot.
func (g *generator) shortKind(f *types.Var) string {
	v := &visitor{generator: g, pos: f.Pos(), object: f.Name()}
	t := types.Unalias(f.Type())
	named, _ := t.(*types.Named)
	slice, _ := t.Underlying().(*types.Slice)
	switch w, helper := v.way(t); {
	case slice != nil && g.copied(slice.Elem()) && (helper == "PlainSlice" || w == byMethod && g.generatedHere(named)):
		return "Slice"
	case w != byHelper:
		return ""
	case helper == "String":
		return "Text"
	case (helper == "Plain" || helper == "Number") && g.copied(t):
		return "Plain"
	}
	return ""
}

// copied says that the memory of a type is what is stored of it.
func (g *generator) copied(t types.Type) bool {
	l := g.layout(t)
	return l.dense && !l.bools && sizes().Sizeof(t) > 0
}

// redeclares says that the package gives one of the predeclared names another meaning.
func (g *generator) redeclares(names ...string) bool {
	for _, name := range names {
		if g.pkg.Types.Scope().Lookup(name) != nil {
			return true
		}
	}
	return false
}

// writeShort writes the two functions.
func (g *generator) writeShort(w *writer, t *target, kinds, fields []string) {
	w.f("// A short %s is packed and unpacked at once.\nvar _ = %sShort(", t.name(), g.names.gen())
	g.shortPack(w, t, kinds, fields)
	g.shortUnpack(w, t, kinds, fields)
	w.f(")\n")
}

func (g *generator) shortPack(w *writer, t *target, kinds, fields []string) {
	n := g.names
	w.f("func(room []byte, %s *%s) int {", n.x, t.name())
	var rooms []string
	for i, kind := range kinds {
		rooms = append(rooms, fmt.Sprintf("%s%sRoom(%s)", n.gen(), kind, argument(kind, fields[i])))
	}
	w.f("if %s > len(room) {\nreturn 0\n}", sum(rooms))
	verb, to := "n := ", "room"
	for i, kind := range kinds {
		if i == len(kinds)-1 {
			verb = "return n + "
		}
		w.f("%s%sShort%s(%s, %s)", verb, n.gen(), kind, to, argument(kind, fields[i]))
		verb, to = "n += ", "room[n:]"
	}
	w.f("},")
}

// shortUnpack finds out where each field ends in the data before it changes any.
func (g *generator) shortUnpack(w *writer, t *target, kinds, fields []string) {
	n := g.names
	w.f("func(%s *%sStream, data []byte, %s *%s) int {", n.p, n.pup, n.x, t.name())
	from, begin, before := "0", "", ""
	var fill []string
	for i, kind := range kinds {
		end := fmt.Sprintf("e%d", i+1)
		part := fmt.Sprintf("data[%s:%s]", begin, end)
		switch kind {
		case "Plain":
			w.f("%s := %s%sPlainRoom(&%s)", end, before, n.gen(), fields[i])
			fill = append(fill, fmt.Sprintf("%sFillPlain(%s, &%s)", n.gen(), part, fields[i]))
		case "Text":
			w.f("%s := %sTextEnd(data, %s)", end, n.gen(), from)
			fill = append(fill, fmt.Sprintf("%sFillText(%s, %s, &%s)", n.gen(), n.p, part, fields[i]))
		case "Slice":
			w.f("%s := %sSliceEnd(data, %s, %s)", end, n.gen(), from, fields[i])
			fill = append(fill, fmt.Sprintf("%sFillSlice(%s, %s, &%s)", n.gen(), n.p, part, fields[i]))
		}
		from, begin, before = end, end, end+" + "
	}
	w.f("if %s > len(data) {\nreturn 0\n}", from)
	for _, line := range fill {
		w.f("%s", line)
	}
	w.f("return %s\n},", from)
}

// sum adds up, over several lines when there is much.
func sum(terms []string) string {
	if s := strings.Join(terms, " + "); len(s) <= 90 {
		return s
	}
	return strings.Join(terms, " +\n")
}

// argument is a field as the functions for its kind take it.
func argument(kind, field string) string {
	if kind == "Plain" {
		return "&" + field
	}
	return field
}
