package files

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/wire/client"
	"github.com/byssus-hpc/byssus/test/files/standin"
	"github.com/byssus-hpc/byssus/test/harness"
)

// TestWrong: calls in a wrong order, and arguments that differ between ranks, end the job as SCR does, with a sentence.
func TestWrong(t *testing.T) {
	const before, after = "mpi init", "finalize end"
	table := []struct {
		words string // between SCR_Init and SCR_Finalize; after a bar: instead of all
		says  string
	}{
		{"init", "SCR_Init: found it a second time, wanted SCR_Finalize first"},
		{"|mpi need", "SCR_Need_checkpoint: found it before SCR_Init, wanted SCR_Init first"},
		{"|mpi checkpoint", "SCR_Start_checkpoint: found it before SCR_Init"},
		{"|mpi written:1", "SCR_Complete_output: found it before SCR_Init, wanted SCR_Start_output first"},
		{"|mpi init finalize exit", "SCR_Should_exit: found it before SCR_Init"},
		{"checkpoint", "SCR_Finalize: found it after SCR_Start_checkpoint, wanted SCR_Complete_checkpoint first"},
		{"checkpoint written:1", "SCR_Complete_output: found it after SCR_Start_checkpoint, wanted SCR_Start_output first"},
		{"output:a:1 checkpointed:1", "SCR_Complete_checkpoint: found it after SCR_Start_output, wanted SCR_Start_checkpoint first"},
		{"output:a:1 output:b:1", "SCR_Start_output: found it after SCR_Start_output, wanted SCR_Complete_output first"},
		{"output:a:1 have", "SCR_Have_restart: found it after SCR_Start_output"},
		{"output:a:1 current:a", "SCR_Current: found it after SCR_Start_output"},
		{"written:1", "SCR_Complete_output: found it while nothing is open, wanted SCR_Start_output first"},
		{"restart", "SCR_Start_restart: found it without a dataset to read"},
		{"restarted:1", "SCR_Complete_restart: found it while nothing is open, wanted SCR_Start_restart first"},
		{"output:a:1 written:1 have restart delete:a", "SCR_Delete: found it after SCR_Start_restart, wanted SCR_Complete_restart first"},
		{"1@output:b:1 1!output:a:1 written:1", "rank 1: SCR_Start_output: found b, wanted the name that rank 0 gave"},
		{"1@output-unnamed:1 1!output:a:1 written:1", "rank 1: SCR_Start_output: found no name, wanted"},
		{"1@output:a:3 1!output:a:1 written:1", "rank 1: SCR_Start_output: found other flags, wanted those that rank 0 gave"},
		{"output:a:1 1@route:../outside written:1", "/outside, wanted a file below SCR_PREFIX"},
		{"config:SCR_DEBUG=1", "SCR_Config: found SCR_DEBUG=1, wanted settings before SCR_Init alone"},
		{"|mpi config:A|B", "wanted NAME=value, NAME= or NAME"},
		{"|mpi config:A=1|B|C=2", "wanted NAME=value, NAME= or NAME"},
		{"|mpi 1@config:A 1!config:B init", "rank 1: SCR_Config: found A, wanted rank 0's string"},
	}
	harness.Share(t, harness.Spinning)
	exes := bothCalls(t)
	for i, row := range table {
		mpi := harness.MPIs()[i%2]
		p := newPlace(t, mpi)
		words, whole := strings.CutPrefix(row.words, "|")
		if !whole {
			words = before + " " + words + " " + after
		}
		argv := []string{exes[i%2]}
		for w := range strings.FieldsSeq(words) {
			argv = append(argv, strings.ReplaceAll(w, "|", " ")) // a bar within a word is a blank
		}
		r := p.run(t, 2, argv...)
		if r.code == 0 {
			t.Errorf("%s: %s: exit code 0", mpi, row.words)
		}
		if !strings.Contains(strings.Join(r.says(), "\n"), row.says) {
			t.Errorf("%s: %s: wanted %q, found\n%s", mpi, row.words, row.says, r.err)
		}
	}
}

// ask chooses requests of a type, of one rank.
func ask(what uint16, rank uint32) func(*client.Asked) bool {
	return func(a *client.Asked) bool { return a.Type == what && a.Rank == rank }
}

// refuse answers what is chosen with a reason.
func refuse(chosen func(*client.Asked) bool) func(*client.Asked) string {
	return func(a *client.Asked) string {
		if chosen(a) {
			return "there is a reason"
		}
		return ""
	}
}

// TestFailures: what the agent refuses, and an agent that goes away, is said once, and fails on all ranks; nothing hangs or ends the job.
func TestFailures(t *testing.T) {
	table := []struct {
		what    uint16
		rank    uint32
		words   string
		failing string // the word that fails on all ranks
		says    string
	}{
		{client.ReqBegin, 0, "init need checkpoint checkpointed:1", "init", "rank 0: SCR_Init"},
		{client.ReqJoin, 1, "init have output:a:1 route:x written:1 checkpoint checkpointed:1", "init", "rank 1: SCR_Init"},
		{client.ReqOpen, 0, "init checkpoint write:a:1 checkpointed:1", "checkpoint", "rank 0: SCR_Start_checkpoint"},
		{client.ReqOpen, 0, "init output:a:1 output:b:1", "output:a:1", "rank 0: SCR_Start_output"},
		{client.ReqWritten, 1, "init checkpoint write:a:1 checkpointed:1", "checkpointed:1", "rank 1: SCR_Complete_checkpoint"},
		{client.ReqNeed, 0, "init need", "need", "rank 0: SCR_Need_checkpoint"},
		{client.ReqExit, 0, "init exit", "exit", "rank 0: SCR_Should_exit"},
		{client.ReqCurrent, 0, "init current:a", "current:a", "rank 0: SCR_Current"},
		{client.ReqDelete, 0, "init delete:a", "delete:a", "rank 0: SCR_Delete"},
		{client.ReqEnd, 0, "init finalize", "finalize", "rank 0: SCR_Finalize"},
	}
	harness.Share(t, harness.Spinning)
	exes := bothCalls(t)
	for i, row := range table {
		mpi := harness.MPIs()[i%2]
		for _, hangup := range []bool{false, true} {
			p := newPlace(t, mpi)
			says := row.says + ": there is a reason"
			p.Say(standin.Said{Refuse: refuse(ask(row.what, row.rank))})
			if hangup {
				says = row.says + ": the agent hung up"
				p.Say(standin.Said{Hangup: ask(row.what, row.rank)})
			}
			r := p.run(t, 2, append(append([]string{exes[i%2], "mpi"}, strings.Fields(row.words)...), "end")...)
			if got := slices.Compact(r.says()); r.code != 0 || len(got) != 1 || !strings.Contains(got[0], says) {
				t.Errorf("%s: %s: exit code %d, wanted 0 and one sentence %q, found\n%s", mpi, row.words, r.code, says, r.err)
			}
			r.want(t, row.failing, 2, "failed")
		}
	}
}

// TestRefusedFiles: a program that cannot be told whether there is something to restart from, or cannot have its files, is ended, since it
// would begin anew.
func TestRefusedFiles(t *testing.T) {
	eachMPI(t, func(t *testing.T, mpi string) {
		exe, p := calls(t, mpi), newPlace(t, mpi)
		p.run(t, 2, exe, "mpi", "init", "output:one:1", "write:f.#:1", "written:1", "finalize", "end").well(t)
		for _, row := range []struct {
			said standin.Said
			why  string
		}{
			{standin.Said{Hangup: ask(client.ReqFetch, 1)}, "rank 1: SCR_Have_restart: the agent hung up"},
			{standin.Said{Refuse: refuse(ask(client.ReqFetch, 1))}, "rank 1: SCR_Have_restart: there is a reason"},
			{standin.Said{Refuse: refuse(ask(client.ReqNewest, 0))}, "rank 0: SCR_Have_restart: there is a reason"},
		} {
			p.Say(row.said)
			r := p.run(t, 2, exe, "mpi", "init", "have", "finalize", "end")
			if r.code == 0 || !strings.Contains(r.err, row.why) || !strings.Contains(r.err, "a dataset that cannot be had now") {
				t.Errorf("exit code %d, wanted an end with %q, found\n%s", r.code, row.why, r.err)
			}
		}
	})
}

// TestNoAgent: without an agent, or with one that is not there, or before MPI is initialised, SCR_Init fails and says why, and all later
// calls fail.
func TestNoAgent(t *testing.T) {
	eachMPI(t, func(t *testing.T, mpi string) {
		exe, p := calls(t, mpi), newPlace(t, mpi)
		rest := []string{"have", "need", "checkpoint", "route:x", "checkpointed:1", "drop:x", "finalize", "end"}
		for _, row := range []struct{ variable, says string }{
			{"BYSSUS_CLIENTS=", "rank 0: SCR_Init: BYSSUS_CLIENTS is not set: this needs `byssus run`"},
			{"BYSSUS_CLIENTS=" + p.dir + "/none", "/none: No such file or directory"},
			{"BYSSUS_CLIENTS=/" + strings.Repeat("x", 120), "a path of 121 bytes, at most 107"},
		} {
			p.env = []string{row.variable}
			r := p.run(t, 2, append([]string{exe, "mpi", "init"}, rest...)...)
			if got := r.says(); r.code != 0 || len(got) != 1 || !strings.Contains(got[0], row.says) {
				t.Errorf("exit code %d, wanted one sentence %q, found\n%s", r.code, row.says, r.err)
			}
			for _, word := range append([]string{"init"}, rest[:len(rest)-1]...) {
				r.want(t, word, 2, "failed")
			}
		}
		p.env = nil
		r := p.run(t, 1, exe, "init", "need", "mpi", "end")
		r.want(t, "need", 1, "failed")
		if got := r.says(); len(got) < 1 || !strings.Contains(got[0], "SCR_Init: MPI has not been initialised") {
			t.Errorf("it says %q", got)
		}
	})
}

// TestDisabled: with SCR_ENABLE=0 calls fail without a word, as with SCR, and no agent is needed.
func TestDisabled(t *testing.T) {
	eachMPI(t, func(t *testing.T, mpi string) {
		exe, p := calls(t, mpi), newPlace(t, mpi)
		words := []string{"init", "have", "need", "exit", "checkpoint", "route:x", "checkpointed:1", "output:a:1", "written:1", "route:plain", "finalize"}
		for _, how := range []string{"environment", "program", "file"} {
			p.env = []string{"BYSSUS_CLIENTS="}
			argv := []string{exe, "mpi"}
			switch how {
			case "environment":
				p.env = append(p.env, "SCR_ENABLE=0")
			case "program":
				argv = append(argv, "config:SCR_ENABLE=0")
			case "file": // which the agent has read
				p.env = nil
				p.Say(standin.Said{Others: []string{"SCR_ENABLE=0"}})
			}
			r := p.run(t, 2, append(append(argv, words...), "end")...)
			r.well(t)
			for _, word := range words {
				if word != "route:plain" {
					r.want(t, word, 2, "failed")
				}
			}
			r.want(t, "route:plain", 2, "plain")
		}
		if seen := p.Seen(); len(seen) != 2 || seen[1].Type != client.ReqEnd {
			t.Errorf("the agent has heard %d requests, wanted begin and end of the last program", len(seen))
		}
	})
}

// TestHaltExit: with SCR_HALT_EXIT=1 a program that is to end is ended in SCR_Init, or when a checkpoint is complete, as one that has ended
// well; without it goes on.
func TestHaltExit(t *testing.T) {
	eachMPI(t, func(t *testing.T, mpi string) {
		exe := calls(t, mpi)
		words := []string{"mpi", "init", "output:r:2", "write:r/a.#:1", "written:1", "need", "checkpoint", "write:c/a.#:1", "checkpointed:1", "exit", "finalize", "end"}
		for _, row := range []struct {
			setting    string
			after      int
			last, says string // the last call that returns; what is said
		}{
			{"SCR_HALT_EXIT=1", 0, "mpi", "SCR_Init: SCR_HALT_EXIT=1: the program ends here: the allocation ends"},
			{"SCR_HALT_EXIT=1", 1, "write:c/a.#:1", "SCR_Complete_checkpoint: SCR_HALT_EXIT=1: the program ends here: the allocation ends"},
			{"SCR_HALT_EXIT=1", 9, "finalize", ""},
			{"SCR_HALT_EXIT=0", 0, "finalize", ""},
		} {
			p := newPlace(t, mpi)
			p.Say(standin.Said{Exit: "the allocation ends", After: row.after, Others: []string{row.setting}})
			r := p.run(t, 2, append([]string{exe}, words...)...)
			next := words[slices.Index(words, row.last)+1]
			if got := r.says(); r.code != 0 || len(r.of(row.last)) != 2 && row.last != "mpi" || len(r.of(next)) > 0 && row.says != "" ||
				len(got) != min(len(row.says), 1) || row.says != "" && !strings.Contains(got[0], row.says) {
				t.Errorf("%s after %d: exit code %d, %q\n%s", row.setting, row.after, r.code, got, strings.Join(r.lines, "\n"))
			}
			if n := len(p.Seen(client.ReqEnd)); n != 1 {
				t.Errorf("%s after %d: the agent has heard of %d ends, wanted 1", row.setting, row.after, n)
			}
		}
	})
}

// TestConfig: settings as SCR takes them apart, with the agent and without.
func TestConfig(t *testing.T) {
	steps := []struct{ call, want string }{
		{"config:DEBUG", "none"}, {"config:DEBUG=1", "none"}, {"config:DEBUG", "1"}, {"config:DEBUG =1", "none"}, {"config:DEBUG= 2", "none"},
		{"config:DEBUG ", "2"}, {"config:DEBUG  = 3", "none"}, {"config:DEBUG", "3"}, {"config:DEBUG=", "none"}, {"config:DEBUG", "none"},
		{"configf:NUMBER:17", "none"}, {"config:NUMBER", "17"}, {"config:BASE==/a/=b", "none"}, {"config:BASE", "=/a/=b"},
		{"config:STORE= /x GROUP = NODE COUNT  =1", "none"}, {"config:STORE= /x COUNT", "1"}, {"config:STORE", "/x"}, {"config:STORE=/x GROUP", "NODE"},
		{"config:STORE=/x COUNT=2 FLUSH=1", "none"}, {"config:STORE=/x COUNT", "2"}, {"config:STORE=/x FLUSH", "1"}, {"config:STORE=/x GROUP=", "none"},
		{"config:STORE=/x GROUP", "none"}, {"config:STORE=/x FLUSH", "1"}, {"config:CKPT=0 TYPE=XOR", "none"}, {"config:CKPT=1 TYPE=RS SET_SIZE=4", "none"},
		{"config:CKPT=0 TYPE", "XOR"}, {"config:CKPT=1 SET_SIZE", "4"}, {"config:CKPT=2 TYPE", "none"}, {"config:CKPT=1 NONE", "none"},
		{"config:CKPT=", "none"}, {"config:CKPT=1 TYPE", "none"}, {"config:OUTSIDE", "environment"}, {"config:OUTSIDE=program", "none"},
		{"config:OUTSIDE", "environment"}, {"config-null", "none"}, {"config:", "none"},
	}
	eachMPI(t, func(t *testing.T, mpi string) {
		exe, p := calls(t, mpi), newPlace(t, mpi)
		for _, agent := range []bool{true, false} {
			p.env = []string{"OUTSIDE=environment"}
			if !agent {
				p.env = append(p.env, "BYSSUS_CLIENTS=")
			}
			for _, first := range []string{"mpi", "config:X=1"} { // without MPI each process has its own
				argv := []string{exe, first}
				for _, s := range steps {
					argv = append(argv, s.call)
				}
				if first != "mpi" {
					argv = append(argv, "mpi")
				}
				r := p.run(t, 2, append(argv, "end")...)
				r.well(t)
				compareSteps(t, r, steps)
			}
		}
		p.env = nil
		r := p.run(t, 2, exe, "mpi", "config:CKPT=1 TYPE=XOR", "config:SCR_PREFIX=sub", "init", "config:SCR_PREFIX", "checkpoint", "write:sub/a.#:1", "checkpointed:1", "finalize", "config:SCR_PREFIX", "end")
		r.well(t)
		if got := r.of("config:SCR_PREFIX"); len(got) != 4 || got[0] != "sub" || got[1] != "none" {
			t.Errorf("SCR_PREFIX: %q", got)
		}
		begin := p.Seen(client.ReqBegin)[0]
		if prefixed(begin.Text, "C CKPT=1 TYPE=XOR") != 1 || begin.Text[0] != p.dir {
			t.Errorf("the agent was told %q", begin.Text)
		}
	})
}

// compareSteps compares what the calls returned, in their order, on every rank.
func compareSteps(t *testing.T, r result, steps []struct{ call, want string }) {
	t.Helper()
	ranks := map[string][]string{}
	for _, l := range r.lines {
		rank, rest, _ := strings.Cut(l, " ")
		if word, got, ok := strings.Cut(rest, " -> "); ok && strings.HasPrefix(word, "config") && word != "config:X=1" {
			ranks[rank] = append(ranks[rank], got)
		}
	}
	for rank, got := range ranks {
		n := len(got) / len(steps) // ranks without MPI do not know who they are: what they print is mixed
		if n != 1 {
			continue
		}
		for i, s := range steps {
			if got[i] != s.want {
				t.Errorf("rank %s: %s: found %q, wanted %q", rank, s.call, got[i], s.want)
			}
		}
	}
}

// TestOtherUser: an agent that belongs to somebody else is not spoken to.
func TestOtherUser(t *testing.T) {
	harness.Share(t, harness.Light)
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	exe, p := calls(t, "mpich"), newPlace(t, "mpich")
	p.launch = func(_ int, argv []string) []string { // one rank without a launcher
		return append([]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}, argv...)
	}
	for _, path := range []string{p.dir, filepath.Dir(p.dir), p.Socket, filepath.Dir(exe), filepath.Dir(filepath.Dir(exe))} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	r := p.run(t, 1, exe, "mpi", "init", "end")
	if got := r.says(); len(got) != 1 || !strings.Contains(got[0], "found user 0, wanted 65534") {
		t.Errorf("it says %q", r.err)
	}
}
