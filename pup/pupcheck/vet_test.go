package pupcheck_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/test/harness"
)

// build compiles pupvet.
func build(t *testing.T) string {
	t.Helper()
	tool := filepath.Join(t.TempDir(), "pupvet")
	if out, err := exec.Command("go", "build", "-o", tool, "github.com/byssus-hpc/byssus/cmd/pupvet").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return tool
}

// TestNothingToReport runs pupvet as the tool of go vet over the standard library, and by itself over this module. The go command
// keeps results by the content of the tool: a copy with other bytes at its end starts without any. The standard library takes minutes.
func TestNothingToReport(t *testing.T) {
	if testing.Short() {
		t.Skip("takes up to a minute for each")
	}
	tool := build(t)
	f, err := os.OpenFile(tool, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(time.Now().String()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	all := [][]string{{tool, "github.com/byssus-hpc/byssus/..."}}
	if harness.ChosenOf(8, 0) {
		all = append(all, []string{"go", "vet", "-vettool=" + tool, "std"})
	}
	for _, args := range all {
		start := time.Now()
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		t.Logf("%s: %v", args[len(args)-1], time.Since(start).Round(time.Second/10))
		if err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestCommand runs pupvet by itself.
func TestCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles pupvet")
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
	stub, err := os.ReadFile("testdata/src/github.com/byssus-hpc/byssus/pup/pup.go")
	if err != nil {
		t.Fatal(err)
	}
	write("pup/go.mod", "module github.com/byssus-hpc/byssus/pup\n\ngo 1.26\n")
	write("pup/pup.go", string(stub))
	write("go.mod", "module m\n\ngo 1.26\n\nrequire github.com/byssus-hpc/byssus/pup v0.0.0\n\n"+
		"replace github.com/byssus-hpc/byssus/pup => ./pup\n")
	const head = "package %\n\nimport \"github.com/byssus-hpc/byssus/pup\"\n\ntype T struct{ a, b int }\n\n"
	write("bad/bad.go", strings.Replace(head, "%", "bad", 1)+"func (t *T) PUP(p *pup.Stream) { pup.Number(p, &t.a) }\n")
	write("good/good.go", strings.Replace(head, "%", "good", 1)+"func (t *T) PUP(p *pup.Stream) { pup.Plain(p, t) }\n")
	write("broken/broken.go", "package broken\n\nvar x int = \"\"\n")

	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--help", 0, "exit codes:"},
		{"help", 0, "Missed fields"},
		{"", 2, "usage:"},
		{"./good", 0, ""},
		{"./bad", 3, "PUP of T: t.b is not visited"},
		{"-json ./bad", 0, `"category": "missed"`},
		{"./broken", 1, "broken.go"},
		{"./good ./bad", 3, "t.b"},
		{"-fix ./bad", 0, ""},
		{"./bad", 0, ""},
	} {
		cmd := exec.Command(tool, strings.Fields(c.args)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("pupvet %s: exit code %d (%v), want %d with %q:\n%s", c.args, code, err, c.code, c.want, out)
		}
	}
}
