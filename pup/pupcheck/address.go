package pupcheck

import (
	"go/ast"
	"go/token"
	"go/types"
	"iter"
	"slices"
	"strings"
)

// inGenerated reports whether a place is in a file that says that it was generated. Nobody can mend what is found there.
func (c *checker) inGenerated(pos token.Pos) bool {
	for _, file := range c.pass.Files {
		if file.FileStart <= pos && pos < file.FileEnd {
			return ast.IsGenerated(file)
		}
	}
	return false
}

// reportAddress reports a visit of a uintptr, unless generated code makes it: then the type's declaration is to blame.
func (c *checker) reportAddress(pos token.Pos, what string) {
	if !c.inGenerated(pos) {
		c.report(pos, "address", "%s is a uintptr: an address means nothing after a restart", what)
	}
}

// checkGeneratedAddresses reports, where they are declared, the addresses that generated PUP methods save.
func (c *checker) checkGeneratedAddresses() {
	for _, f := range c.funcs {
		if !isPUP(f) || !c.inGenerated(f.Pos()) {
			continue
		}
		named, ok := types.Unalias(deref(f.Signature().Recv().Type())).(*types.Named)
		if !ok {
			continue
		}
		s, ok := named.Underlying().(*types.Struct)
		if !ok {
			c.blame(named.Obj().Pos(), named.Obj().Name(), named.Underlying())
			continue
		}
		for v := range c.saved(s) {
			c.blame(v.Pos(), "field "+v.Name()+" of "+named.Obj().Name(), v.Type())
		}
	}
}

// blame reports a declaration whose values are, or hold, addresses.
func (c *checker) blame(pos token.Pos, what string, t types.Type) {
	path, found := c.savedAddress(t, map[types.Type]bool{})
	switch b, ok := t.Underlying().(*types.Basic); {
	case !found:
	case ok && b.Kind() == types.Uintptr:
		c.report(pos, "address", "%s is a uintptr, which generated code saves: an address means nothing after a restart", what)
	case path == "":
		c.report(pos, "address", "%s holds a uintptr, which generated code saves: an address means nothing after a restart", what)
	default:
		c.report(pos, "address", "%s holds a uintptr, %s, which generated code saves: an address means nothing after a restart", what, path)
	}
}

// saved are the fields of a structure that are not skipped.
func (c *checker) saved(s *types.Struct) iter.Seq[*types.Var] {
	return func(yield func(*types.Var) bool) {
		for i := range s.NumFields() {
			if v := s.Field(i); v.Name() != "_" && !c.isSkipped(v, s.Tag(i)) && !yield(v) {
				return
			}
		}
	}
}

// savedAddress reports whether values of a type that is saved have a uintptr, and in which of their fields. Types with a PUP of
// their own answer for themselves, but for their type arguments.
func (c *checker) savedAddress(t types.Type, seen map[types.Type]bool) (path string, found bool) {
	if _, isParam := types.Unalias(t).(*types.TypeParam); isParam || seen[t] {
		return "", false
	}
	seen[t] = true
	inside := []types.Type{}
	if named, ok := types.Unalias(t).(*types.Named); ok && hasPUP(t) {
		inside = slices.Collect(named.TypeArgs().Types())
	} else {
		switch u := t.Underlying().(type) {
		case *types.Basic:
			return "", u.Kind() == types.Uintptr
		case *types.Map:
			inside = []types.Type{u.Key(), u.Elem()}
		case interface{ Elem() types.Type }:
			inside = []types.Type{u.Elem()}
		case *types.Struct:
			for v := range c.saved(u) {
				if path, found := c.savedAddress(v.Type(), seen); found {
					return strings.TrimSuffix(v.Name()+"."+path, "."), true
				}
			}
		}
	}
	for _, t := range inside {
		if path, found := c.savedAddress(t, seen); found {
			return path, true
		}
	}
	return "", false
}
