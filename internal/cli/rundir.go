package cli

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/agent"
	"github.com/byssus-hpc/byssus/internal/coordsrv"
	"github.com/byssus-hpc/byssus/internal/dataset"
)

// runBases are the directories in which run directories may lie: sockets need short paths.
func runBases() []string {
	var bases []string
	if x := os.Getenv("XDG_RUNTIME_DIR"); x != "" {
		bases = append(bases, filepath.Join(x, "byssus"))
	}
	return append(bases, fmt.Sprintf("/tmp/byssus-%d", os.Getuid()))
}

// makeRunDir makes the run directory of a job that is locked, and removes what an earlier one left there.
func makeRunDir(j *dataset.Job) (string, error) {
	h := fnv.New64a()
	fmt.Fprint(h, j.Dir)
	name := fmt.Sprintf("%016x", h.Sum64())
	var err error
	for _, base := range runBases() {
		dir := filepath.Join(base, name)
		if len(agent.SocketPath(filepath.Join(dir, "000000"))) > agent.MaxSocketPath {
			err = fmt.Errorf("cli: run directory %s: path too long for a socket", dir)
			continue
		}
		if err = privateDir(base); err != nil {
			continue
		}
		if err = os.RemoveAll(dir); err != nil {
			continue
		}
		if err = os.Mkdir(dir, 0o700); err != nil {
			continue
		}
		link := filepath.Join(j.Dir, "run")
		_ = os.Remove(link)
		return dir, os.Symlink(dir, link)
	}
	return "", err
}

// privateDir makes a directory that is ours alone.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cli: run directory: %w", err)
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("cli: run directory: %w", err)
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || !st.IsDir() || int(sys.Uid) != os.Getuid() || st.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("cli: run directory %s: found %s of uid %d, wanted a directory of uid %d with mode 0700", dir, st.Mode(), sys.Uid, os.Getuid())
	}
	return nil
}

// dial returns a client for a job, which may not be running.
func dial(j *dataset.Job) *coordsrv.Client { return coordsrv.Dial(filepath.Join(j.Dir, "run")) }

// runningDirs lists the run directories of this user.
func runningDirs() []string {
	var dirs []string
	for _, base := range runBases() {
		found, err := filepath.Glob(filepath.Join(base, "*", coordsrv.ControlSocket))
		if err != nil {
			continue
		}
		for _, f := range found {
			dirs = append(dirs, filepath.Dir(f))
		}
	}
	return dirs
}
