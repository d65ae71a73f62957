// Package coordsrv runs a job: it gives the pure coordinator real time, real ranks and a real store, and lets other
// processes ask it for checkpoints through a control socket.
//
// One goroutine owns the coordinator; events come to it through one queue, actions are performed in their order. What is
// done on the nodes their agents do (package agent): orders to them and their answers are messages of package control.
// What takes time has a goroutine of its own: the launcher's end, job.json, the control socket. Run returns when the job
// is over and everything that was ordered from the store is done.
//
// The parts of a running job each own their fields, and all belong to the one goroutine: agents (who they are, what they are ordered),
// ranks (one start of them after the other), datasets (the checkpoints), caches (what package keep decides of them), feeder (standard
// input), record (job.json) and story (the timeline, and what users are told).
package coordsrv

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/host/launch"
	"github.com/byssus-hpc/byssus/internal/host/spawn"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/timeline"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
)

// ErrNoCheckpoint means that the checkpoint that was asked for is not there.
var ErrNoCheckpoint = errors.New("no checkpoint")

// Options say what to run.
type Options struct {
	Job      *dataset.Job // locked
	Spec     launch.Spec  // App is what a fresh start runs; the rest is filled in for each start
	RunDir   string       // of this job: control.sock, and a directory per start
	Dir      string       // working directory
	Environ  []string
	Restart  bool
	Plain    bool                                               // the ranks are not led: they write their datasets themselves
	Anew     bool                                               // nothing is gone on from, though there is something
	Script   bool                                               // of a plain job: the program is run once, and starts launchers by itself
	Starts   int                                                // that there were in this term already
	Only     uint64                                             // restart from this image alone
	Called   string                                             // restart from the dataset of this name alone; of a plain job
	Patient  bool                                               // no older image takes the place of one that nodes that are away may have
	Grace    time.Duration                                      // from SIGTERM to the end
	Until    time.Time                                          // when the nodes are taken away; zero: nobody knows
	Files    uint64                                             // bytes of files that are read and written in place which a checkpoint may have
	Fault    string                                             // value of BYSSUS_FAULT
	Hosts    []Host                                             // nodes elsewhere; none: the job runs on this machine
	Spares   int                                                // of them, on which nothing runs at first
	Shrink   bool                                               // of a plain job: ranks whose node is lost, and for which there is no spare, are not started again
	Listen   func() (l net.Listener, address string, err error) // for the agents of these; where they reach it
	Patience control.Patience                                   // for how long one of them may be silent
	Caches   *Caches                                            // of these, nil: they write to the store of the job
	Version  string                                             // of Byssus, which the agents must have
	Signals  <-chan os.Signal
	Input    *os.File               // the job's standard input
	Spawn    *spawn.Spawner         // starts the launcher of a job on this machine
	Say      func(text string)      // a line for the user
	Took     func(res coord.Result) // a checkpoint is committed
	// Progress shows what text returns until the function that it returns is called.
	Progress func(text func() string) func()
}

// Server is a running job. It belongs to the loop's goroutine.
type Server struct {
	*loop
	opt     Options
	machine *coord.Machine
	began   time.Time

	agents *agents
	kept
	input  *feeder
	record *record
	story  *story
	asked  asked
	ranks  *ranks
	end    ending

	halting halting

	due   []coord.Event // the one that the machine takes in now, and what has happened meanwhile
	shown shown
}

// kept is what there is of the job's datasets.
type kept struct {
	datasets *datasets
	caches   *caches // nil: the nodes have none
	written  *written
}

// shown is what others are told of the job besides what the machine and the agents know.
type shown struct {
	library string // what the ranks' MPI says of itself
	last    *coord.Result
}

// ending is how, and how soon, a job that is over leaves.
type ending struct {
	code  int
	over  bool
	until time.Time     // when it leaves at the latest, though something is not done; zero: it waits
	extra time.Duration // on top of that
}

// asked are those who wait for a checkpoint that they have asked for.
type asked struct {
	replies map[uint64]chan coord.Result
	last    uint64
}

// End is how a job has ended.
type End struct {
	Code   int  // for the shell
	Silent bool // the store did not answer, and was not waited for
	Robbed bool // the job could not go on without nodes that it has lost
	Lacked bool // the job did not start, for lack of nodes that have what it would go on from
	Starts int  // of its ranks, in this term
}

// Run runs the job to its end.
func Run(opt Options) (end End, err error) {
	s := newServer(opt)
	if opt.Job.Faults, err = faults.Parse(opt.Fault, ""); err != nil {
		return End{}, err
	}
	id, err := hex.DecodeString(opt.Job.Meta.ID)
	if err != nil || len(id) != len(s.agents.jobID) {
		return End{}, fmt.Errorf("coordsrv: job %s: id %q, wanted 32 hexadecimal digits", opt.Job.Meta.Name, opt.Job.Meta.ID)
	}
	copy(s.agents.jobID[:], id)
	s.ranks.jobID = s.agents.jobID
	s.story.begin(&s.opt)
	defer func() { s.story.end(end.Code, s.opt.Job.Meta.Reason, err) }()
	start, err := s.inventory()
	if err != nil {
		return End{}, err
	}
	s.machine = coord.New(coord.Config{Ranks: opt.Spec.Ranks, Keep: opt.Job.Meta.Keep, Every: opt.Job.Meta.Every,
		Retries: opt.Job.Meta.Retries, Restarts: opt.Job.Meta.MostRestarts(), Anew: !opt.Job.Meta.NotAnew, Grace: opt.Grace, DropBad: opt.Job.Meta.Policy == "drop", Plain: opt.Plain, Mends: opt.Caches != nil, Files: opt.Files})
	socket, err := s.listen() // the machine may be asked for from here on
	if err != nil {
		return End{}, err
	}
	if opt.Caches != nil {
		s.caches = newCaches(s, *opt.Caches)
		s.datasets.caches, s.ranks.caches = s.caches, s.caches
	}
	if err = s.openInput(); err == nil {
		err = s.join()
	}
	if err == nil {
		err = s.keepCaches(&start)
	}
	if err == nil {
		err = s.keepWritten(&start)
	}
	if err == nil {
		err = choose(s, &start)
	}
	if err == nil {
		err = s.checkOnly(start)
	}
	if err != nil {
		close(s.stop)
		s.tellUntidy(s.agents.leave(false))
		socket.Close()
		s.wg.Wait()
		if sig := (interrupted{}); errors.As(err, &sig) {
			opt.Say(err.Error())
			return End{Code: bySignal + int(sig.Signal)}, nil
		}
		return End{}, err
	}
	s.halting.end = s.opt.Until
	s.wg.Go(func() { s.halting.watch(s) })
	s.drive(start)
	s.ranks.retire()
	forget := s.written.settle()
	forget = s.scavenge() && forget
	close(s.stop)
	socket.Close()
	answers := s.windUp(forget)
	opt.Job.Meta.Reason = s.machine.Status().Reason
	robbed := s.machine.Robbed() && (s.caches == nil || !forget) // else the nodes have nothing that the store has not
	return End{s.end.code, !answers, robbed, s.machine.Lacking(), s.ranks.starts.all}, nil
}

func newServer(opt Options) *Server {
	s := &Server{loop: newLoop(), opt: opt, began: time.Now(),
		asked: asked{replies: map[uint64]chan coord.Result{}}, story: &story{sealedAt: map[uint64]time.Time{}}}
	s.agents = &agents{loop: s.loop, opt: &s.opt, story: s.story, inbox: newInbox(), waiting: map[uint64]answer{}}
	s.ranks = &ranks{loop: s.loop, opt: &s.opt, agents: s.agents, story: s.story, step: s.step, starts: starts{all: opt.Starts}, count: opt.Spec.Ranks, now: newIncarnation()}
	s.ranks.written = func() *written { return s.written }
	s.datasets = &datasets{loop: s.loop, job: opt.Job, say: opt.Say, agents: s.agents, step: s.step}
	s.record = &record{loop: s.loop, job: opt.Job, failed: s.complain}
	return s
}

// join makes or calls the agents.
func (s *Server) join() error {
	if len(s.opt.Hosts) > 0 {
		return s.agents.joinOthers()
	}
	return s.agents.joinSelf()
}

func (s *Server) tellUntidy(list []string) {
	for _, text := range list {
		s.opt.Say(text)
	}
}

// leaveLimit is how long agents may take to end their ranks and themselves.
const leaveLimit = 10 * time.Second

// finished records that the job has done all its work, if it has, before its caches are forgotten: else a byssus that dies in
// between would leave a job that nobody can go on with. It returns false if that cannot be recorded.
func (s *Server) finished() bool {
	if s.caches == nil || s.end.code != 0 {
		return true
	}
	own := s.opt.Job.Record
	own.Meta.State, own.Meta.Exit, own.Meta.Ended = dataset.StateFinished, 0, time.Now()
	if err := s.record.write(own, s.record.next()); err != nil { // nobody else orders one now
		s.opt.Say(fmt.Sprintf("the caches of the nodes keep their checkpoints: %v", err))
		return false
	}
	return true
}

// windUp waits until what was ordered from the store is done, and returns whether it was.
func (s *Server) windUp(forget bool) bool {
	done := make(chan struct{})
	all := func() bool { return len(s.agents.waiting) == 0 }
	s.end.extra = time.Second // agents end, when the store has had its time
	if s.await(all, s.agents.inbox.ready, nil) {
		var untidy []string
		go func() {
			untidy = s.agents.leave(forget && s.finished())
			s.wg.Wait()
			close(done)
		}()
		if s.await(nil, nil, done) {
			s.tellUntidy(untidy)
			return true
		}
	}
	s.opt.Say("the store does not answer; left without waiting for it")
	return false
}

// inventory finds the checkpoints of this job, and those of an earlier one of the same name.
func (s *Server) inventory() (coord.Start, error) {
	start := coord.Start{Restart: s.opt.Restart, Only: s.opt.Only, Patient: s.opt.Patient, Aside: s.opt.Job.Meta.Aside}
	checkpoints := s.opt.Job.Checkpoints()
	all, err := checkpoints.List()
	if err != nil {
		return start, err
	}
	if start.Last, err = checkpoints.Last(); err != nil {
		return start, err
	}
	for _, n := range all {
		m, err := dataset.ReadManifest(checkpoints.Path(n))
		switch {
		case err != nil:
			s.opt.Say(fmt.Sprintf("checkpoint %d is left out: %v", n, err))
		case m.ID != s.opt.Job.Meta.ID:
			s.datasets.foreign = append(s.datasets.foreign, n)
		default:
			start.Images = append(start.Images, n)
		}
	}
	return start, nil
}

// checkOnly says whether the checkpoint that was asked for is there.
func (s *Server) checkOnly(start coord.Start) error {
	if s.opt.Only != 0 && !slices.Contains(start.Images, s.opt.Only) {
		return fmt.Errorf("coordsrv: job %s: %w %d: found %v", s.opt.Job.Meta.Name, ErrNoCheckpoint, s.opt.Only, start.Images)
	}
	return nil
}

// noticeAfter is how long the end of a job waits for its store without a word.
const noticeAfter = 5 * time.Second

// await waits, when the job is over, until something has come about or done is closed. It returns false when the time to leave has
// come, or somebody wants to leave now. Meanwhile it takes in what agents say, when ready is given.
func (s *Server) await(what func() bool, ready <-chan struct{}, done <-chan struct{}) bool {
	queries := s.queries
	if ready == nil {
		queries = nil
	}
	notice, late := time.After(noticeAfter), s.late()
	for what == nil || !what() {
		select {
		case <-ready:
			for _, m := range s.agents.inbox.take() {
				s.hear(m)
			}
		case f := <-queries:
			f()
		case <-done:
			return true
		case sig := <-s.opt.Signals:
			s.hurry(sig)
			late = s.late()
		case <-late:
			return false
		case <-notice:
			s.opt.Say(fmt.Sprintf("the end of the job waits for %s; an interrupt (Ctrl-C) leaves without", s.opt.Job.Dir))
		}
	}
	return true
}

// late fires when the end of the job must not wait any longer.
func (s *Server) late() <-chan time.Time {
	until := s.end.until
	if at, limited := s.machine.LeavesBy(); limited && until.IsZero() {
		until = s.began.Add(at)
	}
	if until.IsZero() {
		return nil
	}
	return time.After(time.Until(until.Add(s.end.extra)))
}

// hurry takes in a signal to a job that is over.
func (s *Server) hurry(sig os.Signal) {
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT:
		s.end.until = time.Now()
	case syscall.SIGTERM:
		if _, limited := s.machine.LeavesBy(); !limited && s.end.until.IsZero() {
			s.end.until = time.Now().Add(s.opt.Grace)
		}
	}
}

// drive runs the job until it is over: it is the goroutine that owns the machine.
func (s *Server) drive(start coord.Event) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	s.step(start)
	for !s.end.over {
		wait := time.Hour
		if at, ok := s.machine.Next(); ok {
			wait = max(at-time.Since(s.began), 0)
		}
		timer.Reset(wait)
		select {
		case ev := <-s.events:
			s.step(ev)
		case <-s.agents.inbox.ready:
			for _, m := range s.agents.inbox.take() {
				s.hear(m)
			}
		case f := <-s.queries:
			f()
		case sig := <-s.opt.Signals:
			s.signal(sig)
		case <-timer.C:
			s.step(coord.Tick{})
		}
		s.progress()
	}
}

// progress shows how far a restart has come, while there is one.
func (s *Server) progress() {
	st := s.machine.Status()
	restoring := st.Phase == coord.Starting.String() && st.Image != 0 && (s.ranks.now.process != nil || s.ranks.now.spread != nil) && !s.end.over
	switch {
	case restoring && s.ranks.now.shown == nil:
		now := s.ranks.now
		now.shown = s.opt.Progress(func() string { return reading(now.read.Load(), now.toRead.Load(), st.Image) })
	case !restoring:
		s.ranks.endProgress()
	}
}

// reading says how much of an image the ranks have read.
func reading(done, total, image uint64) string {
	if total == 0 {
		return fmt.Sprintf("restarting from checkpoint %d", image)
	}
	return fmt.Sprintf("restarting from checkpoint %d: %d %% of %d MiB", image, 100*done/total, total>>20)
}

func (s *Server) signal(sig os.Signal) {
	switch sig {
	case syscall.SIGUSR1:
		s.story.requested(timeline.BySignal)
		s.step(coord.Request{})
	case syscall.SIGTERM:
		s.story.requested(timeline.BySignal)
		s.step(coord.Terminate{})
	case syscall.SIGPIPE: // nobody reads what we say
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP:
		s.step(coord.Interrupt{Code: 128 + int(sig.(syscall.Signal))})
	case syscall.SIGTSTP: // caught only then
		s.opt.Say("a job on several nodes cannot be suspended, since they would give byssus up: it goes on")
	default:
		switch {
		case s.ranks.now.process != nil:
			s.ranks.now.process.Signal(sig.(syscall.Signal))
		case s.ranks.now.spread != nil && sig == syscall.SIGUSR2: // the others would end no rank
			s.agents.tell(control.Signal{Number: int(syscall.SIGUSR2)})
		}
	}
}

// step hands an event to the machine and does what it says.
func (s *Server) step(ev coord.Event) {
	switch ev := ev.(type) {
	case node.Hello:
		for _, r := range ev.Ranks {
			s.ranks.now.here[r] = true
		}
	case node.Init:
		s.shown.library = ev.Library
	case node.Progress:
		s.ranks.now.read.Store(ev.Done)
		s.ranks.now.toRead.Store(ev.Total)
	}
	s.due = append(s.due, s.written.withUsed(ev))
	if len(s.due) > 1 { // what is being performed has made it happen: it is next
		return
	}
	for ; len(s.due) > 0; s.due = s.due[1:] {
		s.story.heard(s.due[0], s.agents.start, s.ranks.now.killed != 0)
		for _, a := range s.machine.Step(time.Since(s.began), s.due[0]) {
			s.story.ordered(a)
			s.perform(a)
		}
		st := s.machine.Status()
		s.story.reached(st, s.agents.start)
		s.story.goesOn(st, s.agents.start)
	}
}

func (s *Server) perform(a coord.Action) {
	switch a := a.(type) {
	case coord.Launch:
		s.ranks.launch(a)
	case coord.Kill:
		s.ranks.kill(a.How)
	case coord.Replace:
		survivors{s.ranks}.replace(a.Ranks)
	case coord.Send:
		s.agents.tell(a.Order)
		if a.Type == abi.MsgDrain {
			s.opt.Job.Faults.Hit(faults.DrainSent)
		}
	case coord.Halt:
		s.written.halted = a.Why
		s.written.book.Halt(a.Why)
	case coord.Prepare:
		s.datasets.prepare(a.Checkpoint)
	case coord.Commit:
		s.story.sealedAt[a.Checkpoint] = time.Now()
		s.datasets.commit(a.Checkpoint, a.Epoch)
	case coord.Discard:
		delete(s.story.sealedAt, a.Checkpoint)
		s.datasets.discard(a.Checkpoint)
	case coord.Drop:
		delete(s.story.sealedAt, a.Checkpoint)
		s.datasets.drop(a.Checkpoint)
	case coord.Aside:
		s.opt.Job.Meta.Aside = a.Checkpoints
		s.record.save()
	case coord.Reply:
		s.reply(a)
	case coord.Took:
		s.shown.last = &a.Result
		s.opt.Took(a.Result)
		s.halting.count(s)
	case coord.Say:
		s.opt.Say(a.Text)
	case coord.Finish:
		s.end.code, s.end.over = a.Code, true
		if s.machine.OwnEnd() {
			s.ranks.now.process.Explain()
		}
	}
}

func (s *Server) complain(err error) {
	if err != nil {
		s.opt.Say(err.Error())
	}
}

func (s *Server) reply(a coord.Reply) {
	if ch := s.asked.replies[a.ID]; ch != nil {
		ch <- a.Result
		delete(s.asked.replies, a.ID)
	}
}

// listen opens the control socket.
func (s *Server) listen() (net.Listener, error) {
	path := filepath.Join(s.opt.RunDir, ControlSocket)
	l, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("coordsrv: control socket: %w", err)
	}
	s.wg.Go(func() { s.serveControl(ownPeers{l}) })
	return l, nil
}

// CheckStore says whether the store's path is fit for messages to ranks.
func CheckStore(dir string) error {
	const room = 1000 - len("/ckpt.00000000000000000000.tmp") - 1
	if len(dir) > room {
		return fmt.Errorf("coordsrv: job directory %s...: %d bytes, at most %d", strings.TrimSpace(dir[:40]), len(dir), room)
	}
	return nil
}
