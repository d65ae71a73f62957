package cli

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/host/rundir"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

// A run directory holds the sockets of a running job. It lies in the first of these that can be ours alone; sockets
// need short paths. Others may have made a directory of such a name before us: then the next one serves, at last one
// in /tmp whose name nobody can foretell.

// runBases are the directories with a fixed name.
func runBases(store dataset.Store) []string {
	return append(rundir.Bases(), filepath.Join(store.Dir, ".run"))
}

// allBases are all directories that are there and ours.
func allBases(store dataset.Store) []string {
	var ours []string
	for _, base := range append(runBases(store), rundir.Strange()...) {
		if rundir.Check(base) == nil {
			ours = append(ours, base)
		}
	}
	return ours
}

// firstBase is the directory in which the next job's run directory will be made.
func firstBase(store dataset.Store) string {
	for _, base := range runBases(store) {
		if rundir.Make(base) == nil {
			return base
		}
	}
	return "/tmp" // under a name that nobody can foretell
}

// runName is the name of a job's run directory.
func runName(j *dataset.Job) string {
	h := fnv.New64a()
	fmt.Fprint(h, j.Dir)
	return fmt.Sprintf("%016x", h.Sum64())
}

// makeRunDir makes the run directory of a job that is locked, and removes what an earlier one left there.
func makeRunDir(j *dataset.Job) (string, error) {
	var all error
	var tried []string
	for _, base := range append(runBases(dataset.Store{Dir: filepath.Dir(j.Dir)}), "") {
		dir, err := runDirIn(base, runName(j))
		if err != nil {
			if all = err; len(tried) > 0 {
				all = fmt.Errorf("%s; %w", strings.Join(tried, "; "), err)
			}
			tried = append(tried, err.Error())
			continue
		}
		link := filepath.Join(j.Dir, "run") // for a byssus with another XDG_RUNTIME_DIR; the job runs without it too
		_ = os.Remove(link)
		_ = os.Symlink(dir, link)
		return dir, nil
	}
	return "", all
}

// highestStart is a number of a start that no job comes to; the path of a socket has room for it.
const highestStart = 1 << 40

// runDirIn makes a run directory in base, or in a new one in /tmp when that is empty.
func runDirIn(base, name string) (string, error) {
	if base == "" {
		var err error
		if base, err = rundir.MakeStrange(); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(base, name)
	if len(agent.SocketPath(agent.StartDir(dir, highestStart))) > agent.MaxSocketPath {
		return "", fmt.Errorf("cli: run directory %s: path too long for a socket", dir)
	}
	err := rundir.Make(base)
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	return dir, err
}

// removeRunDir removes a job's run directory, and the one around it if that was made for it alone.
func removeRunDir(dir string) {
	_ = os.RemoveAll(dir)
	if base := filepath.Dir(dir); rundir.IsStrange(base) {
		_ = os.Remove(base) // a sandbox may be in it, too
	}
}

// runDirOf finds the run directory of a job: where the link in the job's directory says, if that is a run directory of
// this job and ours, else where it would have been made. Empty: there is none.
func runDirOf(j *dataset.Job) string {
	var places []string
	if to, err := os.Readlink(filepath.Join(j.Dir, "run")); err == nil && filepath.IsAbs(to) && filepath.Base(to) == runName(j) {
		places = append(places, filepath.Clean(to))
	}
	for _, base := range allBases(dataset.Store{Dir: filepath.Dir(j.Dir)}) {
		places = append(places, filepath.Join(base, runName(j)))
	}
	for _, dir := range places {
		if rundir.Check(filepath.Dir(dir)) == nil && rundir.Check(dir) == nil && coordsrv.Answers(dir) {
			return dir
		}
	}
	return ""
}

// dial returns a client for a job, which may not be running.
func dial(j *dataset.Job) *coordsrv.Client {
	if dir := runDirOf(j); dir != "" {
		return coordsrv.Dial(dir)
	}
	return coordsrv.Dial(filepath.Join(j.Dir, "not running"))
}

// runningIn lists the run directories of this user, also those that lie in these stores.
func runningIn(all []dataset.Store) []string {
	var dirs []string
	for _, s := range all {
		dirs = append(dirs, runningDirs(s)...)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// runningDirs lists the run directories of this user.
func runningDirs(store dataset.Store) []string {
	var dirs []string
	for _, base := range allBases(store) {
		found, _ := filepath.Glob(filepath.Join(base, "*", coordsrv.ControlSocket)) // a base with a [ has none
		for _, f := range found {
			if dir := filepath.Dir(f); rundir.Check(dir) == nil {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}
