package coordsrv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/byssus-hpc/byssus/internal/decide/routed"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/files"
)

// removeLinks removes the links into this directory of caches that agents have noted in the files whose names begin so, and what they have
// left half made; then directories of datasets that are empty, which programs would take for the newest. idle: nothing is being copied to the
// prefix, so that what looks so is of agents that are gone.
func removeLinks(route *dataset.Route, caches, notes string, idle bool) error {
	pattern, err := routed.Parse(route.Files)
	if err != nil {
		return err
	}
	lists, err := filepath.Glob(notes + ".*")
	if err != nil {
		return fmt.Errorf("coordsrv: %w", err)
	}
	dirs := map[string]bool{}
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			return fmt.Errorf("coordsrv: %w", err)
		}
		for line := range bytes.Lines(b) {
			var dir string
			if json.Unmarshal(line, &dir) == nil && filepath.IsLocal(dir) { // the last line of one that was killed may be cut off
				dirs[dir] = true
			}
		}
	}
	var errs []error
	for dir := range dirs {
		errs = append(errs, removeLinksIn(filepath.Join(route.Prefix, dir), caches, idle, func(name string) bool { return pattern.Key(path.Join(dir, name)) != "" }))
	}
	errs = append(errs, removeEmpty(route.Prefix, dirs, pattern))
	if err := errors.Join(errs...); err != nil || !idle { // else there may be more in the same directories
		return err
	}
	for _, list := range lists {
		errs = append(errs, os.Remove(list))
	}
	return errors.Join(errs...)
}

// removeLinksIn removes them in a directory.
func removeLinksIn(dir, caches string, idle bool, ofDataset func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		to, lerr := os.Readlink(at)
		link := lerr == nil && strings.HasPrefix(to, caches+"/")
		of := agentsOwn(e.Name())
		if of == "" && idle {
			of = files.Publishing(e.Name())
		}
		half := of != "" && ofDataset(of)
		if link && (half || ofDataset(e.Name())) || half && e.Type().IsRegular() {
			errs = append(errs, os.Remove(at))
		}
	}
	return errors.Join(append(errs, err)...)
}

// agentsOwn is the name that a file is to get which an agent is about to make; empty: it is none.
func agentsOwn(name string) string {
	for _, end := range []string{".byssus-link", ".byssus-copy"} {
		if of, ok := strings.CutSuffix(name, end); ok {
			return of
		}
	}
	return ""
}

// removeEmpty removes directories that belong to datasets, and are empty.
func removeEmpty(prefix string, dirs map[string]bool, pattern *routed.Pattern) error {
	all := map[string]bool{}
	for dir := range dirs {
		for ; dir != "." && pattern.Key(dir+"/x") != ""; dir = path.Dir(dir) {
			all[dir] = true
		}
	}
	list := make([]string, 0, len(all))
	for dir := range all {
		list = append(list, dir)
	}
	slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) }) // what is below first
	for _, dir := range list {
		_ = os.Remove(filepath.Join(prefix, dir)) // which fails if there is anything in it
	}
	return nil
}

// putInPrefix copies the files of a dataset to the prefix that lie in the store: caches have been copied there.
func putInPrefix(dir, prefix string, durable bool) error {
	if _, ok := files.InPlace(dir); ok {
		return nil
	}
	m, err := dataset.ReadManifest(dir)
	if err != nil {
		return err
	}
	for _, f := range m.Files {
		if f.Name == files.IndexName(f.Rank) {
			if err := files.Restore(context.Background(), dir, prefix, f.Rank, durable); err != nil {
				return err
			}
		}
	}
	return nil
}
