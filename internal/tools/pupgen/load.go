package pupgen

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// loaded is a package with its types, and those of everything that it imports.
type loaded struct {
	pkg  *packages.Package
	test bool // only the types of _test.go files are generated
	all  map[string]*packages.Package
	dir  string // positions are told relative to it

	byPos map[string]map[token.Pos]*ast.Field // those of a package by position, made when first asked for
}

// load reads the package without its old generated file, which may be stale or broken. All packages are read from
// source, because those that it imports may not compile yet either; bodies of functions say nothing about types.
func load(cfg Config, out string) (*loaded, error) {
	pc := &packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo,
		Dir:       filepath.Dir(out),
		Fset:      token.NewFileSet(),
		Tests:     cfg.Test,
		ParseFile: parseDeclarations,
	}
	if cfg.Tags != "" {
		pc.BuildFlags = []string{"-tags=" + cfg.Tags}
	}
	if _, err := os.Stat(out); err == nil {
		pc.Overlay = map[string][]byte{out: []byte("//go:build ignore\n\npackage ignored\n")}
	}
	list, err := packages.Load(pc, ".")
	if err != nil {
		return nil, fmt.Errorf("pupgen: load: %w", err)
	}
	l := &loaded{test: cfg.Test, dir: pc.Dir,
		all: map[string]*packages.Package{}, byPos: map[string]map[token.Pos]*ast.Field{}}
	if l.pkg, err = l.choosePackage(list, cfg.Types); err != nil {
		return nil, err
	}
	packages.Visit([]*packages.Package{l.pkg}, nil, func(p *packages.Package) { l.all[p.PkgPath] = p })
	return l, nil
}

// parseDeclarations reads a file without the statements of its functions.
func parseDeclarations(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
	f, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if f != nil {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				fn.Body.List = nil
			}
		}
	}
	return f, err
}

// choosePackage finds the one package to generate for. Tests may stand in two packages; the one that declares the
// types counts.
func (l *loaded) choosePackage(list []*packages.Package, names []string) (*packages.Package, error) {
	var found []*packages.Package
	for _, p := range list {
		if err := readable(p, l.dir); err != nil {
			return nil, err
		}
		if !l.test || strings.HasSuffix(p.ID, ".test]") && l.wanted(p, names) {
			found = append(found, p)
		}
	}
	switch {
	case len(found) == 0:
		return nil, errors.New("pupgen: load: found none of the types in the _test.go files of this package")
	case len(found) > 1:
		return nil, fmt.Errorf("pupgen: load: found the packages %s and %s with types to generate, wanted one",
			found[0].Name, found[1].Name)
	}
	return found[0], nil
}

// readable reports what keeps a package from being read at all. Errors about types do not: methods are missing.
func readable(p *packages.Package, dir string) error {
	var errs []error
	for _, e := range p.Errors {
		if e.Kind != packages.TypeError {
			at := strings.TrimPrefix(e.Pos, dir+string(filepath.Separator))
			errs = append(errs, fmt.Errorf("pupgen: load: %s: %s", at, e.Msg))
		}
	}
	return errors.Join(errs...)
}

// wanted says that a package declares types in its _test.go files that are to be generated.
func (l *loaded) wanted(p *packages.Package, names []string) bool {
	for _, f := range p.Syntax {
		if !l.source(p, f) {
			continue
		}
		for _, t := range declared(f) {
			if slices.Contains(names, t.spec.Name.Name) || len(names) == 0 && t.generate() {
				return true
			}
		}
	}
	return false
}

// source says that types of a file may be generated: of tests when asked so, else of all others.
func (l *loaded) source(p *packages.Package, f *ast.File) bool {
	return strings.HasSuffix(p.Fset.Position(f.Package).Filename, "_test.go") == l.test
}

// position tells a place in a form that is short for the reader.
func (l *loaded) position(pos token.Pos) string {
	p := l.pkg.Fset.Position(pos)
	name := p.Filename
	if rel, err := filepath.Rel(l.dir, name); err == nil && !strings.HasPrefix(rel, "..") {
		name = rel
	}
	return fmt.Sprintf("%s:%d", name, p.Line)
}

// byPupgen says that the declaration stands in a file that pupgen wrote.
func (l *loaded) byPupgen(obj types.Object) bool {
	p := l.all[obj.Pkg().Path()]
	if p == nil {
		return false
	}
	f := fileAt(p, obj.Pos())
	return f != nil && len(f.Comments) > 0 && f.Comments[0].List[0].Text == Header
}

// fileAt is the file of a package that a position lies in.
func fileAt(p *packages.Package, pos token.Pos) *ast.File {
	for _, f := range p.Syntax {
		if f.FileStart <= pos && pos <= f.FileEnd {
			return f
		}
	}
	return nil
}
