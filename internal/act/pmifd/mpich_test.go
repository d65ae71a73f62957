package pmifd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/pmi"
)

// deadline is for hangs.
const deadline = 3 * time.Minute

// TestStart starts ranks of the real MPICH on nodes that are one machine. What they take for a node is what we say.
func TestStart(t *testing.T) {
	program, env := build(t)
	for _, at := range [][]int{
		{0}, {0, 0}, {0, 1}, {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 1, 1}, {0, 0, 1, 1, 2, 0}, {3, 2, 1, 0}, {0, 0, 1, 1, 2, 2, 3, 3},
	} {
		r := start(t, at, []string{program, "sum"}, env)
		r.wait(t)
		n := len(at)
		for rank, node := range at {
			near, first := 0, slices.Index(at, node)
			for _, other := range at {
				if other == node {
					near++
				}
			}
			r.want(t, rank, 0, fmt.Sprintf("%d of %d: sum %d, %d ranks from %d on\n", rank, n, n*(n-1)/2, near, first))
		}
		if r.count(pmi.Init{}) != n || r.count(pmi.Finalized{}) != n || r.count(pmi.Finished{}) != 1 || r.count(pmi.End{}) != 0 {
			t.Errorf("%v: found %+v, want each rank to start and end, and the job to finish", at, r.events)
		}
	}
}

// TestManyStarts starts and ends a job again and again: none hangs when MPI_Finalize lets UCX go on.
func TestManyStarts(t *testing.T) {
	program, env := build(t)
	for range 50 {
		r := start(t, []int{0, 1, 2, 3}, []string{program, "sum"}, env)
		r.wait(t)
		for rank := range r.at {
			r.want(t, rank, 0, fmt.Sprintf("%d of 4: sum 6, 1 ranks from %d on\n", rank, rank))
		}
	}
}

// TestAbort: MPI_Abort tells its code, once to its own node, once to the job, and once to the other node; whoever starts the
// ranks ends them.
func TestAbort(t *testing.T) {
	program, env := build(t)
	r := start(t, []int{0, 0, 1, 1}, []string{program, "abort"}, env)
	r.wait(t)
	if found := r.ends(); len(found) != 3 || found[0] != (pmi.End{Rank: 3, How: pmi.Aborted, Code: 42}) {
		t.Errorf("found %+v, want three times that rank 3 aborts with 42", found)
	}
}

// TestDeath: a rank that is gone without a word is noticed by its socket.
func TestDeath(t *testing.T) {
	program, env := build(t)
	r := start(t, []int{0, 1, 1}, []string{program, "die"}, env)
	r.wait(t)
	r.want(t, 2, 3, "")
	want := pmi.End{Rank: 2, How: pmi.Lost, Text: "pmi: rank 2: gone before MPI_Finalize"}
	if found := r.ends(); len(found) != 3 || found[0] != want {
		t.Errorf("found %+v, want three times that rank 2 is lost", found)
	}
}

// TestNames: MPI_Publish_name on one node is MPI_Lookup_name on another.
func TestNames(t *testing.T) {
	program, env := build(t)
	r := start(t, []int{0, 1}, []string{program, "names"}, env)
	r.wait(t)
	for rank := range r.at {
		r.want(t, rank, 0, fmt.Sprintf("%d: found 1 here, back 1, gone 1\n", rank))
	}
}

// TestSpawn: MPI_Comm_spawn_multiple returns an error.
func TestSpawn(t *testing.T) {
	program, env := build(t)
	r := start(t, []int{0, 1}, []string{program, "spawn"}, env)
	r.wait(t)
	for rank := range r.at {
		r.want(t, rank, 0, fmt.Sprintf("%d: spawn failed\n", rank))
	}
}

// build compiles the ranks' program with MPICH's compiler, and returns what it needs in its environment: ranks of one machine
// are to talk as ranks of several do, and then they need what finalize.c does.
func build(t *testing.T) (program string, env []string) {
	cc, err := exec.LookPath("mpicc.mpich")
	if err != nil {
		t.Skip("SKIP: mpicc.mpich is missing")
	}
	dir := t.TempDir()
	program, preload := filepath.Join(dir, "ranks"), filepath.Join(dir, "finalize.so")
	for _, args := range [][]string{
		{"-o", program, "testdata/ranks.c"},
		{"-shared", "-fPIC", "-o", preload, "testdata/finalize.c", "-ldl"},
	} {
		args = append([]string{"-O2", "-Wall", "-Wextra", "-Werror", "-Wno-stringop-overflow"}, args...)
		if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return program, []string{"UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo", "LD_PRELOAD=" + preload}
}

// run is a job of real ranks: a Root, and a Server for each node.
type run struct {
	at      []int
	servers []*Server
	ranks   []*exec.Cmd
	out     []*bytes.Buffer

	mu     sync.Mutex
	root   *pmi.Root
	events []pmi.Event
}

func start(t *testing.T, at []int, command, env []string) *run {
	r := &run{at: at, root: pmi.NewRoot(slices.Max(at) + 1)}
	name := fmt.Sprintf("test.%d.%d", os.Getpid(), time.Now().UnixNano())
	for node := range slices.Max(at) + 1 {
		var local []int
		for rank, n := range at {
			if n == node {
				local = append(local, rank)
			}
		}
		s, err := New(Config{
			Config: pmi.Config{Ranks: len(at), Local: local, Job: name, Mapping: pmi.Mapping(at)},
			Up:     func(up pmi.Up) { r.up(t, node, up) },
			Event:  r.event,
		})
		if err != nil {
			t.Fatal(err)
		}
		r.servers = append(r.servers, s)
	}
	t.Cleanup(r.end)
	for rank, node := range at {
		file, err := r.servers[node].Open(rank)
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command(command[0], command[1:]...)
		c.Env = append(r.servers[node].Env(os.Environ(), rank, 3), env...)
		c.ExtraFiles = []*os.File{file}
		r.out = append(r.out, &bytes.Buffer{})
		c.Stdout, c.Stderr = r.out[rank], r.out[rank]
		err = c.Start()
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		r.ranks = append(r.ranks, c)
		r.mu.Unlock()
	}
	return r
}

// up is the network: it carries a message to the Root and what comes of it to the nodes.
func (r *run) up(t *testing.T, node int, up pmi.Up) {
	r.mu.Lock()
	sends, events, err := r.root.Step(node, up)
	r.mu.Unlock()
	if err != nil {
		t.Error(err)
	}
	for _, ev := range events {
		r.event(ev)
	}
	for _, s := range sends {
		for i, server := range r.servers {
			if s.Node == pmi.All || s.Node == i {
				server.Down(s.Down)
			}
		}
	}
}

// event remembers what happens, and ends all ranks at the first end.
func (r *run) event(ev pmi.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, ev)
	if _, ok := ev.(pmi.End); ok {
		r.kill()
	}
}

// kill ends the ranks that are there; r.mu is held.
func (r *run) kill() {
	for _, c := range r.ranks {
		_ = c.Process.Kill() // it may be gone
	}
}

// wait waits for all ranks.
func (r *run) wait(t *testing.T) {
	timer := time.AfterFunc(deadline, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		t.Errorf("%v: no end after %v; found %+v", r.at, deadline, r.events)
		r.kill()
	})
	defer timer.Stop()
	for _, c := range r.ranks {
		var exit *exec.ExitError
		if err := c.Wait(); err != nil && !errors.As(err, &exit) {
			t.Error(err)
		}
	}
	for _, s := range r.servers {
		s.wg.Wait() // the ends of all ranks have been seen
	}
}

func (r *run) end() {
	r.mu.Lock()
	r.kill()
	r.mu.Unlock()
	for _, s := range r.servers {
		s.Close()
	}
}

// want checks what a rank has said, and its exit code.
func (r *run) want(t *testing.T, rank, code int, text string) {
	t.Helper()
	ws, _ := r.ranks[rank].ProcessState.Sys().(syscall.WaitStatus)
	if found := r.out[rank].String(); found != text || ws.Signaled() || ws.ExitStatus() != code {
		t.Errorf("%v: rank %d: found %q, %v, want %q, exit code %d", r.at, rank, found, r.ranks[rank].ProcessState, text, code)
	}
}

// count counts the events of this one's type.
func (r *run) count(like pmi.Event) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, ev := range r.events {
		if fmt.Sprintf("%T", ev) == fmt.Sprintf("%T", like) {
			n++
		}
	}
	return n
}

// ends are the events that tell of the end by the rank that was first; the others are lost when they are killed.
func (r *run) ends() []pmi.End {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []pmi.End
	for _, ev := range r.events {
		if e, ok := ev.(pmi.End); ok && (len(list) == 0 || e == list[0]) {
			list = append(list, e)
		}
	}
	return list
}
