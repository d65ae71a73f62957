package coordsrv

import (
	"errors"
	"fmt"
	"maps"
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

// memory is the groups of the program that make snapshots. It belongs to the loop's goroutine, as all of this.
type memory struct {
	w       *written
	circles map[string]*circle
	bonds   *snapshots.Bonds[process]
	begins  uint64 // of members in their groups
	ended   bool   // a process has, well
	resumed bool   // the program was restored from images, with whatever groups it had then
	spares  spares
	commits map[uint64]func(why string) // of snapshots that are being stored
}

// circle speaks to package outputs for a group, whose members speak each for itself: package snapshots says when all have. A snapshot is a
// dataset whose files are the members' regions. Each group has a book of its own: a life, a retention, a newest snapshot.
type circle struct {
	*memory
	name    string
	book    *outputs.Book
	group   *snapshots.Group // nil: there is none
	stale   bool             // what the book has is of the time before the program was restored from images
	members int
	any     bool // a snapshot of another number of members is good as well
	policy  snapshots.Policy
	need    map[*peer]uint64 // bytes of the caches, for two snapshots
	run     uint64
	at      []int         // the node of each member
	begun   map[int]begun // the process of each member that has begun, and not ended
	held    map[int]held  // members that begin while the end of the process before is not known
}

// process is one that has begun, by its node and its number there.
type process struct{ node, pid int }

// begun is where a member has begun.
type begun struct {
	process
	number uint64 // of what the agent has asked for it
	rank   uint64 // by which the program knows the process
	order  uint64 // of its beginning, among all
}

// held is a member that waits with its beginning.
type held struct {
	ask  outputs.Ask
	then func()
}

func newMemory(w *written) *memory {
	m := &memory{w: w, circles: map[string]*circle{}, bonds: snapshots.NewBonds[process](), commits: map[uint64]func(string){}}
	m.spares = spares{memory: m}
	return m
}

// circle is that of a name.
func (m *memory) circle(name string) *circle {
	c := m.circles[name]
	if c == nil {
		c = &circle{memory: m, name: name, book: m.w.book.Group(name)}
		c.clear()
		m.circles[name] = c
	}
	return c
}

// all are the circles, by name.
func (m *memory) all() []*circle {
	var list []*circle
	for _, name := range slices.Sorted(maps.Keys(m.circles)) {
		list = append(list, m.circles[name])
	}
	return list
}

func (c *circle) clear() {
	c.bonds.Forget(c.group)
	c.group, c.run, c.need, c.begun, c.held = nil, 0, nil, map[int]begun{}, map[int]held{}
}

var errProgramOver = errors.New("the program is over")

// reset ends the groups, whose program is over.
func (m *memory) reset() {
	for _, c := range m.all() {
		c.reset()
	}
	m.spares.over(errProgramOver)
	m.resumed, m.ended = false, false
}

// reset ends the group, whose members have ended.
func (c *circle) reset() {
	if c.group != nil {
		c.group.Refuse(errProgramOver.Error())
	}
	for _, h := range c.held {
		c.w.done(h.ask, errProgramOver)
	}
	c.clear()
}

// keeps says whether the survivors of a death go on.
func (m *memory) keeps() bool { return m.w.s.opt.Job.Meta.Survivors != dataset.SurvivorsEnd }

// has says whether something is so of any group.
func (m *memory) has(is func(*circle) bool) bool {
	return slices.ContainsFunc(m.all(), func(c *circle) bool { return c.group != nil && is(c) })
}

// open says whether the group has begun, or is about to, and is not over.
func (c *circle) open() bool { return c.group != nil && !c.group.Over() }

// used says whether the program has made use of this; inUse, whether it does now.
func (m *memory) used() bool  { return m.has(func(*circle) bool { return true }) }
func (m *memory) inUse() bool { return m.has((*circle).open) }

// lives says whether all members of a group have begun, and not finished.
func (m *memory) lives() bool { return m.has(func(c *circle) bool { return c.open() && c.run != 0 }) }

// finished says whether members have made use of this, and have said of all groups that they are done.
func (m *memory) finished() bool { return m.used() && !m.inUse() }

// ending says whether a group has ended well: a process in the place of a dead one would begin it anew, alone.
func (m *memory) ending() bool { return m.has(func(c *circle) bool { return !c.open() }) }

// processes are those that have begun in groups which are not over.
func (m *memory) processes() map[process]bool {
	all := map[process]bool{}
	for _, c := range m.all() {
		for _, b := range c.begun {
			all[b.process] = all[b.process] || c.open()
		}
	}
	maps.DeleteFunc(all, func(_ process, is bool) bool { return !is })
	return all
}

// shrunk: so many processes are left, since one has ended well; a group may lack members for good.
func (m *memory) shrunk(processes int) {
	m.ended = true
	others := max(processes-len(m.processes()), 0) // who may begin yet
	for _, c := range m.all() {
		if c.open() && (processes < c.members || c.members-len(c.begun) > others) {
			c.group.Refuse(fmt.Sprintf("a process has ended without finish: %d are left, the group has %d members", processes, c.members))
		}
	}
}

// desk is a circle for one group: what was begun for another is not heard any more.
type desk struct {
	*circle
	group *snapshots.Group
}

func (d *desk) ask(node int, then func(outputs.Answer)) outputs.Ask {
	return d.w.own(node, d.present, then)
}

func (d *desk) present() bool { return d.group == d.circle.group }

// named is the circle of which a member speaks, which says its name as the second text; who does not, of the only one. Nil: there is none.
func (m *memory) named(a control.Asked) *circle {
	name := snapshots.Unnamed
	if all := m.all(); len(all) == 1 {
		name = all[0].name
	}
	if len(a.Text) > 1 && a.Text[1] != "" {
		name = a.Text[1]
	}
	if m.circles[name] == nil && (!m.resumed || !snapshots.Named(name)) {
		return nil
	}
	return m.circle(name)
}

// asked takes in what a member says.
func (m *memory) asked(ask outputs.Ask, a control.Asked) {
	q := snapshots.Question{Number: ask.Number, Node: ask.Node, Member: int(a.Rank), Run: a.Run}
	by := m.w.asks[ask.Number]
	by.member = q.Member
	m.w.asks[ask.Number] = by
	switch a.Type {
	case client.ReqSpare:
		m.spares.enter(ask, a)
		return
	case client.ReqEnter:
		m.enter(ask, q, a)
		return
	}
	c := m.named(a)
	if c != nil && c.group == nil && m.resumed && a.NRanks > 0 {
		c.found(int(a.NRanks), func(d *desk) *snapshots.Group { return snapshots.Resumed(d, c.members) })
	}
	if c == nil || c.group == nil {
		m.w.done(ask, fmt.Errorf("member %d belongs to no group: its program is over", a.Rank))
		return
	}
	text := ""
	if len(a.Text) > 0 {
		text = a.Text[0]
	}
	switch a.Type {
	case client.ReqReady:
		c.group.Ready(q, a.Valid == 1, text)
	case client.ReqState:
		c.group.State(q, a.Dataset)
	case client.ReqLeave:
		c.group.Leave(q, a.Valid == 1)
	default:
		tag, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			m.w.done(ask, fmt.Errorf("commit: found tag %q, wanted a number", text))
			return
		}
		c.group.Commit(q, tag, snapshots.Part{Valid: a.Valid == 1, Bytes: a.Bytes})
	}
}

// found makes a group of so many members. Members that were restored from images have no use for snapshots that there are, older ones as well:
// what they would go back to next is an image, or a snapshot that they make from now on.
func (c *circle) found(members int, group func(*desk) *snapshots.Group) {
	if c.stale {
		for _, s := range c.book.List() {
			c.w.complain(c.book.Drop(s.Name, false))
		}
	}
	d := &desk{circle: c}
	c.members, c.stale = members, false
	c.group = group(d)
	d.group = c.group
}

// back: the ranks go on from images, in which members take themselves to be where they were.
func (m *memory) back() {
	m.reset()
	m.resumed = true
	for _, name := range m.w.book.Groups() {
		m.circle(name).stale = true
	}
}

// unable says why there can be no snapshots.
func (m *memory) unable() error {
	switch w := m.w; {
	case w.keeper == nil:
		return errors.New("snapshots are kept in the memory of nodes: wanted byssus run with --hosts or --sandbox, and --cache")
	case w.routing != nil:
		return errors.New("snapshots of a program whose files are led: found --files, wanted none")
	case w.book.Prefix() != "" && len(w.book.List()) > 0:
		return errors.New("this job has datasets that were written by SCR's calls: snapshots need a job of their own (byssus run --job)")
	}
	return nil
}

// enter: a member begins, the first of its group or another.
func (m *memory) enter(ask outputs.Ask, q snapshots.Question, a control.Asked) {
	err := m.unable()
	if err == nil && (a.NRanks < 1 || len(a.Text) != 2 || !snapshots.Named(a.Text[0])) {
		err = fmt.Errorf("init: found %d members and texts %.80q, wanted at least 1, a name, and a policy", a.NRanks, a.Text)
	}
	if err != nil {
		m.w.done(ask, err)
		return
	}
	policy, err := snapshots.ParsePolicy(a.Text[1])
	if err != nil {
		m.refuse(ask, client.FlagUse, err)
		return
	}
	c := m.circle(a.Text[0])
	if owed := m.owed(c, q.Member, process{q.Node, a.Process}); owed != nil {
		m.refuse(ask, client.FlagPeer, fmt.Errorf("an epoch of group %s has ended: all restore the newest snapshot of that first", owed.name))
		return
	}
	if !c.open() {
		if c.group != nil { // its processes may live, and make another
			c.book.Over()
			c.reset()
		}
		c.found(int(a.NRanks), func(d *desk) *snapshots.Group { return snapshots.New(d, c.members, m.keeps()) })
	}
	c.enter(ask, q, a, policy)
	m.compare()
}

// compare refuses members of one group that give it different names, when those who may be about to begin another have had time enough for it.
func (m *memory) compare() {
	groups, likes := snapshots.Strangers(m.bound(), m.w.s.opt.Spec.Ranks)
	if groups == nil {
		return
	}
	time.AfterFunc(endLimit, func() {
		m.w.s.ask(func() {
			if now, same := snapshots.Strangers(m.bound(), m.w.s.opt.Spec.Ranks); slices.Equal(groups, now) && maps.Equal(likes, same) {
				snapshots.Differ(groups, likes)
			}
		})
	})
}

// enter: a member begins.
func (c *circle) enter(ask outputs.Ask, q snapshots.Question, a control.Asked, policy snapshots.Policy) {
	b, lives := c.begun[q.Member]
	other := lives && b.process != process{q.Node, a.Process}
	q.Again = lives && !other
	enter := func() {
		if !other || c.keeps() { // else it is refused
			c.begins++
			order := c.begins
			if lives && !other {
				order = b.order
			}
			c.begun[q.Member] = begun{process{q.Node, a.Process}, a.Number, a.NFiles, order}
			c.spares.began(c.name, q.Member)
			c.policy, c.any = policy, a.Flags&client.FlagAny != 0
		}
		like := fmt.Sprintf("group %s of %d members", a.Text[0], a.NRanks)
		if a.Text[1] != "" {
			like += ", policy " + a.Text[1]
		}
		c.group.Enter(q, like, a.Bytes, a.Flags&client.FlagRestore != 0)
		c.bonds.Look(c.bound(), c.group, fmt.Sprintf("member %d of group %s begins again", q.Member, c.name))
	}
	if !c.keeps() || !other {
		enter()
		return
	}
	already := fmt.Errorf("init: member %d is process %d of node %s already", q.Member, b.pid, c.w.s.agents.list[b.node].name)
	if _, twice := c.held[q.Member]; twice {
		c.w.done(ask, already)
		return
	}
	c.held[q.Member] = held{ask, enter}
	time.AfterFunc(endLimit, func() {
		c.w.s.ask(func() {
			if h, waits := c.held[q.Member]; waits && h.ask == ask {
				delete(c.held, q.Member)
				c.w.done(ask, already)
			}
		})
	})
}

// owed is a group that a process has to begin again before this one; nil: there is none.
func (m *memory) owed(c *circle, member int, p process) *circle {
	own, again := c.begun[member]
	again = again && c.open() && own.process == p
	first := !slices.ContainsFunc(m.all(), func(o *circle) bool {
		for _, b := range o.begun {
			if o != c && o.open() && b.process == p && (!again || b.order < own.order) {
				return true
			}
		}
		return false
	})
	owed := m.bonds.Begins(p, c.group, first, m.bound())
	for _, other := range m.all() {
		if owed != nil && other.group == owed {
			return other
		}
	}
	return nil
}

// bound are the groups that are not over, with their processes.
func (m *memory) bound() (list []snapshots.Bond[process]) {
	for _, c := range m.all() {
		if !c.open() {
			continue
		}
		b := snapshots.Bond[process]{Group: c.group, Members: map[int]process{}}
		for member, at := range c.begun {
			b.Members[member] = at.process
		}
		list = append(list, b)
	}
	return list
}

// refuse refuses what a program asks for, by a flag that says of which kind the reason is.
func (m *memory) refuse(ask outputs.Ask, flag uint32, err error) {
	q := m.w.asks[ask.Number]
	delete(m.w.asks, ask.Number)
	out := client.Refusal(err.Error())
	out.Flags |= flag
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
		d.bonds.Heard(d.begun[q.member].process)
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
	own, most := make(map[*peer]uint64), uint64(0)
	for i, node := range nodes {
		p := d.w.s.agents.list[node]
		for _, member := range members[i] {
			own[p] += bytes[member]
		}
		most = max(most, own[p])
	}
	d.need = make(map[*peer]uint64)
	for p, bytes := range own {
		d.need[p] = policy.Room(bytes, most, len(nodes))
	}
	if len(d.book.List()) > 0 {
		d.begin(at, policy, then)
		return
	}
	if err := d.policy.Fits(len(nodes)); err != nil {
		then(snapshots.Answer{Refused: err.Error(), Use: true})
		return
	}
	d.w.s.agents.order(d.w.nodesOf(at), func(p *peer, order uint64) any {
		return control.Room{Order: order, Bytes: int64(d.wanted(p))}
	}, func(answers []control.Message) {
		switch why := failure(answers); {
		case !d.present(): // another group may have begun
		case why != "":
			full := func(m control.Message) bool { done, ok := m.Body.(control.Done); return ok && done.Full }
			then(snapshots.Answer{Refused: why, Room: slices.ContainsFunc(answers, full)})
		default:
			d.begin(at, policy, then)
		}
	})
}

// wanted is how many bytes of the cache of a node all groups want.
func (m *memory) wanted(p *peer) (bytes uint64) {
	for _, c := range m.all() {
		if c.open() {
			bytes += c.need[p]
		}
	}
	return bytes
}

// begin begins a program.
func (d *desk) begin(at []int, policy snapshots.Policy, then func(snapshots.Answer)) {
	w := d.w
	p := outputs.Policy{Keep: 1, Kept: settings.Descriptors{Implied: settings.Ckpt{Interval: 1, Scheme: policy.Scheme, SetSize: policy.Size}}}
	if d.keeps() || !w.s.opt.Plain { // the processes of the epoch, or the image, before may live
		d.book.Over()
	}
	d.book.Begin(d.ask(0, func(a outputs.Answer) {
		if a.Refused == "" {
			d.run, d.at, w.again = a.Run, at, true
			for member, node := range at {
				d.book.Join(d.ask(node, func(outputs.Answer) {}), a.Run, member)
			}
		}
		then(snapshots.Answer{Run: a.Run, Refused: a.Refused})
	}), len(at), p, outputs.First{})
}

// Newest is snapshots'.
func (d *desk) Newest(then func(snapshots.Found)) {
	d.book.Newest(d.ask(0, func(a outputs.Answer) {
		f := snapshots.Found{Number: a.Dataset, Stored: a.Label.InPlace, Differ: a.Refused}
		all := d.book.List()
		switch {
		case a.Refused != "":
		case a.Dataset != 0 && a.Label.Ranks != d.members && !d.any:
			f.Differ = fmt.Sprintf("%s is of %d members, wanted one of %d", a.Label.Name, a.Label.Ranks, d.members)
		case a.Dataset == 0 && len(all) > 0:
			f.Lost = fmt.Sprintf("%s counts, but it cannot be had: more is lost, or damaged, than its redundancy covers", all[len(all)-1].Name)
		}
		then(f)
	}), d.run)
}

// Read is snapshots'.
func (d *desk) Read(n uint64, valid bool, then func()) {
	d.book.Read(d.ask(0, func(outputs.Answer) { then() }), d.run, n, valid)
}

// Open is snapshots'.
func (d *desk) Open(then func(uint64, string, string)) {
	d.book.Open(d.ask(0, func(a outputs.Answer) { then(a.Dataset, a.Dir, a.Refused) }), d.run, holding.Label{Checkpoint: true}) // GROUP.N
}

// Commit is snapshots'.
func (d *desk) Commit(n uint64, parts []snapshots.Part, then func(string)) {
	d.commits[n] = then
	for member, p := range parts {
		d.book.Written(d.ask(d.at[member], func(outputs.Answer) {}), outputs.Part{Run: d.run, Dataset: n, Rank: member, Valid: p.Valid, Bytes: p.Bytes, Files: 1})
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

// others says whether other groups are not over.
func (c *circle) others() bool { return c.has(func(o *circle) bool { return o != c && o.open() }) }

// End is snapshots'.
func (d *desk) End(keep bool, then func(string)) {
	d.w.again = d.others()
	if keep {
		d.book.Settle(true) // End waits for the copy
	}
	d.book.End(d.ask(0, func(a outputs.Answer) {
		if !keep {
			for _, s := range d.book.List() {
				d.w.complain(d.book.Drop(s.Name, false))
			}
		}
		d.book.Over() // what is open for the next one
		if a.Refused == "" && !d.others() {
			d.spares.over(nil)
		}
		then(a.Refused)
	}), d.run)
}

// ranks are the numbers by which the program knows the processes of members; - where there is none.
func (c *circle) ranks() string {
	list := make([]string, c.members)
	for member := range list {
		list[member] = "-"
		if b, ok := c.begun[member]; ok {
			list[member] = strconv.FormatUint(b.rank, 10)
		}
	}
	return strings.Join(list, " ")
}
