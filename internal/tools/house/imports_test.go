package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A lattice is the import policy read from lattice.txt.
type lattice struct {
	level map[string]int      // package (without the module's path) to its line: what stands lower may import what stands above
	group map[string]string   // package to the folder of its group
	walls map[string][]string // third-party module to the packages that may import it
	pure  []string            // packages that hold decisions only
}

// readLattice parses lattice.txt; the file's own head explains its grammar.
func readLattice(t *testing.T) lattice {
	l := lattice{level: map[string]int{}, group: map[string]string{}, walls: map[string][]string{}}
	group := ""
	for n, line := range strings.Split(string(read(t, "internal/tools/house/lattice.txt")), "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case f[0] == "group" && len(f) == 2:
			group = f[1]
		case f[0] == "wall" && len(f) > 2:
			l.walls[f[1]] = f[2:]
		case f[0] == "pure":
			l.pure = append(l.pure, f[1:]...)
		case !strings.HasPrefix(line, "\t") || group == "":
			t.Errorf("lattice.txt:%d: %q is none of the lines that its head explains", n+1, line)
		default:
			for _, p := range f {
				p = path.Join(group, p)
				if _, twice := l.level[p]; twice {
					t.Errorf("lattice.txt:%d: %s stands there twice", n+1, p)
				}
				l.level[p], l.group[p] = n, group
			}
		}
	}
	return l
}

// wallOf returns the third-party module of an import path that the lattice knows, or "".
func (l lattice) wallOf(path string) string {
	for m := range l.walls {
		if path == m || strings.HasPrefix(path, m+"/") {
			return m
		}
	}
	return ""
}

// inGroup says whether a package stands in the narrowest group that its folder has: each folder of internal is a group.
func (l lattice) inGroup(name string) bool {
	for _, g := range l.group {
		if len(g) > len(l.group[name]) && (name == g || strings.HasPrefix(name, g+"/")) {
			return false
		}
	}
	return true
}

// TestLattice compares every import with lattice.txt.
func TestLattice(t *testing.T) {
	l := readLattice(t)
	seen := map[string]bool{}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		seen[name] = true
		level, ok := l.level[name]
		if !ok {
			t.Errorf("package %s is not in lattice.txt", name)
			continue
		}
		if !l.inGroup(name) {
			t.Errorf("package %s stands in lattice.txt in the group %s", name, l.group[name])
		}
		for _, path := range p.Imports {
			first, _, _ := strings.Cut(path, "/")
			if own, ok := strings.CutPrefix(path, module+"/"); ok {
				if below, ok := l.level[own]; !ok || below >= level {
					t.Errorf("%s imports %s, which does not stand above it in lattice.txt", name, own)
				}
			} else if strings.Contains(first, ".") && p.Module.Path == module {
				if m := l.wallOf(path); m == "" || !slices.Contains(l.walls[m], name) {
					t.Errorf("%s imports %s: lattice.txt has no wall line that lets it", name, path)
				}
			}
		}
	}
	for name := range l.level {
		if !seen[name] {
			t.Errorf("lattice.txt names %s, which does not exist", name)
		}
	}
}

// TestPurePackages keeps network, disk, clock and goroutines out of the packages that hold decisions.
func TestPurePackages(t *testing.T) {
	pure := readLattice(t).pure
	for _, p := range packages(t) {
		if !slices.Contains(pure, strings.TrimPrefix(p.ImportPath, module+"/")) {
			continue
		}
		for _, file := range p.GoFiles {
			checkPure(t, filepath.Join(p.Dir, file))
		}
	}
}

func checkPure(t *testing.T, file string) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, imp := range f.Imports {
		path, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(path, "/")
		if slices.Contains([]string{"net", "os", "syscall", "sync", "runtime", "unsafe", "log"}, first) || strings.HasPrefix(path, "math/rand") {
			t.Errorf("%s: a pure package imports %s", fset.Position(imp.Pos()), path)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			t.Errorf("%s: a pure package starts a goroutine", fset.Position(n.Pos()))
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if ok && pkg.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}, n.Sel.Name) {
				t.Errorf("%s: a pure package reads the clock: time.%s", fset.Position(n.Pos()), n.Sel.Name)
			}
		}
		return true
	})
}
