package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/host/elfcheck"
)

// traits are what the coordinator compares this node with others by.
func traits(b *Brief) control.Traits {
	out, err := exec.Command(b.Rank, "--processor").Output()
	if err != nil {
		return control.Traits{Wrong: fmt.Sprintf("what its processor has cannot be found out: %v", err)}
	}
	t := control.Traits{Processor: strings.Split(strings.TrimSpace(string(out)), "\n")}
	paths := []string{b.Rank}
	if b.App != "" {
		app, err := lookUp(b.App, b.Path, b.Job.Dir)
		if err != nil {
			return control.Traits{Wrong: err.Error()}
		}
		paths = append(paths, app)
	}
	for _, path := range paths {
		content, err := elfcheck.Content(path)
		if err != nil {
			return control.Traits{Wrong: err.Error()}
		}
		t.Programs = append(t.Programs, control.Program{Path: path, Content: content})
	}
	return t
}

// lookUp finds a program as a rank with this PATH and working directory does.
func lookUp(name, path, dir string) (string, error) {
	dirs := filepath.SplitList(path)
	if strings.Contains(name, "/") {
		dirs = []string{""}
	}
	for _, d := range dirs {
		found := filepath.Join(d, name)
		if !filepath.IsAbs(found) {
			found = filepath.Join(dir, found)
		}
		if st, err := os.Stat(found); err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
			return found, nil
		}
	}
	return "", fmt.Errorf("agent: program %s: not found, or not executable, in %s", name, strings.Join(dirs, ":"))
}
