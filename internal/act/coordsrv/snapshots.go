package coordsrv

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/decide/settings"
	"github.com/byssus-hpc/byssus/internal/decide/snapshots"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/wire/client"
)

// memory speaks to package outputs for a group that makes snapshots, whose members speak each for itself: package snapshots says when all
// have. A snapshot is a dataset whose files are the members' regions. All of it belongs to the loop's goroutine.
type memory struct {
	w       *written
	group   *snapshots.Group // nil: there is none
	members int
	resumed bool // the program was restored from images, with whatever groups it had then
	name    string
	policy  snapshots.Policy // of the group
	run     uint64
	at      []int         // the node of each member
	begun   map[int]begun // the process of each member that has begun, and not ended
	held    map[int]held  // members that begin while the end of the process before is not known
	spares  spares
	commits map[uint64]func(why string) // of snapshots that are being stored
}

// begun is where a member has begun.
type begun struct {
	node, process int
	number        uint64 // of what the agent has asked for it
	rank          uint64 // by which the program knows the process
}

// held is a member that waits with its beginning.
type held struct {
	ask  outputs.Ask
	then func()
}

func newMemory(w *written) *memory {
	m := &memory{w: w}
	m.spares = spares{memory: m}
	m.clear()
	return m
}

func (m *memory) clear() {
	m.group, m.run, m.begun, m.held, m.commits = nil, 0, map[int]begun{}, map[int]held{}, map[uint64]func(string){}
}

// reset ends the group, whose program is over.
func (m *memory) reset() {
	if m.group != nil {
		m.group.Refuse("the program is over")
	}
	m.spares.over(errors.New("the program is over"))
	for _, h := range m.held {
		m.w.done(h.ask, errors.New("the program is over"))
	}
	m.clear()
}

// keeps says whether the survivors of a death go on.
func (m *memory) keeps() bool { return m.w.s.opt.Job.Meta.Survivors != dataset.SurvivorsEnd }

// left: the process of a member has ended.
func (m *memory) left(node int, l control.RankLeft) {
	m.spares.left(node, l.Number)
	if b, ok := m.begun[l.Rank]; ok && b.node == node && b.number == l.Number {
		m.died(l.Rank)
	}
}

// lost: a node is gone, and with it what runs there.
func (m *memory) lost(node int) {
	m.spares.lost(node)
	for member, b := range m.begun {
		if b.node == node {
			m.died(member)
		}
	}
}

// died: a member has. When all have, and none takes its place, the group is over, whether they said so or not.
func (m *memory) died(member int) {
	if m.group == nil { // the death of another has ended it
		return
	}
	delete(m.begun, member)
	m.w.book.Left(m.run, member)
	m.group.Died(member)
	if m.spares.replace(member); m.finished() && len(m.begun) == 0 {
		m.spares.end()
	}
	if h, ok := m.held[member]; ok {
		delete(m.held, member)
		h.then()
	} else if !m.keeps() && !m.group.Lives() {
		m.reset()
	}
}

// lives says whether all members have begun, and not finished.
func (m *memory) lives() bool { return m.group != nil && m.run != 0 && !m.group.Over() }

// finished says whether members have made use of this, and have said that they are done.
func (m *memory) finished() bool { return m.group != nil && m.group.Over() }

// shrunk: so many processes are left, since one has ended well; the group may lack members for good.
func (m *memory) shrunk(processes int) {
	if m.group != nil && !m.group.Over() && processes < m.members {
		m.group.Refuse(fmt.Sprintf("a process has ended without finish: %d are left, the group has %d members", processes, m.members))
	}
}

// desk is memory for one group: what was begun for another is not heard any more.
type desk struct {
	*memory
	group *snapshots.Group
}

func (d *desk) ask(node int, then func(outputs.Answer)) outputs.Ask {
	return d.w.own(node, d.lives, then)
}

func (d *desk) lives() bool { return d.group == d.memory.group }

// asked takes in what a member says.
func (m *memory) asked(ask outputs.Ask, a control.Asked) {
	q := snapshots.Question{Number: ask.Number, Node: ask.Node, Member: int(a.Rank), Run: a.Run}
	text := ""
	if len(a.Text) > 0 {
		text = a.Text[0]
	}
	switch {
	case a.Type == client.ReqSpare:
		m.spares.enter(ask, a)
	case a.Type == client.ReqEnter:
		m.enter(ask, q, a)
	case m.group == nil && m.resumed && a.NRanks > 0:
		m.found(int(a.NRanks), func(d *desk) *snapshots.Group { return snapshots.Resumed(d, m.members) })
		m.asked(ask, a)
	case m.group == nil:
		m.w.done(ask, fmt.Errorf("member %d belongs to no group: its program is over", a.Rank))
	case a.Type == client.ReqReady:
		m.group.Ready(q, a.Valid == 1, text)
	case a.Type == client.ReqState:
		m.group.State(q, a.Dataset)
	case a.Type == client.ReqLeave:
		m.group.Leave(q, a.Valid == 1)
	default:
		tag, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			m.w.done(ask, fmt.Errorf("commit: found tag %q, wanted a number", text))
			return
		}
		m.group.Commit(q, tag, snapshots.Part{Valid: a.Valid == 1, Bytes: a.Bytes})
	}
}

// found makes a group of so many members. Members that were restored from images have no use for snapshots that there are, older ones as well:
// what they would go back to next is an image, or a snapshot that they make from now on.
func (m *memory) found(members int, group func(*desk) *snapshots.Group) {
	if w := m.w; m.resumed && w.book.Prefix() == "" {
		for _, s := range w.book.List() {
			m.name = cmp.Or(m.name, strings.TrimSuffix(s.Name, filepath.Ext(s.Name)))
			w.complain(w.book.Drop(s.Name, false))
		}
	}
	d := &desk{memory: m}
	m.members, m.resumed = members, false
	m.group = group(d)
	d.group = m.group
}

// back: the ranks go on from images, in which members take themselves to be where they were.
func (m *memory) back() {
	m.reset()
	m.resumed = true
}

// enter: a member begins, the first of its group or another.
func (m *memory) enter(ask outputs.Ask, q snapshots.Question, a control.Asked) {
	w := m.w
	switch {
	case w.keeper == nil:
		w.done(ask, errors.New("snapshots are kept in the memory of nodes: wanted byssus run with --hosts or --sandbox, and --cache"))
		return
	case w.routing != nil:
		w.done(ask, errors.New("snapshots of a program whose files are led: found --files, wanted none"))
		return
	case w.book.Prefix() != "" && len(w.book.List()) > 0:
		w.done(ask, errors.New("this job has datasets that were written by SCR's calls: snapshots need a job of their own (byssus run --job)"))
		return
	case a.NRanks < 1 || len(a.Text) != 2:
		w.done(ask, fmt.Errorf("init: found %d members and %d strings, wanted at least 1, and 2", a.NRanks, len(a.Text)))
		return
	}
	policy, err := snapshots.ParsePolicy(a.Text[1])
	if err != nil {
		m.misused(ask, err)
		return
	}
	if m.group == nil || m.group.Over() {
		if m.group != nil { // its processes may live, and make another
			w.book.Over()
			m.reset()
		}
		m.name = a.Text[0]
		m.found(int(a.NRanks), func(d *desk) *snapshots.Group { return snapshots.New(d, m.members, m.keeps()) })
	}
	b, lives := m.begun[q.Member]
	other := lives && (b.node != q.Node || b.process != a.Process)
	q.Again = lives && !other
	enter := func() {
		if !other || m.keeps() { // else it is refused
			m.begun[q.Member] = begun{q.Node, a.Process, a.Number, a.NFiles}
			m.spares.began(q.Member)
			m.policy = policy
		}
		like := fmt.Sprintf("group %s of %d members", a.Text[0], a.NRanks)
		if a.Text[1] != "" {
			like += ", policy " + a.Text[1]
		}
		m.group.Enter(q, like, a.Bytes, a.Flags&client.FlagRestore != 0)
	}
	if !m.keeps() || !other {
		enter()
		return
	}
	already := fmt.Errorf("init: member %d is process %d of node %s already", q.Member, b.process, w.s.agents.list[b.node].name)
	if _, twice := m.held[q.Member]; twice {
		w.done(ask, already)
		return
	}
	m.held[q.Member] = held{ask, enter}
	time.AfterFunc(endLimit, func() {
		w.s.ask(func() {
			if h, waits := m.held[q.Member]; waits && h.ask == ask {
				delete(m.held, q.Member)
				w.done(ask, already)
			}
		})
	})
}

// misused refuses what a program asks for that cannot be.
func (m *memory) misused(ask outputs.Ask, err error) {
	q := m.w.asks[ask.Number]
	delete(m.w.asks, ask.Number)
	out := client.Refusal(err.Error())
	out.Flags |= client.FlagUse
	m.w.tell(q, out)
}

// Answer is snapshots'.
func (d *desk) Answer(ask uint64, a snapshots.Answer) {
	q, ok := d.w.asks[ask]
	if !ok {
		return
	}
	delete(d.w.asks, ask)
	out := client.Answered{Answer: client.Answer{Run: a.Run, Dataset: a.Next}, Text: []string{a.Dir, a.Why}}
	switch {
	case a.Refused != "":
		out = client.Refusal(a.Refused)
	case a.Restore != 0:
		out.Flags, out.Dataset = client.FlagRestore, a.Restore
		if a.Stored {
			out.Flags |= client.FlagBypass
		}
	}
	if a.State != "" {
		out.Dataset, out.Text = a.Version, []string{a.State, d.ranks()}
	}
	if a.Differ {
		out.Flags |= client.FlagDiffer
	}
	if a.Lost {
		out.Flags |= client.FlagLost
	}
	if a.Peer {
		out.Flags |= client.FlagPeer
	}
	if a.Use {
		out.Flags |= client.FlagUse
	}
	if a.Room {
		out.Flags |= client.FlagRoom
	}
	if a.Done {
		out.Valid = 1
	}
	d.w.tell(q, out)
}

// Begin is snapshots'. A policy that cannot be had, and nodes without room, are refused before there is a snapshot; later members get theirs
// back first, and nodes do what they can.
func (d *desk) Begin(at []int, bytes []uint64, then func(snapshots.Answer)) {
	nodes, members := byNode(at)
	policy := d.policy
	if policy.Scheme == 0 {
		policy = snapshots.Policy{Scheme: d.w.s.opt.Caches.Scheme, Size: d.w.s.opt.Caches.Size}
	}
	if len(d.w.book.List()) > 0 {
		d.begin(at, policy, then)
		return
	}
	if err := d.policy.Fits(len(nodes)); err != nil {
		then(snapshots.Answer{Refused: err.Error(), Use: true})
		return
	}
	own, most := make(map[*peer]uint64), uint64(0)
	for i, node := range nodes {
		p := d.w.s.agents.list[node]
		for _, member := range members[i] {
			own[p] += bytes[member]
		}
		most = max(most, own[p])
	}
	d.w.s.agents.order(d.w.nodesOf(at), func(p *peer, order uint64) any {
		return control.Room{Order: order, Bytes: int64(policy.Room(own[p], most, len(nodes)))}
	}, func(answers []control.Message) {
		switch why := failure(answers); {
		case !d.lives(): // another group may have begun
		case why != "":
			full := func(m control.Message) bool { done, ok := m.Body.(control.Done); return ok && done.Full }
			then(snapshots.Answer{Refused: why, Room: slices.ContainsFunc(answers, full)})
		default:
			d.begin(at, policy, then)
		}
	})
}

// begin begins a program.
func (d *desk) begin(at []int, policy snapshots.Policy, then func(snapshots.Answer)) {
	w := d.w
	p := outputs.Policy{Keep: 1, Kept: settings.Descriptors{Implied: settings.Ckpt{Interval: 1, Scheme: policy.Scheme, SetSize: policy.Size}}}
	if d.keeps() || !w.s.opt.Plain { // the processes of the epoch, or the image, before may live
		w.book.Over()
	}
	w.book.Begin(d.ask(0, func(a outputs.Answer) {
		if a.Refused == "" {
			d.run, d.at, w.again = a.Run, at, true
			for member, node := range at {
				w.book.Join(d.ask(node, func(outputs.Answer) {}), a.Run, member)
			}
		}
		then(snapshots.Answer{Run: a.Run, Refused: a.Refused})
	}), len(at), p, outputs.First{})
}

// Newest is snapshots'.
func (d *desk) Newest(then func(snapshots.Found)) {
	d.w.book.Newest(d.ask(0, func(a outputs.Answer) {
		f := snapshots.Found{Number: a.Dataset, Stored: a.Label.InPlace, Differ: a.Refused}
		all := d.w.book.List()
		switch {
		case a.Refused != "":
		case a.Dataset != 0 && a.Label.Ranks != d.members:
			f.Differ = fmt.Sprintf("%s is of %d members, wanted one of %d", a.Label.Name, a.Label.Ranks, d.members)
		case a.Dataset == 0 && len(all) > 0:
			f.Lost = fmt.Sprintf("%s counts, but it cannot be had: more is lost, or damaged, than its redundancy covers", all[len(all)-1].Name)
		}
		then(f)
	}), d.run)
}

// Read is snapshots'.
func (d *desk) Read(n uint64, valid bool, then func()) {
	d.w.book.Read(d.ask(0, func(outputs.Answer) { then() }), d.run, n, valid)
}

// Open is snapshots'.
func (d *desk) Open(then func(uint64, string, string)) {
	label := holding.Label{Name: fmt.Sprintf("%s.%d", cmp.Or(d.name, "memory"), d.w.book.Next()), Checkpoint: true}
	d.w.book.Open(d.ask(0, func(a outputs.Answer) { then(a.Dataset, a.Dir, a.Refused) }), d.run, label)
}

// Commit is snapshots'.
func (d *desk) Commit(n uint64, parts []snapshots.Part, then func(string)) {
	d.commits[n] = then
	for member, p := range parts {
		d.w.book.Written(d.ask(d.at[member], func(outputs.Answer) {}), outputs.Part{Run: d.run, Dataset: n, Rank: member, Valid: p.Valid, Bytes: p.Bytes, Files: 1})
	}
}

// heard has the group told what became of a snapshot.
func (m *memory) heard(n uint64, then func(string)) func(string) {
	return func(why string) {
		m.over(n, why)
		then(why)
	}
}

// over: a snapshot counts, or why it does not.
func (m *memory) over(n uint64, why string) {
	then, ok := m.commits[n]
	if !ok { // what was said of it first is right
		return
	}
	delete(m.commits, n)
	m.w.later(func() { then(why) })
}

// End is snapshots'.
func (d *desk) End(keep bool, then func(string)) {
	d.w.again = false
	if keep {
		d.w.book.Settle(true) // End waits for the copy
	}
	d.w.book.End(d.ask(0, func(a outputs.Answer) {
		if !keep {
			for _, s := range d.w.book.List() {
				d.w.complain(d.w.book.Drop(s.Name, false))
			}
		}
		if a.Refused == "" {
			d.spares.over(nil)
		}
		then(a.Refused)
	}), d.run)
}

// ranks are the numbers by which the program knows the processes of members; - where there is none.
func (m *memory) ranks() string {
	list := make([]string, m.members)
	for member := range list {
		list[member] = "-"
		if b, ok := m.begun[member]; ok {
			list[member] = strconv.FormatUint(b.rank, 10)
		}
	}
	return strings.Join(list, " ")
}
