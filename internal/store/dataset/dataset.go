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

// Job is one job in a store: its record, the lock of who runs it, the term that the lock was taken in. Its datasets, and what was copied
// from the caches of its nodes, are parts of their own: see Of and Scavenged. Who changes a Job, or locks it, has it alone meanwhile.
type Job struct {
	Record
	Term   uint64      // of a job that is locked: one higher each time
	Weak   error       // of a job that is locked: why a loss of power may take what counts; nil: it does not
	Faults *faults.Set // armed crash points; nil: none
	lock   lock        // nil: not locked by this process
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

// at is the job, or the part of a cache, that has a directory. Nothing is known of it yet.
func (s Store) at(dir string) *Job { return &Job{Record: Record{Dir: dir, ground: s.ground}} }

// createNamed makes a job of that name; a name that is made up must be free, another one may be used again.
func (s Store) createNamed(meta Meta, weakness error) (*Job, error) {
	j := s.at(filepath.Join(s.Dir, meta.Name))
	j.Meta, j.Weak = meta, weakness
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
	old := &Record{Dir: j.Dir}
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
func ownOfAll(r *Record) (string, error) {
	streams, err := r.Streams()
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for _, s := range streams {
		of := r.of(s)
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
	j := s.at(filepath.Join(s.Dir, name))
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
	return &Job{Record: Record{Dir: dir, Meta: meta}}, nil
}

// Of are the datasets of one of the job's streams.
func (j *Job) Of(s holding.Stream) *Datasets {
	d := j.of(s)
	d.faults = j.Faults
	return d
}

// Checkpoints are the datasets of the stream that ranks go on from.
func (j *Job) Checkpoints() *Datasets { return j.Of(0) }

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
		if err == nil && ok && !streams[p.stream] {
			streams[p.stream] = true
			d := j.Of(p.stream)
			var last uint64
			if last, err = d.Last(); err == nil {
				err = d.markLast(last) // before the leftovers that tell it are gone
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

// Streams lists the streams of which the job has any committed dataset, ascending.
func (r *Record) Streams() ([]holding.Stream, error) {
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		return nil, fmt.Errorf("dataset: job %s: %w", r.Meta.Name, err)
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

// Vanished says whether the job has been removed meanwhile.
func (j *Job) Vanished() bool {
	_, err := os.Lstat(j.Dir)
	return errors.Is(err, fs.ErrNotExist)
}

// Verify looks at what a job has beside its checkpoints, and returns what is damaged there.
func (j *Job) Verify() []error {
	var found []error
	for _, err := range []error{j.Damage, checkLock(j.Dir)} {
		if err != nil {
			found = append(found, err)
		}
	}
	return found
}

// ErrOver means that a job needs nothing of its caches any more, or that somebody else has it.
var ErrOver = errors.New("the job is not this byssus's any more")

// Left says whether a job that was run in a term waits for somebody who goes on with it: with ErrOver when it never will again,
// with ErrLocked while that byssus has it, which may be about to end.
func (j *Job) Left(term uint64) error {
	meta, err := readMeta(j.Dir)
	if _, serr := os.Stat(filepath.Dir(j.Dir)); serr == nil && errors.Is(err, fs.ErrNotExist) { // else the store may be away
		err = fmt.Errorf("%w: %w", err, ErrOver)
	}
	if err != nil {
		return err
	}
	now, err := j.terms().now()
	switch {
	case err != nil:
		return err
	case meta.ID != j.Meta.ID:
		return fmt.Errorf("dataset: job %s: found job %s, wanted %s: %w", j.Meta.Name, meta.ID, j.Meta.ID, ErrOver)
	case now > term:
		return fmt.Errorf("dataset: job %s: found term %d, wanted %d: %w", j.Meta.Name, now, term, ErrOver)
	case meta.State == StateFinished:
		return fmt.Errorf("dataset: job %s has finished: %w", j.Meta.Name, ErrOver)
	case j.Locked():
		return fmt.Errorf("dataset: job %s: %w", j.Meta.Name, ErrLocked)
	}
	return nil
}
