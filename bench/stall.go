package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/bench/internal/job"
)

// stall measures what a checkpoint and a restart cost the application, beside plain writes and reads of as many bytes.
func (b *bench) stall(ctx context.Context) error {
	for _, mpi := range b.mpis {
		for _, size := range []struct {
			mib           int
			limit, reread string
		}{{1024, "1.25", "1.25"}, {50, "100 ms", ""}} {
			if err := b.hold(ctx, mpi, size.mib, size.limit, size.reread); err != nil {
				return err
			}
		}
	}
	return nil
}

// hold runs 2 ranks that hold mib MiB each, and takes checkpoints and plain writes by turns, then restarts and plain
// reads. The stall is the longest gap that the application itself saw while the checkpoint was taken.
func (b *bench) hold(ctx context.Context, mpi string, mib int, limit, reread string) error {
	name, end := b.newJob(), filepath.Join(b.dir, "end")
	defer os.Remove(end)
	argv := []string{b.program("hold", mpi), strconv.Itoa(mib), end}
	flags := []string{"--keep", "1", "--retries", "0"}
	var out job.Output
	p, err := b.tree.Run(ctx, mpi, 2, name, b.dir, &out, flags, argv...)
	if err != nil {
		return err
	}
	defer p.Stop()
	if err := out.WaitFor(ctx, p, "ready", func(s string) bool { return strings.Count(s, "ready") == 2 }); err != nil {
		return err
	}
	size := fmt.Sprintf("%dMiB/%s", mib, mpi)
	stall := sample{name: "Stall/" + size, unit: "ms", limit: limit}
	for range b.rounds {
		plain, err := b.plainWrite(ctx, name, mib)
		if err != nil {
			return err
		}
		c, err := b.tree.Checkpoint(ctx, name)
		if err != nil {
			return err
		}
		stall.native = append(stall.native, plain)
		stall.byssus = append(stall.byssus, gapSince(ctx, &out, p, c))
		fmt.Fprintf(b.out, "# %s: checkpoint %d: stall %.1f ms by its own clock, command %.1f ms, %d bytes\n",
			size, c.Number, float64(c.StallNS)/1e6, float64(c.Took)/1e6, c.Bytes)
	}
	stall.print(b.out)
	return b.restarts(ctx, p, mpi, name, mib, end, sample{name: "Restart/" + size, unit: "ms", limit: reread})
}

// restarts kills a rank and restarts the job, round by round; the last one is let go to its end, which checks its
// memory. A restart's time is that from the command's start to the moment when the last rank's application goes on.
func (b *bench) restarts(ctx context.Context, p *job.Proc, mpi, name string, mib int, end string, s sample) error {
	if _, err := b.plainWrite(ctx, name, mib); err != nil {
		return err
	}
	for range b.rounds {
		if err := b.kill(ctx, name); err != nil {
			return err
		}
		<-p.Done()
		plain, err := b.plain(ctx, "read", mib)
		if err != nil {
			return err
		}
		var out job.Output
		if p, err = b.tree.Restart(ctx, mpi, name, b.dir, &out, "--retries", "0"); err != nil {
			return err
		}
		defer p.Stop()
		var last time.Time
		err = out.WaitFor(ctx, p, "the restarted ranks to go on", func(text string) bool {
			first := map[int]time.Time{}
			for _, g := range gaps(text) {
				if _, ok := first[g.rank]; !ok {
					first[g.rank] = g.end
				}
			}
			if len(first) < 2 {
				return false
			}
			last = first[0]
			if first[1].After(last) {
				last = first[1]
			}
			return true
		})
		if err != nil {
			return err
		}
		s.native = append(s.native, plain)
		s.byssus = append(s.byssus, float64(last.Sub(p.Began()))/1e6)
	}
	s.print(b.out)
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		return fmt.Errorf("bench: stall: %w", err)
	}
	_, err := p.Wait()
	return err
}

// kill ends the first rank of a job as a crash would.
func (b *bench) kill(ctx context.Context, name string) error {
	pids, err := b.tree.Pids(ctx, name)
	if err != nil {
		return err
	}
	if len(pids) == 0 {
		return fmt.Errorf("bench: stall: job %s has no ranks", name)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		return fmt.Errorf("bench: stall: kill %d: %w", pids[0], err)
	}
	return nil
}

// A gap is a time in which the application did not run, as it noticed itself.
type gap struct {
	rank int
	ms   float64
	end  time.Time
}

func gaps(text string) []gap {
	var list []gap
	for line := range strings.Lines(text) {
		var rank int
		var ns, end int64
		if n, _ := fmt.Sscanf(line, "gap %d %d %d", &rank, &ns, &end); n == 3 {
			list = append(list, gap{rank, float64(ns) / 1e6, time.Unix(0, end)})
		}
	}
	return list
}

// plainWrite is plain with the job's ranks standing still, as they do during a checkpoint: they would take the
// processors from the writers.
func (b *bench) plainWrite(ctx context.Context, name string, mib int) (float64, error) {
	pids, err := b.tree.Pids(ctx, name)
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return 0, fmt.Errorf("bench: stall: stop %d: %w", pid, err)
		}
		defer syscall.Kill(pid, syscall.SIGCONT)
	}
	return b.plain(ctx, "write", mib)
}

// gapSince returns the longest gap that began since a checkpoint was asked for, in milliseconds. What the application printed may
// still be on its way, and a busy machine makes gaps too, so it waits until one is about as long as the ranks say;
// without any the gap was shorter than the 2 ms that are noticed.
func gapSince(ctx context.Context, out *job.Output, p *job.Proc, c job.Checkpoint) float64 {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	longest := 2.0
	said := float64(c.StallNS) / 1e6
	err := out.WaitFor(ctx, p, "a gap of each rank", func(text string) bool {
		for _, g := range gaps(text) {
			if g.end.Add(-time.Duration(g.ms * 1e6)).After(c.Began) {
				longest = max(longest, g.ms)
			}
		}
		return longest > 0.8*said
	})
	if err != nil {
		longest = max(longest, said)
	}
	return longest
}

// plain lets two processes write or read mib MiB each at the same time and returns the slower one's milliseconds.
// What was written stays for the reads and is replaced by the next write.
func (b *bench) plain(ctx context.Context, what string, mib int) (float64, error) {
	var procs [2]*exec.Cmd
	var in [2]io.WriteCloser
	var out [2]io.Reader
	for i := range procs {
		args := []string{what, filepath.Join(b.dir, fmt.Sprintf("plain.%d", i))}
		if what == "write" {
			if err := os.Remove(args[1]); err != nil && !errors.Is(err, os.ErrNotExist) {
				return 0, fmt.Errorf("bench: plain: %w", err)
			}
			args = append(args, strconv.Itoa(mib))
		}
		procs[i] = exec.CommandContext(ctx, b.program("plain", "none"), args...)
		procs[i].Stderr = os.Stderr
		var err1, err2 error
		in[i], err1 = procs[i].StdinPipe()
		out[i], err2 = procs[i].StdoutPipe()
		if err := errors.Join(err1, err2, procs[i].Start()); err != nil {
			return 0, fmt.Errorf("bench: plain %s: %w", what, err)
		}
	}
	var word string
	for i := range procs {
		if _, err := fmt.Fscan(out[i], &word); err != nil {
			return 0, fmt.Errorf("bench: plain %s: %w", what, err)
		}
	}
	for i := range procs {
		if _, err := fmt.Fprintln(in[i]); err != nil {
			return 0, fmt.Errorf("bench: plain %s: %w", what, err)
		}
	}
	var slower float64
	for i := range procs {
		var ns float64
		if _, err := fmt.Fscan(out[i], &ns); err != nil {
			return 0, fmt.Errorf("bench: plain %s: %w", what, err)
		}
		if err := procs[i].Wait(); err != nil {
			return 0, fmt.Errorf("bench: plain %s: %w", what, err)
		}
		slower = max(slower, ns/1e6)
	}
	return slower, nil
}
