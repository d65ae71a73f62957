// go_jacobi is a Go program that calls MPI through cgo: a Jacobi iteration whose rows are computed by goroutines, while
// everything else that the Go runtime does goes on: collections, preemption of loops without calls, timers, the network
// poller (pipes and socket pairs with deadlines), signals by signal.Notify, its own path. What it prints depends on its
// arguments alone, as app.h says of the C programs; it checks the rest itself and says FAIL.
//
// It is built once position-independent and once at a fixed address, where the runtime's system calls come from low
// addresses.
package main

/*
#include <mpi.h>
static void mpi_start(int *rank, int *size)
{
	int level;
	MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, rank);
	MPI_Comm_size(MPI_COMM_WORLD, size);
}
static void halo(double *up, double *first, double *last, double *down, int n, int rank, int size)
{
	int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
	MPI_Sendrecv(first, n, MPI_DOUBLE, above, 1, down, n, MPI_DOUBLE, below, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Sendrecv(last, n, MPI_DOUBLE, below, 2, up, n, MPI_DOUBLE, above, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static double greatest(double x)
{
	double all;
	MPI_Allreduce(&x, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return all;
}
static void mpi_end(void) { MPI_Finalize(); }
static void mpi_abort(void) { MPI_Abort(MPI_COMM_WORLD, 3); }
*/
import "C"

import (
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	columns = 200
	rows    = 60 // of each rank
	workers = 3
)

// grid is the part of one rank, with a row of each neighbour.
type grid [rows + 2][columns]float64

type program struct {
	rank, size  int
	iters       int
	pace        int // microseconds of sleep in each iteration
	seed        uint64
	now, next   *grid
	jobs        chan [2]int
	done        sync.WaitGroup
	ticks       atomic.Int64
	ended       atomic.Bool
	signals     chan os.Signal
	echo        []io.ReadWriter // ends of pipes and sockets behind which a goroutine answers
	garbage     [][]byte
	exe         string
	background  sync.WaitGroup
	spins, tell atomic.Int64
}

func (p *program) fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "FAIL rank %d: %s\n", p.rank, fmt.Sprintf(format, args...))
	C.mpi_abort()
}

func (p *program) result(iter int, name string, value uint64) {
	line := fmt.Sprintf("R %d %d %s %016x", p.rank, iter, name, value)
	h := fnv.New64a()
	io.WriteString(h, line) // to a sum
	sum := h.Sum64()
	line += fmt.Sprintf(" %08x\n", uint32(sum^sum>>32))
	fmt.Print(line)
	prefix := os.Getenv("TEST_RESULTS")
	if prefix == "" {
		return
	}
	f, err := os.OpenFile(fmt.Sprintf("%s.%d", prefix, p.rank), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.WriteString(line)
		f.Close()
	}
	if err != nil {
		p.fail("results: %v", err)
	}
}

// worker computes the rows that it is given.
func (p *program) worker() {
	for job := range p.jobs {
		for i := job[0]; i < job[1]; i++ {
			for k := 1; k < columns-1; k++ {
				p.next[i][k] = 0.25 * (p.now[i-1][k] + p.now[i+1][k] + p.now[i][k-1] + p.now[i][k+1])
			}
		}
		p.done.Done()
	}
}

// step makes one iteration and returns by how much the values have changed at most.
func (p *program) step() float64 {
	g := p.now
	C.halo((*C.double)(&g[0][0]), (*C.double)(&g[1][0]), (*C.double)(&g[rows][0]), (*C.double)(&g[rows+1][0]), columns,
		C.int(p.rank), C.int(p.size))
	p.done.Add(rows / 10)
	for i := 1; i <= rows; i += 10 {
		p.jobs <- [2]int{i, i + 10}
	}
	p.done.Wait()
	change := 0.0
	for i := 1; i <= rows; i++ {
		p.next[i][0], p.next[i][columns-1] = p.now[i][0], p.now[i][columns-1]
		for k := range columns {
			change = math.Max(change, math.Abs(p.next[i][k]-p.now[i][k]))
		}
	}
	p.now, p.next = p.next, p.now
	return float64(C.greatest(C.double(change)))
}

// ticker counts; nobody depends on how often.
func (p *program) ticker() {
	defer p.background.Done()
	t := time.NewTicker(2 * time.Millisecond)
	defer t.Stop()
	for !p.ended.Load() {
		<-t.C
		p.ticks.Add(1)
	}
}

// spin has a loop without calls: only a signal can preempt it.
func (p *program) spin() {
	defer p.background.Done()
	for !p.ended.Load() {
		x := uint64(p.spins.Add(1))
		for range 2_000_000 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		p.tell.Store(int64(x))
		time.Sleep(time.Millisecond)
	}
}

// answer sends back what comes.
func answer(rw io.ReadWriter) {
	b := make([]byte, 64)
	for {
		n, err := rw.Read(b)
		if err == nil {
			_, err = rw.Write(b[:n])
		}
		if err != nil {
			return
		}
	}
}

type duplex struct {
	io.Reader
	io.Writer
}

func (p *program) openEchoes() {
	r1, w1, err := os.Pipe()
	r2, w2, err2 := os.Pipe()
	pair, err3 := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil || err2 != nil || err3 != nil {
		p.fail("%v %v %v", err, err2, err3)
	}
	go answer(duplex{r1, w2})
	p.echo = append(p.echo, duplex{r2, w1})
	var end [2]net.Conn
	for i := range end {
		f := os.NewFile(uintptr(pair[i]), "pair")
		end[i], err = net.FileConn(f)
		f.Close()
		if err != nil {
			p.fail("%v", err)
		}
	}
	go answer(end[1])
	p.echo = append(p.echo, end[0])
}

// converse sends a word through each echo; a read whose deadline has passed must say so.
func (p *program) converse(i int) {
	for k, e := range p.echo {
		word := fmt.Sprintf("%d %d", i, k)
		b := make([]byte, len(word))
		if _, err := io.WriteString(e, word); err != nil {
			p.fail("iteration %d: write: %v", i, err)
		}
		if _, err := io.ReadFull(e, b); err != nil || string(b) != word {
			p.fail("iteration %d: read: %q, %v", i, b, err)
		}
	}
	conn := p.echo[1].(net.Conn)
	conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := conn.Read(make([]byte, 1)); !os.IsTimeout(err) {
		p.fail("iteration %d: deadline: %v", i, err)
	}
	conn.SetReadDeadline(time.Time{})
}

// signalled sends itself a signal, which must come by the channel.
func (p *program) signalled(i int) {
	for _, s := range []syscall.Signal{syscall.SIGUSR2, syscall.SIGHUP} {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			p.fail("iteration %d: kill: %v", i, err)
		}
		if got := <-p.signals; got != s {
			p.fail("iteration %d: signal %v, want %v", i, got, s)
		}
	}
}

func (p *program) look(i int) {
	link, err := os.Readlink("/proc/self/exe")
	if err != nil || link != p.exe || filepath.Base(link) != filepath.Base(os.Args[0]) {
		p.fail("iteration %d: /proc/self/exe: %s, %v; at first %s", i, link, err, p.exe)
	}
	select {
	case <-time.After(time.Millisecond):
	case <-time.After(time.Hour):
		p.fail("iteration %d: an hour has passed", i)
	}
}

// litter makes work for the collector, and keeps some of it for later comparison.
func (p *program) litter(i int) {
	for range 50 {
		b := make([]byte, 20000)
		b[i%len(b)] = byte(i)
		p.garbage[i%len(p.garbage)] = b
	}
	if b := p.garbage[i%len(p.garbage)]; b[i%len(b)] != byte(i) {
		p.fail("iteration %d: memory is wrong", i)
	}
}

func (p *program) init() {
	for i := range p.now {
		for k := range p.now[i] {
			x := (p.seed+uint64(p.rank*rows+i))*0x9e3779b97f4a7c15 + uint64(k)*0xbf58476d1ce4e5b9
			p.now[i][k] = float64(x>>40) / 1000
			p.next[i][k] = p.now[i][k]
		}
	}
	p.openEchoes()
	signal.Notify(p.signals, syscall.SIGUSR2, syscall.SIGHUP)
	p.background.Add(2)
	go p.ticker()
	go p.spin()
	for range workers {
		go p.worker()
	}
}

func (p *program) checksum() uint64 {
	h := fnv.New64a()
	for i := 1; i <= rows; i++ {
		for _, x := range p.now[i] {
			fmt.Fprintf(h, "%x ", math.Float64bits(x)) // to a sum
		}
	}
	return h.Sum64()
}

func main() {
	runtime.LockOSThread()
	debug.SetGCPercent(20)
	p := &program{now: new(grid), next: new(grid), jobs: make(chan [2]int), signals: make(chan os.Signal, 4), garbage: make([][]byte, 64)}
	flag.IntVar(&p.iters, "iters", 50, "iterations")
	flag.IntVar(&p.pace, "pace", 2000, "sleep in each iteration, in microseconds")
	flag.Uint64Var(&p.seed, "seed", 1, "of the values")
	flag.Parse()
	var rank, size C.int
	C.mpi_start(&rank, &size)
	p.rank, p.size = int(rank), int(size)
	p.exe, _ = os.Readlink("/proc/self/exe")
	p.init()
	for i := range p.iters {
		change := p.step()
		p.litter(i)
		p.converse(i)
		p.signalled(i)
		p.look(i)
		time.Sleep(time.Duration(p.pace) * time.Microsecond)
		p.result(i, "change", math.Float64bits(change))
		if p.rank == 0 {
			fmt.Printf("iter %d\n", i+1)
		}
	}
	p.result(p.iters, "grid", p.checksum())
	p.ended.Store(true)
	p.background.Wait()
	if p.ticks.Load() == 0 || p.spins.Load() == 0 {
		p.fail("%d ticks, %d spins", p.ticks.Load(), p.spins.Load())
	}
	C.mpi_end()
}
