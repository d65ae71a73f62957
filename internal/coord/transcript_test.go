package coord

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/byssus-hpc/byssus/internal/abi"
)

// TestTranscripts replays testdata: "new" makes a machine, "do" hands it an event per line and prints what it orders.
//
// A line is [+TIME] EVENT [RANK|all] [key=value...]; +TIME lets time pass first, in ticks at the moments that the machine
// asked for. go test ./internal/coord -rewrite writes the answers anew.
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
		case "retries":
			p.cfg.Retries = n
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
	for _, s := range summarize(p.m.Step(p.now, ev), p.cfg.Ranks) {
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
	clock := abi.Clock{Comm: num("comm"), Seq: num("seq")}
	switch name {
	case "start":
		ev := Start{Restart: args["restart"] != "", Only: num("only")}
		ev.Images, ev.Aside = p.numbers(args["images"]), p.numbers(args["aside"])
		return ev
	case "hello":
		return Hello{rank}
	case "left":
		return Left{rank}
	case "restored":
		return Restored{rank}
	case "finalizing":
		return Finalizing{rank}
	case "fini":
		return Fini{rank}
	case "reason":
		return Reason{rank, args["text"]}
	case "progress":
		return Progress{}
	case "failed":
		return Failed{rank, args["text"]}
	case "lost":
		return Lost{Rank: rank, Ended: args["code"] != "", Code: int(num("code")), Following: args["following"] != ""}
	case "launcher":
		return LauncherExit{Code: int(num("code")), Signal: int(num("signal"))}
	case "clocks":
		ev := Clocks{Rank: rank, Epoch: epoch, More: args["more"] != ""}
		if args["comm"] != "" {
			ev.Clocks = []abi.Clock{clock}
		}
		return ev
	case "raise":
		return Raise{rank, epoch, clock}
	case "met":
		return Met{rank, epoch, num("v")}
	case "waiting":
		where := uint32(abi.WhereP2P)
		if args["is"] != "" {
			where = uint32(num("is"))
		}
		return Waiting{rank, epoch, where, strings.ReplaceAll(args["call"], " ", "_")}
	case "where":
		return Where{rank, uint32(num("is"))}
	case "stopped":
		ev := Stopped{Rank: rank, Epoch: epoch}
		if args["refusal"] != "" {
			ev.Refusals, ev.Passing = []string{args["refusal"]}, int(num("passing"))
		}
		return ev
	case "objects":
		o := abi.Object{Dev: num("dev"), Inode: num("inode"), Size: num("size"), Flags: uint32(num("flags")), FD: int32(num("fd"))}
		if args["fd"] == "" {
			o.FD = -1
		}
		return Objects{rank, epoch, args["host"], []Object{{o, args["foreign"], args["twin"]}}}
	case "image":
		ev := Image{Rank: rank, Epoch: epoch, Image: abi.Image{Bytes: 100}, Text: args["error"]}
		if ev.Text != "" {
			ev.Image.Status = 1
		}
		return ev
	case "resumed":
		return Resumed{rank, epoch, 5 * time.Millisecond}
	case "prepared":
		return Prepared{num("n"), args["error"]}
	case "committed":
		return Committed{num("n"), args["error"]}
	case "request":
		return Request{ID: num("id"), Stop: args["stop"] != ""}
	case "terminate":
		return Terminate{ByRank: args["rank"] != ""}
	case "interrupt":
		return Interrupt{130}
	case "launchfailed":
		return LaunchFailed{args["text"], args["bad"] != ""}
	case "tick":
		return Tick{}
	}
	p.t.Fatalf("unknown event %q", name)
	return nil
}

// summarize writes actions, a message to all ranks as one line.
func summarize(actions []Action, ranks int) []string {
	var out []string
	for i := 0; i < len(actions); i++ {
		s, ok := actions[i].(Send)
		if !ok {
			name := strings.ToLower(reflect.TypeOf(actions[i]).Name())
			out = append(out, strings.TrimSpace(name+" "+strings.Trim(fmt.Sprintf("%+v", actions[i]), "{}")))
			continue
		}
		to := fmt.Sprint(s.Rank)
		if s.Rank == 0 && i+ranks <= len(actions) {
			to = "all"
			i += ranks - 1
		}
		out = append(out, "send "+to+" "+message(s))
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
			text += fmt.Sprintf(" %d:%d:size=%d:flags=%d:owner=%d", x.Dev, x.Inode, x.Size, x.Flags, x.Owner)
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
