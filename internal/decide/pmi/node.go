package pmi

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// maxStored is how many bytes of keys, values, names and unknown lines a rank may leave with us: MPICH needs some thousand.
// Each costs perItem more.
const (
	maxStored = 1 << 20
	perItem   = 64
)

// Config is what the ranks of a node are told.
type Config struct {
	Ranks    int    // of the job
	Local    []int  // ranks of this node
	Job      string // a word that no other start of a job has: MPICH tells by it who belongs together
	Mapping  string // what Mapping has made
	Universe int    // ranks that the job could have
}

// Node is the state of one node. It is not safe for concurrent use.
type Node struct {
	cfg       Config
	ranks     map[int]*rank
	kvs       map[string]string // what all could see at the last barrier, and what ranks of this node have put since
	fresh     map[string]string // of these, what the others cannot see yet
	entered   int               // ranks in the barrier
	finalized int
	out       Out
}

// rank is what is known of one rank of the node.
type rank struct {
	id     int
	state  state
	waits  string // the command that it waits for an answer to
	stored int    // bytes
	spawn  *spawn
}

// state is how far a rank has come.
type state int

const (
	started state = iota
	initialized
	finalized
	ended // it has aborted, or is gone, or was hung up on
)

// spawn is a multi-line command under way.
type spawn struct{ total, soFar, bytes int }

// NewNode returns the state of a node whose ranks are about to start.
func NewNode(cfg Config) (*Node, error) {
	n := &Node{cfg: cfg, ranks: map[int]*rank{}, kvs: map[string]string{}, fresh: map[string]string{}}
	if cfg.Job == "" || len(cfg.Job) >= maxName || strings.ContainsAny(cfg.Job, " =\\\n") {
		return nil, fmt.Errorf("pmi: job %q, want a word of at most %d bytes", cfg.Job, maxName-1)
	}
	if len(cfg.Local) == 0 {
		return nil, errors.New("pmi: a node without ranks")
	}
	for _, r := range cfg.Local {
		if r < 0 || r >= cfg.Ranks || n.ranks[r] != nil {
			return nil, fmt.Errorf("pmi: ranks %v on a node, want each once and below %d", cfg.Local, cfg.Ranks)
		}
		n.ranks[r] = &rank{id: r}
	}
	return n, nil
}

// Line takes in a line of a rank, without its end.
func (n *Node) Line(id int, line []byte) Out {
	n.out = Out{}
	if r := n.ranks[id]; r != nil && r.state != ended {
		n.line(r, string(line))
	}
	return n.out
}

// Closed says that a rank cannot be spoken with any more.
func (n *Node) Closed(id int) Out {
	n.out = Out{}
	if r := n.ranks[id]; r != nil && r.state == initialized {
		n.end(r, End{Rank: id, How: Lost, Text: fmt.Sprintf("pmi: rank %d: gone before MPI_Finalize", id)})
	}
	return n.out
}

// Down takes in a message of the Root.
func (n *Node) Down(d Down) Out {
	n.out = Out{}
	if d.Barrier {
		n.leave(d.Puts)
	}
	if d.Name != nil {
		n.answer(*d.Name)
	}
	if d.End != nil && n.ranks[d.End.Rank] == nil {
		n.out.Events = append(n.out.Events, *d.End)
	}
	return n.out
}

func (n *Node) line(r *rank, line string) {
	if r.spawn != nil {
		n.spawning(r, line)
		return
	}
	c, err := parse(line)
	switch {
	case len(line) > MaxLine:
		n.fault(r, fmt.Sprintf("line of %d bytes or more, at most %d", len(line), MaxLine))
	case err != nil:
		n.fault(r, err.Error())
	case c.name == "abort":
		code, err := strconv.Atoi(c.args["exitcode"])
		if err != nil {
			code = 1
		}
		n.end(r, End{Rank: r.id, How: Aborted, Code: code, Text: c.args["message"]})
	case r.waits != "" || r.state == finalized:
		n.fault(r, fmt.Sprintf("%s out of turn (%s)", c.name, r.turn()))
	default:
		n.command(r, c, line)
	}
}

// turn says what a rank should be doing instead of speaking.
func (r *rank) turn() string {
	if r.waits != "" {
		return "it waits in " + r.waits
	}
	return "it has finalized"
}

// command answers what can be answered at once, and begins what cannot.
func (n *Node) command(r *rank, c command, line string) {
	switch c.name {
	case "initack":
		n.hello(r, c)
	case "init":
		n.init(r, c)
	case "get_maxes":
		n.reply(r, "cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d", maxName, maxKey, maxValue)
	case "get_my_kvsname":
		n.reply(r, "cmd=my_kvsname kvsname=%s", n.cfg.Job)
	case "get_appnum":
		n.reply(r, "cmd=appnum appnum=0")
	case "get_universe_size":
		n.reply(r, "cmd=universe_size size=%d", max(n.cfg.Universe, n.cfg.Ranks))
	case "put":
		n.put(r, c)
	case "get":
		n.get(r, c)
	case "barrier_in":
		n.enter(r, c)
	case "publish_name", "lookup_name", "unpublish_name":
		n.name(r, c)
	case multiLine:
		r.spawn = &spawn{}
	case "spawn":
		n.reply(r, "cmd=spawn_result rc=-1 msg=spawning_is_refused")
	case "finalize":
		n.finalize(r)
	default:
		if n.charge(r, len(line)) {
			n.reply(r, "cmd=unknown rc=-1 msg=unknown_command")
			n.out.Events = append(n.out.Events, Unknown{Rank: r.id, Line: printable(line)})
		}
	}
}

// hello answers a rank that has come by PMI_PORT and says by PMI_ID who it is.
func (n *Node) hello(r *rank, c command) {
	if c.args["pmiid"] != strconv.Itoa(r.id) {
		n.fault(r, fmt.Sprintf("pmiid %q, want %d", c.args["pmiid"], r.id))
		return
	}
	n.reply(r, "cmd=initack")
	n.reply(r, "cmd=set size=%d", n.cfg.Ranks)
	n.reply(r, "cmd=set rank=%d", r.id)
	n.reply(r, "cmd=set debug=0")
}

// init agrees on the version: 1.1, from which later clients of version 1 fall back to what it has.
func (n *Node) init(r *rank, c command) {
	if c.args["pmi_version"] != "1" {
		n.reply(r, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1")
		return
	}
	n.reply(r, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
	if r.state == started {
		r.state = initialized
		n.out.Events = append(n.out.Events, Init{r.id})
	}
}

func (n *Node) put(r *rank, c command) {
	key, value := c.args["key"], c.args["value"]
	switch {
	case !n.charge(r, len(key)+len(value)):
	case n.foreign(c):
		n.reply(r, "cmd=put_result rc=-1 msg=kvsname_of_another_job")
	case key == "" || len(key) >= maxKey || strings.HasPrefix(key, "PMI_"):
		n.reply(r, "cmd=put_result rc=-1 msg=key_is_empty_or_too_long_or_reserved")
	case len(value) >= maxValue:
		n.reply(r, "cmd=put_result rc=-1 msg=value_is_too_long")
	default:
		n.kvs[key], n.fresh[key] = value, value
		n.reply(r, "cmd=put_result rc=0 msg=success")
	}
}

func (n *Node) get(r *rank, c command) {
	key := c.args["key"]
	value, ok := n.kvs[key]
	if key == "PMI_process_mapping" {
		value, ok = n.cfg.Mapping, n.cfg.Mapping != ""
	}
	if !ok || n.foreign(c) {
		n.reply(r, "cmd=get_result rc=-1 msg=key_not_found value=unknown")
		return
	}
	n.reply(r, "cmd=get_result rc=0 msg=success value=%s", value)
}

// foreign says whether a command is about another key-value space than ours.
func (n *Node) foreign(c command) bool {
	name, ok := c.args["kvsname"]
	return ok && name != n.cfg.Job
}

func (n *Node) enter(r *rank, c command) {
	if c.args["group"] != "" { // an answer by the name of barrier_out would count as success, whatever its rc
		n.reply(r, "cmd=unknown rc=-1 msg=barriers_of_groups_need_version_1.2")
		return
	}
	r.waits = "barrier_in"
	if n.entered++; n.entered == len(n.ranks) {
		n.out.Up = append(n.out.Up, Up{Barrier: true, Puts: n.fresh})
		n.fresh = map[string]string{}
	}
}

// leave ends a barrier.
func (n *Node) leave(puts map[string]string) {
	maps.Copy(n.kvs, puts)
	n.entered = 0
	for _, id := range n.cfg.Local {
		if r := n.ranks[id]; r.waits == "barrier_in" {
			r.waits = ""
			n.reply(r, "cmd=barrier_out rc=0")
		}
	}
}

// name asks the Root, since names are the job's.
func (n *Node) name(r *rank, c command) {
	q := Name{Rank: r.id, Command: c.name, Service: c.args["service"], Port: c.args["port"]}
	if c.name != "publish_name" || n.charge(r, len(q.Service)+len(q.Port)) {
		r.waits = c.name
		n.out.Up = append(n.out.Up, Up{Name: &q})
	}
}

// answer hands on what the Root says of a name.
func (n *Node) answer(a Name) {
	r := n.ranks[a.Rank]
	if r == nil || r.waits != a.Command {
		return
	}
	r.waits = ""
	result := strings.TrimSuffix(a.Command, "_name") + "_result"
	switch {
	case a.Refusal != "":
		n.reply(r, "cmd=%s rc=-1 msg=%s", result, a.Refusal)
	case a.Command == "lookup_name":
		n.reply(r, "cmd=%s rc=0 msg=success port=%s", result, a.Port)
	default:
		n.reply(r, "cmd=%s rc=0 msg=success", result)
	}
}

// spawning skips the lines of a multi-line command and refuses it at its end: endcmd of the last of its parts.
func (n *Node) spawning(r *rank, line string) {
	key, value, _ := strings.Cut(line, "=")
	r.spawn.bytes += len(line)
	switch {
	case r.spawn.bytes > maxStored:
		n.fault(r, fmt.Sprintf("%d bytes of one command, at most %d", r.spawn.bytes, maxStored))
	case key == "totspawns":
		r.spawn.total, _ = strconv.Atoi(value)
	case key == "spawnssofar":
		r.spawn.soFar, _ = strconv.Atoi(value)
	case line == "endcmd" && r.spawn.soFar >= r.spawn.total:
		r.spawn = nil
		n.reply(r, "cmd=spawn_result rc=-1 msg=spawning_is_refused")
	}
}

func (n *Node) finalize(r *rank) {
	n.reply(r, "cmd=finalize_ack rc=0")
	r.state = finalized
	n.out.Events = append(n.out.Events, Finalized{r.id})
	if n.finalized++; n.finalized == len(n.ranks) {
		n.out.Up = append(n.out.Up, Up{Finalized: true})
	}
}

// charge counts what a rank leaves here, or hangs up on it.
func (n *Node) charge(r *rank, bytes int) bool {
	if r.stored += bytes + perItem; r.stored <= maxStored {
		return true
	}
	n.fault(r, fmt.Sprintf("%d bytes of keys, values, names and unknown lines, at most %d", r.stored, maxStored))
	return false
}

func (n *Node) fault(r *rank, why string) {
	n.out.HangUp = true
	n.end(r, End{Rank: r.id, How: Faulty, Text: fmt.Sprintf("pmi: rank %d: %s", r.id, why)})
}

func (n *Node) end(r *rank, e End) {
	r.state, r.waits, r.spawn = ended, "", nil
	n.out.Up = append(n.out.Up, Up{End: &e})
	n.out.Events = append(n.out.Events, e)
}

func (n *Node) reply(r *rank, format string, args ...any) {
	n.out.Replies = append(n.out.Replies, Reply{r.id, fmt.Sprintf(format, args...) + "\n"})
}
