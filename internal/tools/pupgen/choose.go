package pupgen

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// A declaration is a type's declaration at the top of a file.
type declaration struct {
	file *ast.File
	spec *ast.TypeSpec
	docs []*ast.CommentGroup
}

// declared lists the types of a file.
func declared(f *ast.File) []declaration {
	var list []declaration
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			spec := s.(*ast.TypeSpec)
			list = append(list, declaration{f, spec, []*ast.CommentGroup{g.Doc, spec.Doc, spec.Comment}})
		}
	}
	return list
}

// generate says that the declaration carries the directive.
func (d declaration) generate() bool {
	return slices.ContainsFunc(directives(d.docs...), func(d directive) bool { return d.verb == "generate" })
}

// A directive is a comment as //pup:verb text.
type directive struct {
	verb, text string
	pos        token.Pos
}

// directives lists those of package pup among comments.
func directives(groups ...*ast.CommentGroup) []directive {
	var list []directive
	for _, g := range groups {
		if g == nil {
			continue
		}
		for _, c := range g.List {
			if rest, ok := strings.CutPrefix(c.Text, "//pup:"); ok {
				verb, text, _ := strings.Cut(rest, " ")
				list = append(list, directive{verb, strings.TrimSpace(text), c.Pos()})
			}
		}
	}
	return list
}

// A target is a type whose method is written.
type target struct {
	declaration
	named *types.Named
}

func (t *target) name() string { return t.named.Obj().Name() }

// choose finds the types to generate, in the order of their declarations.
func (g *generator) choose(names []string) ([]*target, error) {
	var list []*target
	missing := slices.Clone(names)
	for _, f := range g.pkg.Syntax {
		if !g.source(g.pkg, f) {
			continue
		}
		for _, d := range declared(f) {
			name := d.spec.Name.Name
			if slices.Contains(names, name) || len(names) == 0 && d.generate() {
				missing = slices.DeleteFunc(missing, func(m string) bool { return m == name })
				if t := g.target(d); t != nil {
					list = append(list, t)
					g.targets[t.named.Obj()] = t
				}
			}
		}
		g.stray(f)
	}
	for _, m := range missing {
		text := fmt.Sprintf("pupgen: %s: found no type of this name in package %s", m, g.pkg.Name)
		g.faults = append(g.faults, fault{text: text})
	}
	if len(list) == 0 && len(g.faults) == 0 {
		return nil, fmt.Errorf("pupgen: package %s: found no type with the directive //pup:generate, wanted one or -type",
			g.pkg.Name)
	}
	slices.SortStableFunc(list, func(a, b *target) int { // files are parsed in any order
		x, y := g.pkg.Fset.Position(a.spec.Pos()), g.pkg.Fset.Position(b.spec.Pos())
		return cmp.Or(cmp.Compare(x.Filename, y.Filename), cmp.Compare(x.Offset, y.Offset))
	})
	return list, nil
}

// attached is where the directives of a file are that belong to types and fields.
func attached(f *ast.File) map[token.Pos]bool {
	at := map[token.Pos]bool{}
	note := func(verb string, groups ...*ast.CommentGroup) {
		for _, d := range directives(groups...) {
			at[d.pos] = at[d.pos] || d.verb == verb
		}
	}
	for _, d := range declared(f) {
		note("generate", d.docs...)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				note("skip", f.Doc, f.Comment)
			}
		}
		return true
	})
	return at
}

// stray reports directives that would be lost: apart from any type or field, or misspelt. Inside of functions, types
// may skip fields, but have no methods.
func (g *generator) stray(f *ast.File) {
	at := attached(f)
	for _, d := range directives(f.Comments...) {
		inside := slices.ContainsFunc(f.Decls, func(decl ast.Decl) bool {
			_, function := decl.(*ast.FuncDecl)
			return function && decl.Pos() <= d.pos && d.pos < decl.End()
		})
		switch {
		case d.verb != "generate" && d.verb != "skip":
			g.fault(d.pos, "", "found //pup:%s, wanted //pup:generate or //pup:skip reason", d.verb)
		case d.verb == "generate" && !at[d.pos]:
			g.fault(d.pos, "", "found a //pup:generate that belongs to no type, wanted it in the comment of a declaration")
		case d.verb == "skip" && !at[d.pos] && !inside:
			g.fault(d.pos, "", "found a //pup:skip that belongs to no field, wanted it in the comment of a field")
		}
	}
}

// target checks that a declared type can have the method.
func (g *generator) target(d declaration) *target {
	name := d.spec.Name.Name
	obj, ok := g.pkg.Types.Scope().Lookup(name).(*types.TypeName)
	if !ok || obj.Pos() != d.spec.Name.Pos() {
		g.fault(d.spec.Pos(), name, "found another declaration of the name")
		return nil
	}
	named, ok := obj.Type().(*types.Named)
	if !ok || obj.IsAlias() {
		g.fault(d.spec.Pos(), name, "found an alias of %s, wanted a type of its own", g.plainName(types.Unalias(obj.Type())))
		return nil
	}
	switch u := named.Underlying().(type) {
	case *types.Interface, *types.Pointer:
		g.fault(d.spec.Pos(), name, "found %s, which cannot have methods of its own, wanted another type", g.plainName(u))
		return nil
	case *types.Struct:
		for f := range u.Fields() {
			if f.Name() == "PUP" {
				g.fault(f.Pos(), name+".PUP", "found a field with the name of the method, wanted another name")
				return nil
			}
		}
	}
	if m := ownMethod(named, "PUP"); m != nil {
		g.fault(d.spec.Pos(), name, "found the method PUP at %s, wanted a type without it", g.position(m.Pos()))
		return nil
	}
	return &target{d, named}
}

// constraint is the build constraint of the files that declare the types: the generated file needs the same.
func (g *generator) constraint(list []*target) (string, error) {
	lines := map[string]*target{}
	for _, t := range list {
		line := ""
		for _, c := range t.file.Comments {
			if c.Pos() < t.file.Package && constraint.IsGoBuild(c.List[0].Text) {
				line = c.List[0].Text
			}
		}
		lines[line] = t
		if len(lines) > 1 {
			return "", fmt.Errorf("pupgen: %s: %s: found another build constraint than that of %s, "+
				"wanted one file for each (-type and -out)", g.position(t.spec.Pos()), t.name(), list[0].name())
		}
	}
	for line := range lines {
		return line, nil
	}
	return "", nil
}

// A fault is what keeps a type from being generated.
type fault struct {
	pos  token.Position
	text string
}

// fault notes what is wrong with an object, as Type or Type.Field.
func (g *generator) fault(pos token.Pos, object, format string, args ...any) {
	text := "pupgen: " + g.position(pos) + ": "
	if object != "" {
		text += object + ": "
	}
	g.faults = append(g.faults, fault{g.pkg.Fset.Position(pos), text + fmt.Sprintf(format, args...)})
}

// joined is all faults in the order of the source.
func (g *generator) joined() error {
	slices.SortStableFunc(g.faults, func(a, b fault) int {
		return cmp.Or(cmp.Compare(a.pos.Filename, b.pos.Filename), cmp.Compare(a.pos.Line, b.pos.Line))
	})
	var errs []error
	for _, f := range g.faults {
		errs = append(errs, errors.New(f.text))
	}
	return errors.Join(errs...)
}
