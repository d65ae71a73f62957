package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/test/farfs"
	"github.com/byssus-hpc/byssus/test/harness"
)

// Tests with a file system that is stopped run alone: to make a sandbox, all that is mounted is looked at.
func TestMain(m *testing.M) {
	farfs.Main()
	os.Exit(m.Run())
}

// mount makes a file system that can be stopped.
func mount(t *testing.T) (*farfs.FS, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("to mount takes root")
	}
	harness.Share(t, harness.Light)
	lock, err := harness.MountsLock(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	dir := t.TempDir()
	behind, at := filepath.Join(dir, "behind"), filepath.Join(dir, "far")
	for _, d := range []string{behind, at} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return farfs.Mount(t, behind, at), at
}

// far is a cluster whose stores are on a file system that can be stopped; what ranks read and write themselves is elsewhere.
type far struct {
	*cluster
	fs    *farfs.FS
	store string
}

func newFar(t *testing.T) *far {
	t.Helper()
	fs, at := mount(t)
	return &far{newCluster(t, "--bind", at), fs, at}
}

// start begins a job that copies each checkpoint to the store.
func (f *far) start(ctx context.Context, t *testing.T, name, mpi string, flags ...string) *harness.Job {
	t.Helper()
	j := f.place(t, name, nil)
	j.Dir = filepath.Join(f.store, name)
	f.run(ctx, t, j, name, mpi, append([]string{"--flush", "1", "--grace", "10s"}, flags...)...)
	t.Cleanup(j.Close)
	return j
}

// stop begins one, and stops the file system when there is a checkpoint.
func (f *far) stop(ctx context.Context, t *testing.T, name, mpi string) *harness.Job {
	t.Helper()
	j := f.start(ctx, t, name, mpi)
	if !reach(ctx, j, 1) {
		t.Fatalf("no checkpoint\n%s", j.Story())
	}
	f.fs.Stop(t)
	return j
}

// TestAway: the file system of the stores hangs. Checkpoints go on in the caches, a node's end too is survived, and when it is
// there again the newest checkpoints are copied to it.
func TestAway(t *testing.T) {
	f := newFar(t)
	for _, mpi := range harness.MPIs() {
		t.Run(mpi, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), atMost)
			defer cancel()
			name := "away-" + mpi
			j := f.stop(ctx, t, name, mpi)
			defer f.fs.Continue(t)
			now := strings.Count(j.Proc().Stderr.String(), "committed after")
			if !reach(ctx, j, now+3) {
				t.Fatalf("no checkpoints while the store hangs\n%s", j.Story())
			}
			f.sandbox(t, "cut", "nodes/node2") // what waits for a file system cannot be killed
			defer f.sandbox(t, "heal", "nodes/node2")
			f.until(ctx, t, j, "the job goes on from checkpoint")
			now = strings.Count(j.Proc().Stderr.String(), "committed after")
			if !reach(ctx, j, now+2) {
				t.Fatalf("no checkpoints after the loss\n%s", j.Story())
			}
			f.fs.Continue(t)
			f.release(t, name)
			f.ends(ctx, t, j)
			says(t, j, "node node2 was lost: ")
		})
	}
}

// TestKilledWhileAway: an agent is killed while a thread of it waits for the store, which can keep its sockets open. Its ranks end, and the
// job goes on elsewhere.
func TestKilledWhileAway(t *testing.T) {
	f := newFar(t)
	for _, mpi := range harness.MPIs() {
		t.Run(mpi, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), atMost)
			defer cancel()
			name := "held-" + mpi
			j := f.stop(ctx, t, name, mpi)
			defer f.fs.Continue(t)
			for !f.true(t, "node2", agentWaits) { // it is not copying: its turn comes when the store answers
				if ctx.Err() != nil || !j.Proc().Running() {
					t.Fatalf("node2 does not wait for the store\n%s", j.Story())
				}
				f.fs.Continue(t)
				pause(ctx, 3*time.Millisecond)
				f.fs.Stop(t)
			}
			f.sandbox(t, "run", "nodes", "--node", "node2", "--", "sh", "-c", fmt.Sprintf(onAgent, "KILL"))
			if err := harness.Poll(ctx, "the end of the ranks on node2", func() bool { return f.quiet(t, "node2") }); err != nil {
				t.Fatalf("%v\n%s", err, j.Story())
			}
			f.until(ctx, t, j, "the job goes on from checkpoint")
			f.fs.Continue(t)
			f.release(t, name)
			f.ends(ctx, t, j)
			says(t, j, "node node2 was lost: ")
		})
	}
}

// agentWaits is true where the agent waits for the store, or does so at once.
const agentWaits = `for p in /proc/[0-9]*; do grep -qzx agent $p/cmdline && for try in 1 2; do
	grep -qx request_wait_answer $p/task/*/wchan && exit
	sleep 0.05
done; done; exit 1`

// TestSlow: the file system of the stores serves a tenth of the time.
func TestSlow(t *testing.T) {
	f := newFar(t)
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	defer f.fs.Slow(t, 20*time.Millisecond, 200*time.Millisecond)()
	j := f.start(ctx, t, "slow", "mpich")
	if !reach(ctx, j, 2) {
		t.Fatalf("no checkpoint\n%s", j.Story())
	}
	f.sandbox(t, "crash", "nodes/node3")
	defer f.sandbox(t, "start", "nodes/node3")
	f.until(ctx, t, j, "the job goes on from checkpoint")
	f.release(t, "slow")
	f.ends(ctx, t, j)
}

// TestLeavesWhileAway: a job that is told to leave while the store hangs does so in time, or when it is told again, and goes on
// from what the caches have.
func TestLeavesWhileAway(t *testing.T) {
	f := newFar(t)
	for i, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), atMost)
			defer cancel()
			name := []string{"term", "interrupt"}[i]
			j := f.stop(ctx, t, name, harness.MPIs()[i])
			now := strings.Count(j.Proc().Stderr.String(), "committed after")
			if !reach(ctx, j, now+2) {
				t.Fatalf("no checkpoints while the store hangs\n%s", j.Story())
			}
			for sent := 0; !strings.Contains(j.Proc().Stderr.String(), "how the job has ended is not recorded"); sent++ {
				if sent == 0 || sig == syscall.SIGINT {
					if err := j.Proc().Signal(sig); err != nil {
						t.Fatal(err)
					}
				}
				f.until(ctx, t, j, []string{"the end of the job waits for", "how the job has ended is not recorded"}[min(sent, 1)])
			}
			f.fs.Continue(t) // the kernel ends nobody who has files open there
			select {
			case <-j.Proc().Done():
			case <-ctx.Done():
				t.Fatalf("it does not leave\n%s", j.Story())
			}
			if code := j.Proc().ExitCode(); code != []int{123, 130}[i] {
				t.Errorf("exit code %d\n%s", code, j.Story())
			}
			f.release(t, name)
			if err := j.Restart(ctx, harness.MPIs()[1-i], "--sandbox", "nodes", "-v"); err != nil {
				t.Fatal(err)
			}
			f.ends(ctx, t, j)
		})
	}
}

// onOneMachine begins a job without nodes and caches.
func onOneMachine(ctx context.Context, t *testing.T, mpi, store, until string) *harness.Job {
	t.Helper()
	site := prepare(t).site
	j := site.NewJob("alone", t.TempDir())
	if store != "" {
		j.Dir = store
	}
	if err := j.Run(ctx, mpi, 2, []string{"-v"}, append(site.Command(program, mpi), "--until", until)...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Close)
	if err := harness.Poll(ctx, "its ranks", func() bool { return strings.Contains(j.Proc().Stdout.String(), "iter 3\n") }); err != nil {
		t.Fatalf("%v\n%s", err, j.Story())
	}
	return j
}

// TestStrangersFile: a file of another process lies in a file system that hangs. That does not concern a job elsewhere.
func TestStrangersFile(t *testing.T) {
	fs, at := mount(t)
	f, err := os.Create(filepath.Join(at, "file"))
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command("sleep", "1000")
	other.Stdin = f
	if err := errors.Join(other.Start(), f.Close()); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	until := filepath.Join(t.TempDir(), "until")
	j := onOneMachine(ctx, t, "mpich", "", until)
	fs.Stop(t)
	defer fs.Continue(t) // before the other process can end
	if _, err := j.Checkpoint(ctx); err != nil {
		t.Errorf("%v\n%s", err, j.Story())
	}
	finish(ctx, t, j, until)
}

// TestStoreHangs: the store of a job without caches hangs while a checkpoint is taken, and comes back: the checkpoint counts, and the
// job ends with the right numbers.
func TestStoreHangs(t *testing.T) {
	fs, at := mount(t)
	for _, mpi := range harness.MPIs() {
		t.Run(mpi, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), atMost)
			defer cancel()
			until := filepath.Join(t.TempDir(), "until")
			j := onOneMachine(ctx, t, mpi, filepath.Join(at, mpi), until)
			fs.Stop(t)
			defer fs.Continue(t)
			if err := j.Proc().Signal(syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			if err := harness.Poll(ctx, "the checkpoint", func() bool { return farfs.Waits(j.Proc().Pid()) }); err != nil {
				t.Fatalf("%v\n%s", err, j.Story())
			}
			fs.Continue(t)
			if !reach(ctx, j, 1) {
				t.Fatalf("no checkpoint\n%s", j.Story())
			}
			if err := j.Verify(ctx); err != nil {
				t.Error(err)
			}
			finish(ctx, t, j, until)
		})
	}
}

// finish lets a job come to its end, with numbers of all its iterations.
func finish(ctx context.Context, t *testing.T, j *harness.Job, until string) {
	t.Helper()
	if err := os.WriteFile(until+".end", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Finish(ctx); err != nil {
		t.Errorf("%v\n%s", err, j.Story())
	}
}
