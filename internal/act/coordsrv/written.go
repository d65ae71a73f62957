package coordsrv

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/keep"
	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/decide/settings"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/files"
	"github.com/byssus-hpc/byssus/internal/wire/client"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
)

// written are the datasets that the job's program writes itself: it carries out what package outputs decides of them, and what package keep
// does where the nodes have caches. All of it belongs to the loop's goroutine.
type written struct {
	*orders
	questions
	book    *outputs.Library
	keeper  *keep.Keeper // nil: the nodes have no caches
	turns   turns        // of what the keeper is to make again, or copy
	offered []uint64     // datasets that the job is said to be able to go on from
	commits map[uint64]func(why string)
	told    map[string]bool // of settings
	routing *routing        // nil: the program says by itself what it writes
	memory  *memory
	numbers *numbers
	halted  string // the program was told to end for another reason than conditions that may be taken back
}

// keepWritten begins to, when the agents have come. A plain job goes on from what there is of them.
func (s *Server) keepWritten(start *coord.Start) error {
	w := &written{questions: questions{s: s, asks: map[uint64]question{}}, numbers: &numbers{loop: s.loop, job: s.opt.Job}, commits: map[uint64]func(string){}, told: map[string]bool{}}
	s.written = w
	known, last, err := storedOutputs(s.opt.Job, s.opt.Say)
	if err != nil {
		return err
	}
	var c Caches
	if s.opt.Caches != nil {
		c = *s.opt.Caches
	}
	w.orders = newOrders(s.opt.Job, agent.Written, c.Mode, func(node int) string { return s.agents.list[node].name }, func(node int) string { return s.agents.list[node].pieces })
	w.kind = holding.Files
	var stored []uint64
	for _, d := range known {
		stored = append(stored, d.Number)
	}
	told := newChronicle(w, known)
	if s.opt.Caches != nil {
		w.keeper = keep.New(keep.Config{Job: s.agents.jobID, Stream: agent.Written, Kind: holding.Files, Ranks: s.opt.Spec.Ranks, Scheme: c.Scheme, Size: c.Size}, toldCaches{writtenCaches{w}, told}, stored)
		for _, p := range s.agents.list {
			w.keeper.Join(p.name, p.group, p.held)
			last = max(last, p.writes)
		}
		for _, n := range w.keeper.Held() {
			i := slices.IndexFunc(known, func(d outputs.Dataset) bool { return d.Number == n })
			if i < 0 {
				known, i = append(known, outputs.Dataset{Number: n, Label: w.keeper.Label(n)}), len(known)
			}
			known[i].Cached, told.names[n] = true, known[i].Name
		}
	}
	w.book = outputs.NewLibrary(told, known, last, s.opt.Job.Meta.Outputs)
	w.memory = newMemory(w)
	if s.opt.Starts > 0 {
		w.book.StartedAgain()
	}
	if s.opt.Plain {
		start.Images = w.book.Offered()
	}
	if s.opt.Anew {
		start.Images = nil
	}
	if route := s.opt.Job.Meta.Route; route != nil {
		w.routing = newRouting(w, route)
	}
	return nil
}

// lost: a node is gone.
func (w *written) lost(node int) {
	if w.routing != nil && slices.Contains(w.routing.at, node) {
		w.routing.suspend()
	}
	if w.keeper != nil {
		w.keeper.Lost(node)
	}
	w.book.Lost(node)
	w.memory.lost(node)
}

// back: the ranks go on from an image, on these nodes.
func (w *written) back() {
	at := make([]int, w.s.opt.Spec.Ranks)
	for i, p := range w.s.agents.list {
		for _, rank := range p.ranks {
			at[rank] = i
		}
	}
	w.book.Back(at)
	w.memory.back()
	w.prefix = w.book.Prefix()
}

// withUsed adds to what ranks say that they cannot save what the program has open of a dataset of its own: a moment later it has not.
func (w *written) withUsed(ev coord.Event) coord.Event {
	stopped, ok := ev.(node.Stopped)
	if !ok || w.book.Using() == "" || w.memory.used() { // a snapshot that is being made does not count after a restart
		return ev
	}
	stopped.Passing = append(slices.Clone(stopped.Passing), w.book.Using())
	return stopped
}

// storedOutputs are the datasets of files in the store that all nodes see, and the highest number that one had.
func storedOutputs(job *dataset.Job, say func(string)) (known []outputs.Dataset, last uint64, err error) {
	store := job.Of(agent.Written)
	all, err := store.List()
	if err == nil {
		last, err = store.Last()
	}
	if err != nil {
		return nil, 0, err
	}
	for _, n := range all {
		m, err := dataset.ReadManifest(store.Path(n))
		switch {
		case err != nil:
			say(fmt.Sprintf("dataset %d is left out: %v", n, err))
		case m.ID == job.Meta.ID && m.Label != nil:
			known = append(known, outputs.Dataset{Number: n, Label: *m.Label, Stored: true})
		}
	}
	return known, last, nil
}

// asked takes in what a program asks.
func (w *written) asked(from *peer, m control.Asked) {
	w.last++
	w.asks[w.last] = question{from: from, number: m.Number, kind: m.Type}
	ask := outputs.Ask{Number: w.last, Node: slices.Index(w.s.agents.list, from)}
	name := ""
	if len(m.Text) > 0 {
		name = m.Text[0]
	}
	switch m.Type {
	case client.ReqBegin:
		w.begin(ask, m)
	case client.ReqJoin:
		w.book.Join(ask, m.Run, int(m.Rank))
	case client.ReqOpen:
		w.book.Open(ask, m.Run, holding.Label{Name: name, Checkpoint: m.Flags&client.FlagCheckpoint != 0, Output: m.Flags&client.FlagOutput != 0})
	case client.ReqWritten:
		w.book.Written(ask, outputs.Part{Run: m.Run, Dataset: m.Dataset, Rank: int(m.Rank), Valid: m.Valid == 1, Bytes: m.Bytes, Files: m.NFiles})
	case client.ReqNewest:
		w.book.Newest(ask, m.Run)
	case client.ReqRead:
		w.book.Read(ask, m.Run, m.Dataset, m.Valid == 1)
	case client.ReqNeed:
		w.book.Need(ask, m.Run)
	case client.ReqExit:
		w.book.Exit(ask, m.Run)
	case client.ReqCurrent:
		w.done(ask, w.book.Current(name))
	case client.ReqDrop:
		w.done(ask, w.book.Drop(name, false))
	case client.ReqDelete:
		w.done(ask, w.book.Drop(name, true))
	case client.ReqEnd:
		w.book.End(ask, m.Run)
	case client.ReqConfig:
		w.config(ask, m)
	case client.ReqEnter, client.ReqReady, client.ReqCommit, client.ReqLeave, client.ReqState, client.ReqSpare:
		w.memory.asked(ask, m)
	default:
		w.done(ask, fmt.Errorf("request of unknown type %d", m.Type))
	}
}

func (w *written) done(ask outputs.Ask, err error) {
	a := outputs.Answer{}
	if err != nil {
		a.Refused = err.Error()
	}
	w.Answer(ask, a)
}

// Answer is outputs'.
func (w *written) Answer(ask outputs.Ask, a outputs.Answer) {
	q, ok := w.asks[ask.Number]
	if !ok {
		return
	}
	delete(w.asks, ask.Number)
	if q.then != nil {
		q.then(a)
		return
	}
	out := client.Answered{Answer: client.Answer{Run: a.Run, Dataset: a.Dataset, Flags: flagsOf(a.Label)}}
	if a.Yes {
		out.Valid = 1
	}
	switch {
	case a.Refused != "":
		out = client.Refusal(a.Refused)
	case q.kind == client.ReqBegin:
		out.Text = q.inForce
	case q.kind == client.ReqJoin && w.s.opt.Plain: // a rank that is led may go on elsewhere, and not know it
		out.Node = uint32(slices.Index(w.s.agents.list, q.from) + 1)
	case q.kind == client.ReqConfig && a.Yes:
		out.Text = []string{a.Why}
	case q.kind == client.ReqOpen:
		out.Text = []string{a.Label.Name, a.Dir}
	case a.Label.Name != "":
		out.Text = []string{a.Label.Name}
	case a.Why != "":
		out.Text = []string{a.Why}
	}
	w.tell(q, out)
}

func flagsOf(l holding.Label) uint32 {
	var flags uint32
	for flag, is := range map[uint32]bool{client.FlagCheckpoint: l.Checkpoint, client.FlagOutput: l.Output, client.FlagBypass: l.InPlace} {
		if is {
			flags |= flag
		}
	}
	return flags
}

// endLimit is how long the ranks of a program may take to end, before another is refused that begins: launchers kill them.
const endLimit = 10 * time.Second

// Await is outputs'.
func (w *written) Await(ask outputs.Ask) {
	time.AfterFunc(endLimit, func() { w.s.ask(func() { w.book.GiveUp(ask) }) })
}

// Now is outputs'.
func (w *written) Now() time.Duration { return time.Since(w.s.began) }

// Place is outputs'. A dataset in place needs no directory before it is stored, but a number that counts as used: it mostly does since the
// one before was stored.
func (w *written) Place(n uint64, bypass bool, at []int, then func(string, error)) (string, bool) {
	w.s.opt.Job.Faults.Hit(faults.WrittenOpen)
	if bypass && n <= w.numbers.used {
		return w.prefix, true
	}
	if bypass {
		w.numbers.use(n+1, func() error { return nil }, func(err error) { then(w.prefix, err) })
		return "", false
	}
	cache := dataset.Job{Record: dataset.Record{Dir: w.cacheDir()}}
	dir := cache.Of(agent.Written).Path(n) + ".tmp"
	w.s.agents.order(w.nodesOf(at), func(p *peer, order uint64) any {
		o := control.Prepare{Order: order, Checkpoint: n, Stream: agent.Written}
		for member, node := range at {
			if w.again && node >= 0 && w.s.agents.list[node] == p {
				o.Members = append(o.Members, member)
			}
		}
		return o
	}, func(answers []control.Message) {
		var err error
		if why := failure(answers); why != "" {
			err = errors.New(why)
		}
		then(dir, err)
	})
	return "", false
}

// cacheDir is where the job is in the caches of nodes.
func (w *written) cacheDir() string {
	return dataset.Store{Dir: w.s.opt.Caches.Dir}.CachePath(w.s.opt.Job.Meta)
}

// agreeTime is how long a dataset that all ranks have written waits before it is stored: meanwhile they tell each other that they have, and
// leave the call. They would wait for processors on which files are made.
const agreeTime = 5 * time.Millisecond

// Commit is outputs'.
func (w *written) Commit(n uint64, label holding.Label, how settings.Pick, at []int, then func(string)) {
	then = w.memory.heard(n, then)
	nodes, ranks := byNode(at)
	store := func() {
		if label.InPlace { // the number of the next is set apart with this one's directory
			w.numbers.use(n+1, w.work(keep.Place{Checkpoint: n}), func(err error) {
				if err != nil {
					then(err.Error())
					return
				}
				w.sealInPlace(n, label, nodes, ranks, then)
			})
			return
		}
		id := holding.ID{Job: w.s.agents.jobID, Start: w.s.agents.start, Epoch: n, Dataset: n, Stream: agent.Written}
		w.commits[n] = then
		var groups []string
		if len(how.Groups) > 0 {
			for _, node := range nodes {
				groups = append(groups, how.Groups[w.s.agents.list[node].name])
			}
		}
		w.keeper.Commit(id, label, keep.How{Scheme: how.Scheme, Size: w.fitting(how.SetSize, len(nodes)), Groups: groups, Increments: w.again}, nodes, ranks)
	}
	time.AfterFunc(agreeTime, func() { w.s.ask(store) })
}

// fitting is the size of sets that was asked for, or as many as there are nodes.
func (w *written) fitting(size, nodes int) int {
	if size == 0 {
		size = w.s.opt.Caches.Size
	}
	return min(size, nodes)
}

// byNode are the nodes that ranks run on, and which run on each.
func byNode(at []int) (nodes []int, ranks [][]int) {
	for rank, node := range at {
		i := slices.Index(nodes, node)
		if i < 0 {
			i, nodes, ranks = len(nodes), append(nodes, node), append(ranks, nil)
		}
		ranks[i] = append(ranks[i], rank)
	}
	return nodes, ranks
}

// sealInPlace makes a dataset count whose files are in the prefix.
func (w *written) sealInPlace(n uint64, label holding.Label, nodes []int, ranks [][]int, then func(string)) {
	var to []*peer
	for _, node := range nodes {
		to = append(to, w.s.agents.list[node])
	}
	of := func(p *peer) []int { return ranks[slices.Index(to, p)] }
	w.s.agents.order(to, func(p *peer, order uint64) any {
		return control.SealInPlace{Order: order, Checkpoint: n, Stream: agent.Written, Run: w.book.Run(), Ranks: of(p), Prefix: w.prefix}
	}, func(answers []control.Message) {
		if why := failure(answers); why != "" {
			then(why)
			return
		}
		var parts []holding.File
		for _, m := range answers {
			if sealed, ok := m.Body.(control.Sealed); ok {
				parts = append(parts, sealed.Part.Files...)
			}
		}
		writtenCaches{w}.Store(keep.Enter{Checkpoint: n, Label: label, Files: parts}, func(err error) {
			if err != nil {
				then(err.Error())
				return
			}
			then("")
		})
	})
}

// Discard is outputs'.
func (w *written) Discard(n uint64, bypass bool) {
	w.memory.over(n, "it does not count")
	if w.routing != nil {
		w.routing.discarded(n)
	}
	if bypass {
		writtenCaches{w}.Store(keep.Clear{Checkpoint: n}, w.complain)
		return
	}
	w.keeper.Discard(n)
}

// Flush is outputs'.
func (w *written) Flush(n uint64, then func(error)) {
	w.turns.take(func(done func()) {
		w.keeper.Fetch(n, func(err error) {
			then(err)
			done()
		})
	})
}

// Evict is outputs'.
func (w *written) Evict(n uint64) { w.keeper.Evict(n) }

// Forget is outputs'.
func (w *written) Forget(n uint64, withFiles bool) {
	drop := func() {
		if w.keeper != nil {
			w.keeper.Drop(n)
		}
	}
	if !withFiles {
		drop()
	}
	store := w.job.Of(agent.Written)
	w.s.wg.Go(func() {
		var err error
		if withFiles { // as long as its indexes are there
			err = removeFiles(store.Path(n))
			w.s.ask(drop)
		}
		if err = errors.Join(err, store.Drop(n)); err != nil {
			w.s.ask(func() { w.complain(err) })
		}
	})
}

// settle waits, when the job is over, until what its program has written is stored and copied to the prefix. It returns whether
// nothing is lost when the caches are removed.
func (w *written) settle() bool {
	b, s := w.book, w.s
	if w.routing != nil && !settleRouted(w) {
		return false
	}
	b.Over()
	idle := func() bool { return !b.Busy() }
	if !s.await(idle, s.agents.inbox.ready, nil) {
		return false
	}
	b.Settle(s.end.code != 0)
	done := s.await(idle, s.agents.inbox.ready, nil) && !b.Stuck()
	if w.routing != nil {
		left := false
		w.routing.leave(s.end.code == 0, func() { left = true })
		done = s.await(func() bool { return left }, s.agents.inbox.ready, nil) && done
	}
	return done
}

// settleRouted waits until what a program that has ended well has written last is stored.
func settleRouted(w *written) bool {
	if w.s.end.code != 0 {
		return true
	}
	w.routing.finish()
	return w.s.await(w.routing.idle, w.s.agents.inbox.ready, nil)
}

// removeFiles removes the files in the prefix that the indexes in a dataset's directory name.
func removeFiles(dir string) error {
	m, err := dataset.ReadManifest(dir)
	if errors.Is(err, dataset.ErrNoManifest) || errors.Is(err, fs.ErrNotExist) {
		return nil // it is not in the prefix
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range m.Files {
		if f.Name == files.IndexName(f.Rank) {
			errs = append(errs, files.RemoveInPlace(dir, f.Rank))
		}
	}
	return errors.Join(errs...)
}

// Changed is outputs'.
func (w *written) Changed() {
	w.prefix = w.book.Prefix()
	w.s.opt.Job.Meta.Outputs = w.book.Memory()
	w.s.record.save()
}

// Counts is outputs'.
func (w *written) Counts(n uint64, counts bool) {
	if d := &w.s.opt.Job.Meta; w.s.opt.Plain && counts && w.keeper != nil && !w.keeper.Stored(n) {
		d.Cached = n
		w.s.record.save()
	}
	if w.s.opt.Plain {
		if len(w.book.Groups()) > 0 {
			offer(w)
		} else {
			w.s.step(coord.Counts{Checkpoint: n, Counts: counts})
		}
		if counts {
			w.s.halting.count(w.s)
		}
		if counts && w.routing != nil {
			w.routing.counts(n)
		}
		if counts && w.memory.used() {
			endIfWanted(w)
		}
	}
}

// offer tells what a job with groups that make snapshots can go on from.
func offer(w *written) {
	now := w.book.Offered()
	for _, n := range w.offered {
		if !slices.Contains(now, n) {
			w.s.step(coord.Counts{Checkpoint: n})
		}
	}
	for _, n := range now {
		if !slices.Contains(w.offered, n) {
			w.s.step(coord.Counts{Checkpoint: n, Counts: true})
		}
	}
	w.offered = now
}

// guide is the dataset that says where ranks are to run: this one, if it is of all, else the newest that is. 0: there is none.
func guide(w *written, image uint64) uint64 {
	if w.keeper.Label(image).Ranks == w.s.ranks.count {
		return image
	}
	for _, d := range w.book.Heads() {
		if d.Ranks == w.s.ranks.count {
			return d.Number
		}
	}
	return 0
}

// Heeded is outputs'.
func (w *written) Heeded() {
	if w.s.opt.Plain {
		w.s.step(coord.Heeded{})
	}
}

func (w *written) complain(err error) {
	if err != nil {
		w.Say(err.Error())
	}
}

// restoreTries bounds how often parts of a dataset turn out to be damaged, and are made again.
const restoreTries = 3

// Restore is outputs'.
func (w *written) Restore(d outputs.Dataset, at []int, prefix bool, then func(bool, error)) {
	w.turns.take(func(done func()) {
		restore(w, d, at, prefix, func(inPrefix bool, err error) {
			then(inPrefix, err)
			done()
		})
	})
}

func restore(w *written, d outputs.Dataset, at []int, prefix bool, then func(bool, error)) {
	if w.keeper == nil || !slices.Contains(w.keeper.Held(), d.Number) || prefix && w.keeper.Stored(d.Number) {
		w.fromPrefix(d, at, then)
		return
	}
	w.keeper.Settled(func() {
		switch {
		case prefix && w.keeper.Stored(d.Number): // it has been copied there meanwhile
			w.fromPrefix(d, at, then)
		case prefix:
			w.fromCaches(d, nil, restoreTries, then) // no rank finds its part where it is
		default:
			w.fromCaches(d, at, restoreTries, then)
		}
	})
}

// fromCaches has what is lost made again, and what is damaged repaired; what ranks run elsewhere than their parts lie is copied to the
// prefix, where all find it.
func (w *written) fromCaches(d outputs.Dataset, at []int, tries int, then func(bool, error)) {
	r, err := w.keeper.Resume(d.Number)
	switch {
	case err != nil && w.keeper.Stored(d.Number):
		w.fromPrefix(d, at, then)
		return
	case err != nil:
		then(false, err)
		return
	case !fits(r.Ranks, at, d.Ranks):
		w.keeper.Fetch(d.Number, func(err error) { then(true, err) }) // which compares all that it copies
		return
	}
	w.keeper.Rebuild(r, func(err error) {
		if err != nil {
			then(false, err)
			return
		}
		w.keeper.Inspect(d.Number, func() {
			again, err := w.keeper.Resume(d.Number)
			if err == nil && len(again.Lost()) > 0 && tries > 1 {
				w.fromCaches(d, at, tries-1, then)
				return
			}
			if err == nil && len(again.Lost()) > 0 {
				err = fmt.Errorf("it is found damaged again and again")
			}
			then(false, err)
		})
	})
}

// fits says whether each rank runs where its part is.
func fits(parts [][]int, at []int, ranks int) bool {
	if len(at) != ranks {
		return false
	}
	for rank, node := range at {
		if node < 0 || node >= len(parts) || !slices.Contains(parts[node], rank) {
			return false
		}
	}
	return true
}

// nodesOf are the nodes of ranks: all, if nothing is known of these.
func (w *written) nodesOf(at []int) []*peer {
	var to []*peer
	for _, node := range at {
		if node >= 0 && !slices.Contains(to, w.s.agents.list[node]) {
			to = append(to, w.s.agents.list[node])
		}
	}
	if len(to) == 0 {
		return w.s.agents.alive()
	}
	return to
}

// fromPrefix has the nodes look whether the files in the prefix are as they were written, each those of some ranks.
func (w *written) fromPrefix(d outputs.Dataset, at []int, then func(bool, error)) {
	to := w.nodesOf(at)
	w.s.agents.order(to, func(p *peer, order uint64) any {
		o := control.Compare{Order: order, Checkpoint: d.Number, Stream: agent.Written}
		for rank := slices.Index(to, p); rank < d.Ranks; rank += len(to) {
			o.Ranks = append(o.Ranks, rank)
		}
		return o
	}, func(answers []control.Message) {
		if why := failure(answers); why != "" {
			then(true, errors.New(why))
			return
		}
		then(true, nil)
	})
}

// Say is outputs'.
func (w *written) Say(text string) { w.s.opt.Say(text) }
