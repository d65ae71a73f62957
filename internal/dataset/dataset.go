// Package dataset is the store on disk: jobs, their checkpoints, and the commit that makes a checkpoint count.
//
//	<store>/<job>/job.json             what the job is; see Meta
//	<store>/<job>/lock                 locked (flock) by the byssus that runs the job
//	<store>/<job>/ckpt.000012/         a committed checkpoint
//	    rank-00003.0.img               image of rank 3, part 0; see package format
//	    manifest.json                  the files with sizes and checksums; its last line is the checksum of the rest
//	<store>/<job>/ckpt.000013.tmp/     being written, or left behind by a crash
//	<store>/<job>/ckpt.000010.drop/    being removed
//
// It guarantees: a directory has its final name only after every rank's image was found complete and the manifest was
// written (and all of it fsynced, when the store asks); a crash at any moment leaves the checkpoints that were committed
// before; what a crash leaves behind is removed by the next Lock; files are 0600 and directories 0700.
// It does not decide what is kept: coord does.
package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/faults"
)

// Errors that callers decide on.
var (
	ErrNoJob      = errors.New("no such job")
	ErrExists     = errors.New("there is a job of that name")
	ErrLocked     = errors.New("the job is running")
	ErrNoManifest = errors.New("not committed: it has no manifest")
)

// State of a job that does not run.
const (
	StateRunning  = "running" // or its byssus died
	StateStopped  = "stopped" // left after a checkpoint
	StateFinished = "finished"
	StateFailed   = "failed"
)

// Meta is job.json: what is needed to go on with a job.
type Meta struct {
	Format  int           `json:"format"`
	Name    string        `json:"name"`
	ID      string        `json:"id"` // 32 hexadecimal digits, in every image
	App     []string      `json:"app"`
	Dir     string        `json:"dir"`
	Ranks   int           `json:"ranks"`
	MPI     string        `json:"mpi"`  // last used
	Face    string        `json:"face"` // ABI that the application was linked against; empty: none
	MPIArgs []string      `json:"mpi_args,omitempty"`
	Every   time.Duration `json:"every_ns,omitempty"`
	Keep    int           `json:"keep"`
	Retries int           `json:"retries"`
	Fsync   bool          `json:"fsync"`
	Lazy    bool          `json:"lazy,omitempty"`
	Policy  string        `json:"policy"`
	Refused string        `json:"refused,omitempty"` // calls of refused functions: end, or error; empty: end
	Writers int           `json:"writers,omitempty"`
	Auto    bool          `json:"auto_named,omitempty"`
	State   string        `json:"state"`
	Exit    int           `json:"exit,omitempty"`
	Started time.Time     `json:"started"`
	Ended   time.Time     `json:"ended,omitzero"`
}

// metaFormat is the version of job.json.
const metaFormat = 1

// Store is a directory of jobs.
type Store struct{ Dir string }

// Job is one job in a store.
type Job struct {
	Dir    string
	Meta   Meta
	Faults *faults.Set // armed crash points; nil: none
	lock   *os.File
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckName says whether a job may be called that.
func CheckName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("dataset: job name %q: wanted letters, digits, '.', '_' and '-', at most 64, beginning with a letter or digit", name)
	}
	return nil
}

// Create makes a job and locks it. A name with the suffix "*" means the first free one of name, name-2, name-3, ...
func (s Store) Create(meta Meta) (*Job, error) {
	base, auto := strings.CutSuffix(meta.Name, "*")
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("dataset: store %s: %w", s.Dir, err)
	}
	meta.Format, meta.Auto = metaFormat, auto
	for i := 1; ; i++ {
		meta.Name = base
		if i > 1 {
			meta.Name = fmt.Sprintf("%s-%d", base, i)
		}
		if err := CheckName(meta.Name); err != nil {
			return nil, err
		}
		j := &Job{Dir: filepath.Join(s.Dir, meta.Name), Meta: meta}
		err := os.Mkdir(j.Dir, 0o700)
		switch {
		case errors.Is(err, fs.ErrExist) && auto:
			continue
		case errors.Is(err, fs.ErrExist):
			return s.reuse(j)
		case err != nil:
			return nil, fmt.Errorf("dataset: job %s: %w", meta.Name, err)
		}
		if err := j.take(); err != nil {
			return nil, err
		}
		return j, j.Save()
	}
}

// reuse gives the name of a job that has finished to a new one, whose checkpoints go on in number.
func (s Store) reuse(j *Job) (*Job, error) {
	if err := j.take(); err != nil {
		return nil, err
	}
	old, err := readMeta(j.Dir)
	images, lerr := j.Checkpoints()
	switch {
	case err == nil && old.State != StateFinished && lerr == nil && len(images) > 0:
		j.Unlock()
		return nil, fmt.Errorf("dataset: job %s: %w, %s, with checkpoint %d", j.Meta.Name, ErrExists, old.State, images[len(images)-1])
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		j.Unlock()
		return nil, err
	}
	return j, j.Save()
}

// Open reads a job without locking it.
func (s Store) Open(name string) (*Job, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Dir, name)
	meta, err := readMeta(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("dataset: job %s in %s: %w", name, s.Dir, ErrNoJob)
	}
	if err != nil {
		return nil, err
	}
	return &Job{Dir: dir, Meta: meta}, nil
}

// Jobs lists the names of all jobs.
func (s Store) Jobs() ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("dataset: store %s: %w", s.Dir, err)
	}
	var names []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(s.Dir, e.Name(), "job.json")); err == nil && validName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func readMeta(dir string) (Meta, error) {
	var meta Meta
	path := filepath.Join(dir, "job.json")
	b, err := os.ReadFile(path)
	if err != nil {
		return meta, fmt.Errorf("dataset: %w", err)
	}
	if err := json.Unmarshal(b, &meta); err != nil {
		return meta, fmt.Errorf("dataset: %s: %w", path, err)
	}
	if meta.Format != metaFormat {
		return meta, fmt.Errorf("dataset: %s: format %d, wanted %d", path, meta.Format, metaFormat)
	}
	return meta, nil
}

// Lock takes a job for this process and removes what a crash left behind.
func (j *Job) Lock() error { return j.take() }

func (j *Job) take() error {
	f, err := os.OpenFile(filepath.Join(j.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("dataset: lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		pid := make([]byte, 20)
		n, _ := f.Read(pid)
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("dataset: job %s: %w (process %s)", filepath.Base(j.Dir), ErrLocked, strings.TrimSpace(string(pid[:n])))
		}
		return fmt.Errorf("dataset: lock %s: %w", f.Name(), err)
	}
	if err := f.Truncate(0); err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
		if err != nil {
			f.Close()
			return fmt.Errorf("dataset: lock %s: %w", f.Name(), err)
		}
	}
	j.lock = f
	return j.clean()
}

// Locked says whether a process runs the job.
func (j *Job) Locked() bool {
	f, err := os.Open(filepath.Join(j.Dir, "lock"))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// Unlock gives the job up.
func (j *Job) Unlock() {
	if j.lock != nil {
		j.lock.Close()
		j.lock = nil
	}
}

// Save writes job.json, atomically.
func (j *Job) Save() error {
	b, err := json.MarshalIndent(j.Meta, "", "  ")
	if err == nil {
		err = writeAtomic(filepath.Join(j.Dir, "job.json"), append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("dataset: job %s: %w", j.Meta.Name, err)
	}
	return nil
}

// Remove deletes a job with everything in it.
func (j *Job) Remove() error {
	if err := os.RemoveAll(j.Dir); err != nil {
		return fmt.Errorf("dataset: job %s: %w", j.Meta.Name, err)
	}
	return nil
}

// clean removes what a crash left behind.
func (j *Job) clean() error {
	entries, err := os.ReadDir(j.Dir)
	if err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	for _, e := range entries {
		if _, kind, ok := parseDir(e.Name()); ok && kind != "" {
			if err := os.RemoveAll(filepath.Join(j.Dir, e.Name())); err != nil {
				return fmt.Errorf("dataset: leftover: %w", err)
			}
		}
	}
	return nil
}

// Path is the directory of a committed checkpoint.
func (j *Job) Path(n uint64) string { return filepath.Join(j.Dir, fmt.Sprintf("ckpt.%06d", n)) }

func parseDir(name string) (n uint64, kind string, ok bool) {
	rest, ok := strings.CutPrefix(name, "ckpt.")
	if !ok {
		return 0, "", false
	}
	digits, kind, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(digits, 10, 63)
	return n, kind, err == nil && len(digits) >= 6 && (kind == "" || kind == "tmp" || kind == "drop")
}

// Checkpoints lists the committed checkpoints of the store, ascending, also those of an earlier job of this name.
func (j *Job) Checkpoints() ([]uint64, error) {
	entries, err := os.ReadDir(j.Dir)
	if err != nil {
		return nil, fmt.Errorf("dataset: job %s: %w", j.Meta.Name, err)
	}
	var list []uint64
	for _, e := range entries {
		if n, kind, ok := parseDir(e.Name()); ok && kind == "" {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, nil
}

// Prepare makes the directory for a checkpoint and returns its path.
func (j *Job) Prepare(n uint64) (string, error) {
	dir := j.Path(n) + ".tmp"
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("dataset: checkpoint %d: %w", n, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("dataset: checkpoint %d: %w", n, err)
	}
	return dir, nil
}

// Discard removes what was written for a checkpoint that does not count.
func (j *Job) Discard(n uint64) error { return removeAll(j.Path(n) + ".tmp") }

// Drop removes a committed checkpoint. It stops counting at once.
func (j *Job) Drop(n uint64) error {
	dir := j.Path(n)
	if err := os.Rename(dir, dir+".drop"); err != nil {
		return fmt.Errorf("dataset: drop checkpoint %d: %w", n, err)
	}
	j.Faults.Hit(faults.RetentionDrop)
	return removeAll(dir + ".drop")
}

func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	return nil
}

func writeAtomic(path string, b []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(path + ".new")
		return err
	}
	return os.Rename(path+".new", path)
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
