package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Output collects what a program prints and lets others wait for it. Its zero value is ready for use.
type Output struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // closed and renewed by each write; nil while nobody waits
}

// Write appends b and wakes those who wait.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
	return o.text.Write(b)
}

// String returns what was printed so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// next returns a channel that is closed by the next write.
func (o *Output) next() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.changed
}

// Proc is a started program.
type Proc struct {
	Stdout, Stderr Output
	cmd            *exec.Cmd
	done           chan struct{}
	begin          time.Time
	took           time.Duration
}

// Environment is what MPI launchers need when they are run by root, and otherwise this process's own without what is
// meant for the tests. Ranks that wait yield: jobs run beside each other, and who polls for a whole slice of time keeps the others from
// what it waits for.
func Environment(extra ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "BYSSUS_") })
	return append(append(env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"MPIR_CVAR_POLLS_BEFORE_YIELD=1", "OMPI_MCA_mpi_yield_when_idle=1"), extra...)
}

// Start runs argv in dir, in a process group of its own. When the context ends, the program and its descendants are
// ended.
func Start(ctx context.Context, dir string, env []string, argv ...string) (*Proc, error) {
	return StartReading(ctx, nil, dir, env, argv...)
}

// StartReading is Start with a standard input, nil: an empty one.
func StartReading(ctx context.Context, stdin *os.File, dir string, env []string, argv ...string) (*Proc, error) {
	if err := adoptOrphans(); err != nil {
		return nil, err
	}
	hearHangups()
	p := &Proc{done: make(chan struct{}), begin: time.Now()}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Dir, p.cmd.Env = dir, env
	p.cmd.Stdout, p.cmd.Stderr = &p.Stdout, &p.Stderr
	if stdin != nil {
		p.cmd.Stdin = stdin
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = 10 * time.Second // for descendants that hold the pipes
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("harness: start: %w", err)
	}
	go func() {
		_ = p.cmd.Wait() // its outcome is in ProcessState
		p.took = time.Since(p.begin)
		close(p.done)
	}()
	stop := context.AfterFunc(ctx, p.Kill)
	go func() {
		<-p.done
		stop()
	}()
	return p, nil
}

// hearHangups undoes nohup(1) for what this process starts: what it ignores its children ignore.
func hearHangups() {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
}

// Pid is the program's process id.
func (p *Proc) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Running says whether the program has not ended yet.
func (p *Proc) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Took waits for the end and returns how long the program ran.
func (p *Proc) Took() time.Duration {
	<-p.done
	return p.took
}

// ExitCode waits for the end; a program ended by a signal has 128 + its number, as in the shell.
func (p *Proc) ExitCode() int {
	<-p.done
	if p.cmd.ProcessState == nil {
		return -1
	}
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

// Signal sends sig to the program itself.
func (p *Proc) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("harness: signal %d: %w", p.Pid(), err)
	}
	return nil
}

// Kill ends the program and everything below it by SIGKILL, unless it has ended.
func (p *Proc) Kill() {
	if !p.Running() {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGSTOP) // it may have ended
	for _, d := range stopped(p.Pid()) {
		d.kill()
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// ErrEnded means that the program ended while something else was waited for.
var ErrEnded = errors.New("the program ended")

// Until waits until ok accepts what the program has printed, the program ends (ErrEnded), or the context does.
func (p *Proc) Until(ctx context.Context, what string, ok func(stdout string) bool) error {
	for {
		changed := p.Stdout.next()
		if ok(p.Stdout.String()) {
			return nil
		}
		select {
		case <-changed:
		case <-p.done:
			if ok(p.Stdout.String()) {
				return nil
			}
			return fmt.Errorf("harness: waiting for %s: %w with code %d", what, ErrEnded, p.ExitCode())
		case <-ctx.Done():
			return fmt.Errorf("harness: waiting for %s: %w", what, ctx.Err())
		}
	}
}

// Poll asks ok again and again until it is true or the context ends.
func Poll(ctx context.Context, what string, ok func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("harness: waiting for %s: %w", what, ctx.Err())
		}
	}
	return nil
}
