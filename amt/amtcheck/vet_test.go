package amtcheck_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// build compiles amtvet.
func build(t *testing.T) string {
	t.Helper()
	tool := filepath.Join(t.TempDir(), "amtvet")
	if out, err := exec.Command("go", "build", "-o", tool, "github.com/byssus-hpc/byssus/cmd/amtvet").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return tool
}

// TestOwnPrograms runs amtvet as the tool of go vet over all that uses package amt here. It finds what amt's own tests do wrong on
// purpose, all of it in one file, and nothing else.
func TestOwnPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles amtvet, and what it looks at")
	}
	const module = "github.com/byssus-hpc/byssus/"
	cmd := exec.Command("go", "vet", "-vettool="+build(t), module+"amt/...", module+"bench/...", module+"test/amt/...")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("amtvet finds nothing")
	}
	wrong := []string{
		"the field c holds a Context", // kept, to be used too late
		"c is stored in kept.c",
		"k is captured by a handler",
		"k.add is the method of a value",
		"a handler waits for c.Rooted(...)",
		"what follows an epoch or an operation begins a collective epoch with c",
		"a task begins a collective epoch with c",
		"a task begins a collective epoch with c",
		"*mine keeps memory of the message m",
		"a handler waits for the reply of squares",
		"a handler calls c.Modify",
		"shift is captured by a collection",
	}
	misused := 0 // by programs which the runtime tells of their misuse
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		if strings.Contains(line, "/misuse_test.go:") {
			misused++
			continue
		}
		i := 0
		for i < len(wrong) && !strings.Contains(line, wrong[i]) {
			i++
		}
		if i == len(wrong) || !strings.Contains(line, "_test.go:") {
			t.Errorf("unexpected: %s", line)
			continue
		}
		wrong = append(wrong[:i], wrong[i+1:]...)
	}
	if misused < 7 {
		t.Errorf("%d misuses of misuse_test.go are found, wanted 7", misused)
	}
	for _, w := range wrong {
		t.Errorf("not found: %s", w)
	}
}

// TestCommand runs amtvet by itself.
func TestCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles amtvet")
	}
	tool := build(t)
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, stub := range []string{"amt/amt.go", "mpi/mpi.go"} {
		text, err := os.ReadFile("testdata/src/github.com/byssus-hpc/byssus/" + stub)
		if err != nil {
			t.Fatal(err)
		}
		write("byssus/"+stub, string(text))
	}
	write("byssus/go.mod", "module github.com/byssus-hpc/byssus\n\ngo 1.26\n")
	write("go.mod", "module m\n\ngo 1.26\n\nrequire github.com/byssus-hpc/byssus v0.0.0\n\nreplace github.com/byssus-hpc/byssus => ./byssus\n")
	const head = "package p\n\nimport \"github.com/byssus-hpc/byssus/amt\"\n\n"
	write("bad/bad.go", head+"func tell(c amt.Context) { go c.Poll() }\n")
	write("good/good.go", head+"func tell(c amt.Context) { c.Poll() }\n")
	write("broken/broken.go", "package broken\n\nvar x int = \"\"\n")

	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--help", 0, "exit codes:"},
		{"help", 0, "A Context from around"},
		{"", 2, "usage:"},
		{"./good", 0, ""},
		{"./bad", 3, "c is the Context of the code around"},
		{"-json ./bad", 0, `"category": "context"`},
		{"./broken", 1, "broken.go"},
		{"./good ./bad", 3, "bad.go"},
	} {
		cmd := exec.Command(tool, strings.Fields(c.args)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("amtvet %s: exit code %d (%v), want %d with %q:\n%s", c.args, code, err, c.code, c.want, out)
		}
	}
}
