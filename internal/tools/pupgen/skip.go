package pupgen

import (
	"go/ast"
	"go/token"
	"go/types"
	"reflect"
	"strings"
)

// skip is what a field's comment or tag says about leaving it out.
type skip struct {
	is      bool
	comment bool // said in a comment, which reflection does not see
	reason  string
	wrong   string // what is wrong with the tag or comment
}

// skipOf reads comment and tag of a field.
func (g *generator) skipOf(t *types.Struct, i int) skip {
	if f := g.fieldAt(t.Field(i)); f != nil {
		for _, d := range directives(f.Doc, f.Comment) {
			if d.verb == "skip" && d.text == "" {
				return skip{is: true, wrong: "found //pup:skip alone, wanted //pup:skip reason"}
			}
			if d.verb == "skip" {
				return skip{is: true, comment: true, reason: d.text}
			}
		}
	}
	tag, ok := reflect.StructTag(t.Tag(i)).Lookup("pup")
	if !ok {
		return skip{}
	}
	dash, reason, _ := strings.Cut(tag, ",")
	if dash != "-" || strings.TrimSpace(reason) == "" {
		return skip{is: true, wrong: "found the tag pup:\"" + tag + "\", wanted pup:\"-,reason\""}
	}
	return skip{is: true, reason: strings.TrimSpace(reason)}
}

// fieldAt is the declaration of a field, in whatever package it stands.
func (g *generator) fieldAt(v *types.Var) *ast.Field {
	if v.Pkg() == nil || g.all[v.Pkg().Path()] == nil {
		return nil
	}
	path := v.Pkg().Path()
	if g.byPos[path] == nil {
		g.byPos[path] = map[token.Pos]*ast.Field{}
		for _, f := range g.all[path].Syntax {
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.StructType); ok {
					noteFields(g.byPos[path], s)
				}
				return true
			})
		}
	}
	return g.byPos[path][v.Pos()]
}

// noteFields remembers fields by the positions of their names; an embedded field is found by any part of its type.
func noteFields(at map[token.Pos]*ast.Field, s *ast.StructType) {
	for _, f := range s.Fields.List {
		for _, name := range f.Names {
			at[name.Pos()] = f
		}
		if len(f.Names) == 0 {
			ast.Inspect(f.Type, func(n ast.Node) bool {
				if n != nil {
					at[n.Pos()] = f
				}
				return true
			})
		}
	}
}
