package coordsrv

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/decide/routed"
	"github.com/byssus-hpc/byssus/internal/decide/settings"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

// routing speaks to package outputs for a program that is run as it is and knows nothing of datasets: its files are led into the caches by
// agents, who say what becomes of them. Before a start it puts the dataset that the program is to restart from into the prefix, and removes
// what an earlier life has left half written. All of it belongs to the loop's goroutine.
type routing struct {
	w       *written
	route   *dataset.Route
	life    int // of the program; what was asked for an earlier one is not heard any more
	run     uint64
	start   uint64 // of the ranks
	at      []int  // the node of each rank
	watch   *routed.Watch
	queue   []routed.Complete
	begun   map[uint64]routed.Complete // datasets that do not count yet
	failed  map[string]int             // how often one could not be stored
	told    map[string]bool            // that could not count
	opening bool                       // one is being gathered
	pending int                        // what is to be heard of that does not count
	ended   bool                       // the program has, well: nothing follows
	timer   *time.Timer
}

func newRouting(w *written, route *dataset.Route) *routing {
	return &routing{w: w, route: route, told: map[string]bool{}}
}

// ask has package outputs asked for the program; then is called later, if its life is not over.
func (r *routing) ask(node int, then func(outputs.Answer)) outputs.Ask {
	life := r.life
	return r.w.own(node, func() bool { return life == r.life }, then)
}

// begin makes ready for a start of the program, on these nodes, anew or from a dataset, of which the key is told.
func (r *routing) begin(at []int, restart bool, then func(key string, err error)) {
	r.stopTimer()
	r.life++
	r.at, r.watch, r.queue, r.opening, r.pending, r.ended = at, routed.NewWatch(r.route.Quiet), nil, false, 0, false
	r.begun, r.failed = map[uint64]routed.Complete{}, map[string]int{}
	life := r.life
	r.w.s.agents.order(r.w.s.agents.alive(), func(_ *peer, order uint64) any { return control.Unroute{Order: order} }, func(answers []control.Message) {
		r.removed(answers)
		r.w.s.wg.Go(func() {
			err := r.sweep(life == 1) // later ones may begin while datasets of the one before are being copied
			r.w.s.ask(func() {
				switch {
				case life != r.life:
				case err != nil:
					then("", err)
				default:
					r.open(restart, then)
				}
			})
		})
	})
}

// suspend: the program is being ended, or has lost a node. What its files look like from now on says nothing.
func (r *routing) suspend() {
	r.stopTimer()
	r.life++
	r.watch, r.queue, r.opening, r.pending = nil, nil, false, 0
}

// links begins the names of the files in which nodes note where they put links.
func (r *routing) links() string { return filepath.Join(r.w.s.opt.Job.Dir, "links") }

// order says what agents are to lead in the start that begins.
func (r *routing) order() *control.Route {
	r.start = r.w.s.agents.start
	return &control.Route{Prefix: r.route.Prefix, Files: r.route.Files, Marker: r.route.Marker, Links: r.links(), More: r.redundancy()}
}

// redundancy is about how many percent of a node's files that of a dataset takes.
func (r *routing) redundancy() int {
	nodes, _ := byNode(r.at)
	c := r.w.s.opt.Caches
	return c.Scheme.Percent(c.Size, len(nodes))
}

// open begins the program, and finds what it restarts from.
func (r *routing) open(restart bool, then func(string, error)) {
	found, _ := r.w.resolve(settings.Sources{})
	p := policyOf(found.Plan(), r.w.s.opt.Caches)
	p.Prefix, p.Restart.InPrefix, p.Bypass, p.Kept = r.route.Prefix, true, false, settings.Descriptors{}
	r.w.book.Begin(r.ask(0, func(a outputs.Answer) {
		if a.Refused != "" {
			then("", fmt.Errorf("coordsrv: %s", a.Refused))
			return
		}
		r.run = a.Run
		for rank, node := range r.at {
			r.w.book.Join(r.ask(node, func(outputs.Answer) {}), r.run, rank)
		}
		if !restart {
			then("", nil)
			return
		}
		r.w.book.Newest(r.ask(0, func(a outputs.Answer) { r.restored(a, then) }), r.run)
	}), len(r.at), p, outputs.First{})
}

// restored: a dataset is in the prefix from which the program can restart, or there is none.
func (r *routing) restored(a outputs.Answer, then func(string, error)) {
	if a.Dataset == 0 {
		then("", nil)
		return
	}
	dir := r.w.job.Of(agent.Written).Path(a.Dataset)
	r.w.s.wg.Go(func() {
		err := putInPrefix(dir, r.route.Prefix, r.w.job.Meta.Fsync)
		r.w.s.ask(func() {
			if err == nil {
				r.w.book.Read(r.ask(0, func(outputs.Answer) {}), r.run, a.Dataset, true)
				err = r.w.book.DropAfter(a.Label.Name) // the program writes them again
			}
			then(a.Label.Name, err)
		})
	})
}

// command is what is started to go on from a dataset.
func (r *routing) command(key string, app []string) []string {
	if key == "" || r.route.Restart == "" {
		return app
	}
	quoted := "'" + strings.ReplaceAll(key, "'", `'\''`) + "'"
	return []string{"/bin/sh", "-c", "exec " + strings.ReplaceAll(r.route.Restart, "{key}", quoted)}
}

// hear takes in what a node says.
func (r *routing) hear(from *peer, start uint64, m control.Routed) {
	if r.watch == nil || start != r.start {
		return
	}
	r.watch.Hear(slices.Index(r.w.s.agents.list, from), m.State, r.w.Now())
	r.step()
}

// step does what is due.
func (r *routing) step() {
	r.stopTimer()
	if r.watch == nil {
		return
	}
	list, never, at := r.watch.Next(r.w.Now(), r.ended)
	for key, why := range never {
		r.giveUp(key, why)
	}
	for _, c := range list {
		r.queue = append(slices.DeleteFunc(r.queue, func(old routed.Complete) bool { return old.Key == c.Key }), c)
	}
	if at > 0 {
		r.timer = time.AfterFunc(at-r.w.Now(), func() { r.w.s.ask(r.step) })
	}
	r.next()
}

func (r *routing) stopTimer() {
	if r.timer != nil {
		r.timer.Stop()
	}
}

// mostTold are what a user is told of that is no checkpoint: a program that writes one so writes all so.
const mostTold = 3

// giveUp: a dataset cannot count. Its files become files of the prefix.
func (r *routing) giveUp(key, why string) {
	r.watch.Over(key)
	if !r.told[key] && len(r.told) < mostTold {
		text := fmt.Sprintf("%s is no checkpoint to go on from, and lies in the prefix as it was written: %s", key, why)
		if r.told[key] = true; len(r.told) == mostTold {
			text += " (others are not told of)"
		}
		r.w.Say(text)
	}
	r.pending++
	life := r.life
	r.w.s.agents.order(r.w.s.agents.alive(), func(_ *peer, order uint64) any { return control.Release{Order: order, Key: key} }, func(answers []control.Message) {
		r.complain(answers)
		if life == r.life {
			r.pending--
		}
	})
}

func (r *routing) complain(answers []control.Message) {
	if why := failure(answers); why != "" {
		r.w.Say(why)
	}
}

// next begins to store a dataset that is complete.
func (r *routing) next() {
	if r.opening || len(r.queue) == 0 {
		return
	}
	c := r.queue[0]
	r.queue, r.opening = r.queue[1:], true
	if c.Fewer != "" {
		r.w.Say(fmt.Sprintf("%s has %s: it is taken for complete, since nothing has happened to it for %v", c.Key, c.Fewer, 10*r.route.Quiet))
	}
	r.w.book.Open(r.ask(0, func(a outputs.Answer) {
		if a.Refused != "" {
			r.opening = false
			r.again(c, a.Refused)
			return
		}
		r.begun[a.Dataset] = c
		r.gather(c, a.Dataset)
	}), r.run, holding.Label{Name: c.Key, Checkpoint: true})
}

// gather has the files of a dataset put into its directory, and says so for all ranks.
func (r *routing) gather(c routed.Complete, n uint64) {
	life, list := r.life, r.w.s.agents.list
	nodes, ranks := byNode(r.at)
	var to []*peer
	for _, node := range nodes {
		to = append(to, list[node])
	}
	r.w.s.agents.order(to, func(p *peer, order uint64) any {
		return control.Gather{Order: order, Checkpoint: n, Key: c.Key, Ranks: ranks[slices.Index(to, p)]}
	}, func(answers []control.Message) {
		if life != r.life {
			return
		}
		why := failure(answers)
		for i, node := range nodes {
			found, _ := answers[i].Body.(control.Gathered)
			if why == "" && int(found.Files) != c.Files[node] {
				why = fmt.Sprintf("node %s has %d files of it, wanted %d", list[node].name, found.Files, c.Files[node])
			}
			for j, rank := range ranks[i] {
				part := outputs.Part{Run: r.run, Dataset: n, Rank: rank, Valid: why == ""}
				if j == 0 {
					part.Bytes, part.Files = found.Bytes, found.Files
				}
				r.w.book.Written(r.ask(node, func(outputs.Answer) {}), part)
			}
		}
		r.opening = false
		r.next()
	})
}

// mostStores is how often a dataset is tried to be stored.
const mostStores = 3

// again: a dataset could not be stored. Another may have been opened meanwhile.
func (r *routing) again(c routed.Complete, why string) {
	r.failed[c.Key]++
	if r.failed[c.Key] >= mostStores {
		r.giveUp(c.Key, why)
	} else {
		r.watch.Again(c.Key, r.w.Now())
	}
	r.step()
}

// discarded: what was begun of a dataset does not count.
func (r *routing) discarded(n uint64) {
	if c, ok := r.begun[n]; ok && r.watch != nil {
		delete(r.begun, n)
		r.pending++
		life := r.life
		r.w.later(func() {
			if life == r.life {
				r.pending--
				r.again(c, "it could not be stored")
			}
		})
	}
}

// counts: a dataset does from now on. A program that is to end is ended then, since it does not ask.
func (r *routing) counts(n uint64) {
	c, ok := r.begun[n]
	if !ok {
		return
	}
	delete(r.begun, n)
	if r.watch != nil {
		r.watch.Over(c.Key)
		r.watch.Counted(c.Files)
	}
	endIfWanted(r.w)
}

// claim has a node give up a file that another wants to write to as well, or rename one for it.
func (r *routing) claim(from *peer, m control.Claim) {
	list := r.w.s.agents.list
	answer := func(why string) {
		if why != "" && m.To == "" && len(from.ranks) > 0 { // some programs wait for ever for one that could not open a file
			r.w.s.step(node.Refused{Rank: from.ranks[0], Text: fmt.Sprintf("%s is written on several nodes at a time: leave it out of --files (%s)", m.Path, why)})
		}
		if !from.gone {
			from.hear(control.Message{Start: r.w.s.agents.start, Body: control.Claimed{Number: m.Number, Err: why}})
		}
	}
	rest, ok := strings.CutPrefix(m.Link, filepath.Join(r.w.cacheDir(), agent.RoutedName)+"/")
	i := slices.IndexFunc(list, func(p *peer) bool { return strings.HasPrefix(rest, p.name+"/") && !p.gone })
	if !ok || i < 0 {
		answer(m.Link + " is of another job, or of a node that is lost")
		return
	}
	r.w.s.agents.order(list[i:i+1], func(_ *peer, order uint64) any {
		return control.GiveUp{Order: order, Path: m.Path, To: m.To, Copy: m.Copy}
	}, func(answers []control.Message) {
		answer(failure(answers))
	})
}

// finish stores, when the program has ended well, what it has written last.
func (r *routing) finish() {
	r.w.s.agents.order(r.w.s.agents.alive(), func(_ *peer, order uint64) any { return control.Recount{Order: order} }, func([]control.Message) {
		r.ended = true
		r.step()
	})
}

// idle says whether nothing is under way.
func (r *routing) idle() bool {
	return r.ended && !r.opening && r.pending == 0 && len(r.queue) == 0 && len(r.begun) == 0
}

// leave ends the leading of files. What is in no dataset becomes files of the prefix, unless the program died when it wrote them.
func (r *routing) leave(keep bool, then func()) {
	r.stopTimer()
	r.life++
	r.w.s.agents.order(r.w.s.agents.alive(), func(_ *peer, order uint64) any {
		return control.Unroute{Order: order, Keep: keep}
	}, func(answers []control.Message) {
		r.complain(answers)
		r.removed(answers)
		r.w.s.wg.Go(func() {
			err := r.sweep(true) // nodes that are lost have left what they had
			r.w.s.ask(func() {
				r.w.complain(err)
				then()
			})
		})
	})
}

// sweep removes what agents that are gone have left in the prefix; idle: nothing is being copied there.
func (r *routing) sweep(idle bool) error {
	return removeLinks(r.route, filepath.Join(r.w.cacheDir(), agent.RoutedName), r.links(), idle)
}

// removed tells of what was removed when the program had ended.
func (r *routing) removed(answers []control.Message) {
	var keys []string
	for _, m := range answers {
		left, _ := m.Body.(control.Unrouted)
		if keys = append(keys, left.Removed...); left.Full != "" {
			r.w.Say(left.Full)
		}
	}
	if slices.Sort(keys); len(keys) > 0 {
		r.w.Say(fmt.Sprintf("not complete when the program ended, and removed: %s", strings.Join(slices.Compact(keys), ", ")))
	}
}
