package dataset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/store/format/imagetest"
)

// told is what somebody was told of a job: it holds whatever happens.
type told struct {
	dir       string // below the root of the disk
	committed []uint64
	number    uint64 // of a checkpoint that was begun
	term      uint64
}

// world is a disk, and what was said of the jobs on it.
type world struct {
	t     *testing.T
	disk  *lossy
	jobs  []*told
	store Store
	meta  Meta
	dead  bool  // what fails goes on failing
	weak  error // of the job that was locked last
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, disk: newLossy(t), meta: Meta{Name: "melt", ID: id, Ranks: 2, Fsync: true, State: StateRunning}}
	w.store = Store{Dir: filepath.Join(w.disk.root, "a", "b", "store"), ground: ground{w.disk}}
	return w
}

func (w *world) of(j *Job) *told {
	dir := j.Dir[len(w.disk.root):]
	for _, k := range w.jobs {
		if k.dir == dir {
			return k
		}
	}
	w.jobs = append(w.jobs, &told{dir: dir})
	return w.jobs[len(w.jobs)-1]
}

// images has the ranks of a job write theirs, in place of files of that length or new ones.
func (w *world) images(j *Job, dir string, n uint64, ranks ...int) {
	for _, rank := range ranks {
		if err := imagetest.Write(dir, spec(w.t, j, n, rank)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// commit commits a checkpoint of both ranks.
func (w *world) commit(j *Job, n uint64) error {
	dir, err := j.Checkpoints().Prepare(n)
	if err != nil {
		return err
	}
	w.of(j).number = n
	j.Checkpoints().Spares().ReuseImages(n, []int{0, 1})
	w.images(j, dir, n, 0, 1)
	return w.said(j, n, sealAndCommit(j, n))
}

// said notes that a checkpoint was reported as committed. One that was reported as failed must not count.
func (w *world) said(j *Job, n uint64, err error) error {
	k := w.of(j)
	if err == nil {
		k.committed = append(k.committed, n)
	} else if all, lerr := j.Checkpoints().List(); lerr != nil || slices.Contains(all, n) && !slices.Contains(k.committed, n) && !w.dead {
		w.t.Errorf("checkpoint %d counts, %v, and was reported as failed: %v", n, lerr, err)
	}
	return err
}

func (w *world) drop(j *Job, n uint64, drop func(uint64) error) error {
	k := w.of(j)
	k.committed = slices.DeleteFunc(k.committed, func(c uint64) bool { return c == n })
	return drop(n)
}

// took notes that a job was locked.
func (w *world) took(j *Job, err error) error {
	if err == nil {
		w.of(j).term, w.weak = j.Term, j.Weak
	}
	return err
}

// life is what a byssus does with a job in a store.
func (w *world) life() error {
	j, err := w.store.Create(w.meta)
	if w.took(j, err) != nil {
		return err
	}
	defer j.Unlock()
	for n := range uint64(2) {
		if err == nil {
			err = w.commit(j, n+1)
		}
	}
	if err == nil {
		err = w.drop(j, 1, j.Checkpoints().Drop)
	}
	j.Unlock()
	if err == nil {
		err = w.took(j, j.Lock())
	}
	if err == nil {
		err = w.commit(j, 3)
	}
	return err
}

// nodes is what an agent does with its node's cache, and its guard when byssus is gone.
func (w *world) nodes() error {
	home, err := w.store.Create(w.meta)
	if w.took(home, err) != nil {
		return err
	}
	defer home.Unlock()
	caches := Store{Dir: filepath.Join(w.disk.root, "node", "cache"), ground: ground{w.disk}}
	j, err := caches.Cache(w.meta, home.Term, home.Dir)
	if w.took(j, err) != nil {
		return err
	}
	defer j.Unlock()
	if err = w.part(j, 1, 0); err == nil {
		err = w.part(j, 1, 0, 1)
	}
	for n := range uint64(2) {
		if err == nil {
			err = w.commit(j, n+2)
		}
		if err == nil {
			err = w.drop(j, n+1, j.Checkpoints().Spares().Keep)
		}
	}
	if err != nil {
		return err
	}
	to, err := home.Scavenged().Place("node1")
	if err == nil {
		err = w.part(to, 3, 0, 1)
	}
	return err
}

// part commits a node's part of a checkpoint, of which it may have images of the first ranks already: the last one's is new.
func (w *world) part(j *Job, n uint64, ranks ...int) error {
	dir, err := j.Checkpoints().RecreateTemp(n)
	if err != nil {
		return err
	}
	last := ranks[len(ranks)-1:]
	if j.Checkpoints().Gone(n) {
		last = ranks
	}
	w.images(j, dir, n, last...)
	p, err := j.Checkpoints().Seal(context.Background(), n, holding.Image, last)
	if err != nil {
		return err
	}
	all := &Part{}
	if len(last) < len(ranks) {
		if err := all.addRank(context.Background(), j.Checkpoints().Path(n), holding.Image, ranks[0], j.Checkpoints().of(n), false); err != nil {
			w.t.Fatal(err)
		}
	}
	m := j.Checkpoints().Manifest(n, all, p)
	m.Node = "node1"
	return w.said(j, n, j.Checkpoints().Commit(n, m))
}

// lives are what is done to a disk in these tests.
func lives() map[string]func(*world) error {
	return map[string]func(*world) error{"store": (*world).life, "caches": (*world).nodes}
}

// fleeting is a disk for what is not kept anyway.
type fleeting struct{ system }

func (fleeting) Sync(*os.File) error { return nil }

// holds fails the test when something that was said does not hold of what is left, or what is left is in the way of a new byssus.
func (w *world) holds(when string, of ...kept) {
	for _, names := range of {
		left := w.disk.left(names)
		for _, k := range w.jobs {
			if err := k.holds(left); err != nil {
				w.t.Errorf("%s, with %s: %s: %v", when, names, k.dir, err)
			}
		}
		again := &world{store: Store{Dir: filepath.Join(left, w.store.Dir[len(w.disk.root):]), ground: ground{fleeting{}}}, meta: w.meta}
		j, err := again.run()
		if err == nil {
			err = j.Damage
			j.Unlock()
		}
		if err != nil {
			w.t.Errorf("%s, with %s: the job cannot be run: %v", when, names, err)
		}
		if err := os.RemoveAll(left); err != nil {
			w.t.Fatal(err)
		}
	}
}

// run takes the job, whatever there is of it.
func (w *world) run() (*Job, error) {
	j, err := w.store.Create(w.meta)
	if errors.Is(err, ErrExists) {
		if j, err = w.store.Open(w.meta.Name); err == nil {
			err = j.Lock()
		}
	}
	return j, err
}

func (k *told) holds(left string) error {
	j := &Job{Record: Record{Dir: filepath.Join(left, k.dir)}}
	if k.term == 0 && k.number == 0 && len(k.committed) == 0 {
		return nil
	}
	all, err := j.Checkpoints().List()
	if err != nil {
		return err
	}
	for _, n := range k.committed {
		if !slices.Contains(all, n) {
			err = errors.Join(err, fmt.Errorf("checkpoint %d was committed, there are %v", n, all))
		}
	}
	for _, n := range all {
		_, verr := Verify(j.Checkpoints().Path(n), func(int64) {})
		err = errors.Join(err, verr)
	}
	term, terr := j.terms().now()
	last, lerr := j.Checkpoints().Last()
	if err = errors.Join(err, terr, lerr); err == nil && (term < k.term || last < k.number) {
		err = fmt.Errorf("found term %d, number %d, wanted at least %d, %d", term, last, k.term, k.number)
	}
	return err
}

// TestPowerLoss: whatever is the last operation before power is lost, what was reported as committed is there, and whole.
func TestPowerLoss(t *testing.T) {
	for name, live := range lives() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.disk.after = func(o op) {
				w.holds("after "+o.String(), noNames, newestName, allNames)
			}
			if err := live(w); err != nil {
				t.Fatal(err)
			}
			w.holds("in the end", noNames, newestName, allNames)
			t.Logf("%d operations", w.disk.count)
		})
	}
}

// TestFailures: each operation fails, alone or with all after it, as when the process ends there. What was committed before holds, what
// was reported as failed does not count, and what the next byssus commits lasts: also below directories that the first one made.
func TestFailures(t *testing.T) {
	for name, live := range lives() {
		for _, dead := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, dead %v", name, dead), func(t *testing.T) {
				for at := 1; ; at++ {
					w := newWorld(t)
					w.dead = dead
					var failed op
					w.disk.fail = func(o op) error {
						if o.number < at || o.number > at && !dead {
							return nil
						}
						if o.number == at {
							failed = o
						}
						return &os.PathError{Op: o.name, Path: o.path, Err: syscall.EIO}
					}
					err := live(w)
					if failed.number == 0 {
						return
					}
					w.disk.fail = nil
					when := fmt.Sprintf("%v fails: %v", failed, err)
					if !dead { // else it is as when power is lost there
						w.holds(when, noNames, newestName, allNames)
					}
					w.goOn(when)
				}
			})
		}
	}
}

// goOn is what the next byssus does with what was left by the end of a process.
func (w *world) goOn(when string) {
	j, err := w.run()
	if w.took(j, err) == nil {
		defer j.Unlock()
		err = w.commit(j, 9)
	}
	if err != nil {
		w.t.Errorf("%s: the next byssus: %v", when, err)
		return
	}
	w.holds(when+", then another commits", noNames)
}

// TestNoDirectorySync: where directories cannot be synced one goes on without, and has for the user where that is. Any other failure to
// sync one is a failure.
func TestNoDirectorySync(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		path string // of the directory that cannot be synced; empty: none can
		weak string // what is said; empty: nothing goes on
	}{
		"EINVAL":                          {syscall.EINVAL, "", "/store: directories cannot be synced there (invalid argument): a loss of power may take"},
		"ENOTSUP":                         {syscall.ENOTSUP, "", "/store: directories cannot be synced there (operation not supported): a loss of power may take"},
		"ENOSYS":                          {syscall.ENOSYS, "", "/store: directories cannot be synced there (function not implemented): a loss of power may take"},
		"EBADF":                           {syscall.EBADF, "", "/store: directories cannot be synced there (bad file descriptor): a loss of power may take"},
		"EIO":                             {syscall.EIO, "", ""},
		"may not be read, new in it":      {syscall.EACCES, "/a", "/a: directories cannot be synced there (permission denied): a loss of power may take"},
		"may not be read, nothing new":    {syscall.EACCES, "above", "<nil>"},
		"a store that cannot be synced":   {syscall.EIO, "/a/b/store", ""},
		"a job that cannot be synced":     {syscall.EIO, "/a/b/store/melt", ""},
		"what is above cannot be synced":  {syscall.EIO, "above", ""},
		"what is above is no use, EINVAL": {syscall.EINVAL, "above", "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.disk.fail = func(o op) error {
				above := c.path == "above" && o.path == filepath.Dir(w.disk.root)
				if o.name == "sync" && o.dir && (above || c.path == "" || c.path == o.path) {
					return &os.PathError{Op: o.name, Path: o.path, Err: c.err}
				}
				return nil
			}
			err := w.life()
			if c.weak == "" {
				if !errors.Is(err, c.err) {
					t.Errorf("found %v, wanted %v", err, c.err)
				}
			} else if err != nil || !strings.Contains(fmt.Sprint(w.weak), c.weak) {
				t.Errorf("found %v, %v, wanted %q", err, w.weak, c.weak)
			}
		})
	}
}
