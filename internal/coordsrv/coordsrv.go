// Package coordsrv runs a job: it gives the pure coordinator real time, real ranks and a real store, and lets other
// processes ask it for checkpoints through a control socket.
//
// One goroutine owns the coordinator; events come to it through one queue, actions are performed in their order.
// What takes time has a goroutine of its own: the launcher's end, the store (one worker, so that its work is done in
// order), the control socket. Run returns when the job is over and everything that was ordered from the store is done.
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
	"sync"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/abi"
	"github.com/byssus-hpc/byssus/internal/agent"
	"github.com/byssus-hpc/byssus/internal/coord"
	"github.com/byssus-hpc/byssus/internal/dataset"
	"github.com/byssus-hpc/byssus/internal/faults"
	"github.com/byssus-hpc/byssus/internal/launch"
	"github.com/byssus-hpc/byssus/internal/node"
)

// ErrNoCheckpoint means that the checkpoint that was asked for is not there.
var ErrNoCheckpoint = errors.New("no checkpoint")

// Options say what to run.
type Options struct {
	Job     *dataset.Job // locked
	Spec    launch.Spec  // App is what a fresh start runs; the rest is filled in for each start
	RunDir  string       // of this job: control.sock, and a directory per start
	Dir     string       // working directory
	Environ []string
	Restart bool
	Only    uint64        // restart from this image alone
	Grace   time.Duration // from SIGTERM to the end
	Fault   string        // value of BYSSUS_FAULT
	Signals <-chan os.Signal
	Say     func(text string)      // a line for the user
	Took    func(res coord.Result) // a checkpoint is committed
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
	disk    *worker

	starts   int // of the ranks
	restarts int
	agent    *agent.Server
	retired  chan struct{} // closed when the present agent's events no longer matter
	process  *launch.Process
	library  string
	replies  map[uint64]chan coord.Result
	nextID   uint64
	foreign  []uint64 // checkpoints of an earlier job of this name; the disk's worker's
	code     int
	over     bool
	shown    func() // ends the progress of a restart; nil: none is shown
	last     *coord.Result
}

// Run runs the job to its end and returns the exit code.
func Run(opt Options) (int, error) {
	s := &Server{opt: opt, began: time.Now(), events: make(chan coord.Event), queries: make(chan func()),
		stop: make(chan struct{}), replies: map[uint64]chan coord.Result{}}
	var err error
	if s.fault, err = faults.Parse(opt.Fault); err != nil {
		return 0, err
	}
	id, err := hex.DecodeString(opt.Job.Meta.ID)
	if err != nil || len(id) != len(s.jobID) {
		return 0, fmt.Errorf("coordsrv: job %s: id %q, wanted 32 hexadecimal digits", opt.Job.Meta.Name, opt.Job.Meta.ID)
	}
	copy(s.jobID[:], id)
	opt.Job.Faults = s.fault
	start, err := s.inventory()
	if err != nil {
		return 0, err
	}
	control, err := s.listen()
	if err != nil {
		return 0, err
	}
	s.disk = newWorker()
	s.machine = coord.New(coord.Config{Ranks: opt.Spec.Ranks, Keep: opt.Job.Meta.Keep, Every: opt.Job.Meta.Every,
		Retries: opt.Job.Meta.Retries, Grace: opt.Grace, DropBad: opt.Job.Meta.Policy == "drop"})
	s.loop(start)
	close(s.stop)
	control.Close()
	s.retire()
	s.windUp()
	opt.Job.Meta.Reason = s.machine.Status().Reason
	return s.code, nil
}

// windUp waits until what was ordered from the store is done: after SIGTERM no longer than there is time.
func (s *Server) windUp() {
	done := make(chan struct{})
	go func() {
		s.disk.close()
		s.wg.Wait()
		close(done)
	}()
	until, limited := s.machine.LeavesBy()
	if !limited {
		<-done
		return
	}
	select {
	case <-done:
	case <-time.After(time.Until(s.began.Add(until)) + time.Second):
		s.opt.Say("the store does not answer; left without waiting for it")
	}
}

// inventory finds the checkpoints of this job, and those of an earlier one of the same name.
func (s *Server) inventory() (coord.Start, error) {
	start := coord.Start{Restart: s.opt.Restart, Only: s.opt.Only, Aside: s.opt.Job.Meta.Aside}
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
	if s.opt.Only != 0 && !slices.Contains(start.Images, s.opt.Only) {
		return start, fmt.Errorf("coordsrv: job %s: %w %d: found %v", s.opt.Job.Meta.Name, ErrNoCheckpoint, s.opt.Only, start.Images)
	}
	return start, nil
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
	restoring := st.Phase == coord.Starting.String() && st.Image != 0 && s.agent != nil && !s.over
	switch a := s.agent; {
	case restoring && s.shown == nil:
		s.shown = s.opt.Progress(func() string { return reading(a.Sample(), st.Image) })
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
func reading(ranks []node.Sample, image uint64) string {
	var done, total uint64
	for _, r := range ranks {
		done, total = done+r.BytesDone, total+r.BytesTotal
	}
	if total == 0 {
		return fmt.Sprintf("restarting from checkpoint %d", image)
	}
	return fmt.Sprintf("restarting from checkpoint %d: %d %% of %d MiB", image, 100*done/total, total>>20)
}

func (s *Server) signal(sig os.Signal) {
	switch sig {
	case syscall.SIGUSR1:
		s.step(coord.Request{})
	case syscall.SIGTERM:
		s.step(coord.Terminate{})
	case syscall.SIGPIPE: // nobody reads what we say
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP:
		s.step(coord.Interrupt{Code: 128 + int(sig.(syscall.Signal))})
	default:
		if s.process != nil {
			s.process.Signal(sig.(syscall.Signal))
		}
	}
}

// step hands an event to the machine and does what it says.
func (s *Server) step(ev coord.Event) {
	if init, ok := ev.(node.Init); ok {
		s.library = init.Library
	}
	for _, a := range s.machine.Step(time.Since(s.began), ev) {
		s.perform(a)
	}
}

func (s *Server) perform(a coord.Action) {
	job := s.opt.Job
	switch a := a.(type) {
	case coord.Launch:
		if err := s.launch(a.Image); err != nil {
			s.wg.Go(func() { s.post(coord.LaunchFailed{Text: err.Error(), Bad: errors.As(err, new(badImage))}) })
		}
	case coord.Kill:
		s.kill(a.How)
	case coord.Send:
		s.agent.Order(a.Order)
		if a.Type == abi.MsgDrain {
			s.fault.Hit(faults.DrainSent)
		}
	case coord.Prepare:
		ranks := s.agent
		s.disk.do(func() {
			ranks.Survey()
			_, err := job.Prepare(a.Checkpoint)
			s.later(coord.Prepared{Checkpoint: a.Checkpoint, Err: text(err)})
		})
	case coord.Commit:
		s.disk.do(func() {
			_, err := job.Commit(a.Checkpoint)
			s.later(coord.Committed{Checkpoint: a.Checkpoint, Err: text(err)})
			if err == nil {
				s.dropForeign()
			}
		})
	case coord.Discard:
		s.disk.do(func() { s.complain(job.Discard(a.Checkpoint)) })
	case coord.Drop:
		s.disk.do(func() { s.complain(job.Drop(a.Checkpoint)) })
	case coord.Aside:
		s.disk.do(func() { // which alone writes to Meta while the job runs
			job.Meta.Aside = a.Checkpoints
			s.complain(job.Save())
		})
	case coord.Reply:
		s.reply(a)
	case coord.Took:
		s.last = &a.Result
		s.opt.Took(a.Result)
	case coord.Say:
		s.opt.Say(a.Text)
	case coord.Finish:
		s.code, s.over = a.Code, true
	}
}

// later posts an event from the disk's worker without holding it up.
func (s *Server) later(ev coord.Event) { s.wg.Go(func() { s.post(ev) }) }

func (s *Server) complain(err error) {
	if err != nil {
		s.opt.Say(err.Error())
	}
}

// dropForeign removes the checkpoints of an earlier job of this name, now that this one has its own. The disk's worker
// calls it.
func (s *Server) dropForeign() {
	for _, n := range s.foreign {
		if m, err := dataset.ReadManifest(s.opt.Job.Path(n)); err == nil && m.ID != s.opt.Job.Meta.ID {
			if err := s.opt.Job.Drop(n); err != nil {
				s.wg.Go(func() { s.ask(func() { s.complain(err) }) })
			}
		}
	}
	s.foreign = nil
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// badImage marks an error that lies in the image.
type badImage struct{ error }

func (b badImage) Unwrap() error { return b.error }

// launch starts the ranks, with an agent and a directory of their own.
func (s *Server) launch(image uint64) error {
	s.retire()
	spec := s.opt.Spec
	spec.Fault = faults.ForRanks(s.opt.Fault, s.starts, image != 0, s.restarts)
	s.starts++
	spec.Number = s.opt.Job.Epoch<<16 + uint64(s.starts)
	if image != 0 {
		s.restarts++
		spec.Restart = s.opt.Job.Path(image)
		m, err := dataset.Check(spec.Restart)
		if err != nil {
			return badImage{err}
		}
		if m.Ranks != spec.Ranks {
			return badImage{fmt.Errorf("coordsrv: checkpoint %d: found %d ranks, wanted %d", image, m.Ranks, spec.Ranks)}
		}
	}
	spec.RunDir = filepath.Join(s.opt.RunDir, fmt.Sprint(s.starts))
	if err := os.Mkdir(spec.RunDir, 0o700); err != nil {
		return fmt.Errorf("coordsrv: run directory: %w", err)
	}
	ranks := make([]int, spec.Ranks)
	for rank := range ranks {
		ranks[rank] = rank
	}
	retired := make(chan struct{})
	a, err := agent.Listen(agent.Config{Dir: spec.RunDir, Ranks: ranks, Size: spec.Ranks, Start: spec.Number, Restart: image != 0, Writers: spec.Writers, JobID: s.jobID,
		Images: func(n uint64) string { return s.opt.Job.Path(n) + ".tmp" },
		Report: func(r node.Report) {
			select {
			case s.events <- r:
			case <-retired:
			}
		}})
	if err != nil {
		return err
	}
	spec.Agent = agent.SocketPath(spec.RunDir)
	p, err := spec.Start(s.opt.Dir, s.opt.Environ)
	if err != nil {
		a.Close()
		return err
	}
	s.agent, s.retired, s.process = a, retired, p
	s.wg.Go(func() {
		code, sig, err := p.Wait()
		if err != nil {
			s.ask(func() { s.complain(err) })
		}
		s.post(coord.LauncherExit{Code: code, Signal: sig})
	})
	return nil
}

// retire ends the agent of a start that is over.
func (s *Server) retire() {
	s.endProgress()
	if s.agent != nil {
		close(s.retired)
		s.agent.Close()
		s.agent, s.process = nil, nil
	}
}

// kill ends launcher and ranks. The launcher does not hear SIGTERM (see package launch); when its ranks have ended it ends
// by itself, and tidies up.
func (s *Server) kill(how coord.KillHow) {
	if s.process == nil {
		return
	}
	switch how {
	case coord.KillAsk:
		all := true
		for rank, p := range s.agent.Sample() {
			all = all && p.PID != 0
			s.agent.Send(rank, abi.Message{Header: abi.Header{Type: abi.MsgEnd}})
		}
		if !all { // those that it has started and that have not come here yet
			s.process.Signal(syscall.SIGINT)
		}
	case coord.KillRanks:
		s.agent.Signal(syscall.SIGKILL)
		s.process.Signal(syscall.SIGINT)
	case coord.KillBoth:
		s.agent.Signal(syscall.SIGKILL)
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
