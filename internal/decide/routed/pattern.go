// Package routed decides which files of a program that is run as it is are datasets, and when one of these is complete: programs that know
// nothing of Byssus say neither.
//
// It guarantees: a dataset is not complete while a file of it is open for writing anywhere, nor when anything of it lies elsewhere than in the
// caches. That all files of it have been begun cannot be known; it is taken for granted when the program has opened files of a later one, on
// each node, when it has written a marker, or when nothing has happened to it for some time; and if there are fewer files on any node than of
// the one before, only after ten times as long.
package routed

import (
	"fmt"
	"regexp"
)

// Pattern says which files are of datasets: a regular expression (RE2) for the path below the prefix, as a whole. What its first group with
// anything in it captures is the key of the dataset.
type Pattern struct{ re *regexp.Regexp }

// Parse reads a pattern.
func Parse(text string) (*Pattern, error) {
	re, err := regexp.Compile(`^(?:` + text + `)$`)
	if err != nil {
		return nil, fmt.Errorf("routed: %w", err)
	}
	if re.NumSubexp() == 0 {
		return nil, fmt.Errorf(`routed: %s: wanted a group for what tells one checkpoint from another, as in rst\.(\d+)\..*`, text)
	}
	return &Pattern{re}, nil
}

// Key is that of the dataset of a file; empty: it is of none.
func (p *Pattern) Key(path string) string {
	m := p.re.FindStringSubmatch(path)
	for i := 1; i < len(m); i++ {
		if m[i] != "" {
			return m[i]
		}
	}
	return ""
}
