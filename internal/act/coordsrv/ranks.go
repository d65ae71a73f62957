package coordsrv

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/host/launch"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/timeline"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
)

// ranks starts the ranks of the job, by their MPI's launcher or on each node by its agent, and ends them. It belongs to the loop's
// goroutine.
type ranks struct {
	*loop
	opt     *Options
	jobID   [16]byte
	agents  *agents
	caches  *caches // nil: the nodes have none
	written func() *written
	story   *story
	step    func(coord.Event) // tells the machine

	starts starts
	count  int // of ranks, as they were placed last
	now    *incarnation
}

// starts counts those of the ranks.
type starts struct {
	all    int // in this term
	images int // from images, by this byssus
}

// incarnation is one start of the ranks, until the next.
type incarnation struct {
	image    uint64 // from which, 0: none
	checking uint64 // the start whose image is being looked at, 0: none is
	process  *launch.Process
	spread   *spread        // when agents have started the ranks
	here     map[int]bool   // ranks that have come
	met      map[uint64]int // how many nodes have come to a meeting
	killed   coord.KillHow  // what was ordered before there was a process
	read     atomic.Uint64  // bytes of the image from which ranks restart, of toRead
	toRead   atomic.Uint64
	shown    func() // ends the progress of a restart; nil: none is shown
}

func newIncarnation() *incarnation { return &incarnation{here: map[int]bool{}, met: map[uint64]int{}} }

var errUnstarted = errors.New("coordsrv: ended before it was started")

// badImage marks an error that lies in the image.
type badImage struct{ error }

func (b badImage) Unwrap() error { return b.error }

// awayImage marks an error that lies in that nodes are away which have a part of the image.
type awayImage struct{ error }

// launch starts the ranks, when the agent is ready for them.
func (r *ranks) launch(a coord.Launch) {
	r.retire()
	r.now.image = a.Image
	r.starts.all++
	r.agents.start = r.opt.Job.Term<<16 + uint64(r.starts.all)
	if !slices.ContainsFunc(r.agents.list, func(p *peer) bool { return !p.gone }) {
		r.wg.Go(func() { r.post(coord.LaunchFailed{Text: "all nodes are lost", Nowhere: true}) })
		return
	}
	switch {
	case r.opt.Plain:
		r.plain(a.Image)
	case r.caches == nil || a.Image == 0:
		r.fromStore(a.Image)
	case a.Doubted:
		r.caches.keeper.Inspect(a.Image, func() { r.caches.keeper.Settled(func() { r.fromCaches(a.Image) }) })
	default:
		r.caches.keeper.Settled(func() { r.fromCaches(a.Image) })
	}
}

// fromCaches starts the ranks from a checkpoint that the caches have, or have had.
func (r *ranks) fromCaches(image uint64) {
	if r.now.killed != 0 { // while they were looked through
		r.launchFailed(errUnstarted)
		return
	}
	switch err := r.caches.launch(image); {
	case err == nil:
	case r.caches.keeper.Stored(image):
		if slices.Contains(r.caches.keeper.Held(), image) {
			r.opt.Say(fmt.Sprintf("%v; its copy in %s is used", err, r.opt.Job.Dir))
		}
		r.fromStore(image)
	default:
		if r.caches.keeper.Away(image) {
			err = awayImage{err}
		}
		r.launchFailed(badImage{err})
	}
}

// plain starts ranks that are not led: where their parts are of the dataset that they are to restart from, if caches have it.
func (r *ranks) plain(image uint64) {
	w := r.written()
	w.memory.reset()
	w.book.Over()
	w.book.Limit(image)
	r.place()
	spec := r.spec(0)
	if w.keeper != nil && image != 0 && !r.opt.Script {
		if plan, err := w.keeper.Resume(guide(w, image)); err == nil && len(slices.Concat(plan.Ranks...)) == spec.Ranks {
			for i, p := range r.agents.list {
				p.ranks = plan.Ranks[i]
			}
		}
	}
	if w.routing == nil {
		r.begin(spec)
		return
	}
	w.routing.begin(r.places(), image != 0 || !r.opt.Anew, func(key string, err error) {
		switch {
		case r.now.killed != 0:
			r.launchFailed(errUnstarted)
		case err != nil:
			r.launchFailed(err)
		default:
			spec.App = w.routing.command(key, spec.App)
			r.begin(spec)
		}
	})
}

// places are the nodes of the ranks.
func (r *ranks) places() []int {
	at := make([]int, r.count)
	for i, p := range r.agents.list {
		for _, rank := range p.ranks {
			at[rank] = i
		}
	}
	return at
}

// died is the signal that a plain job's launcher tells by its exit code that a rank was ended by, 0: none. That of MPICH has the
// signal's own number, which an application would hardly choose.
func (r *ranks) died(code int) int {
	faults := []int{int(syscall.SIGILL), int(syscall.SIGABRT), int(syscall.SIGBUS), int(syscall.SIGFPE), int(syscall.SIGKILL), int(syscall.SIGSEGV)}
	switch {
	case !r.opt.Plain || r.now.killed != 0:
	case code > bySignal:
		return code - bySignal
	case r.opt.Spec.MPI.Name == launch.MPICH && slices.Contains(faults, code):
		return code
	}
	return 0
}

// fromStore starts the ranks anew, or from a checkpoint that all nodes see.
func (r *ranks) fromStore(image uint64) {
	spec := r.spec(image)
	if image != 0 {
		spec.Restart = r.opt.Job.Checkpoints().Path(image)
		r.check(image, spec)
		return
	}
	r.startFromStore(image, spec)
}

func (r *ranks) startFromStore(image uint64, spec launch.Spec) {
	r.story.decided(image, nil)
	r.place()
	r.begin(spec)
}

// check looks at a checkpoint that all nodes see, and starts the ranks from it, without holding the loop up: the store may take
// its time.
func (r *ranks) check(image uint64, spec launch.Spec) {
	r.now.checking = r.agents.start
	r.wg.Go(func() {
		err := r.checkImage(image, spec)
		r.ask(func() {
			switch {
			case r.now.checking != spec.Number: // it was given up
				return
			case err != nil:
				r.launchFailed(badImage{err})
			default:
				r.startFromStore(image, spec)
			}
			r.now.checking = 0
		})
	})
}

// begin starts the ranks when the agents are ready for them.
func (r *ranks) begin(spec launch.Spec) {
	var route *control.Route
	switch w := r.written(); {
	case r.now.image != 0 && !r.opt.Plain:
		w.back()
	case w.routing != nil: // it has begun for the program
		route = w.routing.order()
	default:
		w.book.Over()
	}
	r.agents.order(r.agents.engaged(), func(p *peer, order uint64) any {
		return control.Begin{Order: order, Ranks: p.ranks, Size: spec.Ranks, Restart: spec.Restart != "", Writers: spec.Writers, Route: route}
	}, func(answers []control.Message) {
		switch why := failure(answers); {
		case why != "":
			r.launchFailed(errors.New(why))
		case r.now.killed != 0:
			r.launchFailed(errUnstarted)
		default:
			r.start(spec)
		}
	})
}

// launchFailed tells the machine, after what it is doing now.
func (r *ranks) launchFailed(err error) {
	r.wg.Go(func() {
		r.post(coord.LaunchFailed{Text: err.Error(), Bad: errors.As(err, new(badImage)), Away: errors.As(err, new(awayImage))})
	})
}

// spec is what to start.
func (r *ranks) spec(image uint64) launch.Spec {
	spec := r.opt.Spec
	spec.Ranks = r.count
	spec.Fault = faults.ForRanks(r.opt.Fault, r.starts.all-1, image != 0, r.starts.images)
	spec.Number, spec.RunDir = r.agents.start, agent.StartDir(r.opt.RunDir, r.agents.start)
	spec.Recovers = r.opt.Job.Meta.Survivors == dataset.SurvivorsSpares
	spec.Clients, spec.Plain, spec.Script = r.agents.clients, r.opt.Plain, r.opt.Script
	if r.agents.remote != nil && (spec.MPI.Name == launch.MPICH || r.opt.Script) {
		spec.Preload = filepath.Join(spec.LibDir, "finalize.so") // harmless where it is not needed
	}
	spec.Agent, spec.Memory = agent.SocketPath(spec.RunDir), agent.MemoryDir(r.jobID, r.agents.start)
	if image != 0 {
		r.starts.images++
	}
	return spec
}

// checkImage looks at a checkpoint that all nodes see.
func (r *ranks) checkImage(image uint64, spec launch.Spec) error {
	m, err := dataset.Check(spec.Restart)
	if err == nil && m.Ranks != spec.Ranks {
		err = fmt.Errorf("coordsrv: checkpoint %d: found %d ranks, wanted %d", image, m.Ranks, spec.Ranks)
	}
	return err
}

// start starts the launcher.
func (r *ranks) start(spec launch.Spec) {
	r.story.log.Add(timeline.Event{Kind: timeline.Started, Start: r.agents.start, Checkpoint: r.now.image})
	if r.opt.Plain { // it is heard when that has been tried
		r.wg.Go(func() { r.post(coord.Launched{}) })
	}
	switch {
	case r.agents.remote != nil && (spec.MPI.Name == launch.MPICH || r.opt.Job.Meta.Survivors == dataset.SurvivorsRejoin) && !r.opt.Script:
		r.startSpread(spec.RankCommand(), spec.Env(r.opt.Environ))
		return
	case r.agents.remote != nil:
		r.startLauncher(spec.Command(), spec.Env(r.opt.Environ))
		return
	}
	p, err := spec.Start(r.opt.Spawn, r.opt.Dir, r.opt.Environ)
	if err != nil {
		r.launchFailed(err)
		return
	}
	r.now.process = p
	r.wg.Go(func() {
		code, sig, err := p.Wait()
		if err != nil {
			r.ask(func() { r.opt.Say(err.Error()) })
		}
		r.post(coord.LauncherExit{Code: code, Signal: sig, Died: r.died(code)})
	})
}

// retire ends a start that is over.
func (r *ranks) retire() {
	r.endProgress()
	if r.agents.start != 0 {
		r.agents.tell(control.End{})
	}
	r.agents.start, r.now = 0, newIncarnation()
}

// kill ends launcher and ranks. The launcher does not hear SIGTERM (see package launch); when its ranks have ended it ends
// by itself, and tidies up.
func (r *ranks) kill(how coord.KillHow) {
	r.now.killed = how
	if w := r.written(); w != nil && w.routing != nil {
		w.routing.suspend()
	}
	r.agents.tell(control.Kill{Ask: how == coord.KillAsk})
	if r.now.checking != 0 {
		r.now.checking = 0
		r.launchFailed(errUnstarted)
	}
	if r.now.process == nil {
		return
	}
	switch how {
	case coord.KillAsk:
		if len(r.now.here) < r.count { // those that it has started and that have not come here yet
			r.now.process.Signal(syscall.SIGINT)
		}
	case coord.KillRanks:
		r.now.process.Signal(syscall.SIGINT)
	case coord.KillBoth:
		r.now.process.Signal(syscall.SIGKILL)
	}
}

func (r *ranks) endProgress() {
	if r.now.shown != nil {
		r.now.shown()
		r.now.shown = nil
	}
}

// place gives each agent its ranks. At first they are spread over the nodes in blocks, without the spares; of those that
// have lost their node the next start is on a spare, or where there are fewest; of a job that shrinks, on a spare, or not at all.
func (r *ranks) place() {
	free := slices.DeleteFunc(slices.Clone(r.agents.list), func(p *peer) bool { return p.gone })
	if r.starts.all == 1 || len(free) == len(r.agents.list) {
		r.count = r.opt.Spec.Ranks
		spreadOver(free[:max(len(free)-r.opt.Spares, 1)], r.count)
		return
	}
	before := r.count
	for _, p := range r.agents.list {
		if !p.gone || len(p.ranks) == 0 {
			continue
		}
		to := slices.MinFunc(free, func(a, b *peer) int { return cmp.Compare(len(a.ranks), len(b.ranks)) })
		if r.opt.Shrink && len(to.ranks) > 0 {
			r.count -= len(p.ranks)
		} else {
			to.ranks = slices.Sorted(slices.Values(append(to.ranks, p.ranks...)))
		}
		p.ranks = nil
	}
	if r.count < before {
		renumber(r.agents.list)
		r.opt.Say(fmt.Sprintf("going on with %d ranks on the nodes that are left, %d before", r.count, before))
	}
}

// renumber gives ranks the numbers from 0 on, on the nodes where they are.
func renumber(list []*peer) {
	next := 0
	for _, p := range list {
		for i := range p.ranks {
			p.ranks[i] = next
			next++
		}
	}
}

// spreadOver gives ranks to agents in blocks whose sizes differ by one at most.
func spreadOver(to []*peer, ranks int) {
	next := 0
	for i, p := range to {
		p.ranks = nil
		for range (ranks + len(to) - 1 - i) / len(to) {
			p.ranks = append(p.ranks, next)
			next++
		}
	}
}
