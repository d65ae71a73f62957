package agent

import (
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/byssus-hpc/byssus/internal/act/control"
)

// shells is a node on which a launcher runs, whose remote shells are called here.
type shells struct {
	node *Node
	l    *launcher
	path string
	said chan control.Spawn
}

func newShells(t *testing.T) *shells {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shell")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(shellVariable, path)
	s := &shells{path: path, said: make(chan control.Spawn, 100)}
	s.l = newLauncher(listener, func(body any) { s.said <- body.(control.Spawn) })
	s.node = &Node{number: 7, present: &Server{started: started{launcher: s.l}}}
	s.l.wg.Go(s.l.serve)
	return s
}

// TestShell: each remote shell gets the exit code of its own command, in whatever order they end; codes of another start or of
// a command that nobody waits for are nobody's.
func TestShell(t *testing.T) {
	s := newShells(t)
	const commands = 20
	var wg sync.WaitGroup
	for i := range commands {
		wg.Go(func() {
			if code, err := Shell(fmt.Sprint("node", i), []string{"daemon", fmt.Sprint(i)}); err != nil || code != i {
				t.Errorf("command %d: exit code %d, %v", i, code, err)
			}
		})
	}
	var asked []control.Spawn
	for range commands {
		asked = append(asked, <-s.said)
	}
	s.node.spawned(6, control.Spawned{Number: asked[0].Number, Code: 99})
	s.node.spawned(7, control.Spawned{Number: commands + 1, Code: 99})
	for _, w := range asked {
		var of int
		if _, err := fmt.Sscanf(w.Command, "daemon %d", &of); err != nil || w.Node != fmt.Sprint("node", of) {
			t.Errorf("%+v: %v", w, err)
		}
		s.node.spawned(7, control.Spawned{Number: w.Number, Code: of})
		s.node.spawned(7, control.Spawned{Number: w.Number, Code: 99}) // a second time
	}
	wg.Wait()
	s.l.close()
}

// TestShellOfAnOverStart: when the start is over all remote shells end, those too that wait, and whoever is connected and says
// nothing does not keep it.
func TestShellOfAnOverStart(t *testing.T) {
	s := newShells(t)
	silent, err := net.Dial("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for heard := 0; heard == 0; runtime.Gosched() {
		s.l.mu.Lock()
		heard = len(s.l.asking)
		s.l.mu.Unlock()
	}
	ended := make(chan error, 1)
	go func() {
		code, err := Shell("node", []string{"daemon"})
		if err == nil && code != failedCommand {
			err = fmt.Errorf("exit code %d", code)
		}
		ended <- err
	}()
	<-s.said
	s.l.close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if code, err := Shell("node", []string{"daemon"}); err == nil || code != failedCommand {
		t.Errorf("after the end: exit code %d, %v", code, err)
	}
}

// TestShellRefuses: what is no request is answered by the end of the connection, and harms nobody else.
func TestShellRefuses(t *testing.T) {
	s := newShells(t)
	defer s.l.close()
	for _, said := range []string{"hello\n", "{\"Node\":7}\n", "{", strings.Repeat(" ", longestBrief) + "{}"} {
		c, err := net.Dial("unix", s.path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(said)) // it may not be read to its end
		if err := c.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 10)); n != 0 || err == nil {
			t.Errorf("%.10q: answered", said)
		}
		c.Close()
	}
	done := make(chan int)
	go func() {
		code, _ := Shell("node", []string{"daemon"})
		done <- code
	}()
	s.node.spawned(7, control.Spawned{Number: (<-s.said).Number, Code: 3})
	if code := <-done; code != 3 {
		t.Errorf("exit code %d", code)
	}
}
