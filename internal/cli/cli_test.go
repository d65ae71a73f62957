package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/byssus-hpc/byssus/internal/act/agent/agenttest"
	"github.com/byssus-hpc/byssus/internal/cli"
)

func TestMain(m *testing.M) {
	commands := map[string]func(){
		"byssus":       func() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) },
		"byssus-rank":  agenttest.Rank,
		"mpirun.mpich": agenttest.Mpirun,
		"shells":       playShells,
	}
	for _, name := range []string{"scr_halt", "scr_index", "scr_list_down_nodes", "scr_postrun", "scr_prerun", "scr_print", "scr_run", "scr_should_exit"} {
		commands[name] = func() { os.Exit(cli.Called(append([]string{name}, os.Args[1:]...), os.Stdout, os.Stderr)) }
	}
	testscript.Main(m, commands)
}

// TestScripts runs the verbs against a played launcher and played ranks.
func TestScripts(t *testing.T) {
	inside := []string{"mpispec"}
	others, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range others {
		inside = append(inside, d.Name())
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			// The real byssus finds byssus-rank in a library directory; here the commands' directory serves.
			lib := filepath.Join(e.WorkDir, ".lib")
			if err := os.Mkdir(lib, 0o700); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(lib, "libmpich.so.12"), nil, 0o600); err != nil {
				return err
			}
			bin := filepath.SplitList(e.Getenv("PATH"))[0]
			e.Setenv("PATH", bin+":/usr/bin:/bin")
			e.Setenv("BYSSUS_LIBDIR", bin)
			e.Setenv("LD_LIBRARY_PATH", lib)
			e.Setenv("BYSSUS_DIR", filepath.Join(e.WorkDir, "store"))
			e.Setenv("PACKAGES", strings.Join(inside, "|"))
			run, err := os.MkdirTemp("", "by")
			e.Defer(func() { os.RemoveAll(run) })
			e.Setenv("XDG_RUNTIME_DIR", run)
			return err
		},
	})
}
