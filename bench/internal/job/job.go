// Package job starts MPI programs natively and under Byssus, and asks the byssus command about running jobs.
//
// It sees Byssus as a user does: through the command line and its JSON. It guarantees that what it started is
// ended by Stop and by the end of the context, each process by its own id.
package job

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A Tree is one build of Byssus and the directory that holds its jobs' checkpoints.
type Tree struct {
	Exe string // the byssus command
	Dir string // --dir of every command
}

// A Proc is a running program with what it printed so far.
type Proc struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	done   chan struct{}
	err    error
	begin  time.Time
	took   time.Duration
}

// Native starts argv on n ranks under the MPI's own mpirun, as Byssus would but without it.
func Native(ctx context.Context, mpi string, n int, dir string, out io.Writer, argv ...string) (*Proc, error) {
	args := []string{"-n", fmt.Sprint(n)}
	return start(ctx, dir, out, "mpirun."+mpi, append(args, argv...)...)
}

// Run starts `byssus run` with the flags, and argv as its application.
func (t Tree) Run(ctx context.Context, mpi string, n int, name, dir string, out io.Writer, flags []string, argv ...string) (*Proc, error) {
	args := []string{"run", "-n", fmt.Sprint(n), "--mpi", mpi, "--job", name, "--dir", t.Dir}
	args = append(append(args, flags...), "--")
	return start(ctx, dir, out, t.Exe, append(args, argv...)...)
}

// Restart starts `byssus restart` of the newest checkpoint of a job.
func (t Tree) Restart(ctx context.Context, mpi, name, dir string, out io.Writer, flags ...string) (*Proc, error) {
	return start(ctx, dir, out, t.Exe, append([]string{"restart", name, "--mpi", mpi, "--dir", t.Dir}, flags...)...)
}

func start(ctx context.Context, dir string, out io.Writer, name string, args ...string) (*Proc, error) {
	p := &Proc{cmd: exec.CommandContext(ctx, name, args...), done: make(chan struct{}), begin: time.Now()}
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	p.cmd.Stdout = out
	p.cmd.Stderr = &p.stderr
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 20 * time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("job: start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		p.took = time.Since(p.begin)
		close(p.done)
	}()
	return p, nil
}

// Done is closed when the program has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Began is when the program was started.
func (p *Proc) Began() time.Time { return p.begin }

// Wait returns how long the program ran; an error carries the end of what it printed on standard error.
func (p *Proc) Wait() (time.Duration, error) {
	<-p.done
	if p.err != nil {
		return p.took, fmt.Errorf("job: %s: %w: %s", strings.Join(p.cmd.Args, " "), p.err, tail(p.stderr.String()))
	}
	return p.took, nil
}

// ExitCode waits and returns the program's exit code.
func (p *Proc) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Stderr waits and returns what the program printed on standard error.
func (p *Proc) Stderr() string {
	<-p.done
	return p.stderr.String()
}

// Stop ends the program if it still runs, and waits for its end.
func (p *Proc) Stop() {
	select {
	case <-p.done:
		return
	default:
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.done
}

func tail(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}

// query runs a byssus command and decodes the JSON that it prints.
func (t Tree) query(ctx context.Context, into any, args ...string) error {
	cmd := exec.CommandContext(ctx, t.Exe, append(args, "--dir", t.Dir, "--json")...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("job: byssus %s: %w: %s", strings.Join(args, " "), err, tail(stderr.String()))
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("job: byssus %s: %w in %q", strings.Join(args, " "), err, out)
	}
	return nil
}
