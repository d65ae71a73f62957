package pmifd

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/pmi"
)

// pair is a server of two ranks on one node with its Root, and the ranks' ends.
type pair struct {
	*Server
	ranks [2]*os.File

	mu   sync.Mutex
	ends []pmi.End

	ended chan struct{} // as often as there are ends, for who waits for one
}

func newPair(t *testing.T) *pair {
	p := &pair{ended: make(chan struct{}, 10)}
	root := pmi.NewRoot(1)
	s, err := New(Config{
		Config: pmi.Config{Ranks: 2, Local: []int{0, 1}, Job: "job.1", Mapping: pmi.Mapping([]int{0, 0})},
		Up: func(up pmi.Up) {
			p.mu.Lock()
			sends, _, err := root.Step(0, up)
			p.mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			for _, send := range sends {
				p.Down(send.Down)
			}
		},
		Event: func(ev pmi.Event) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if e, ok := ev.(pmi.End); ok {
				p.ends = append(p.ends, e)
				p.ended <- struct{}{}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Server = s
	t.Cleanup(s.Close)
	for rank := range p.ranks {
		if p.ranks[rank], err = s.Open(rank); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.ranks[rank].Close() })
	}
	return p
}

// talk says something as a rank and reads as many lines as there are in want.
func (p *pair) talk(t *testing.T, rank int, say, want string) {
	t.Helper()
	if _, err := p.ranks[rank].WriteString(say); err != nil {
		t.Fatal(err)
	}
	p.hear(t, rank, want)
}

func (p *pair) hear(t *testing.T, rank int, want string) {
	t.Helper()
	timer := time.AfterFunc(deadline, func() { panic("no answer") })
	defer timer.Stop()
	found := make([]byte, len(want))
	if n, err := io.ReadFull(p.ranks[rank], found); err != nil || string(found) != want {
		t.Errorf("rank %d: found %q, %v, want %q", rank, found[:n], err, want)
	}
}

// gone waits until a rank has been hung up on.
func (p *pair) gone(t *testing.T, rank int) {
	t.Helper()
	timer := time.AfterFunc(deadline, func() { panic("not hung up on") })
	defer timer.Stop()
	_, _ = io.Copy(io.Discard, p.ranks[rank]) // to its end, or until what we wrote is found unread
}

// TestPieces: lines come in pieces, and several at once.
func TestPieces(t *testing.T) {
	p := newPair(t)
	for _, piece := range []string{"cmd=get_", "app", "num\ncmd=get_universe_size", "\ncmd="} {
		if _, err := p.ranks[0].WriteString(piece); err != nil {
			t.Fatal(err)
		}
	}
	p.hear(t, 0, "cmd=appnum appnum=0\ncmd=universe_size size=2\n")
	p.talk(t, 0, "barrier_in\n", "")
	p.talk(t, 1, "cmd=barrier_in\n", "cmd=barrier_out rc=0\n")
	p.hear(t, 0, "cmd=barrier_out rc=0\n")
}

// TestHurtful: who writes without end and without newlines, or asks without reading, is hung up on; the other rank notices
// nothing.
func TestHurtful(t *testing.T) {
	for name, say := range map[string]string{
		"endless":  strings.Repeat("x", 1<<20),
		"newlines": strings.Repeat("\n", 1<<20),
		"greedy":   strings.Repeat("cmd=initack pmiid=0\n", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.talk(t, 0, "cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n")
			w := bufio.NewWriter(p.ranks[0])
			_, _ = w.WriteString(say)
			if w.Flush() == nil {
				t.Error("all of it is taken")
			}
			p.gone(t, 0)
			p.talk(t, 1, "cmd=get_appnum\n", "cmd=appnum appnum=0\n")
			select { // it is told after the rank was hung up on
			case <-p.ended:
			case <-time.After(deadline):
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.ends) != 1 || p.ends[0].Rank != 0 || p.ends[0].How == pmi.Aborted {
				t.Errorf("found %+v, want the end of rank 0", p.ends)
			}
		})
	}
}

// TestOpen: a rank is opened once, and only here.
func TestOpen(t *testing.T) {
	p := newPair(t)
	for _, rank := range []int{0, 2, -1} {
		if _, err := p.Open(rank); err == nil {
			t.Errorf("rank %d is opened", rank)
		}
	}
	p.Close()
	if _, err := p.Open(0); err == nil {
		t.Error("a closed server opens a rank")
	}
	if p.Down(pmi.Down{Barrier: true}); len(p.ends) != 0 {
		t.Errorf("found %+v after Close, want nothing", p.ends)
	}
}

func TestEnv(t *testing.T) {
	found := newPair(t).Env([]string{"A=b", "PMI_PORT=evil:1", "PMI_ID=7", "PMI_SPAWNED=1", "PMIX_RANK=3"}, 1, 5)
	if want := []string{"A=b", "PMIX_RANK=3", "PMI_FD=5", "PMI_RANK=1", "PMI_SIZE=2"}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	if _, err := New(Config{Config: pmi.Config{Ranks: 1, Job: "j"}}); fmt.Sprint(err) != "pmi: a node without ranks" {
		t.Errorf("found %v", err)
	}
}
