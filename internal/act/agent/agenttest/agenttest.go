// Package agenttest plays ranks and launchers for tests, where the real ones would be slow or cannot be made to fail:
// a rank that counts steps and speaks the protocol, and an mpirun that starts such ranks.
//
// The "application" is a real program's name followed by settings, as in: true steps=50 die=20:1
//
//	steps=N        ends after N steps of 4 ms; rank 0 prints the number of steps at the end
//	exit=C         with exit code C
//	die=K[:R]      rank R (0) kills itself at step K, unless it has been restarted
//	always=K       dies at step K in every start
//	refuse=TEXT    has something that cannot be saved
//	nospace=1      cannot write its image
//	badimage=1     writes an image of another job, and says that it is well
//	norestore=N    cannot go on from checkpoint N
//	wait=1         never meets: it waits in point-to-point
package agenttest

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/byssus-hpc/byssus/internal/store/format/imagetest"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// step is how long a step takes.
const step = 4 * time.Millisecond

// rank is a rank that only counts.
type rank struct {
	id, n     int
	set       map[string]string
	app       []string
	restarted bool
	conn      *net.UnixConn
	page      []byte

	mu    sync.Mutex // held while the "threads" are stopped
	steps uint64
	epoch uint64
	held  bool
}

// Rank is the main program of a rank.
func Rank() {
	r := &rank{n: number("BYSSUS_NRANKS"), id: number("PMI_RANK"), set: map[string]string{}}
	args := os.Args[1:]
	if args[0] == "--restart" {
		r.restarted = true
		r.load(args[1])
	} else {
		r.app = args[1:]
	}
	for _, a := range r.app {
		if k, v, ok := strings.Cut(a, "="); ok {
			r.set[k] = v
		}
	}
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: os.Getenv("BYSSUS_AGENT"), Net: "unixpacket"})
	check(err)
	r.conn = c
	r.mapPage()
	r.hello()
	go r.listen()
	r.count()
}

func number(name string) int {
	n, err := strconv.Atoi(os.Getenv(name))
	check(err)
	return n
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake rank:", err)
		os.Exit(abi.ExitInternal)
	}
}

func (r *rank) send(typ uint16, record any, text string) {
	m := abi.Message{Header: abi.Header{Type: typ, Rank: uint32(r.id), Epoch: r.epoch}}
	if record != nil {
		m.Body = abi.Encode(record, text)
	} else {
		m.Body = []byte(text)
	}
	_, err := r.conn.Write(abi.Packet(m))
	check(err)
}

func (r *rank) mapPage() {
	f, err := os.OpenFile(filepath.Join(os.Getenv("BYSSUS_RUNDIR"), fmt.Sprintf("page.%d", r.id)), os.O_RDWR, 0)
	check(err)
	r.page, err = syscall.Mmap(int(f.Fd()), 0, abi.PageBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	check(err)
	check(f.Close())
}

func (r *rank) hello() {
	h := abi.Hello{PID: uint32(os.Getpid()), NRanks: uint32(r.n), ABIVersion: abi.Version, Start: uint64(number("BYSSUS_START_NUMBER"))}
	if r.restarted {
		h.Restarted = 1
	}
	r.send(abi.MsgHello, h, "")
	buf := make([]byte, 4096)
	n, err := r.conn.Read(buf)
	check(err)
	m, err := abi.Parse(buf[:n])
	check(err)
	if m.Type != abi.MsgWelcome {
		check(fmt.Errorf("refused: %s", m.Body))
	}
	if r.restarted {
		r.send(abi.MsgRestored, abi.Restored{Bytes: 1}, "")
	} else {
		r.send(abi.MsgInit, nil, "a fake MPI")
	}
}

// count is the application.
func (r *rank) count() {
	limit, err := strconv.ParseUint(r.set["steps"], 10, 64)
	check(err)
	for ; ; time.Sleep(step) {
		r.mu.Lock()
		r.steps++
		s := r.steps
		r.mu.Unlock()
		r.maybeDie(s)
		if s >= limit {
			break
		}
	}
	r.mu.Lock() // no checkpoint any more
	if r.id == 0 {
		fmt.Println("steps:", r.steps)
	}
	code, _ := strconv.Atoi(r.set["exit"])
	if code == 0 {
		r.send(abi.MsgFinalizing, nil, "")
		r.send(abi.MsgFini, nil, "")
	}
	binary.LittleEndian.PutUint64(r.page[unsafe.Offsetof(abi.Page{}.ExitCode):], uint64(code))
	binary.LittleEndian.PutUint64(r.page[unsafe.Offsetof(abi.Page{}.Phase):], abi.PhaseEnded)
	os.Exit(code)
}

func (r *rank) maybeDie(s uint64) {
	at, who, _ := strings.Cut(r.set["die"], ":")
	if n, err := strconv.ParseUint(at, 10, 64); err == nil && !r.restarted && n == s && (who == strconv.Itoa(r.id) || who == "" && r.id == 0) {
		r.kill()
	}
	if n, err := strconv.ParseUint(r.set["always"], 10, 64); err == nil && s >= n {
		r.kill()
	}
}

func (r *rank) kill() {
	check(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	select {}
}

// listen is the helper thread.
func (r *rank) listen() {
	buf := make([]byte, abi.HeaderBytes+abi.MaxBody)
	for {
		n, err := r.conn.Read(buf)
		if err != nil || n == 0 { // the agent is gone, and the job with it
			os.Exit(abi.ExitInternal)
		}
		m, err := abi.Parse(buf[:n])
		check(err)
		r.message(m)
	}
}

func (r *rank) message(m abi.Message) {
	switch m.Type {
	case abi.MsgRequest:
		r.epoch = m.Epoch
		r.send(abi.MsgClocks, nil, string(abi.Clocks(nil, []abi.Clock{{Comm: 1, Seq: 7, NMembers: uint32(r.n)}})[0]))
	case abi.MsgTargets:
		words, _, err := abi.ParseClocks(m.Body, 1)
		check(err)
		if r.set["wait"] != "" {
			binary.LittleEndian.PutUint64(r.page[unsafe.Offsetof(abi.Page{}.Where):], abi.WhereP2P)
			r.send(abi.MsgWaiting, abi.Waiting{Version: words[0], Where: abi.WhereP2P}, "")
			return
		}
		r.send(abi.MsgMet, abi.Met{Version: words[0]}, "")
	case abi.MsgStop:
		r.mu.Lock()
		r.held = true
		st, text := abi.Stopped{NThreads: 1}, r.set["refuse"]
		if text != "" {
			st.NRefusals = 1
		}
		r.send(abi.MsgStopped, st, text)
	case abi.MsgDrain:
		r.drain(m.Body)
	case abi.MsgResume, abi.MsgCancel:
		r.goOn()
	case abi.MsgExit:
		os.Exit(abi.ExitStopped)
	case abi.MsgEnd:
		check(syscall.Kill(os.Getpid(), syscall.SIGTERM))
	}
}

func (r *rank) goOn() {
	if r.held {
		r.held = false
		r.send(abi.MsgResumed, abi.Resumed{StallNS: 1000000}, "")
		r.mu.Unlock()
	}
}

// drain writes the image: the number of steps and the application's arguments.
func (r *rank) drain(body []byte) {
	var d abi.Drain
	_, err := abi.Decode(body, &d)
	check(err)
	memory := binary.LittleEndian.AppendUint64(nil, r.steps)
	memory = append(memory, strings.Join(r.app, "\n")...)
	im := abi.Image{NFiles: 1, Bytes: uint64(len(memory))}
	text := ""
	if r.set["badimage"] != "" {
		d.JobID[0]++
	}
	if err := imagetest.Write(abi.Text(d.Dir[:]), imagetest.Spec{Rank: r.id, NRanks: r.n, JobID: d.JobID, Checkpoint: d.Checkpoint, Memory: memory}); err != nil || r.set["nospace"] != "" {
		im.Status, text = 1, "write: no space left on device"
	}
	r.send(abi.MsgImage, im, text)
	if d.Flags&abi.DrainExitAfter == 0 {
		r.goOn()
	}
}

// load is the restart.
func (r *rank) load(dir string) {
	b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("rank-%05d.0.img", r.id)))
	check(err)
	var h abi.ImageHeader
	_, err = abi.Decode(b, &h)
	check(err)
	memory := b[h.DataOff : h.DataOff+h.DataLen]
	r.steps = binary.LittleEndian.Uint64(memory)
	r.app = strings.Split(abi.Text(memory[8:]), "\n")
	for _, a := range r.app {
		if a == fmt.Sprintf("norestore=%d", h.Checkpoint) {
			check(fmt.Errorf("cannot go on from checkpoint %d", h.Checkpoint))
		}
	}
}

// Mpirun is the main program of a launcher: it starts the ranks and, when one fails, ends the others and returns its
// code.
func Mpirun() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "--version" {
		fmt.Println("HYDRA build details:\n    Version:    4.0.0")
		os.Exit(0)
	}
	n, out := 1, os.Stdout
	for len(args) > 1 && strings.HasPrefix(args[0], "-") {
		var err error
		switch args[0] {
		case "-n":
			n, err = strconv.Atoi(args[1])
		case "-outfile-pattern":
			out, err = os.OpenFile(args[1], os.O_WRONLY, 0)
		}
		check(err)
		args = args[2:]
	}
	os.Exit(supervise(n, args, out))
}

func supervise(n int, args []string, out *os.File) int {
	var ranks []*exec.Cmd
	ended := make(chan int, n)
	for id := range n {
		c := exec.Command(args[0], args[1:]...)
		c.Env = append(os.Environ(), fmt.Sprintf("PMI_RANK=%d", id))
		c.Stdout, c.Stderr = out, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		check(c.Start())
		ranks = append(ranks, c)
		go func() {
			_ = c.Wait()
			code := c.ProcessState.ExitCode()
			if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				code = int(ws.Signal())
			}
			ended <- code
		}()
	}
	result := 0
	for range n {
		if code := <-ended; code != 0 && result == 0 {
			result = code
			for _, c := range ranks {
				_ = c.Process.Kill()
			}
		}
	}
	return result
}
