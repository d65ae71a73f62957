package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A Weight is what a test takes of the machine while it runs. All tests on the machine, in whatever package and process, have
// UnitsPerProcessor for each processor between them.
type Weight int

// Weights of tests.
const (
	Waiting  Weight = 1 // waits most of the time: for timeouts, for silence
	Light    Weight = 2 // ranks that work in turns with waiting, or one process that computes
	Spinning Weight = 4 // ranks that poll, or compute, on all processors
)

// UnitsPerProcessor is the share of one processor.
const UnitsPerProcessor = 2

// Units is what all tests together may take at a time.
func Units() int { return UnitsPerProcessor * max(runtime.NumCPU(), 2) }

// Share waits until the machine has room for a test of this weight, and gives the room back when the test is over. A test that has a
// share must not have subtests that ask for one: it would wait for itself. Nor may it have parallel subtests: these wait for their turn
// among the parallel tests of their package, which may wait for this share.
//
// A unit is the lock of a file, so the share of a process that dies is free at once. Who waits has the lock of the queue: a heavy
// test is not passed by light ones.
func Share(t testing.TB, w Weight) {
	t.Helper()
	release, err := ShareFor(t.Context(), t.Log, w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
}

// ShareFor is Share for who has no testing.TB: release gives the room back and logs what was taken, for who sums it up.
func ShareFor(ctx context.Context, log func(...any), w Weight) (release func(), err error) {
	begin := time.Now()
	wait := time.AfterFunc(held, func() { fmt.Fprintf(os.Stderr, "share: %v waited for\n%s", held, holders(shares())) })
	free, err := share(ctx, shares(), min(int(w), Units()))
	wait.Stop()
	if err != nil {
		return nil, err
	}
	got := time.Now()
	guard := guard()
	return func() {
		guard.Stop()
		free()
		log(fmt.Sprintf("share: waited %.2f s, held %.2f s, %d of %d units", got.Sub(begin).Seconds(), time.Since(got).Seconds(), w, Units()))
	}, nil
}

// held is longer than any test of `make test` has its share. One that hangs would keep all others from the machine until all are out
// of time.
const held = 12 * time.Minute

// guard ends what a test that has its share for too long has started, so that the test fails; if that does not help, its process.
// Both say where it hangs.
func guard() *time.Timer {
	if os.Getenv("BYSSUS_TEST_LONG") != "" {
		return time.NewTimer(held) // these take hours
	}
	return time.AfterFunc(held, func() {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		fmt.Fprintf(os.Stderr, "share: held for %v; below this process:\n%s\n%s\n", held, Tree(os.Getpid()), stacks)
		EndBelow()
		time.Sleep(time.Minute) // for a test that fails now
		fmt.Fprintln(os.Stderr, "share: the test hangs, and nothing that it has started is left: end of the process")
		os.Exit(1)
	})
}

// holders lists the processes that have the units, as the kernel says.
func holders(dir string) string {
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	for i := range Units() {
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(dir, strconv.Itoa(i)), &st); err != nil {
			continue
		}
		for line := range strings.Lines(string(locks)) {
			f := strings.Fields(line) // NUMBER: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF
			if len(f) < 6 || !strings.HasSuffix(f[5], fmt.Sprintf(":%d", st.Ino)) {
				continue
			}
			command, _ := os.ReadFile("/proc/" + f[4] + "/cmdline") // it may have ended
			fmt.Fprintf(&b, "  unit %d: process %s: %s\n", i, f[4], strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return b.String()
}

// sharesVariable names the directory with the units' files to tests that run in a user namespace, where their user is another one.
const sharesVariable = "BYSSUS_TEST_SHARES"

// shares is the directory with the units' files. The tests of another user have units of their own.
func shares() string {
	if dir := os.Getenv(sharesVariable); dir != "" {
		return dir
	}
	return fmt.Sprintf("/tmp/byssus-test-shares.%d", os.Getuid())
}

// SharesVariable is what belongs into the environment of tests that are run in a user namespace.
func SharesVariable() string { return sharesVariable + "=" + shares() }

// ShareMain runs the tests of a package, one after the other, with one share for all of them.
func ShareMain(m *testing.M, w Weight) (code int) {
	release, err := ShareFor(context.Background(), func(...any) {}, w)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer release()
	return m.Run()
}

func share(ctx context.Context, dir string, n int) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("harness: share: %w", err)
	}
	queue, err := os.Create(filepath.Join(dir, "queue"))
	if err != nil {
		return nil, fmt.Errorf("harness: share: %w", err)
	}
	defer queue.Close()
	var mine []*os.File
	release = func() {
		for _, f := range mine {
			f.Close()
		}
	}
	first := false
	err = Poll(ctx, "a share of the machine", func() bool {
		first = first || locked(queue)
		for i := 0; first && i < Units() && len(mine) < n; i++ {
			f, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
			if err == nil && locked(f) {
				mine = append(mine, f)
			} else if err == nil {
				f.Close()
			}
		}
		return len(mine) == n
	})
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// locked takes the lock of a file that this process has not opened elsewhere with the lock.
func locked(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// MountsLock waits for the lock of the machine's mounts, and returns the file that has it until it is closed. Who has a file system
// mounted that can be stopped has it alone: a mount namespace that is made meanwhile would hang with it.
func MountsLock(alone bool) (*os.File, error) {
	if err := os.MkdirAll(shares(), 0o700); err != nil {
		return nil, fmt.Errorf("harness: mounts: %w", err)
	}
	f, err := os.Create(filepath.Join(shares(), "mounts"))
	if err != nil {
		return nil, fmt.Errorf("harness: mounts: %w", err)
	}
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		f.Close()
		return nil, fmt.Errorf("harness: mounts: %w", err)
	}
	return f, nil
}

// Chosen says whether the i-th of some tests of one kind is among the third of them that `make test` runs for this commit; other
// commits run the others. All are run by `make test-long`, and by who runs a package's tests by themselves.
func Chosen(i int) bool { return ChosenOf(3, i) }

// ChosenOf is Chosen, but for one of so many.
func ChosenOf(of uint64, i int) bool {
	n, err := strconv.ParseUint(os.Getenv("BYSSUS_TEST_SEED"), 10, 64)
	return os.Getenv("BYSSUS_TEST_LONG") != "" || err != nil || n == 0 || (uint64(i)+n)%of == 0
}

// Seed is what random decisions follow from, when no flag says it: BYSSUS_TEST_SEED, which `make test` makes of the commit, so that
// each commit tries others; else the clock.
func Seed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("BYSSUS_TEST_SEED"), 10, 64); err == nil && n > 0 {
		return n
	}
	return uint64(time.Now().UnixNano()) % 1_000_000
}
