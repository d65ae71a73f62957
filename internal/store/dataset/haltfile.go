package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/byssus-hpc/byssus/internal/decide/haltrule"
	"github.com/byssus-hpc/byssus/internal/store/own"
)

// Under which conditions a job is to end early is in a file of its own, halt.json, which others than the byssus that runs the job write,
// also on other machines: it reads it again and again.

func (j *Job) haltPath() string { return filepath.Join(j.Dir, "halt.json") }

// Halt reads them; none, if there is no such file.
func (j *Job) Halt() (haltrule.Conditions, error) {
	var c haltrule.Conditions
	b, err := own.Read(j.haltPath(), mostText)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		b, err = unseal(b)
	}
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return haltrule.Conditions{}, fmt.Errorf("dataset: %s: %w", j.haltPath(), err)
	}
	return c, nil
}

// SetHalt replaces them; with none the file is removed.
func (j *Job) SetHalt(c haltrule.Conditions) error {
	if c.None() {
		if err := j.disk().Remove(j.haltPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("dataset: %w", err)
		}
		return nil
	}
	b, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = j.writeAtomic(j.haltPath(), seal(append(b, '\n')))
	}
	if err != nil {
		return fmt.Errorf("dataset: %s: %w", j.haltPath(), err)
	}
	return nil
}

// EditHalt changes them while nobody else does, and returns what they are then. Where files cannot be locked it does without: who writes
// last is right.
func EditHalt(j *Job, change func(*haltrule.Conditions)) (haltrule.Conditions, error) {
	f, _, err := own.Open(j.haltPath()+".lock", os.O_RDWR|os.O_CREATE)
	if err == nil {
		defer f.Close()
		_ = exclusive(f)
	}
	c, err := j.Halt()
	if err != nil {
		return c, err
	}
	change(&c)
	return c, j.SetHalt(c)
}
