package agent

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/host/rundir"
	"github.com/byssus-hpc/byssus/internal/host/spawn"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// shellVariable tells the launcher's remote shell, which is byssus shell, where its agent listens.
const shellVariable = "BYSSUS_SHELL"

// failedCommand is what a remote shell ends with that could not start a command, as ssh does.
const failedCommand = 255

// launcher is an MPI's own launcher that runs on this node, and starts a daemon on each other by a remote shell. That asks this
// agent, which asks the coordinator, which asks the agent there: so there are no passwords, and all of them end when they are
// told to.
type launcher struct {
	listener *net.UnixListener
	wg       sync.WaitGroup
	say      func(any)

	mu      sync.Mutex
	last    int               // number of a command
	waiting map[int]chan int  // for its exit code; nil: the start is over
	asking  map[net.Conn]bool // which have not said yet what they want
}

func newLauncher(listener *net.UnixListener, say func(any)) *launcher {
	return &launcher{listener: listener, say: say, waiting: map[int]chan int{}, asking: map[net.Conn]bool{}}
}

// request is what a remote shell asks for.
type request struct{ Node, Command string }

// launch starts the launcher.
func (n *Node) launch(number uint64, o control.Launch) error {
	s := n.server(number)
	if s == nil {
		return fmt.Errorf("agent: start %d is over", number)
	}
	return s.started.launch(o, func(body any) { n.say(control.Message{Start: number, Body: body}) })
}

func (p *started) launch(o control.Launch, say func(any)) error {
	path := filepath.Join(p.cfg.Dir, "shell")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return fmt.Errorf("agent: socket of the remote shell: %w", err)
	}
	l := newLauncher(listener, say)
	p.mu.Lock()
	p.launcher = l
	p.mu.Unlock()
	l.wg.Go(l.serve)
	if o.Script {
		return p.script(o, path, say)
	}
	hosts := filepath.Join(p.cfg.Dir, "hosts")
	if err := os.WriteFile(hosts, []byte(strings.Join(o.Hosts, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("agent: list of hosts: %w", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("agent: own executable: %w", err)
	}
	// The sequential mapper puts each rank where its image is. Together with binding it crashes mpirun 4.1 at its end.
	cmd := spawn.Command{Args: o.Command, Dir: o.Dir, Env: append(slices.Clone(o.Environ), shellVariable+"="+path,
		"OMPI_MCA_orte_leave_session_attached=1", // daemons that go into the background outlive a launcher whose node is silent
		"OMPI_MCA_plm=rsh", "OMPI_MCA_plm_rsh_agent="+exe+" shell", "OMPI_MCA_plm_rsh_no_tree_spawn=1",
		"OMPI_MCA_rmaps=seq", "OMPI_MCA_hwloc_base_binding_policy=none", "OMPI_MCA_orte_default_hostfile="+hosts)}
	return p.tool(0, cmd, func(code, signal int) { say(control.Launched{Code: code, Signal: signal}) })
}

// script starts a command that starts launchers by itself: those of both MPIs find the nodes, and a remote shell, in the environment.
func (p *started) script(o control.Launch, socket string, say func(any)) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("agent: own executable: %w", err)
	}
	shell, hydra, orte := filepath.Join(p.cfg.Dir, "rsh"), filepath.Join(p.cfg.Dir, "hosts"), filepath.Join(p.cfg.Dir, "hosts.openmpi")
	for _, f := range []struct {
		path, text string
		mode       os.FileMode
	}{
		{shell, "#!/bin/sh\nexec '" + strings.ReplaceAll(exe, "'", `'\''`) + "' shell \"$@\"\n", 0o700},
		{hydra, strings.Join(o.Hosts, "\n") + "\n", 0o600},
		{orte, strings.Join(o.Hosts, " slots=1\n") + " slots=1\n", 0o600},
	} {
		if err := os.WriteFile(f.path, []byte(f.text), f.mode); err != nil {
			return fmt.Errorf("agent: %w", err)
		}
	}
	cmd := spawn.Command{Args: o.Command, Dir: o.Dir, Env: append(slices.Clone(o.Environ), shellVariable+"="+socket,
		"BYSSUS_HOSTS="+strings.Join(o.Hosts, ","),
		"HYDRA_LAUNCHER=rsh", "HYDRA_LAUNCHER_EXEC="+shell, "HYDRA_HOST_FILE="+hydra,
		"OMPI_MCA_orte_leave_session_attached=1", "OMPI_MCA_plm=rsh", "OMPI_MCA_plm_rsh_agent="+exe+" shell", "OMPI_MCA_plm_rsh_no_tree_spawn=1",
		"OMPI_MCA_rmaps_base_mapping_policy=node:oversubscribe", "OMPI_MCA_hwloc_base_binding_policy=none", "OMPI_MCA_orte_default_hostfile="+orte)}
	return p.tool(0, cmd, func(code, signal int) { say(control.Launched{Code: code, Signal: signal}) })
}

// tool starts an MPI's launcher, or its daemon, with what it hands on to the ranks of this node.
func (p *started) tool(number int, cmd spawn.Command, ended func(code, signal int)) error {
	dir := p.sessionDir()
	if err := rundir.Make(dir); err != nil {
		return err
	}
	cmd.Args = p.cfg.routed(cmd.Args)
	cmd.Env = append(slices.Clone(cmd.Env), "BYSSUS_AGENT="+SocketPath(p.cfg.Dir), "BYSSUS_RUNDIR="+p.cfg.Dir,
		ClientVariable+"="+p.cfg.Clients, "OMPI_MCA_orte_tmpdir_base="+dir)
	return p.crew.start(number, cmd, ended)
}

// sessionDir is the directory in which a launcher and its daemons make theirs, and which goes with the start: the same on all
// nodes, since the launcher tells its daemons, and short, since there are sockets in it.
func (p *started) sessionDir() string {
	return sessionDir(p.cfg.JobID[:], fmt.Sprintf("%x", p.cfg.Start))
}

func sessionDir(job []byte, start string) string {
	return fmt.Sprintf("/tmp/byssus.%x.%s", job[:4], start)
}

const sharedMemory = "/dev/shm"

func memoryDir(job []byte, start string) string {
	return fmt.Sprintf("%s/byssus.%x.%s", sharedMemory, job[:4], start)
}

// MemoryDir is where the ranks of a start have the memory that they share on a node; empty: this machine has no place for it.
func MemoryDir(job [16]byte, start uint64) string {
	if st, err := os.Stat(sharedMemory); err != nil || st.Mode()&fs.ModeSticky == 0 {
		return ""
	}
	return memoryDir(job[:], fmt.Sprintf("%x", start))
}

// termBits: the number of a start is the job's term, and so many bits that count the starts in it.
const termBits = 16

// tidyStarts removes what ranks and launchers of these starts of a job have made on this node.
func tidyStarts(job []byte, which func(start uint64) bool) {
	left, _ := filepath.Glob(sessionDir(job, "*"))
	memory, _ := filepath.Glob(memoryDir(job, "*"))
	for _, dir := range append(left, memory...) {
		start, err := strconv.ParseUint(filepath.Ext(dir)[1:], 16, 64)
		if err == nil && which(start) {
			_ = os.RemoveAll(dir) // what others have put there stays
		}
	}
}

// serve hears remote shells of our own user until the start is over.
func (l *launcher) serve() {
	eachConnection(l.listener, func(c *net.UnixConn) {
		l.wg.Go(func() {
			defer c.Close()
			if _, err := peer(c); err == nil {
				l.grant(c)
			}
		})
	})
}

// grant has a command started, and tells the remote shell its exit code.
func (l *launcher) grant(c net.Conn) {
	w, err := l.hear(c)
	if err != nil {
		return
	}
	code := make(chan int, 1)
	l.mu.Lock()
	l.last++
	number := l.last
	if l.waiting == nil { // the start is over
		code <- failedCommand
	} else {
		l.waiting[number] = code
	}
	l.mu.Unlock()
	l.say(control.Spawn{Number: number, Node: w.Node, Command: w.Command})
	fmt.Fprintln(c, <-code) // who asked may have gone
}

// hear reads what a remote shell wants. It ends with the start.
func (l *launcher) hear(c net.Conn) (w request, err error) {
	l.mu.Lock()
	over := l.waiting == nil
	if !over {
		l.asking[c] = true
	}
	l.mu.Unlock()
	if over {
		return request{}, net.ErrClosed
	}
	err = json.NewDecoder(io.LimitReader(c, longestBrief)).Decode(&w)
	l.mu.Lock()
	delete(l.asking, c)
	l.mu.Unlock()
	return w, err
}

// spawned takes in how a command has ended that the launcher on this node wanted.
func (n *Node) spawned(number uint64, m control.Spawned) {
	s := n.server(number)
	if s == nil {
		return
	}
	if l := s.started.shells(); l != nil {
		l.ended(m)
	}
}

// ended takes in how a command has ended.
func (l *launcher) ended(m control.Spawned) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if code := l.waiting[m.Number]; code != nil {
		code <- m.Code
		delete(l.waiting, m.Number)
	}
}

// close lets all remote shells end.
func (l *launcher) close() {
	l.listener.Close()
	l.mu.Lock()
	for _, code := range l.waiting {
		code <- failedCommand
	}
	l.waiting = nil
	for c := range l.asking {
		c.SetReadDeadline(time.Now())
	}
	l.mu.Unlock()
	l.wg.Wait()
}

// exec starts what a launcher elsewhere wants on this node.
func (n *Node) exec(number uint64, o control.Exec) {
	const bySignal = 128
	ended := func(code, signal int) {
		if signal != 0 {
			code = bySignal + signal
		}
		n.say(control.Message{Start: number, Body: control.Executed{Number: o.Number, Code: code}})
	}
	s := n.server(number)
	if s == nil {
		ended(failedCommand, 0)
		return
	}
	cmd := spawn.Command{Args: []string{"/bin/sh", "-c", o.Command}, Dir: o.Dir, Env: o.Environ}
	if err := s.started.tool(o.Number, cmd, ended); err != nil {
		ui.Say(os.Stderr, err.Error())
		ended(failedCommand, 0)
	}
}

// Shell is the remote shell of a launcher: it has a command started on a node, and returns its exit code.
func Shell(node string, command []string) (int, error) {
	c, err := net.Dial("unix", os.Getenv(shellVariable))
	if err != nil {
		return failedCommand, fmt.Errorf("agent: remote shell: %w", err)
	}
	defer c.Close()
	if err := json.NewEncoder(c).Encode(request{node, strings.Join(command, " ")}); err != nil {
		return failedCommand, fmt.Errorf("agent: remote shell: %w", err)
	}
	var code int
	if _, err := fmt.Fscanln(bufio.NewReader(c), &code); err != nil {
		return failedCommand, fmt.Errorf("agent: remote shell: the agent is gone: %w", err)
	}
	return code, nil
}
