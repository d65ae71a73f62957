package pupgen

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"
)

var update = flag.Bool("update", false, "write the expected files anew")

// golden are the packages whose generated files are committed as the expected ones.
var golden = []Config{
	{Dir: "../../../pup/internal/gentest"},
	{Dir: "testdata/names"},
	{Dir: "testdata/tags", Tags: "special"},
	{Dir: "testdata/tests"},
	{Dir: "testdata/tests", Test: true},
	{Dir: "testdata/external", Test: true},
}

func TestGolden(t *testing.T) {
	for _, cfg := range golden {
		f, err := Generate(cfg)
		if err != nil {
			t.Errorf("%s: %v", cfg.Dir, err)
			continue
		}
		if *update {
			if err := os.WriteFile(f.Path, f.Content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(f.Path)
		if err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(string(want), string(f.Content)); d != "" {
			t.Errorf("%s: not as expected (go test -update writes it anew): want, found:\n%s", cfg.Dir, d)
		}
	}
}

// TestGoldenCompiles checks the expected files with package pup as it is.
func TestGoldenCompiles(t *testing.T) {
	for _, cfg := range golden {
		list, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: cfg.Dir, Tests: cfg.Test,
			BuildFlags: []string{"-tags=" + cfg.Tags}}, ".")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			for _, e := range p.Errors {
				t.Errorf("%s: %v", cfg.Dir, e)
			}
		}
	}
}

func TestGoldenIsClean(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: -short: vet and staticcheck take seconds")
	}
	dirs := []string{"-tags=special"}
	for _, cfg := range golden {
		dirs = append(dirs, "./"+cfg.Dir)
	}
	for _, cmd := range [][]string{{"vet"}, {"tool", "staticcheck", "-checks=all,-ST1000,-U1000"}} {
		if out, err := exec.Command("go", append(cmd, dirs...)...).CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", cmd, err, out)
		}
	}
}

// faults are types of testdata/faults, and what is said about each.
var faults = []struct{ name, want string }{
	{"Chan", "input.go:18: Chan.ch: found type chan int, which cannot be saved, wanted another type or //pup:skip reason"},
	{"Func", "Func.F: found type func()"},
	{"Lock", "Lock.mu: found type sync.Mutex"},
	{"Locks", "Locks.RWMutex: found type sync.RWMutex"},
	{"Locks", "Locks.wg: found type sync.WaitGroup in *sync.WaitGroup"},
	{"Locks", "Locks.once: found type sync.Once in []sync.Once"},
	{"Locks", "Locks.cond: found type sync.Cond in map[string]*sync.Cond"},
	{"Locks", "Locks.pool: found type sync.Pool in [2]sync.Pool"},
	{"Locks", "Locks.table: found type sync.Map"},
	{"Addresses", "Addresses.P: found type unsafe.Pointer"},
	{"Addresses", "Addresses.A: found type atomic.Pointer[int]"},
	{"Context", "Context.ctx: found type context.Context"},
	{"Deep", "Deep.M: found type func() in map[string][]*func()"},
	{"NoReason", "NoReason.A: found //pup:skip alone, wanted //pup:skip reason"},
	{"NoReason", `NoReason.B: found the tag pup:"-", wanted pup:"-,reason"`},
	{"NoReason", `NoReason.C: found the tag pup:"-, ", wanted pup:"-,reason"`},
	{"NoReason", `NoReason.D: found the tag pup:"skip", wanted pup:"-,reason"`},
	{"Unknown", "Unknown.A: found a type that is not declared (undefined: Missing), wanted one that is"},
	{"Unknown", "Unknown.B: found a type that is not declared (undefined: time.Tyme)"},
	{"Hand", "Hand: found the method PUP at input.go:60, wanted a type without it"},
	{"OtherPUP", "OtherPUP: found the method PUP at input.go:64"},
	{"FieldPUP", "FieldPUP.PUP: found a field with the name of the method"},
	{"Alias", "Alias: found an alias of Hand, wanted a type of its own"},
	{"Interface", "Interface: found interface{A()}, which cannot have methods of its own"},
	{"Pointer", "Pointer: found *Hand, which cannot have methods of its own"},
	{"Signal", "Signal: found type chan int"},
	{"Callback", "Callback: found type func()"},
	{"DeclaredLock", "DeclaredLock: found type sync.Mutex"},
	{"HoldsDeclaredLock", "HoldsDeclaredLock.L: found type DeclaredLock"},
	{"Reflected", "Reflected.List: found func(io.Writer) at Inner.Out, which cannot be saved, wanted a PUP"},
	{"ReflectedSkip", "ReflectedSkip.InnerSkip: found the comment //pup:skip at InnerSkip.tmp"},
	{"Nameless", "Nameless.Opts: found chan bool at a struct without name.Done"},
	{"Endless", "Endless: found a type that is not declared (invalid recursive type: Endless refers to itself)"},
	{"Foreign", "Foreign.H: found type http.HandlerFunc, which"},
	{"Foreign", "Foreign.Hs: found type http.HandlerFunc in []http.HandlerFunc, which"},
	{"Generic", "Generic.F: found type func(T)"},
	{"Absent", "Absent: found no type of this name in package faults"},
}

func TestFaults(t *testing.T) {
	l, err := load(Config{}, filepath.Join(absolute(t, "testdata/faults"), "pup_gen.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		src, err := l.generate([]string{f.name})
		if err == nil || src != nil || !strings.Contains("\n"+err.Error(), f.want) {
			t.Errorf("%s: found %v, want %s", f.name, err, f.want)
		}
	}
	var all []string
	for _, f := range faults {
		all = append(all, f.name)
	}
	if _, err := l.generate(all); err == nil || strings.Count(err.Error(), "\n") < 15 {
		t.Errorf("all types: found %v, want every fault", err)
	}
}

func absolute(t *testing.T, dir string) string {
	t.Helper()
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPackageFaults(t *testing.T) {
	for _, c := range []struct{ dir, want string }{
		{"stray", "pupgen: input.go:4: found a //pup:generate that belongs to no type"},
		{"stray", "input.go:12: found a //pup:skip that belongs to no field"},
		{"stray", "input.go:19: found //pup:generated, wanted //pup:generate or //pup:skip reason"},
		{"stray", "input.go:21: found //pup:ignore"},
		{"stray", "input.go:26: found a //pup:skip that belongs to no field"},
		{"stray", "input.go:32: found a //pup:generate that belongs to no type"},
		{"constraints", "unix.go:8: B: found another build constraint than that of A"},
		{"syntax", "pupgen: load: input.go:7:1: expected '}'"},
		{"nothing", "pupgen: package nothing: found no type with the directive //pup:generate"},
	} {
		if _, err := Generate(Config{Dir: "testdata/" + c.dir}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: found %v, want %s", c.dir, err, c.want)
		}
	}
	if f, err := Generate(Config{Dir: "testdata/stray", Test: true}); err == nil {
		t.Errorf("tests without types: found %s, want an error", f.Content)
	}
}

// command runs the command line and returns the exit code and what it printed.
func command(args ...string) (int, string, string) {
	var stdout, stderr bytes.Buffer
	code := Main(args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"-help", exitOK, "Exit codes:"},
		{"--help", exitOK, "//go:generate go run"},
		{"-wrong", exitUsage, "flag provided but not defined: -wrong"},
		{"a b", exitUsage, "wanted one directory"},
		{"testdata/absent", exitUsage, "wanted a directory"},
		{"-out a/b.go testdata/nothing", exitUsage, "wanted the name of a .go file"},
		{"-out text testdata/nothing", exitUsage, "wanted the name of a .go file"},
		{"-out a.go -test testdata/nothing", exitUsage, "go together"},
		{"-out a_test.go testdata/nothing", exitUsage, "go together"},
		{"-out input.go testdata/nothing", exitFault, "found a file that pupgen did not write"},
		{"testdata/nothing", exitFault, "found no type"},
		{"-check -type A testdata/nothing", exitFault, "not current"},
		{"-check testdata/names", exitOK, ""},
		{"-check -tags special testdata/tags", exitOK, ""},
		{"-check -type Cell,Common -tags special testdata/tags", exitFault, "another build constraint"},
	} {
		code, stdout, stderr := command(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) || c.want == "" && stdout+stderr != "" {
			t.Errorf("pupgen %s: code %d, printed %s%s; want %d, %s", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
}

// module writes the files of a module and returns its directory.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestLife writes a file for the first time, finds it current, finds it stale, and writes it over a broken one.
func TestLife(t *testing.T) {
	dir := module(t, map[string]string{
		"go.mod": "module example.org/life\n\ngo 1.26\n",
		"a.go":   "package life\n\n//pup:generate\ntype A struct{ B string }\n\nvar save = (*A).PUP\n",
	})
	expect := func(step string, want int, args ...string) string {
		t.Helper()
		code, stdout, stderr := command(append(args, dir)...)
		if code != want {
			t.Fatalf("%s: code %d, want %d: %s%s", step, code, want, stdout, stderr)
		}
		return stdout
	}
	path := filepath.Join(dir, "pup_gen.go")
	expect("check of no file", exitFault, "-check")
	if _, err := os.Stat(path); err == nil {
		t.Fatal("-check has written the file")
	}
	expect("first", exitOK)
	expect("check", exitOK, "-check")
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	source := "package life\n\n//pup:generate\ntype A struct{ B string; C []bool }\n\nvar save = (*A).PUP\n"
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	line, added := "\tpup.String(p, &x.B)\n", "\tpup.PlainSlice(p, &x.C)\n"
	if d := expect("check of a stale file", exitFault, "-check"); !strings.Contains(d, "\n "+line+"+"+added+" }\n") {
		t.Errorf("found the difference\n%s", d)
	}
	for _, broken := range []string{"", "\n\npackage wrong\n\nfunc (x *A) PUP() { <<<", "\n\npackage life\n\ntype B int"} {
		if err := os.WriteFile(path, []byte(Header+broken), 0o644); err != nil {
			t.Fatal(err)
		}
		expect("over a broken file", exitOK)
	}
	second, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(string(first), line, line+added, 1); string(second) != want {
		t.Errorf("found\n%s\nwant\n%s", second, want)
	}
}

// TestOrder asks that a package may be generated before those that it imports.
func TestOrder(t *testing.T) {
	dir := module(t, map[string]string{
		"go.mod": "module example.org/m\n\ngo 1.26\n",
		"early/a.go": "package early\n\nimport \"example.org/m/late\"\n\n" +
			"//pup:generate\ntype A struct{ B late.B; C []late.B; D []late.Plain }\n",
		"late/b.go": "package late\n\n//pup:generate\ntype B struct{ N string }\n\nvar save = (*B).PUP\n\n" +
			"type Plain struct{ N int }\n",
	})
	f, err := Generate(Config{Dir: filepath.Join(dir, "early")})
	if err != nil {
		t.Fatal(err)
	}
	want := Header + `

package early

import (
	"example.org/m/late"
	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/gen"
)

// PUP visits every field of A.
func (x *A) PUP(p *pup.Stream) {
	if gen.Old(p, x) {
		return
	}
	x.B.PUP(p)
	pup.Slice(p, &x.C, func(p *pup.Stream, e *late.B) { e.PUP(p) })
	pup.PlainSlice(p, &x.D)
}
`
	if d := cmp.Diff(want, string(f.Content)); d != "" {
		t.Errorf("want, found:\n%s", d)
	}
}

func TestDiff(t *testing.T) {
	from := "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\n"
	to := "a\nB\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n"
	want := "@@ -1 +1 @@\n a\n-b\n+B\n c\n d\n e\n@@ -10 +10 @@\n j\n k\n l\n-m\n \n"
	if found := diff(from, to); found != want {
		t.Errorf("found\n%s\nwant\n%s", found, want)
	}
	if found := diff(from, from); found != "" {
		t.Errorf("of equal texts: found %q", found)
	}
}
