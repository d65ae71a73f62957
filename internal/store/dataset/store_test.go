package dataset

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/store/format/imagetest"
	"github.com/byssus-hpc/byssus/internal/store/own"
	"github.com/byssus-hpc/byssus/internal/store/part"
)

// verify looks at everything that a job has, as the verb does, and returns what is damaged.
func verify(s Store, name string) (damage []string, good []uint64) {
	j, err := s.Open(name)
	if err != nil {
		return []string{err.Error()}, nil
	}
	for _, err := range j.Verify() {
		damage = append(damage, err.Error())
	}
	all, err := j.Checkpoints().List()
	if err != nil {
		return append(damage, err.Error()), nil
	}
	for _, n := range all {
		if _, err := Verify(j.Checkpoints().Path(n), func(int64) {}); err != nil {
			damage = append(damage, err.Error())
		} else {
			good = append(good, n)
		}
	}
	return damage, good
}

// files lists all files of a job.
func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// aStore has the job melt with checkpoints 1 and 2, and the job other with one.
func aStore(t *testing.T) (Store, *Job) {
	t.Helper()
	j := newJob(t, 2)
	commit(t, j, 1)
	commit(t, j, 2)
	j.Unlock()
	s := Store{Dir: filepath.Dir(j.Dir)}
	other, err := s.Create(Meta{Name: "other", ID: id, Ranks: 1, State: StateRunning})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, other, 1)
	other.Unlock()
	if damage, good := verify(s, "melt"); len(damage) != 0 || len(good) != 2 {
		t.Fatalf("found %v, %v", damage, good)
	}
	return s, j
}

// found fails the test when damage to a file of a checkpoint goes unnoticed, is not named, or hides anything else.
func found(t *testing.T, s Store, path, what string) {
	t.Helper()
	damage, good := verify(s, "melt")
	if len(damage) != 1 || !strings.Contains(damage[0], filepath.Base(path)) {
		t.Errorf("%s: %s: found %q, wanted one line about it", path, what, damage)
	}
	p, inCheckpoint := parseDir(filepath.Base(filepath.Dir(path)))
	if inCheckpoint == (len(good) == 2) || slices.Contains(good, p.n) {
		t.Errorf("%s: %s: checkpoints %v are good", path, what, good)
	}
	names, err := s.Jobs()
	if err != nil || !slices.Equal(names, []string{"melt", "other"}) {
		t.Errorf("%s: %s: jobs %v, %v", path, what, names, err)
	}
	if damage, good := verify(s, "other"); len(damage) != 0 || len(good) != 1 {
		t.Errorf("%s: %s: the other job: %v, %v", path, what, damage, good)
	}
}

// TestEveryByteOfTheStore turns a bit of every byte of every file of a job.
func TestEveryByteOfTheStore(t *testing.T) {
	s, j := aStore(t)
	count := 0
	for _, path := range filesIn(t, j.Dir) {
		sound, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(path) == reserveName {
			continue // only its room counts
		}
		for i := range sound {
			if strings.HasSuffix(path, ".img") && i >= 200 && i < 8000 && i%61 != 0 {
				continue // the header's reserved zeros and the memory; format's own test takes them all
			}
			bad := slices.Clone(sound)
			bad[i] ^= 1 << (i % 8)
			poke(t, path, 0, bad)
			found(t, s, path, fmt.Sprintf("bit %d of byte %d", i%8, i))
			count++
			if t.Failed() {
				return
			}
		}
		poke(t, path, 0, sound)
	}
	t.Logf("%d bytes", count)
}

// TestOtherDamage: what else can become of a file.
func TestOtherDamage(t *testing.T) {
	s, j := aStore(t)
	for _, path := range filesIn(t, j.Dir) {
		sound, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Base(path); strings.HasPrefix(name, lastPrefix+".") || strings.HasPrefix(name, ownerPrefix) {
			continue // only its name counts
		} else if name == reserveName {
			continue // only its room counts
		}
		isLock := path == lockPath(j.Dir)
		for name, spoil := range map[string]func() error{
			"one byte less":  func() error { return os.WriteFile(path, sound[:len(sound)-1], 0o600) },
			"half":           func() error { return os.WriteFile(path, sound[:len(sound)/2], 0o600) },
			"one byte more":  func() error { return os.WriteFile(path, append(slices.Clone(sound), 0), 0o600) },
			"a page more":    func() error { return os.WriteFile(path, append(slices.Clone(sound), make([]byte, 4096)...), 0o600) },
			"twice":          func() error { return os.WriteFile(path, append(slices.Clone(sound), sound...), 0o600) },
			"zeros":          func() error { return os.WriteFile(path, make([]byte, len(sound)), 0o600) },
			"empty":          func() error { return os.WriteFile(path, nil, 0o600) },
			"missing":        func() error { return os.Remove(path) },
			"a directory":    func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
			"a pipe":         func() error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
			"8 EiB, sparse":  func() error { return sparse(path) },
			"another's":      func() error { return copyFile(path, strings.Replace(path, "rank-00000", "rank-00001", 1)) },
			"another time's": func() error { return copyFile(path, strings.Replace(path, "ckpt.000001", "ckpt.000002", 1)) },
		} {
			if isLock && (name == "empty" || name == "missing") {
				continue // as a lock may be
			}
			if name == "another's" && !strings.Contains(path, "rank-00000") || name == "another time's" && !strings.Contains(path, "ckpt.000001") {
				continue
			}
			if err := spoil(); err != nil {
				t.Fatalf("%s: %s: %v", path, name, err)
			}
			used := allocated(func() { found(t, s, path, name) })
			if limit := uint64(8*format.Allowance + 1<<20); used > limit {
				t.Errorf("%s: %s: %d bytes were allocated, at most %d wanted", path, name, used, limit)
			}
			if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, sound, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func sparse(path string) error {
	var err error
	for size := int64(1<<63 - 4096); size > 1<<32; size /= 2 { // as large as the file system can
		if err = os.Truncate(path, size); err == nil {
			return nil
		}
	}
	return err
}

func copyFile(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestAnotherJobsImage: an image of another job that says it is of this rank and checkpoint.
func TestAnotherJobsImage(t *testing.T) {
	s, j := aStore(t)
	for _, where := range []uint64{1, 2} {
		sp := spec(t, j, where, 1)
		sp.JobID[3]++
		path := filepath.Join(j.Checkpoints().Path(where), part.ImageName(1, 0))
		sound, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := imagetest.Write(j.Checkpoints().Path(where), sp); err != nil {
			t.Fatal(err)
		}
		found(t, s, path, "of another job "+hex.EncodeToString(sp.JobID[:]))
		poke(t, path, 0, sound)
	}
}

// TestNumbers: the highest number is known whatever becomes of the checkpoints, also where the disk is full.
func TestNumbers(t *testing.T) {
	j := newJob(t, 1)
	last := func(want uint64) {
		t.Helper()
		if n, err := j.Checkpoints().Last(); err != nil || n != want {
			t.Errorf("last number %d, %v, wanted %d", n, err, want)
		}
	}
	last(0)
	commit(t, j, 1)
	write(t, j, 2)
	if err := j.Checkpoints().Discard(2); err != nil {
		t.Fatal(err)
	}
	last(2)
	j.Unlock()
	if err := j.Lock(); err != nil {
		t.Fatal(err)
	}
	last(2)
	commit(t, j, 3)
	if err := j.Checkpoints().Drop(3); err != nil {
		t.Fatal(err)
	}
	last(3)
	for _, n := range []uint64{1, 2} {
		if _, err := j.Checkpoints().Prepare(n); err == nil {
			t.Errorf("number %d was given again", n)
		}
	}
	write(t, j, 9) // a crash while it is being written
	j.Unlock()
	remove(t, filepath.Join(j.Dir, lastName(0, 9)))
	if err := j.Lock(); err != nil {
		t.Fatal(err)
	}
	last(9)
}

// TestAskingIsNotLocking: those who ask whether a job runs do not keep it from being run.
func TestAskingIsNotLocking(t *testing.T) {
	j := newJob(t, 1)
	j.Unlock()
	other := &Job{Record: Record{Dir: j.Dir}}
	stop, wg := make(chan struct{}), sync.WaitGroup{}
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					other.Locked()
				}
			}
		})
	}
	for i := range 300 {
		if err := j.Lock(); err != nil {
			t.Fatalf("time %d: %v", i, err)
		}
		j.Unlock()
	}
	close(stop)
	wg.Wait()
}

// TestWhileItChanges: checkpoints are committed and dropped, jobs made and removed, while others list and verify.
func TestWhileItChanges(t *testing.T) {
	j := newJob(t, 2)
	s := Store{Dir: filepath.Dir(j.Dir)}
	stop, wg := make(chan struct{}), sync.WaitGroup{}
	look := func() {
		names, err := s.Jobs()
		if err != nil {
			t.Error(err)
		}
		for _, name := range names {
			seen, err := s.Open(name)
			if err != nil && !errors.Is(err, ErrNoJob) {
				t.Error(err)
			}
			if err != nil {
				continue
			}
			if seen.Damage != nil && !seen.Vanished() {
				t.Error(seen.Damage)
			}
			all, err := seen.Checkpoints().List()
			if err != nil && !errors.Is(err, ErrNoJob) {
				t.Error(err)
			}
			for _, n := range all {
				if _, err := Verify(seen.Checkpoints().Path(n), func(int64) {}); err != nil && !seen.Checkpoints().Gone(n) {
					t.Error(err)
				}
			}
		}
	}
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					look()
				}
			}
		})
	}
	for n := uint64(1); n <= 20; n++ {
		commit(t, j, n)
		if n > 2 {
			if err := j.Checkpoints().Drop(n - 2); err != nil {
				t.Error(err)
			}
		}
		passing, err := s.Create(Meta{Name: "passing*", ID: id, Ranks: 1, State: StateRunning})
		if err != nil {
			t.Fatal(err)
		}
		commit(t, passing, 1)
		if err := passing.Remove(); err != nil {
			t.Error(err)
		}
		passing.Unlock()
	}
	close(stop)
	wg.Wait()
}

// TestManyAtOnce: of many who want to run one job, one at a time does, and what it finds was left by the one before.
func TestManyAtOnce(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "store")}
	var mu sync.Mutex
	inside, ran := 0, 0
	var wg sync.WaitGroup
	deadline := time.Now().Add(2 * time.Minute)
	for range 8 {
		wg.Go(func() {
			for done := 0; done < 20 && time.Now().Before(deadline); {
				j, err := s.Create(Meta{Name: "one", ID: id, Ranks: 1, State: StateFinished})
				if errors.Is(err, ErrLocked) || errors.Is(err, ErrNoJob) {
					runtime.Gosched()
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				inside++
				ran++
				if inside != 1 {
					t.Errorf("%d run the job", inside)
				}
				inside--
				mu.Unlock()
				if done++; done%5 == 0 {
					if err := j.Remove(); err != nil {
						t.Error(err)
					}
				}
				j.Unlock()
			}
		})
	}
	wg.Wait()
	if ran != 160 {
		t.Errorf("ran %d times, wanted 160", ran)
	}
}

// TestForeign: what belongs to others, may be written to by others, or is a link, is not used.
func TestForeign(t *testing.T) {
	const nobody = 65534
	chown := func(path string) error { return os.Lchown(path, nobody, nobody) }
	link := func(path string) error {
		return errors.Join(os.Rename(path, path+".away"), os.Symlink(filepath.Base(path)+".away", path))
	}
	wide := func(path string) error { return os.Chmod(path, 0o770) }
	for _, c := range []struct {
		name, at string
		spoil    func(string) error
		lock     bool // seen when the job is locked; else when it is opened
		image    bool // seen when the checkpoint is checked
	}{
		{name: "store of another", at: "..", spoil: chown},
		{name: "job of another", at: ".", spoil: chown},
		{name: "job that others can write to", at: ".", spoil: wide},
		{name: "job that is a link", at: ".", spoil: link},
		{name: "job.json of another", at: "job.json", spoil: chown},
		{name: "job.json that is a link", at: "job.json", spoil: link},
		{name: "lock of another", at: "lock", spoil: chown, lock: true},
		{name: "lock that is a link", at: "lock", spoil: link, lock: true},
		{name: "checkpoint of another", at: "ckpt.000001", spoil: chown, image: true},
		{name: "checkpoint that is a link", at: "ckpt.000001", spoil: link, image: true},
		{name: "checkpoint that others can write to", at: "ckpt.000001", spoil: wide, image: true},
		{name: "manifest of another", at: "ckpt.000001/manifest.json", spoil: chown, image: true},
		{name: "manifest that is a link", at: "ckpt.000001/manifest.json", spoil: link, image: true},
		{name: "image of another", at: "ckpt.000001/rank-00000.0.img", spoil: chown, image: true},
		{name: "image that is a link", at: "ckpt.000001/rank-00000.0.img", spoil: link, image: true},
	} {
		if os.Geteuid() != 0 && strings.Contains(c.name, "of another") {
			t.Logf("SKIP: %s: root is needed to give files away", c.name)
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s, j := aStore(t)
			path := filepath.Join(j.Dir, c.at)
			if err := c.spoil(path); err != nil {
				t.Fatal(err)
			}
			seen, err := s.Open("melt")
			if err == nil && c.lock {
				err = seen.Lock()
			} else if err == nil && c.image {
				_, err = Check(seen.Checkpoints().Path(1))
			}
			if !errors.Is(err, own.ErrForeign) {
				t.Errorf("found %v", err)
			}
			if os.Geteuid() == 0 {
				_ = os.Chown(filepath.Dir(j.Dir), 0, 0)
			}
		})
	}
}

// TestNothingCanBeWritten: a job on a file system that is read-only, or full to the last inode, can be locked, by one.
func TestNothingCanBeWritten(t *testing.T) {
	if os.Getenv("BYSSUS_TEST_MOUNTS") == "" {
		again(t)
		return
	}
	for _, options := range []string{"remount,ro", "full"} {
		dir := t.TempDir()
		mount(t, "-t", "tmpfs", "-o", "size=10m,nr_inodes=100", "byssus-test", dir)
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
		s := Store{Dir: dir}
		j, err := s.Create(Meta{Name: "melt", ID: id, Ranks: 1, State: StateRunning})
		if err != nil {
			t.Fatal(err)
		}
		commit(t, j, 1)
		write(t, j, 2)
		j.Unlock()
		remove(t, lockPath(j.Dir))
		if strings.Contains(options, "ro") {
			// mount(8) repeats the owner, by a number that a user namespace may not know.
			if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
		} else {
			fill(t, dir)
		}
		if err := j.Lock(); err != nil {
			t.Fatalf("%s: %v", options, err)
		}
		second, err := s.Open("melt")
		if err != nil || !second.Locked() {
			t.Errorf("%s: not seen as running: %v", options, err)
		} else if err := second.Lock(); !errors.Is(err, ErrLocked) {
			t.Errorf("%s: a second one: %v", options, err)
		}
		if _, err := Verify(j.Checkpoints().Path(1), func(int64) {}); err != nil {
			t.Error(err)
		}
		if strings.Contains(options, "ro") {
			if err := j.Save(); err == nil {
				t.Error("job.json was written")
			}
		}
		j.Unlock()
		if second.Locked() {
			t.Errorf("%s: seen as running", options)
		}
	}
}

// fill leaves neither room nor inodes.
func fill(t *testing.T, dir string) {
	t.Helper()
	err := error(nil)
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("ballast.%d", i)), make([]byte, 1<<20), 0o600)
	}
	for i := 0; ; i++ {
		if f, err := os.Create(filepath.Join(dir, fmt.Sprintf("inode.%d", i))); err != nil {
			return
		} else {
			f.Close()
		}
	}
}

func mount(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
		t.Fatalf("mount %v: %v: %s", args, err, out)
	}
}

// again runs the test in a mount namespace of its own.
func again(t *testing.T) {
	t.Helper()
	args := []string{"--mount"}
	if os.Geteuid() != 0 {
		args = []string{"--user", "--map-root-user", "--mount"}
	}
	cmd := exec.Command("unshare", append(args, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")...)
	cmd.Env = append(os.Environ(), "BYSSUS_TEST_MOUNTS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// fullDisk is a disk without room but for what the removal of a file gives back.
type fullDisk struct {
	system
	room bool
}

func (d *fullDisk) Create(path string) (*os.File, error) {
	if !d.room {
		return nil, &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
	}
	return d.system.Create(path)
}

func (d *fullDisk) Remove(path string) error {
	if st, err := os.Lstat(path); err == nil && st.Size() >= reserveBytes {
		d.room = true
	}
	return d.system.Remove(path)
}

// TestEndInAFullStore: that a job has finished is written where there is no room left.
func TestEndInAFullStore(t *testing.T) {
	s, j := aStore(t)
	j.Meta.State = StateRunning
	if err := j.Save(); err != nil {
		t.Fatal(err)
	}
	j.other = &fullDisk{}
	j.Meta.State = StateFinished
	if err := j.Save(); err != nil {
		t.Fatal(err)
	}
	again, err := s.Open("melt")
	if err != nil || again.Meta.State != StateFinished {
		t.Fatalf("found %v, %v", again, err)
	}
	if _, err := os.Lstat(filepath.Join(j.Dir, reserveName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the room is kept: %v", err)
	}
	j.other = &fullDisk{}
	if err := j.Save(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("found %v, wanted that there is no space", err)
	}
}
