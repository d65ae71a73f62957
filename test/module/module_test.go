// Package module follows what docs/serialization.md says of package pup in a module outside this one, with a module cache of its
// own: what is written there must be all that is needed. Package mpi is built there from copies in a vendor directory.
package module

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/byssus-hpc/byssus/test/harness"
)

const version = "v0.1.0"

var program = `package main

import (
	"fmt"

	"github.com/byssus-hpc/byssus/pup"
)

DIRECTIVE

type Cell struct {
	ID   int64
	Name string
	Next *Cell
}

type Mesh struct {
	Cells []Cell
	First *Cell
	Tags  map[string][]float64
}

func main() {
	mesh, back := Mesh{Cells: make([]Cell, 3), Tags: map[string][]float64{"a": {1}}}, Mesh{}
	mesh.First = &mesh.Cells[1]
	if err := pup.ToFile("mesh.pup", &mesh, pup.Graph()); err != nil {
		panic(err)
	}
	if err := pup.FromFile("mesh.pup", &back); err != nil {
		panic(err)
	}
	fmt.Println(back.First == &back.Cells[1], len(back.Tags["a"]), pup.ClassOf[Mesh]())
}
`

// missing has a PUP that forgets a field: pupvet must say so.
const missing = `package main

import "github.com/byssus-hpc/byssus/pup"

type Forgetful struct{ A, B int }

func (f *Forgetful) PUP(p *pup.Stream) { pup.Number(p, &f.A) }
`

const ranks = `package main

import (
	"fmt"

	"github.com/byssus-hpc/byssus/mpi"
)

func main() {
	fmt.Println(mpi.RunLocal(2, func(world *mpi.Comm) error { return world.Barrier() }))
}
`

// elsewhere makes a module of this name.
func elsewhere(t *testing.T, name string) (*outside, harness.Site) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	site, err := harness.Here()
	if err != nil {
		t.Fatal(err)
	}
	o := &outside{t, ctx, t.TempDir(), nil}
	o.env = append(os.Environ(), "GOPROXY="+o.proxy(site.Root), "GOMODCACHE="+filepath.Join(t.TempDir(), "cache"), "GONOSUMDB=*",
		"GOFLAGS=-modcacherw", "GOWORK=off", "CGO_ENABLED=1")
	o.run("go mod init " + name)
	return o, site
}

// TestVendored builds a program of package mpi in a module that has copies of all that it imports: the Go command copies only
// directories of packages, so that the C code of mpi must lie there (docs/decisions/055-two-copies-of-the-drivers.md).
func TestVendored(t *testing.T) {
	o, _ := elsewhere(t, "example.org/ranks")
	o.write("ranks.go", ranks)
	o.run("go get github.com/byssus-hpc/byssus/mpi@" + version)
	o.run("go mod vendor")
	if found, want := o.run("go run ."), "<nil>\n"; found != want {
		t.Errorf("go run: found %q, want %q", found, want)
	}
}

func TestReadme(t *testing.T) {
	o, site := elsewhere(t, "example.org/mesh")
	commands, directive := instructions(t, filepath.Join(site.Root, "docs/serialization.md"))
	o.write("mesh.go", strings.Replace(program, "DIRECTIVE", directive, 1))
	o.write("mesh_test.go", "package main\n\nimport (\n\t\"testing\"\n\n\t\"github.com/byssus-hpc/byssus/pup/puptest\"\n)\n\n"+
		"func TestMesh(t *testing.T) { puptest.Check(t, &Mesh{Cells: make([]Cell, 3)}) }\n")
	for _, c := range commands {
		o.run(c)
	}
	if found, want := o.run("go run ."), "true 1 generated\n"; found != want {
		t.Errorf("go run: found %q, want %q", found, want)
	}
	o.run("go test ./...")
	o.write("missing.go", missing)
	if out, err := o.try(commands[len(commands)-1]); err == nil || !strings.Contains(out, "Forgetful") {
		t.Errorf("pupvet on a PUP that forgets a field: %v\n%s", err, out)
	}
}

// instructions are the page's commands, in order, and its directive.
func instructions(t *testing.T, page string) (commands []string, directive string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Using it")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range regexp.MustCompile(`(?m)^ {4}(go (?:get|generate|vet) .*|//go:generate .*)$`).FindAllStringSubmatch(section, -1) {
		if strings.HasPrefix(m[1], "//") {
			directive = m[1]
		} else {
			commands = append(commands, m[1])
		}
	}
	if len(commands) < 4 || directive == "" || !strings.HasPrefix(commands[len(commands)-1], "go vet") {
		t.Fatalf("%s: found commands %q and directive %q", page, commands, directive)
	}
	return commands, directive
}

// outside is a module that is not this one.
type outside struct {
	t   *testing.T
	ctx context.Context
	dir string
	env []string
}

func (o *outside) write(name, text string) {
	if err := os.WriteFile(filepath.Join(o.dir, name), []byte(text), 0o666); err != nil {
		o.t.Fatal(err)
	}
}

func (o *outside) try(command string) (string, error) {
	cmd := exec.CommandContext(o.ctx, "sh", "-c", command)
	cmd.Dir, cmd.Env = o.dir, o.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (o *outside) run(command string) string {
	o.t.Helper()
	out, err := o.try(command)
	if err != nil {
		o.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// proxy makes a module proxy of files with this module in it, as it is here. What it depends on comes from where it came from
// when it was built.
func (o *outside) proxy(root string) string {
	path := "github.com/byssus-hpc/byssus"
	dir := filepath.Join(o.t.TempDir(), path, "@v")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		o.t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		o.t.Fatal(err)
	}
	info, err := json.Marshal(map[string]string{"Version": version})
	if err != nil {
		o.t.Fatal(err)
	}
	for name, content := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": mod} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o666); err != nil {
			o.t.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		o.t.Fatal(err)
	}
	defer f.Close()
	if err := zip.Create(f, module.Version{Path: path, Version: version}, sources(o.t, root)); err != nil {
		o.t.Fatal(err)
	}
	built, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		o.t.Fatal(err)
	}
	return fmt.Sprintf("file://%s,file://%s/cache/download", strings.TrimSuffix(dir, path+"/@v"), strings.TrimSpace(string(built)))
}

// sources are the files of this module that Go programs need.
func sources(t *testing.T, root string) []zip.File {
	var list []zip.File
	for _, part := range []string{"go.mod", "go.sum", "pup", "cmd/pupgen", "cmd/pupvet", "internal/tools/pupgen", "internal/tools/vettool", "mpi", "internal/engine"} {
		err := filepath.WalkDir(filepath.Join(root, part), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !slices.Contains([]string{".go", ".mod", ".sum", ".txt", ".c", ".h"}, filepath.Ext(path)) {
				return err
			}
			name, err := filepath.Rel(root, path)
			list = append(list, source{name, path})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// source is a file of the module.
type source struct{ name, path string }

func (s source) Path() string                 { return s.name }
func (s source) Lstat() (os.FileInfo, error)  { return os.Lstat(s.path) }
func (s source) Open() (io.ReadCloser, error) { return os.Open(s.path) }
