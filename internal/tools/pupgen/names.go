package pupgen

import (
	"go/types"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// names are the names that a generated file uses: of imports, of its own variables, of receiver and parameters. They
// hide nothing that the file means by another name.
type names struct {
	pkg      *types.Package
	params   map[string]bool   // type parameters of the types
	imported map[string]string // import path to name
	used     map[string]bool   // names of imports and variables
	pup      string            // prefix of names of package pup
	x, p, e  string            // receiver, stream, element
}

func newNames(pkg *types.Package, list []*target) *names {
	n := &names{pkg: pkg, params: map[string]bool{}, imported: map[string]string{}, used: map[string]bool{}}
	for _, t := range list {
		for tp := range t.named.TypeParams().TypeParams() {
			n.params[tp.Obj().Name()] = true
		}
	}
	n.x, n.p, n.e = n.local("x"), n.local("p"), n.local("e")
	n.pup = n.importAs(pupPath, "pup") + "."
	return n
}

// gen is the prefix of names of package gen.
func (n *names) gen() string { return n.importAs(pupPath+"/gen", "gen") + "." }

// local is a name for a parameter: that of a type would hide the type.
func (n *names) local(name string) string {
	for {
		_, isType := n.pkg.Scope().Lookup(name).(*types.TypeName)
		if !isType && !n.params[name] {
			return name
		}
		name += name[:1]
	}
}

// free says that nothing else in the file has the name.
func (n *names) free(name string) bool {
	taken := n.params[name] || n.used[name] || slices.Contains([]string{n.x, n.p, n.e}, name)
	return !taken && n.pkg.Scope().Lookup(name) == nil
}

// importAs is the name under which a package is imported.
func (n *names) importAs(path, name string) string {
	if as, ok := n.imported[path]; ok {
		return as
	}
	as := name
	for i := 2; !n.free(as); i++ {
		as = name + strconv.Itoa(i)
	}
	n.used[as], n.imported[path] = true, as
	return as
}

// variable is a new name for a variable of the package.
func (n *names) variable(name string) string {
	for i := 0; ; i++ {
		if v := name + strconv.Itoa(i); n.free(v) {
			n.used[v] = true
			return v
		}
	}
}

// spell writes a type as the generated file must and imports what it needs.
func (n *names) spell(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p == n.pkg {
			return ""
		}
		return n.importAs(p.Path(), p.Name())
	})
}

// imports writes the import declaration.
func (n *names) imports(w *writer) {
	if len(n.imported) == 0 {
		return
	}
	line := func(p string) string {
		if n.imported[p] == path.Base(p) {
			return strconv.Quote(p)
		}
		return n.imported[p] + " " + strconv.Quote(p)
	}
	if len(n.imported) == 1 {
		for p := range n.imported {
			w.f("import %s\n", line(p))
		}
		return
	}
	w.f("import (")
	for _, standard := range []bool{true, false} {
		for _, p := range slices.Sorted(maps.Keys(n.imported)) {
			if first, _, _ := strings.Cut(p, "/"); standard != strings.Contains(first, ".") {
				w.f("\t%s", line(p))
			}
		}
		w.f("")
	}
	w.f(")\n")
}

// spellable says that a type can be written in the generated file: its parts are exported or of this package, and the
// packages that they need are imported by the package already.
func (n *names) spellable(t types.Type) bool {
	switch t := t.(type) {
	case *types.Alias:
		return n.spellableName(t.Obj(), t.TypeArgs())
	case *types.Named:
		return n.spellableName(t.Obj(), t.TypeArgs())
	case *types.Pointer:
		return n.spellable(t.Elem())
	case *types.Slice:
		return n.spellable(t.Elem())
	case *types.Array:
		return n.spellable(t.Elem())
	case *types.Map:
		return n.spellable(t.Key()) && n.spellable(t.Elem())
	case *types.Struct:
		for f := range t.Fields() {
			if !f.Exported() && f.Pkg() != n.pkg || !n.spellable(f.Type()) {
				return false
			}
		}
		return true
	case *types.Interface:
		return t.NumMethods() == 0 && t.IsMethodSet()
	case *types.Basic, *types.TypeParam:
		return true
	}
	return false
}

func (n *names) spellableName(obj *types.TypeName, args *types.TypeList) bool {
	for a := range args.Types() {
		if !n.spellable(a) {
			return false
		}
	}
	if obj.Pkg() == nil || obj.Pkg() == n.pkg {
		return obj.Parent() == types.Universe || obj.Parent() == n.pkg.Scope()
	}
	return obj.Exported() && slices.Contains(n.pkg.Imports(), obj.Pkg())
}
