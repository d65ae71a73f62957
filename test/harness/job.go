package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Job is a job of Byssus: the command that runs it now, and what all its lives have printed.
type Job struct {
	Name  string
	Dir   string // --dir
	site  Site
	proc  *Proc   // of the present life
	lives []*Proc // all of them, the present one included
	env   []string
	work  string

	results string // the prefix of the files with the ranks' results
}

// resultsAt is the variable that says where the ranks' results go. Each job has its own, so it marks the job's processes, too.
const resultsAt = "TEST_RESULTS="

// NewJob names a job whose images go below dir and whose programs start in dir.
func (s Site) NewJob(name, dir string, env ...string) *Job {
	results := filepath.Join(dir, "results")
	env = Environment(append(env, resultsAt+results)...)
	return &Job{Name: name, Dir: dir + "/store", site: s, env: env, work: dir, results: results}
}

// Run starts the job.
func (j *Job) Run(ctx context.Context, mpi string, n int, flags []string, argv ...string) error {
	args := []string{j.site.Byssus, "run", "-n", strconv.Itoa(n), "--mpi", mpi, "--job", j.Name, "--dir", j.Dir}
	return j.live(ctx, append(append(append(args, flags...), "--"), argv...))
}

// Restart goes on from the newest checkpoint.
func (j *Job) Restart(ctx context.Context, mpi string, flags ...string) error {
	return j.live(ctx, append([]string{j.site.Byssus, "restart", j.Name, "--mpi", mpi, "--dir", j.Dir}, flags...))
}

func (j *Job) live(ctx context.Context, argv []string) error {
	p, err := Start(ctx, j.work, j.env, argv...)
	if err != nil {
		return err
	}
	j.proc, j.lives = p, append(j.lives, p)
	return nil
}

// Proc is the command of the present life.
func (j *Job) Proc() *Proc { return j.proc }

// Command runs another byssus command on the job and returns what it printed and its exit code.
func (j *Job) Command(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, j.site.Byssus, append(args, "--dir", j.Dir)...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = j.env, &out, &errs, time.Second
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return "", err.Error(), -1
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// A Checkpoint is what `byssus checkpoint --json` says.
type Checkpoint struct {
	Number  uint64 `json:"checkpoint"`
	Bytes   int64  `json:"bytes"`
	StallNS int64  `json:"stall_ns"`
}

// Checkpoint takes a checkpoint.
func (j *Job) Checkpoint(ctx context.Context) (Checkpoint, error) {
	var c Checkpoint
	out, errs, code := j.Command(ctx, "checkpoint", j.Name, "--json")
	if code != 0 {
		return c, fmt.Errorf("harness: checkpoint %s: exit code %d: %s", j.Name, code, Tail(errs+out))
	}
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		return c, fmt.Errorf("harness: checkpoint %s: %w in %q", j.Name, err, out)
	}
	if c.Number == 0 {
		return c, fmt.Errorf("harness: checkpoint %s: no number in %q", j.Name, out)
	}
	return c, nil
}

// status is what a running job says about itself.
type status struct {
	PID       int    `json:"pid"`
	Number    uint64 `json:"now_taking"`
	Phase     string `json:"phase"`
	Waiting   []int  `json:"waiting_for"`
	Call      string `json:"in_call"`
	Ranks     int    `json:"ranks"`
	Connected int    `json:"connected"`
	PerRank   []struct {
		PID int `json:"pid"`
	} `json:"rank_status"`
}

// status asks the job; false: it does not run.
func (j *Job) status(ctx context.Context) (status, bool) {
	var jobs []status
	out, _, code := j.Command(ctx, "ps", "--json")
	if code != 0 || json.Unmarshal([]byte(out), &jobs) != nil {
		return status{}, false
	}
	i := slices.IndexFunc(jobs, func(s status) bool { return s.PID == j.proc.Pid() })
	if i < 0 {
		return status{}, false
	}
	return jobs[i], true
}

// Taking says whether a checkpoint of the job is under way.
func (j *Job) Taking(ctx context.Context) bool {
	s, ok := j.status(ctx)
	return ok && s.Number != 0
}

// WaitsFor are the ranks that the checkpoint under way waits for, and the call of the MPI in which the others wait for them;
// nothing when there is none, or nobody is waited for.
func (j *Job) WaitsFor(ctx context.Context) (ranks []int, call string) {
	s, ok := j.status(ctx)
	if !ok || s.Number == 0 {
		return nil, ""
	}
	return s.Waiting, s.Call
}

// WorksWithout says whether the job runs, all its ranks are there, and none of them is the process that was killed.
func (j *Job) WorksWithout(ctx context.Context, killed Process) bool {
	gone := !killed.alive()
	s, ok := j.status(ctx)
	for _, r := range s.PerRank {
		ok = ok && r.PID != killed.Pid
	}
	return ok && gone && s.Phase == "running" && s.Connected == s.Ranks
}

// Verify checks every committed image.
func (j *Job) Verify(ctx context.Context) error {
	if out, errs, code := j.Command(ctx, "verify", j.Name); code != 0 {
		return fmt.Errorf("harness: verify %s: exit code %d: %s", j.Name, code, Tail(errs+out))
	}
	return nil
}

// Finish waits for the end of the present life, which must be a success, and returns the results of all lives.
func (j *Job) Finish(ctx context.Context) (Results, error) {
	select {
	case <-j.proc.Done():
	case <-ctx.Done():
		return nil, fmt.Errorf("harness: waiting for the end of job %s: %w", j.Name, ctx.Err())
	}
	if code := j.proc.ExitCode(); code != 0 {
		return nil, fmt.Errorf("harness: job %s: exit code %d", j.Name, code)
	}
	return j.Printed()
}

// Printed are the results of all lives, the present one included.
func (j *Job) Printed() (Results, error) {
	r := Results{}
	for _, p := range j.lives {
		if err := r.Add(p.Stdout.String()); err != nil {
			return nil, err
		}
	}
	return r, r.AddFiles(j.results)
}

// Failures are the lines in which the program said in any of its lives that something was wrong.
func (j *Job) Failures() []string {
	var all []string
	for _, p := range j.lives {
		all = append(all, Failures(p.Stderr.String())...)
	}
	return all
}

// Story is what all lives printed on standard error, and the end of the last one's standard output, for messages.
func (j *Job) Story() string {
	var b strings.Builder
	for i, p := range j.lives {
		fmt.Fprintf(&b, "-- life %d: %s\n%s\n", i+1, strings.Join(p.cmd.Args, " "), Tail(p.Stderr.String()))
	}
	if j.proc != nil {
		fmt.Fprintf(&b, "-- last output (iteration %d):\n%s\n", LastIteration(j.proc.Stdout.String()), Tail(j.proc.Stdout.String()))
	}
	return b.String()
}

// Close ends what is left of the job.
func (j *Job) Close() {
	if j.proc != nil {
		j.proc.Kill()
	}
	KillOrphans(resultsAt + j.results)
}

// Orphans lists what the job has left behind: others may run beside it.
func (j *Job) Orphans() []Process { return Orphans(resultsAt + j.results) }

// KillRank ends the i-th rank process by SIGKILL.
func (j *Job) KillRank(i int) error {
	ranks := Ranks(j.proc.Pid())
	if i >= len(ranks) {
		return fmt.Errorf("harness: job %s has %d rank processes, want more than %d", j.Name, len(ranks), i)
	}
	ranks[i].kill()
	return nil
}

// RankPIDs are the processes that are the job's ranks, as Byssus says; nil: it does not run, or not all are there.
func (j *Job) RankPIDs(ctx context.Context) []int {
	s, ok := j.status(ctx)
	if !ok || s.Phase != "running" || s.Connected != s.Ranks {
		return nil
	}
	var pids []int
	for _, r := range s.PerRank {
		pids = append(pids, r.PID)
	}
	return pids
}
