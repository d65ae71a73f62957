package cli_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/wire/client"
)

// shells plays a program that writes its checkpoints itself, both ranks of it in one process. Its arguments are settings:
//
//	last=N    it ends after step N
//	die=N     it kills itself at step N, unless it has restarted
//	wait=N    after step N it waits until there is a file go
//	bad=NAME  it cannot read this dataset
//	output=1  what it writes are results
type shells struct {
	set map[string]string
	run uint64
}

const shellRanks = 2

func playShells() {
	p := &shells{set: map[string]string{}}
	for _, a := range os.Args[1:] {
		k, v, _ := strings.Cut(a, "=")
		p.set[k] = v
	}
	cwd, err := os.Getwd()
	must(err)
	p.run = p.ask(client.Request{Type: client.ReqBegin, NRanks: shellRanks}, cwd).Run
	for rank := range uint32(shellRanks) {
		p.ask(client.Request{Type: client.ReqJoin, Rank: rank, NRanks: shellRanks})
	}
	first := p.restart()
	for step := first + 1; step <= p.number("last"); step++ {
		p.step(step, first > 0)
	}
	p.ask(client.Request{Type: client.ReqEnd})
	fmt.Println("done")
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "shells:", err)
		os.Exit(1)
	}
}

func (p *shells) number(name string) int {
	n, _ := strconv.Atoi(p.set[name])
	return n
}

// restart returns the step that it goes on behind.
func (p *shells) restart() int {
	a := p.ask(client.Request{Type: client.ReqNewest})
	if a.Dataset == 0 {
		fmt.Println("begins")
		return 0
	}
	step := 0
	for rank := range uint32(shellRanks) {
		found := p.ask(client.Request{Type: client.ReqFetch, Rank: rank, NRanks: shellRanks, Dataset: a.Dataset, Flags: a.Flags})
		if len(found.Text) < 2 {
			must(fmt.Errorf("rank %d has no files: %q", rank, found.Text))
		}
		b, err := os.ReadFile(filepath.Join(found.Text[0], found.Text[1]))
		must(err)
		step, err = strconv.Atoi(strings.TrimSpace(string(b)))
		must(err)
	}
	valid := uint32(1)
	if a.Text[0] == p.set["bad"] {
		valid = 0
	}
	p.ask(client.Request{Type: client.ReqRead, Dataset: a.Dataset, Valid: valid})
	if valid == 0 {
		return p.restart()
	}
	fmt.Println("restarts from", a.Text[0])
	return step
}

func (p *shells) step(step int, restarted bool) {
	if a := p.ask(client.Request{Type: client.ReqExit}); a.Valid == 1 {
		fmt.Println("told to end:", strings.Join(a.Text, " "))
		p.ask(client.Request{Type: client.ReqEnd})
		os.Exit(0)
	}
	if step == p.number("die") && !restarted {
		must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
		select {}
	}
	flags := uint32(client.FlagCheckpoint)
	if p.set["output"] != "" {
		flags = client.FlagOutput
	}
	d := p.ask(client.Request{Type: client.ReqOpen, Flags: flags}, fmt.Sprintf("step.%d", step))
	for rank := range uint32(shellRanks) {
		path := fmt.Sprintf("step.%d/rank_%d", step, rank)
		top := d.Text[1]
		if d.Flags&client.FlagBypass == 0 { // in the cache of its node
			top = filepath.Join(top, fmt.Sprintf("rank-%05d.files", rank))
		}
		to := filepath.Join(top, path)
		must(os.MkdirAll(filepath.Dir(to), 0o700))
		must(os.WriteFile(to, fmt.Appendln(nil, step), 0o600))
		p.ask(client.Request{Type: client.ReqWritten, Rank: rank, Dataset: d.Dataset, Valid: 1, NFiles: 1, Bytes: 2}, path)
	}
	for step == p.number("wait") {
		if _, err := os.Stat("go"); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (p *shells) ask(r client.Request, text ...string) client.Answered {
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: os.Getenv(agent.ClientVariable), Net: "unixpacket"})
	must(err)
	defer c.Close()
	r.Run = p.run
	_, err = c.Write(client.Asked{Request: r, Text: text}.Packet())
	must(err)
	buf := make([]byte, client.MaxPacket)
	n, err := c.Read(buf)
	must(err)
	var a client.Answered
	size, err := binary.Decode(buf[:n], binary.LittleEndian, &a.Answer)
	must(err)
	if rest := strings.TrimSuffix(string(buf[size:n]), "\x00"); rest != "" {
		a.Text = strings.Split(rest, "\x00")
	}
	if a.Refused != 0 {
		must(fmt.Errorf("request %d: %s", r.Type, strings.Join(a.Text, " ")))
	}
	return a
}
