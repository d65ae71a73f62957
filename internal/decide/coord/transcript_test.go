package coord

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// TestTranscripts replays testdata: "new" makes a machine, "do" hands it an event per line and prints what it orders.
//
// A line is [+TIME] EVENT [RANK|all] [key=value...]; +TIME lets time pass first, in ticks at the moments that the machine
// asked for. go test ./internal/decide/coord -rewrite writes the answers anew.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var p player
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "new":
				p = player{t: t}
				p.create(d)
				return ""
			case "do":
				p.out.Reset()
				for line := range strings.Lines(d.Input) {
					p.line(strings.TrimSpace(line))
				}
				return p.out.String()
			case "status":
				return fmt.Sprintf("%+v\n", p.m.Status())
			}
			d.Fatalf(t, "unknown command")
			return ""
		})
	})
}

// player is a machine under a transcript.
type player struct {
	t   *testing.T
	m   *Machine
	cfg Config
	now time.Duration
	out strings.Builder
}

func (p *player) create(d *datadriven.TestData) {
	p.cfg = Config{Ranks: 2, Keep: 2, Retries: 3}
	for _, a := range d.CmdArgs {
		n, err := strconv.Atoi(a.Vals[0])
		switch a.Key {
		case "ranks":
			p.cfg.Ranks = n
		case "keep":
			p.cfg.Keep = n
		case "files":
			p.cfg.Files = uint64(n)
		case "retries":
			p.cfg.Retries = n
		case "anew":
			p.cfg.Anew = n == 1
		case "mends":
			p.cfg.Mends = n == 1
		case "drop":
			p.cfg.DropBad = n == 1
		case "grace":
			p.cfg.Grace, err = time.ParseDuration(a.Vals[0])
		case "every":
			p.cfg.Every, err = time.ParseDuration(a.Vals[0])
		}
		if err != nil {
			d.Fatalf(p.t, "%v", err)
		}
	}
	p.m = New(p.cfg)
}

// line plays one line of a transcript.
func (p *player) line(line string) {
	words := strings.Fields(line)
	if len(words) > 0 && strings.HasPrefix(words[0], "+") {
		d, err := time.ParseDuration(words[0][1:])
		if err != nil {
			p.t.Fatal(err)
		}
		p.pass(d)
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	ranks := []int{0}
	args := map[string]string{}
	for _, w := range words[1:] {
		k, v, ok := strings.Cut(w, "=")
		switch {
		case ok:
			args[k] = strings.ReplaceAll(v, "_", " ")
		case w == "all":
			ranks = nil
			for r := range p.cfg.Ranks {
				ranks = append(ranks, r)
			}
		default:
			r, err := strconv.Atoi(w)
			if err != nil {
				p.t.Fatalf("%s: %v", line, err)
			}
			ranks = []int{r}
		}
	}
	for _, r := range ranks {
		p.step(p.event(words[0], r, args))
	}
}

// pass lets time go by.
func (p *player) pass(d time.Duration) {
	end := p.now + d
	for i := 0; ; i++ {
		at, ok := p.m.Next()
		if !ok || at > end {
			break
		}
		if i > 10000 {
			p.t.Fatal("the machine asks for the same time again and again")
		}
		p.now = max(at, p.now)
		p.step(Tick{})
	}
	p.now = end
	p.step(Tick{})
}

func (p *player) step(ev Event) {
	for _, s := range summarize(p.m.Step(p.now, ev)) {
		fmt.Fprintf(&p.out, "%8v  %s\n", p.now, s)
	}
}

func (p *player) event(name string, rank int, args map[string]string) Event {
	num := func(key string) uint64 {
		n, err := strconv.ParseUint("0"+args[key], 10, 64)
		if err != nil {
			p.t.Fatal(err)
		}
		return n
	}
	epoch := p.m.epoch
	if args["epoch"] != "" {
		epoch = num("epoch")
	}
	clock := node.Clock{Comm: num("comm"), Seq: num("seq")}
	switch name {
	case "start":
		return Start{Restart: args["restart"] != "", Patient: args["patient"] != "", Only: num("only"),
			Images: p.numbers(args["images"]), Aside: p.numbers(args["aside"]), Flushed: p.numbers(args["flushed"])}
	case "hello":
		return node.Hello{Ranks: []int{rank}}
	case "left":
		return node.Left{Rank: rank}
	case "restored":
		return node.Restored{Ranks: []int{rank}}
	case "finalizing":
		return node.Finalizing{Ranks: []int{rank}}
	case "fini":
		return node.Fini{Ranks: []int{rank}}
	case "reason":
		return node.Reason{Rank: rank, Text: args["text"]}
	case "progress":
		return node.Progress{}
	case "failed":
		return node.Failed{Rank: rank, Text: args["text"], Damaged: args["damaged"] != ""}
	case "lost":
		return node.Lost{Rank: rank, Ended: args["code"] != "", Code: int(num("code")), Ago: time.Duration(num("ago")) * time.Millisecond}
	case "nodelost":
		return NodeLost{Name: args["node"], Ranks: []int{rank}, Why: args["why"]}
	case "killed":
		return RankKilled{rank}
	case "launcher":
		return LauncherExit{Code: int(num("code")), Signal: int(num("signal"))}
	case "clocks":
		ev := node.Clocks{Epoch: epoch}
		if args["more"] == "" {
			ev.Ranks = []int{rank}
		}
		if args["comm"] != "" {
			ev.Clocks = []node.Clock{clock}
		}
		return ev
	case "raise":
		return node.Raise{Rank: rank, Epoch: epoch, Clock: clock}
	case "met":
		return node.Met{Ranks: []int{rank}, Epoch: epoch, Version: num("v")}
	case "waiting":
		where := uint32(abi.WhereP2P)
		if args["is"] != "" {
			where = uint32(num("is"))
		}
		return node.Waiting{Ranks: []int{rank}, Epoch: epoch, Where: where, Call: strings.ReplaceAll(args["call"], " ", "_")}
	case "where":
		return node.Where{Ranks: []int{rank}, Where: uint32(num("is"))}
	case "stopped":
		ev := node.Stopped{Ranks: []int{rank}, Epoch: epoch}
		switch text := fmt.Sprintf("rank %d: %s", rank, args["refusal"]); {
		case args["passing"] != "":
			ev.Passing = []string{text}
		case args["refusal"] != "":
			ev.Refusals = []string{text}
		}
		return ev
	case "objects":
		o := abi.Object{Dev: num("dev"), Inode: num("inode"), Size: num("size"), Flags: uint32(num("flags")), FD: int32(num("fd"))}
		if args["fd"] == "" {
			o.FD = -1
		}
		return node.Objects{Rank: rank, Epoch: epoch, Objects: []node.Object{{Object: o, Domain: args["host"] + ":" + args["dev"], Foreign: args["foreign"], Twin: args["twin"], Name: args["name"]}}}
	case "image":
		return image(rank, epoch, args["error"])
	case "resumed":
		return node.Resumed{Ranks: []int{rank}, Epoch: epoch, Stall: 5 * time.Millisecond}
	case "prepared":
		return Prepared{num("n"), args["error"]}
	case "committed":
		return Committed{num("n"), args["error"]}
	case "flushed":
		return Flushed{num("n")}
	case "request":
		return Request{ID: num("id"), Stop: args["stop"] != ""}
	case "terminate":
		if args["rank"] != "" {
			return node.Asked{Rank: rank}
		}
		return Terminate{}
	case "interrupt":
		return Interrupt{130}
	case "launchfailed":
		return LaunchFailed{Text: args["text"], Bad: args["bad"] != "", Away: args["away"] != "", Nowhere: args["nowhere"] != ""}
	case "tick":
		return Tick{}
	}
	p.t.Fatalf("unknown event %q", name)
	return nil
}

func image(rank int, epoch uint64, failure string) node.Image {
	ev := node.Image{Ranks: []int{rank}, Epoch: epoch, Bytes: 100}
	if failure != "" {
		ev.Text = fmt.Sprintf("rank %d: %s", rank, failure)
	}
	return ev
}

// summarize writes actions.
func summarize(actions []Action) []string {
	var out []string
	for _, a := range actions {
		if s, ok := a.(Send); ok {
			out = append(out, "send all "+message(s))
			continue
		}
		name := strings.ToLower(reflect.TypeOf(a).Name())
		if l, ok := a.(Launch); ok {
			text := fmt.Sprintf("launch Image:%d", l.Image)
			if l.Doubted {
				text += " Doubted"
			}
			out = append(out, text)
			continue
		}
		out = append(out, strings.TrimSpace(name+" "+strings.Trim(fmt.Sprintf("%+v", a), "{}")))
	}
	return out
}

func message(s Send) string {
	names := map[uint16]string{abi.MsgRequest: "REQUEST", abi.MsgTargets: "TARGETS", abi.MsgStop: "STOP", abi.MsgDrain: "DRAIN",
		abi.MsgResume: "RESUME", abi.MsgCancel: "CANCEL", abi.MsgExit: "EXIT", abi.MsgShared: "SHARED"}
	text := fmt.Sprintf("%s epoch=%d", names[s.Type], s.Epoch)
	switch s.Type {
	case abi.MsgTargets:
		text += fmt.Sprintf(" v=%d", s.Version)
		for _, c := range s.Targets {
			text += fmt.Sprintf(" %d:%d", c.Comm, c.Seq)
		}
	case abi.MsgShared:
		text += fmt.Sprintf(" hold=%v", s.Hold)
		for _, x := range s.Shares {
			text += fmt.Sprintf(" %s:%d:size=%d:flags=%d:owner=%d", x.Domain, x.Inode, x.Size, x.Flags, x.Owner)
		}
	case abi.MsgDrain:
		text += fmt.Sprintf(" checkpoint=%d exit_after=%v", s.Checkpoint, s.ExitAfter)
	}
	return text
}

// numbers reads a list with commas.
func (p *player) numbers(text string) []uint64 {
	var list []uint64
	for _, n := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		v, err := strconv.ParseUint(n, 10, 64)
		if err != nil {
			p.t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}
