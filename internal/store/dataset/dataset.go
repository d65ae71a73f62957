// Package dataset is the store on disk: jobs, their checkpoints, and the commit that makes a checkpoint count.
//
//	<store>/<job>/job.json             what the job is; see Meta
//	<store>/<job>/lock                 locked (flock), with the directory, by the byssus that runs the job
//	<store>/<job>/owner.000004         how many times a byssus has run the job; whoever renames it owns the job
//	<store>/<job>/last.000013          the highest number that a checkpoint ever had
//	<store>/<job>/timeline.jsonl       a log for people; see package timeline
//	<store>/<job>/ckpt.000012/         a committed checkpoint
//	    rank-00003.0.img               image of rank 3, part 0; see package format
//	    manifest.json                  the files with sizes and checksums; its last line is the checksum of the rest
//	<store>/<job>/ckpt.000013.tmp/     being written, or left behind by a crash
//	<store>/<job>/ckpt.000010.drop/    being removed; in a cache, kept to be written over
//
// It guarantees: a directory has its final name only after every rank's image was found complete and the manifest was
// written (and all of it fsynced, when the store asks); a crash at any moment leaves the checkpoints that were committed
// before, and so does a loss of power where directories can be synced; what a crash leaves behind is removed by the next
// Lock; files are 0600 and directories 0700. A damaged file hides nothing else: job.json and manifests are made again from
// each other and from the images, with a note. What belongs to another user, or may be written to by others, or is a link,
// is not used. A job can be locked and read where nothing can be written.
// It does not decide what is kept: coord does.
package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/store/own"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
)

// Errors that callers decide on.
var (
	ErrName       = errors.New("not a name for a job")
	ErrNoJob      = errors.New("no such job")
	ErrExists     = errors.New("there is a job of that name")
	ErrLocked     = errors.New("the job is running")
	ErrNoManifest = errors.New("not committed: it has no manifest")
)

// Store is a directory of jobs.
type Store struct {
	Dir string
	ground
}

// Job is one job in a store.
type Job struct {
	Dir    string
	Meta   Meta
	Stream holding.Stream // of which it gives, takes and lists datasets; see Of
	Term   uint64         // of a job that is locked: one higher each time
	Damage error          // what is wrong with job.json, and what Meta comes from
	Weak   error          // of a job that is locked: why a loss of power may take what counts; nil: it does not
	Faults *faults.Set    // armed crash points; nil: none
	locks  []*os.File
	ground
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckName says whether a job may be called that.
func CheckName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("dataset: job name %q: wanted letters, digits, '.', '_' and '-', at most 64, beginning with a letter or digit: %w", name, ErrName)
	}
	return nil
}

// check says whether the store may be used. One that is not there may.
func (s Store) check() error {
	st, err := os.Stat(s.Dir) // the way to it may lead over links: the user gave it
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("dataset: store: %w", err)
	}
	return own.Check(s.Dir, st, true)
}

// Create makes a job and locks it. A name with the suffix "*" means the first free one of name, name-2, name-3, ...
func (s Store) Create(meta Meta) (*Job, error) {
	base, auto := strings.CutSuffix(meta.Name, "*")
	weakness, err := s.makeDirs(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("dataset: store %s: %w", s.Dir, err)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	s.sweep()
	meta.Auto = auto
	for i := 1; ; i++ {
		meta.Name = base
		if i > 1 {
			meta.Name = fmt.Sprintf("%s-%d", base, i)
		}
		if err := CheckName(meta.Name); err != nil {
			return nil, err
		}
		j, err := s.createNamed(meta, weakness)
		for errors.Is(err, ErrNoJob) { // it was removed meanwhile
			j, err = s.createNamed(meta, weakness)
		}
		if err == nil || !auto || !errors.Is(err, fs.ErrExist) {
			return j, err
		}
	}
}

// createNamed makes a job of that name; a name that is made up must be free, another one may be used again.
func (s Store) createNamed(meta Meta, weakness error) (*Job, error) {
	j := &Job{Dir: filepath.Join(s.Dir, meta.Name), Meta: meta, Weak: weakness, ground: s.ground}
	err := s.disk().Mkdir(j.Dir)
	if errors.Is(err, fs.ErrExist) && !meta.Auto {
		return s.reuse(j)
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: job %s: %w", meta.Name, err)
	}
	if err := j.take(); err != nil {
		return nil, err
	}
	if err := j.Save(); err != nil {
		_ = j.Remove() // nothing is in it
		j.Unlock()
		return nil, err
	}
	return j, nil
}

// reuse gives the name of a job that has finished, or never had a checkpoint, to a new one, whose checkpoints go on in
// number. Those of the earlier job stay until the new one has its own.
func (s Store) reuse(j *Job) (*Job, error) {
	err := j.reusable() // before it has a new term, too: that would end what its nodes do for it
	if err == nil || !errors.Is(err, ErrExists) || j.Locked() {
		if err = j.take(); err != nil {
			return nil, err
		}
		err = j.reusable()
	}
	if err == nil {
		err = j.Save()
	}
	if err != nil {
		j.Unlock()
		return nil, err
	}
	return j, nil
}

// reusable says whether the name of a job may be given to another: with ErrExists when somebody may want to go on with the job.
func (j *Job) reusable() error {
	old := &Job{Dir: j.Dir}
	err := old.load()
	if errors.Is(err, ErrNoJob) {
		err = nil
	}
	goesOn, lerr := ownOfAll(old)
	switch {
	case err != nil || lerr != nil:
		return errors.Join(err, lerr)
	case old.Meta.State == StateFinished:
		return nil
	case goesOn != "":
		return fmt.Errorf("dataset: job %s: %w, %s, with %s", j.Meta.Name, ErrExists, old.Meta.State, goesOn)
	case old.Meta.Cached > 0:
		return fmt.Errorf("dataset: job %s: %w, %s, with checkpoint %d in the caches of its nodes", j.Meta.Name, ErrExists, old.Meta.State, old.Meta.Cached)
	}
	return nil
}

// ownOfAll is how the newest dataset is called that a job has of any stream, of the first that has one; empty: it has none.
func ownOfAll(j *Job) (string, error) {
	streams, err := j.Streams()
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for _, s := range streams {
		of := j.Of(s)
		own, lerr := of.Own()
		if lerr != nil {
			return "", lerr
		}
		if len(own) > 0 {
			return of.Called(own[len(own)-1]), nil
		}
	}
	return "", err
}

// Open reads a job without locking it.
func (s Store) Open(name string) (*Job, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	j := &Job{Dir: filepath.Join(s.Dir, name), ground: s.ground}
	err := own.Dir(j.Dir)
	if err == nil {
		err = j.load()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("dataset: job %s in %s: %w", name, s.Dir, ErrNoJob)
	}
	if err != nil {
		return nil, err
	}
	return j, nil
}

// Jobs lists the names of all jobs, also of those that Open refuses.
func (s Store) Jobs() ([]string, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("dataset: store %s: %w", s.Dir, err)
	}
	var names []string
	for _, e := range entries {
		if validName.MatchString(e.Name()) && s.isJob(e) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// isJob tells a job from what else may lie in the directory: a job has a file of ours in it. What cannot be looked into
// counts, so that it is named.
func (s Store) isJob(e fs.DirEntry) bool {
	path := filepath.Join(s.Dir, e.Name())
	if !e.IsDir() {
		return e.Type()&fs.ModeSymlink != 0 && holdsJob(path)
	}
	return own.Dir(path) != nil || holdsJob(path)
}

func holdsJob(path string) bool {
	entries, err := os.ReadDir(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		_, ckpt := parseDir(e.Name())
		return ckpt || e.Name() == "job.json"
	})
}

// Attach is a job that a process on another machine has locked, which has given this one leave to work on it. It must be
// seen here too, and checkpoints must find room in it.
func Attach(dir string, meta Meta) (*Job, error) {
	here, err := readMeta(dir)
	if err == nil && here.ID != meta.ID {
		err = fmt.Errorf("found job %s, wanted %s", here.ID, meta.ID)
	}
	if err == nil {
		err = unix.Access(dir, unix.W_OK)
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: the store must be the same on all nodes: %s: %w", dir, err)
	}
	return &Job{Dir: dir, Meta: meta}, nil
}

// Lock takes a job for this process, reads again what it is, and removes what a crash left behind.
func (j *Job) Lock() error {
	if err := j.take(); err != nil {
		return err
	}
	if err := j.load(); err != nil {
		j.Unlock()
		return err
	}
	return nil
}

// removedPrefix begins the name of a job that is being removed, which is no job's name.
const removedPrefix = ".removed."

// Remove deletes a job with everything in it. It is gone for others at once.
func (j *Job) Remove() error {
	away := filepath.Join(filepath.Dir(j.Dir), fmt.Sprintf("%s%s.%d", removedPrefix, filepath.Base(j.Dir), os.Getpid()))
	err := j.disk().RemoveAll(away)
	if err == nil {
		err = j.disk().Rename(j.Dir, away)
	}
	if err == nil {
		err = j.syncNames(filepath.Dir(j.Dir)) // else it may come back without what is removed next
	}
	if err == nil {
		err = j.disk().RemoveAll(away)
	}
	if err != nil {
		return fmt.Errorf("dataset: job %s: %w", j.Meta.Name, err)
	}
	return nil
}

// sweep removes what is left of jobs whose removal was interrupted, as far as it can.
func (s Store) sweep() {
	left, _ := filepath.Glob(filepath.Join(s.Dir, removedPrefix+"*")) // with a [ in the store's path there are none
	for _, dir := range left {
		if own.Dir(dir) == nil {
			_ = s.disk().RemoveAll(dir)
		}
	}
}

// clean removes what a crash left behind.
func (j *Job) clean() error {
	entries, err := os.ReadDir(j.Dir)
	if err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	streams := map[holding.Stream]bool{}
	for _, e := range entries {
		p, ok := parseDir(e.Name())
		if s := j.Of(p.stream); err == nil && ok && !streams[p.stream] {
			streams[p.stream] = true
			var last uint64
			if last, err = s.Last(); err == nil {
				err = s.markLast(last) // before the leftovers that tell it are gone
			}
		}
	}
	for _, e := range entries {
		p, ok := parseDir(e.Name())
		if err == nil && (ok && p.state != "" || e.Name() == "job.json.new") {
			err = j.disk().RemoveAll(filepath.Join(j.Dir, e.Name()))
		}
	}
	if err != nil && !sealedStore(err) { // what cannot be removed does not count all the same
		return fmt.Errorf("dataset: leftover: %w", err)
	}
	return nil
}

// Path is the directory of a committed dataset.
func (j *Job) Path(n uint64) string {
	return filepath.Join(j.Dir, place{stream: j.Stream, n: n}.base())
}

// Of is the job with another of its streams of datasets. It has no locks of its own.
func (j *Job) Of(s holding.Stream) *Job {
	other := *j
	other.Stream, other.locks = s, nil
	return &other
}

// Called is how a dataset is called in messages.
func (j *Job) Called(n uint64) string {
	if j.Stream == 0 {
		return fmt.Sprintf("checkpoint %d", n)
	}
	return fmt.Sprintf("dataset %d of stream %d", n, j.Stream)
}

// place is what becomes of a directory of a dataset: empty, it counts; tmp, it is being written; drop, it is being removed.
type place struct {
	stream holding.Stream
	n      uint64
	state  string
}

// base is the name of such a directory.
func (p place) base() string {
	name := fmt.Sprintf("ckpt.%06d", p.n)
	if p.stream != 0 {
		name = fmt.Sprintf("stream%d.%06d", p.stream, p.n)
	}
	if p.state != "" {
		name += "." + p.state
	}
	return name
}

// parseDir reads the name of a directory of a dataset.
func parseDir(name string) (place, bool) {
	var p place
	prefix, rest, ok := strings.Cut(name, ".")
	if digits, other := strings.CutPrefix(prefix, "stream"); other {
		s, err := strconv.ParseUint(digits, 10, 16)
		p.stream, ok = holding.Stream(s), ok && err == nil
	}
	digits, state, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(digits, 10, 63)
	p.n, p.state = n, state
	return p, ok && err == nil && n > 0 && (state == "" || state == "tmp" || state == "drop") && p.base() == name
}

// Checkpoints lists the committed checkpoints of the store, ascending, also those of an earlier job of this name. ErrNoJob: it
// was removed meanwhile, even if there is one of its name again.
func (j *Job) Checkpoints() ([]uint64, error) {
	entries, err := os.ReadDir(j.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("dataset: %s: %w", j.Meta.Name, ErrNoJob)
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: job %s: %w", j.Meta.Name, err)
	}
	var list []uint64
	for _, e := range entries {
		if p, ok := parseDir(e.Name()); ok && p.state == "" && p.stream == j.Stream {
			list = append(list, p.n)
		}
	}
	slices.Sort(list)
	return list, nil
}

// Streams lists the streams of which the job has any committed dataset, ascending.
func (j *Job) Streams() ([]holding.Stream, error) {
	entries, err := os.ReadDir(j.Dir)
	if err != nil {
		return nil, fmt.Errorf("dataset: job %s: %w", j.Meta.Name, err)
	}
	var list []holding.Stream
	for _, e := range entries {
		if p, ok := parseDir(e.Name()); ok && p.state == "" && !slices.Contains(list, p.stream) {
			list = append(list, p.stream)
		}
	}
	slices.Sort(list)
	return list, nil
}

// Own lists the committed checkpoints of this job, ascending, also those that are damaged: not those that are known to
// be of an earlier job of this name.
func (j *Job) Own() ([]uint64, error) {
	all, err := j.Checkpoints()
	return slices.DeleteFunc(all, func(n uint64) bool {
		m, err := ReadManifest(j.Path(n))
		return err == nil && m.ID != j.Meta.ID
	}), err
}

// Vanished says whether the job has been removed meanwhile.
func (j *Job) Vanished() bool {
	_, err := os.Lstat(j.Dir)
	return errors.Is(err, fs.ErrNotExist)
}

// Gone says whether a checkpoint that could not be read has been dropped meanwhile.
func (j *Job) Gone(n uint64) bool {
	_, err := os.Lstat(j.Path(n))
	return errors.Is(err, fs.ErrNotExist)
}

// Prepare makes the directory for a checkpoint and returns its path. The number counts as used from here on.
func (j *Job) Prepare(n uint64) (string, error) {
	if err := j.markLast(n); err != nil {
		return "", err
	}
	return j.RecreateTemp(n)
}

// Bring makes the directory for the copy of a checkpoint that counts elsewhere. Its number may be smaller than others that have
// been used: what was begun after it may have come to nothing.
func (j *Job) Bring(n uint64) error {
	last, err := j.Last()
	if err == nil && n > last {
		err = j.markLast(n)
	}
	if err == nil {
		_, err = j.RecreateTemp(n)
	}
	return err
}

// Discard removes what was written for a checkpoint that does not count.
func (j *Job) Discard(n uint64) error { return j.removeAll(j.Path(n) + ".tmp") }

// Drop removes a committed checkpoint, if it is there. It stops counting at once.
func (j *Job) Drop(n uint64) error {
	away, err := j.setAside(n)
	if err != nil || away == "" {
		return err
	}
	return j.removeAll(away)
}

// setAside takes a committed checkpoint out of what counts, for good before anything in it is touched, and returns where it is;
// empty: there is none.
func (j *Job) setAside(n uint64) (string, error) {
	dir := j.Path(n)
	away := dir + ".drop"
	err := j.disk().RemoveAll(away) // of one that was made again since
	if err == nil {
		err = j.disk().Rename(dir, away)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("dataset: drop checkpoint %d: %w", n, err)
	}
	j.Faults.Hit(faults.RetentionDrop)
	if j.Meta.Fsync {
		if err = j.syncNames(j.Dir); err != nil {
			return "", fmt.Errorf("dataset: drop checkpoint %d: %w", n, err)
		}
	}
	return away, nil
}
