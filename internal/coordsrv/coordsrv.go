// Package coordsrv runs a job: it gives the pure coordinator real time, real ranks and a real store, and lets other
// processes ask it for checkpoints through a control socket.
//
// One goroutine owns the coordinator; events come to it through one queue, actions are performed in their order. What is
// done on the nodes their agents do (package agent): orders to them and their answers are messages of package control.
// What takes time has a goroutine of its own: the launcher's end, job.json, the control socket. Run returns when the job
// is over and everything that was ordered from the store is done.
package coordsrv

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/abi"
	"github.com/byssus-hpc/byssus/internal/agent"
	"github.com/byssus-hpc/byssus/internal/control"
	"github.com/byssus-hpc/byssus/internal/coord"
	"github.com/byssus-hpc/byssus/internal/dataset"
	"github.com/byssus-hpc/byssus/internal/faults"
	"github.com/byssus-hpc/byssus/internal/launch"
	"github.com/byssus-hpc/byssus/internal/node"
	"github.com/byssus-hpc/byssus/internal/spawn"
	"github.com/byssus-hpc/byssus/internal/timeline"
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
	Starts   int                                                // that there were in this term already
	Only     uint64                                             // restart from this image alone
	Patient  bool                                               // no older image takes the place of one that nodes that are away may have
	Grace    time.Duration                                      // from SIGTERM to the end
	Files    uint64                                             // bytes of files that are read and written in place which a checkpoint may have
	Fault    string                                             // value of BYSSUS_FAULT
	Hosts    []Host                                             // nodes elsewhere; none: the job runs on this machine
	Spares   int                                                // of them, on which nothing runs at first
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

// Server is a running job.
type Server struct {
	opt     Options
	fault   *faults.Set
	machine *coord.Machine
	began   time.Time
	jobID   [16]byte

	events  chan coord.Event
	queries chan func()
	stop    chan struct{} // closed when the job is over
	wg      sync.WaitGroup

	peers   []*peer
	remote  *remote // nil: there is no agent elsewhere
	caches  *caches // nil: the nodes have none
	spread  *spread // the present start, when agents have started it
	inbox   *inbox
	input   *feeder
	orders  uint64            // given, that are answered
	waiting map[uint64]answer // to them
	saves   uint64            // of job.json, ordered
	saving  sync.Mutex
	saved   uint64 // the newest that was done; saving protects it

	starts   int           // of the ranks
	due      []coord.Event // the one that the machine takes in now, and what has happened meanwhile
	number   uint64        // of the present start, 0: there is none
	checking uint64        // the start whose image is being looked at, 0: none is
	restarts int
	process  *launch.Process
	here     map[int]bool   // ranks that have come in this start
	met      map[uint64]int // how many nodes have come to a meeting, in this start
	killed   coord.KillHow  // what was ordered before there was a process
	read     atomic.Uint64  // bytes of the image from which ranks restart, of toRead
	toRead   atomic.Uint64
	library  string
	replies  map[uint64]chan coord.Result
	nextID   uint64
	foreign  []uint64 // checkpoints of an earlier job of this name
	code     int
	over     bool
	until    time.Time     // when the job, which is over, leaves at the latest, though something is not done; zero: it waits
	extra    time.Duration // on top of that
	shown    func()        // ends the progress of a restart; nil: none is shown
	last     *coord.Result
	report   *lossReport          // of nodes, while the job does not go on yet
	sealedAt map[uint64]time.Time // when the images of a checkpoint were written

	log   *timeline.Writer
	story story
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
	s := &Server{opt: opt, starts: opt.Starts, began: time.Now(), events: make(chan coord.Event), queries: make(chan func()),
		stop: make(chan struct{}), replies: map[uint64]chan coord.Result{}, sealedAt: map[uint64]time.Time{}, inbox: newInbox(), waiting: map[uint64]answer{}}
	if s.fault, err = faults.Parse(opt.Fault, ""); err != nil {
		return End{}, err
	}
	id, err := hex.DecodeString(opt.Job.Meta.ID)
	if err != nil || len(id) != len(s.jobID) {
		return End{}, fmt.Errorf("coordsrv: job %s: id %q, wanted 32 hexadecimal digits", opt.Job.Meta.Name, opt.Job.Meta.ID)
	}
	copy(s.jobID[:], id)
	opt.Job.Faults = s.fault
	s.openLog()
	defer func() { s.closeLog(end.Code, err) }()
	start, err := s.inventory()
	if err != nil {
		return End{}, err
	}
	s.machine = coord.New(coord.Config{Ranks: opt.Spec.Ranks, Keep: opt.Job.Meta.Keep, Every: opt.Job.Meta.Every,
		Retries: opt.Job.Meta.Retries, Restarts: opt.Job.Meta.MostRestarts(), Anew: !opt.Job.Meta.NotAnew, Grace: opt.Grace, DropBad: opt.Job.Meta.Policy == "drop", Mends: opt.Caches != nil, Files: opt.Files})
	socket, err := s.listen() // the machine may be asked for from here on
	if err != nil {
		return End{}, err
	}
	if opt.Caches != nil {
		s.caches = newCaches(s, *opt.Caches)
	}
	if err = s.openInput(); err == nil {
		err = s.join()
	}
	if err == nil {
		err = s.keepCaches(&start)
	}
	if err == nil {
		err = s.checkOnly(start)
	}
	if err != nil {
		close(s.stop)
		s.tellUntidy(s.leave(false))
		socket.Close()
		s.wg.Wait()
		if sig := (interrupted{}); errors.As(err, &sig) {
			opt.Say(err.Error())
			return End{Code: bySignal + int(sig.Signal)}, nil
		}
		return End{}, err
	}
	s.loop(start)
	s.retire()
	forget := s.scavenge()
	close(s.stop)
	socket.Close()
	answers := s.windUp(forget)
	opt.Job.Meta.Reason = s.machine.Status().Reason
	robbed := s.machine.Robbed() && (s.caches == nil || !forget) // else the nodes have nothing that the store has not
	return End{s.code, !answers, robbed, s.machine.Lacking(), s.starts}, nil
}

// join makes or calls the agents.
func (s *Server) join() error {
	if len(s.opt.Hosts) > 0 {
		return s.joinOthers()
	}
	s.joinSelf()
	return nil
}

// leave ends the agents, when they have done what was ordered, and returns those that have not tidied up, with why.
func (s *Server) leave(forget bool) (untidy []string) {
	for _, p := range s.peers {
		if p.close != nil && !p.gone {
			p.close(forget)
		}
	}
	if s.remote != nil {
		s.remote.listener.Close()
	}
	limit, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	for _, p := range s.peers {
		if p.end == nil {
			continue
		}
		if p.hear != nil && !p.gone {
			if err := p.tidies(limit.Done()); err != nil {
				untidy = append(untidy, fmt.Sprintf("node %s: its agent may not have tidied up: %v", p.name, err))
			}
		}
		p.end()
	}
	return untidy
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
	if s.caches == nil || s.code != 0 {
		return true
	}
	own := *s.opt.Job
	own.Meta.State, own.Meta.Exit, own.Meta.Ended = dataset.StateFinished, 0, time.Now()
	s.saves++ // which nobody else orders now
	if err := s.writeMeta(own, s.saves); err != nil {
		s.opt.Say(fmt.Sprintf("the caches of the nodes keep their checkpoints: %v", err))
		return false
	}
	return true
}

// windUp waits until what was ordered from the store is done, and returns whether it was.
func (s *Server) windUp(forget bool) bool {
	done := make(chan struct{})
	all := func() bool { return len(s.waiting) == 0 }
	s.extra = time.Second // agents end, when the store has had its time
	if s.await(all, s.inbox.ready, nil) {
		var untidy []string
		go func() {
			untidy = s.leave(forget && s.finished())
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
	all, err := s.opt.Job.Checkpoints()
	if err != nil {
		return start, err
	}
	if start.Last, err = s.opt.Job.Last(); err != nil {
		return start, err
	}
	for _, n := range all {
		m, err := dataset.ReadManifest(s.opt.Job.Path(n))
		switch {
		case err != nil:
			s.opt.Say(fmt.Sprintf("checkpoint %d is left out: %v", n, err))
		case m.ID != s.opt.Job.Meta.ID:
			s.foreign = append(s.foreign, n)
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
			for _, m := range s.inbox.take() {
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
	until := s.until
	if at, limited := s.machine.LeavesBy(); limited && until.IsZero() {
		until = s.began.Add(at)
	}
	if until.IsZero() {
		return nil
	}
	return time.After(time.Until(until.Add(s.extra)))
}

// hurry takes in a signal to a job that is over.
func (s *Server) hurry(sig os.Signal) {
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT:
		s.until = time.Now()
	case syscall.SIGTERM:
		if _, limited := s.machine.LeavesBy(); !limited && s.until.IsZero() {
			s.until = time.Now().Add(s.opt.Grace)
		}
	}
}

// post hands an event to the loop, from any goroutine.
func (s *Server) post(ev coord.Event) {
	select {
	case s.events <- ev:
	case <-s.stop:
	}
}

// loop owns the machine.
func (s *Server) loop(start coord.Event) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	s.step(start)
	for !s.over {
		wait := time.Hour
		if at, ok := s.machine.Next(); ok {
			wait = max(at-time.Since(s.began), 0)
		}
		timer.Reset(wait)
		select {
		case ev := <-s.events:
			s.step(ev)
		case <-s.inbox.ready:
			for _, m := range s.inbox.take() {
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
	restoring := st.Phase == coord.Starting.String() && st.Image != 0 && (s.process != nil || s.spread != nil) && !s.over
	switch {
	case restoring && s.shown == nil:
		s.shown = s.opt.Progress(func() string { return reading(s.read.Load(), s.toRead.Load(), st.Image) })
	case !restoring:
		s.endProgress()
	}
}

func (s *Server) endProgress() {
	if s.shown != nil {
		s.shown()
		s.shown = nil
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
		s.wish(timeline.BySignal)
		s.step(coord.Request{})
	case syscall.SIGTERM:
		s.wish(timeline.BySignal)
		s.step(coord.Terminate{})
	case syscall.SIGPIPE: // nobody reads what we say
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP:
		s.step(coord.Interrupt{Code: 128 + int(sig.(syscall.Signal))})
	case syscall.SIGTSTP: // caught only then
		s.opt.Say("a job on several nodes cannot be suspended, since they would give byssus up: it goes on")
	default:
		switch {
		case s.process != nil:
			s.process.Signal(sig.(syscall.Signal))
		case s.spread != nil && sig == syscall.SIGUSR2: // the others would end no rank
			s.tell(control.Signal{Number: int(syscall.SIGUSR2)})
		}
	}
}

// step hands an event to the machine and does what it says.
func (s *Server) step(ev coord.Event) {
	switch ev := ev.(type) {
	case node.Hello:
		for _, r := range ev.Ranks {
			s.here[r] = true
		}
	case node.Init:
		s.library = ev.Library
	case node.Progress:
		s.read.Store(ev.Done)
		s.toRead.Store(ev.Total)
	}
	s.due = append(s.due, ev)
	if len(s.due) > 1 { // what is being performed has made it happen: it is next
		return
	}
	for ; len(s.due) > 0; s.due = s.due[1:] {
		s.logEvent(s.due[0])
		for _, a := range s.machine.Step(time.Since(s.began), s.due[0]) {
			s.logAction(a)
			s.perform(a)
		}
		st := s.machine.Status()
		s.logPhase(st)
		s.goesOn(st)
	}
}

func (s *Server) perform(a coord.Action) {
	switch a := a.(type) {
	case coord.Launch:
		s.launch(a)
	case coord.Kill:
		s.kill(a.How)
	case coord.Send:
		s.tell(a.Order)
		if a.Type == abi.MsgDrain {
			s.fault.Hit(faults.DrainSent)
		}
	case coord.Prepare:
		s.prepare(a.Checkpoint)
	case coord.Commit:
		s.sealedAt[a.Checkpoint] = time.Now()
		s.commit(a.Checkpoint, a.Epoch)
	case coord.Discard:
		delete(s.sealedAt, a.Checkpoint)
		s.discard(a.Checkpoint)
	case coord.Drop:
		delete(s.sealedAt, a.Checkpoint)
		s.drop(a.Checkpoint)
	case coord.Aside:
		s.opt.Job.Meta.Aside = a.Checkpoints
		s.save()
	case coord.Reply:
		s.reply(a)
	case coord.Took:
		s.last = &a.Result
		s.opt.Took(a.Result)
	case coord.Say:
		s.opt.Say(a.Text)
	case coord.Finish:
		s.code, s.over = a.Code, true
		if s.machine.OwnEnd() {
			s.process.Explain()
		}
	}
}

// save writes job.json as it is now, without holding the loop up. An older state never takes the place of a newer one.
func (s *Server) save() {
	s.saves++
	job, number := *s.opt.Job, s.saves
	s.wg.Go(func() { s.complain(s.writeMeta(job, number)) })
}

// writeMeta writes a state of job.json, one writer at a time, unless a newer one has been written.
func (s *Server) writeMeta(job dataset.Job, number uint64) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	if number < s.saved {
		return nil
	}
	s.saved = number
	return job.Save()
}

func (s *Server) complain(err error) {
	if err != nil {
		s.opt.Say(err.Error())
	}
}

var errUnstarted = errors.New("coordsrv: ended before it was started")

// badImage marks an error that lies in the image.
type badImage struct{ error }

func (b badImage) Unwrap() error { return b.error }

// awayImage marks an error that lies in that nodes are away which have a part of the image.
type awayImage struct{ error }

// launch starts the ranks, when the agent is ready for them.
func (s *Server) launch(a coord.Launch) {
	s.retire()
	s.starts++
	s.number = s.opt.Job.Term<<16 + uint64(s.starts)
	if !slices.ContainsFunc(s.peers, func(p *peer) bool { return !p.gone }) {
		s.wg.Go(func() { s.post(coord.LaunchFailed{Text: "all nodes are lost", Nowhere: true}) })
		return
	}
	switch {
	case s.caches == nil || a.Image == 0:
		s.fromStore(a.Image)
	case a.Doubted:
		s.caches.keeper.Inspect(a.Image, func() { s.caches.keeper.Settled(func() { s.fromCaches(a.Image) }) })
	default:
		s.caches.keeper.Settled(func() { s.fromCaches(a.Image) })
	}
}

// fromCaches starts the ranks from a checkpoint that the caches have, or have had.
func (s *Server) fromCaches(image uint64) {
	if s.killed != 0 { // while they were looked through
		s.launchFailed(errUnstarted)
		return
	}
	switch err := s.caches.launch(image); {
	case err == nil:
	case s.caches.keeper.Stored(image):
		if slices.Contains(s.caches.keeper.Held(), image) {
			s.opt.Say(fmt.Sprintf("%v; its copy in %s is used", err, s.opt.Job.Dir))
		}
		s.fromStore(image)
	default:
		if s.caches.keeper.Away(image) {
			err = awayImage{err}
		}
		s.launchFailed(badImage{err})
	}
}

// fromStore starts the ranks anew, or from a checkpoint that all nodes see.
func (s *Server) fromStore(image uint64) {
	spec := s.spec(image)
	if image != 0 {
		spec.Restart = s.opt.Job.Path(image)
		s.check(image, spec)
		return
	}
	s.startFromStore(image, spec)
}

func (s *Server) startFromStore(image uint64, spec launch.Spec) {
	s.logDecision(image, nil)
	s.place()
	s.begin(spec)
}

// check looks at a checkpoint that all nodes see, and starts the ranks from it, without holding the loop up: the store may take
// its time.
func (s *Server) check(image uint64, spec launch.Spec) {
	s.checking = s.number
	s.wg.Go(func() {
		err := s.checkImage(image, spec)
		s.ask(func() {
			switch {
			case s.checking != spec.Number: // it was given up
				return
			case err != nil:
				s.launchFailed(badImage{err})
			default:
				s.startFromStore(image, spec)
			}
			s.checking = 0
		})
	})
}

// begin starts the ranks when the agents are ready for them.
func (s *Server) begin(spec launch.Spec) {
	s.order(s.engaged(), func(p *peer, order uint64) any {
		return control.Begin{Order: order, Ranks: p.ranks, Size: spec.Ranks, Restart: spec.Restart != "", Writers: spec.Writers}
	}, func(answers []control.Message) {
		switch why := failure(answers); {
		case why != "":
			s.launchFailed(errors.New(why))
		case s.killed != 0:
			s.launchFailed(errUnstarted)
		default:
			s.start(spec)
		}
	})
}

// launchFailed tells the machine, after what it is doing now.
func (s *Server) launchFailed(err error) {
	s.wg.Go(func() {
		s.post(coord.LaunchFailed{Text: err.Error(), Bad: errors.As(err, new(badImage)), Away: errors.As(err, new(awayImage))})
	})
}

// spec is what to start.
func (s *Server) spec(image uint64) launch.Spec {
	spec := s.opt.Spec
	spec.Fault = faults.ForRanks(s.opt.Fault, s.starts-1, image != 0, s.restarts)
	spec.Number, spec.RunDir = s.number, agent.StartDir(s.opt.RunDir, s.number)
	spec.Agent, spec.Memory = agent.SocketPath(spec.RunDir), agent.MemoryDir(s.jobID, s.number)
	if image != 0 {
		s.restarts++
	}
	return spec
}

// checkImage looks at a checkpoint that all nodes see.
func (s *Server) checkImage(image uint64, spec launch.Spec) error {
	m, err := dataset.Check(spec.Restart)
	if err == nil && m.Ranks != spec.Ranks {
		err = fmt.Errorf("coordsrv: checkpoint %d: found %d ranks, wanted %d", image, m.Ranks, spec.Ranks)
	}
	return err
}

// start starts the launcher.
func (s *Server) start(spec launch.Spec) {
	s.log.Add(timeline.Event{Kind: timeline.Started, Start: s.number, Checkpoint: s.machine.Status().Image})
	switch {
	case s.remote != nil && spec.MPI.Name == launch.MPICH:
		s.startSpread(spec.RankCommand(), spec.Env(s.opt.Environ))
		return
	case s.remote != nil:
		s.startLauncher(spec.Command(), spec.Env(s.opt.Environ))
		return
	}
	p, err := spec.Start(s.opt.Spawn, s.opt.Dir, s.opt.Environ)
	if err != nil {
		s.launchFailed(err)
		return
	}
	s.process = p
	s.wg.Go(func() {
		code, sig, err := p.Wait()
		if err != nil {
			s.ask(func() { s.complain(err) })
		}
		s.post(coord.LauncherExit{Code: code, Signal: sig})
	})
}

// retire ends a start that is over.
func (s *Server) retire() {
	s.endProgress()
	if s.number != 0 {
		s.tell(control.End{})
	}
	s.number, s.checking, s.process, s.spread, s.killed, s.here, s.met = 0, 0, nil, nil, 0, map[int]bool{}, map[uint64]int{}
	s.read.Store(0)
	s.toRead.Store(0)
}

// kill ends launcher and ranks. The launcher does not hear SIGTERM (see package launch); when its ranks have ended it ends
// by itself, and tidies up.
func (s *Server) kill(how coord.KillHow) {
	s.killed = how
	s.tell(control.Kill{Ask: how == coord.KillAsk})
	if s.checking != 0 {
		s.checking = 0
		s.launchFailed(errUnstarted)
	}
	if s.process == nil {
		return
	}
	switch how {
	case coord.KillAsk:
		if len(s.here) < s.opt.Spec.Ranks { // those that it has started and that have not come here yet
			s.process.Signal(syscall.SIGINT)
		}
	case coord.KillRanks:
		s.process.Signal(syscall.SIGINT)
	case coord.KillBoth:
		s.process.Signal(syscall.SIGKILL)
	}
}

func (s *Server) reply(a coord.Reply) {
	if ch := s.replies[a.ID]; ch != nil {
		ch <- a.Result
		delete(s.replies, a.ID)
	}
}

// ask runs f on the loop's goroutine; false: the job is over.
func (s *Server) ask(f func()) bool {
	done := make(chan struct{})
	select {
	case s.queries <- func() { f(); close(done) }:
		<-done
		return true
	case <-s.stop:
		return false
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
