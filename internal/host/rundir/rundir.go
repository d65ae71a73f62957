// Package rundir finds directories for sockets that are this user's alone: the first of some places with a fixed name
// in which nobody else can have planted anything; where somebody has in all of them, one whose name nobody can foretell.
//
// It guarantees that a directory which Make or Check accepts is no link, belongs to the effective user, and is open to
// nobody else; of one that Make accepts, that nobody else can put another in its place.
package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Bases are the places with a fixed name, best first. They need not exist, and others may have made them before us.
func Bases() []string {
	var bases []string
	if x := os.Getenv("XDG_RUNTIME_DIR"); x != "" {
		bases = append(bases, filepath.Join(x, "byssus"))
	}
	uid := os.Geteuid()
	return append(bases, fmt.Sprintf("/run/user/%d/byssus", uid), fmt.Sprintf("/tmp/byssus-%d", uid))
}

// strange is how the names begin that nobody can foretell.
func strange() string { return fmt.Sprintf("/tmp/byssus-%d.", os.Geteuid()) }

// Strange are the directories with such a name that are there and ours.
func Strange() []string {
	found, _ := filepath.Glob(strange() + "*") // the pattern is sound
	return slices.DeleteFunc(found, func(dir string) bool { return Check(dir) != nil })
}

// MakeStrange makes one.
func MakeStrange() (string, error) {
	dir, err := os.MkdirTemp("/tmp", filepath.Base(strange()))
	if err != nil {
		return "", fmt.Errorf("rundir: %w", err)
	}
	return dir, nil
}

// IsStrange says whether a directory has such a name.
func IsStrange(dir string) bool { return strings.HasPrefix(dir, strange()) }

// Make makes a directory that is ours alone, where nobody can put another in its place. It may be there already.
func Make(dir string) error {
	parent := filepath.Dir(dir)
	st, err := os.Stat(parent)
	if err != nil {
		return fmt.Errorf("rundir: %w", err)
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	sticky := st.Mode()&fs.ModeSticky != 0
	if !ok || !sticky && (st.Mode().Perm()&0o022 != 0 || int(sys.Uid) != os.Geteuid() && sys.Uid != 0) {
		return fmt.Errorf("rundir: %s: others can write to %s (%s)", dir, parent, st.Mode())
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("rundir: %w", err)
	}
	return Check(dir)
}

// Check says whether a directory is ours alone, and no link.
func Check(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("rundir: %w", err)
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("rundir: %s: its owner cannot be told", dir)
	}
	if !st.IsDir() || int(sys.Uid) != os.Geteuid() || st.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("rundir: %s: found %s of uid %d, wanted a directory of uid %d with mode 0700", dir, st.Mode(), sys.Uid, os.Geteuid())
	}
	return nil
}
