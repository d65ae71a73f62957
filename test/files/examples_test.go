package files

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/wire/client"
	"github.com/byssus-hpc/byssus/test/files/standin"
	"github.com/byssus-hpc/byssus/test/harness"
)

var source = flag.String("scr", "", "a directory with the source of SCR 3.1, whose examples are to be run")

// An example is a program of SCR's own with its arguments.
type example struct {
	files    string // of SCR's folder examples
	args     string
	restarts bool // a second run restarts by SCR's calls from what the first has written
}

// TestExamples runs SCR's own examples, unchanged, and runs them again: go test ./test/files -run TestExamples -scr DIRECTORY.
func TestExamples(t *testing.T) {
	harness.Share(t, harness.Spinning)
	if *source == "" {
		t.Skip("the source of SCR is not here")
	}
	for _, mpi := range harness.MPIs() {
		for _, e := range []example{
			{"test_api.c test_common.c", "", true}, {"test_api.c test_common.c", "--output 2 --times 8", true},
			{"test_api.c test_common.c", "--conf-file=true", true}, {"test_api.c test_common.c", "--config-api=true", true},
			{"test_api.c test_common.c", "--shared-file", true}, {"test_api.c test_common.c", "--current ckpt.4", true},
			{"test_api_multiple.c test_common.c", "", true}, {"test_api_file.c test_common.c", "out", false},
			{"test_api_multiple_file.c test_common.c", "out", false}, {"test_ckpt.cpp", "", false}, {"test_ckpt.F90", "", true}, {"test_ckpt.F", "", true},
		} {
			for _, bypass := range []bool{false, true} {
				if e.args != "--shared-file" || bypass { // in a cache that is refused, by SCR as well
					runExample(t, mpi, e, bypass)
				}
			}
		}
	}
}

func runExample(t *testing.T, mpi string, e example, bypass bool) {
	_, lib := here(t)
	exe := filepath.Join(t.TempDir(), "example")
	argv := []string{"mpicc." + mpi}
	switch filepath.Ext(e.files) {
	case ".cpp":
		argv[0] = "mpicxx." + mpi
	case ".F90", ".F":
		argv[0] = "mpif90." + mpi
	}
	argv = append(argv, "-w", "-o", exe)
	for f := range strings.FieldsSeq(e.files) {
		argv = append(argv, filepath.Join(*source, "examples", f))
	}
	argv = append(argv, "-I"+lib, "-L"+lib, "-lscrf", "-lscr", "-lm", "-Wl,-rpath,"+lib)
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(argv, " "), err, out)
		return
	}
	p := newPlace(t, mpi)
	p.Say(standin.Said{Bypass: bypass, Needed: true})
	p.env = []string{"SCR_CONF_FILE=" + filepath.Join(p.dir, "none")}
	complaint := regexp.MustCompile(`(?i)fail|error|invalid|not valid|mismatch|corrupt`)
	for _, pass := range []string{"run", "again"} {
		before := len(p.Valid())
		r := p.run(t, 4, append([]string{exe}, strings.Fields(e.args)...)...)
		out, _ := os.ReadFile(filepath.Join(p.dir, "out")) // of those that write to a file
		all := strings.Join(r.lines, "\n") + string(out) + r.err
		written := len(p.Valid()) - before
		restarted := len(p.Seen(client.ReqRead)) > 0 && p.Seen(client.ReqRead)[0].Valid == 1
		t.Logf("%s %s %q bypass=%v %s: exit code %d, %d datasets, %d complaints, restarted: %v", mpi, e.files, e.args, bypass, pass, r.code,
			written, len(complaint.FindAllString(all, -1)), restarted)
		if r.code != 0 || written == 0 || complaint.MatchString(all) {
			t.Errorf("%s", all)
		}
		if pass == "again" && e.restarts && !restarted {
			t.Errorf("it has not restarted:\n%s", all)
		}
	}
	_ = os.RemoveAll(p.dir)
}
