package files

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/wire/client"
	"github.com/byssus-hpc/byssus/test/files/standin"
)

// TestCalls: a program writes and reads with every call; it is run again and restarts, and once more with another number of ranks.
func TestCalls(t *testing.T) {
	eachMPI(t, func(t *testing.T, mpi string) {
		exe := calls(t, mpi)
		for _, bypass := range []bool{false, true} {
			t.Run(fmt.Sprintf("bypass=%v", bypass), func(t *testing.T) {
				p := newPlace(t, mpi)
				p.Say(standin.Said{Bypass: bypass, Needed: true})
				writes(t, p, exe)
				reads(t, p, exe, bypass)
				if begun, ended := p.Ended(); begun != ended || begun == 0 {
					t.Errorf("%d programs have begun, %d have ended", begun, ended)
				}
			})
		}
	})
}

func writes(t *testing.T, p *place, exe string) {
	const n = 3
	r := p.run(t, n, exe, "route:before.#", "mpi", "route:still.#", "init", "version", "have", "need", "exit", "route:between.#", "route-null",
		"output:old:1", "write:deep/er/a.#:old #", "write:./deep//er/../b.#:other", "written:1",
		"checkpoint", "write:c.#:by itself #", "checkpointed:1",
		"output-unnamed:3", "write:deep/er/a.#:new #", "write:deep/er/a.#:newer #", "0@write:only:of 0", "written:1",
		"output:result:2", "write:r.#:x", "written:1",
		"output:bad:1", "1@written:0", "1!written:1", "finalize", "end", "route:after.#")
	r.well(t)
	for word, want := range map[string]string{"route:before.#": "before.-1", "route:still.#": "still.#", "route:between.#": "between.#",
		"route:after.#": "after.#", "init": "well", "version": "v3.1.0", "have": "no", "need": "yes", "exit": "no", "route-null": "well",
		"output:old:1": "well", "write:deep/er/a.#:old #": "well", "checkpoint": "well", "checkpointed:1": "well", "output-unnamed:3": "well",
		"write:deep/er/a.#:newer #": "well", "output:result:2": "well", "finalize": "well"} {
		r.want(t, word, n, want)
	}
	if got := r.of("written:1"); len(got) != 3*n+2 || slices.Index(got, "failed") < 0 {
		t.Errorf("written: %q", got)
	}
	r.want(t, "written:0", 1, "failed")
	if got, want := p.Valid(), []string{"old", "scr.dataset.2", "scr.dataset.3", "result"}; !slices.Equal(got, want) {
		t.Errorf("datasets that count: %q, wanted %q", got, want)
	}
	for _, w := range p.Seen(client.ReqWritten) {
		if w.Dataset == 1 && (w.NFiles != 2 || w.Bytes != uint64(len("old 0other")) || w.Valid != 1) {
			t.Errorf("rank %d tells of %d files with %d bytes, valid %d", w.Rank, w.NFiles, w.Bytes, w.Valid)
		}
	}
}

func reads(t *testing.T, p *place, exe string, bypass bool) {
	const n = 3
	p.Say(standin.Said{Bypass: bypass, Pieces: true})
	r := p.run(t, n, exe, "mpi", "init", "have", "restart", "read:deep/er/a.#", "read:x/../deep/er/a.#", "read:a.#", "0@read:only", "restarted:1",
		"have", "restart-unnamed", "0@restarted:0", "0!restarted:1",
		"have", "restart", "read:elsewhere/c.#", "restarted:1", "drop:result", "current:old", "have", "restart", "read:a.#", "read:b.#", "restarted:1",
		"delete:old", "0@drop:none", "0!drop:other", "have", "need", "finalize", "end")
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s", r.code, r.err)
	}
	for word, want := range map[string]string{"read:deep/er/a.#": "newer #", "read:x/../deep/er/a.#": "newer #", "restart-unnamed": "well",
		"read:elsewhere/c.#": "by itself #", "read:b.#": "other", "current:old": "well", "drop:result": "well", "delete:old": "well", "need": "no"} {
		r.want(t, word, n, want)
	}
	if got := r.of("have")[:5]; !slices.Equal(got, []string{"yes scr.dataset.3", "yes scr.dataset.3", "yes scr.dataset.2", "yes old", "no"}) {
		t.Errorf("what there is to read: %q", got)
	}
	if got := r.of("restarted:1"); len(got) != 4*n-1 || count(got, "failed") != n-1 {
		t.Errorf("restarted: %q, wanted failures where rank 0 could not", got)
	}
	if got := r.says(); len(got) != 1 || !strings.Contains(got[0], `libscr: rank 0: SCR_Drop: no dataset ["none"]`) {
		t.Errorf("it says %q", got)
	}
}

func count(list []string, s string) int {
	n := 0
	for _, l := range list {
		if l == s {
			n++
		}
	}
	return n
}

// TestOneSpeaks: of ranks that know that they are on one node one tells the agent what they have written; who has to name files does that
// by itself. What is refused fails on all ranks.
func TestOneSpeaks(t *testing.T) {
	const n = 3
	eachMPI(t, func(t *testing.T, mpi string) {
		for bypass, told := range map[bool]int{false: 1, true: n} {
			exe, p := calls(t, mpi), newPlace(t, mpi)
			p.Say(standin.Said{Bypass: bypass, Node: 1})
			p.run(t, n, exe, "mpi", "init", "output:a:1", "write:f.#:of #", "written:1", "checkpoint", "checkpointed:1", "finalize", "end").well(t)
			if got, want := p.Told(), 1+n+1+told+1+1+1; got != want {
				t.Errorf("bypass %v: %d conversations, wanted %d", bypass, got, want)
			}
			if got, want := p.Valid(), []string{"a", "scr.dataset.2"}; !slices.Equal(got, want) {
				t.Errorf("bypass %v: datasets that count: %q, wanted %q", bypass, got, want)
			}
			p.Say(standin.Said{Bypass: bypass, Node: 1, Refuse: refuse(ask(client.ReqWritten, 2))})
			r := p.run(t, n, exe, "mpi", "init", "checkpoint", "checkpointed:1", "finalize", "end")
			r.want(t, "checkpointed:1", n, "failed")
			if got := r.says(); len(got) != 1 || !strings.Contains(got[0], "rank 0: SCR_Complete_checkpoint: there is a reason") {
				t.Errorf("bypass %v: it says %q", bypass, got)
			}
		}
	})
}

// TestOtherRanks: a program is run again with another number of ranks: it finds the files of all.
func TestOtherRanks(t *testing.T) {
	eachMPI(t, func(t *testing.T, mpi string) {
		exe, p := calls(t, mpi), newPlace(t, mpi)
		p.run(t, 3, exe, "mpi", "init", "output:a:1", "write:in/f.#:of #", "written:1", "finalize", "end").well(t)
		r := p.run(t, 2, exe, "mpi", "init", "have", "restart", "read:in/f.#", "read:in/f.2", "read:f.2", "restarted:1", "finalize", "end")
		r.well(t)
		r.want(t, "read:in/f.#", 2, "of #")
		r.want(t, "read:in/f.2", 2, "of 2")
		r.want(t, "read:f.2", 2, "of 2")
	})
}

// TestWhereFilesGo: the directory of a rank's files, its mode, and with BYPASS the prefix, by the working directory and SCR_PREFIX.
func TestWhereFilesGo(t *testing.T) {
	eachMPI(t, func(t *testing.T, mpi string) {
		exe, p := calls(t, mpi), newPlace(t, mpi)
		p.env = []string{"SCR_PREFIX=out/put"}
		r := p.run(t, 2, exe, "umask:0022", "mpi", "init", "cd:out", "cd:put", "cd:sub", "checkpoint", "write:a/b.#:1", "write:../c.#:2", "checkpointed:1", "finalize", "end")
		r.well(t)
		dir := filepath.Join(filepath.Dir(p.Socket), "cache/1/rank-00001.files")
		for _, file := range []string{"sub/a/b.1", "c.1"} {
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
				t.Error(err)
			}
		}
		if info, err := os.Stat(filepath.Join(dir, "sub")); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("found %v, %v, wanted a directory with mode 0700", info, err)
		}
		p.Say(standin.Said{Bypass: true})
		p.env = []string{"SCR_PREFIX=" + p.dir + "/far/../near/"}
		r = p.run(t, 2, exe, "umask:0022", "mpi", "init", "checkpoint", "route:near/x/y.#", "write:near/x/y.#:1", "checkpointed:1", "finalize", "end")
		r.well(t)
		r.want(t, "route:near/x/y.#", 2, p.dir+"/near/x/y.#")
		if info, err := os.Stat(p.dir + "/near/x"); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("found %v, %v, wanted a directory with mode 0755", info, err)
		}
		var told []string
		for _, w := range p.Seen(client.ReqWritten)[2:] {
			told = append(told, w.Text...)
		}
		if slices.Sort(told); !slices.Equal(told, []string{"x/y.0", "x/y.1"}) {
			t.Errorf("found the paths %q", told)
		}
	})
}

// TestFilesThatAreNotWhole: what a rank has routed must be there, a regular file, and closed; it is named.
func TestFilesThatAreNotWhole(t *testing.T) {
	eachMPI(t, func(t *testing.T, mpi string) {
		exe, p := calls(t, mpi), newPlace(t, mpi)
		r := p.run(t, 2, exe, "mpi", "init",
			"checkpoint", "write:good.#:1", "1@route:missing", "checkpointed:1",
			"checkpoint", "write:good.#:1", "1@link:link", "checkpointed:1",
			"checkpoint", "write:good.#:1", "1@keep-open:open", "checkpointed:1", "1@close",
			"checkpoint", "1@route-long::1000", "checkpointed:1",
			"checkpoint", "0@route-long::1200", "checkpointed:1",
			"checkpoint", "write:good.#:1", "checkpointed:1", "finalize", "end")
		if r.code != 0 {
			t.Fatalf("exit code %d\n%s", r.code, r.err)
		}
		if got := r.of("checkpointed:1"); len(got) != 12 || count(got, "failed") != 10 || got[5] != "well" {
			t.Errorf("checkpointed: %q", got)
		}
		says := r.says()
		for _, want := range []string{"rank-00001.files/missing: No such file", "rank-00001.files/link: it is not a regular file",
			"rank-00001.files/open: somebody has it open for writing still", "is longer than SCR_MAX_FILENAME", "a name of 1200 bytes, at most 1023"} {
			if len(says) != 5 || !slices.ContainsFunc(says, func(s string) bool { return strings.Contains(s, want) }) {
				t.Errorf("found %q, wanted %q", says, want)
			}
		}
		if got := p.Valid(); len(got) != 1 || got[0] != "scr.dataset.6" {
			t.Errorf("datasets that count: %q", got)
		}
	})
}

// TestLongTexts: settings that need several messages, and an answer that comes in several.
func TestLongTexts(t *testing.T) {
	eachMPI(t, func(t *testing.T, mpi string) {
		exe, p := calls(t, mpi), newPlace(t, mpi)
		p.Say(standin.Said{Pieces: true})
		for i := range 3 {
			p.env = append(p.env, fmt.Sprintf("SCR_LONG%d=%s", i, strings.Repeat("x", 100<<10)))
		}
		long := strings.Repeat("n", 1000)
		r := p.run(t, 2, exe, "mpi", "init", "output:"+long+":1", "written:1", "have", "finalize", "end")
		r.well(t)
		r.want(t, "have", 2, "yes "+long)
		if s := p.Seen(client.ReqBegin); len(s) != 1 || prefixed(s[0].Text, "E SCR_LONG") != 3 {
			t.Errorf("the settings have not arrived")
		}
	})
}

func prefixed(list []string, prefix string) int {
	n := 0
	for _, l := range list {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}
