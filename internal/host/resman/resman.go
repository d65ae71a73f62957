// Package resman hands out the nodes of a job, and starts processes on them: hosts that a remote shell reaches, and the nodes
// of a sandbox.
//
// It guarantees: what a process on a node is told on its standard input is told to nobody else; its standard output and error
// are ours; when its end is asked for, what carries it (a remote shell, a connection) is ended, and with it, as far as that
// sees to it, the process.
package resman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/host/reap"
	"github.com/byssus-hpc/byssus/internal/host/sandbox"
)

// Nodes is what a resource manager has handed out.
type Nodes struct {
	List   []Node
	Spares int // of the list, at its end
	// Listen makes a socket, and tells at which address the nodes reach it.
	Listen func() (net.Listener, string, error)
}

// Node is a machine, or what stands for one.
type Node struct {
	Name  string
	Group string // what fails together with it; empty: nothing
	// Start starts a command there, which reads from input.
	Start func(command []string, input io.Reader) (*Process, error)
}

// Process is a process on a node.
type Process struct {
	wait func() error
	end  func()
}

// Wait waits for its end; an exit code other than 0 is an error.
func (p *Process) Wait() error { return p.wait() }

// End ends what carries the process.
func (p *Process) End() { p.end() }

var validHost = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// DefaultShell is ssh, which asks nobody for a password and does not wait for ever.
func DefaultShell() []string {
	return []string{"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"}
}

// Hosts are the nodes of a list of names, reached by a remote shell: its words, the host's name, then the command. Address is
// that of this machine.
func Hosts(names, shell []string, address string) (*Nodes, error) {
	if len(shell) == 0 {
		return nil, errors.New("resman: the remote shell is empty")
	}
	all := &Nodes{Listen: func() (net.Listener, string, error) {
		l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			err = fmt.Errorf("address %s is not of this machine, which has %s: %w", address, strings.Join(ownAddresses(), ", "), err)
		}
		if err != nil {
			return nil, "", fmt.Errorf("resman: %w", err)
		}
		return l, l.Addr().String(), nil
	}}
	for i, name := range names {
		switch {
		case !validHost.MatchString(name):
			return nil, fmt.Errorf("resman: host %q: wanted a name of letters, digits, '.', '_' and '-'", name)
		case slices.Contains(names[:i], name):
			return nil, fmt.Errorf("resman: host %s is named twice", name)
		}
		all.List = append(all.List, Node{name, "", func(command []string, input io.Reader) (*Process, error) {
			return remotely(append(slices.Clone(shell), name), command, input)
		}})
	}
	return all, nil
}

// ownAddresses are those of this machine; none when they cannot be told.
func ownAddresses() []string {
	var list []string
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			list = append(list, n.IP.String())
		}
	}
	return list
}

// remotely starts a command by a remote shell.
func remotely(shell, command []string, input io.Reader) (*Process, error) {
	words := append(shell, quoted(command)...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	child, err := reap.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("resman: %w", err)
	}
	wait := func() error {
		err := child.Wait()
		if err != nil {
			err = fmt.Errorf("%s: %w%s", words[0], err, meaning(cmd.ProcessState.ExitCode(), words[0], command[0]))
		}
		return err
	}
	return &Process{wait, child.Kill}, nil
}

// meaning is what the exit code of a remote shell says that is none of the command's own.
func meaning(code int, shell, program string) string {
	switch code {
	case 126:
		return fmt.Sprintf(": %s cannot be executed there", program)
	case 127:
		return fmt.Sprintf(": there is no %s there, wanted the same path on all hosts", program)
	case 255:
		return fmt.Sprintf(": %s has not reached it, for the reason above; it must get there without asking for a password", shell)
	}
	return ""
}

// quoted are words as a shell on the other side reads them.
func quoted(words []string) []string {
	var out []string
	for _, w := range words {
		out = append(out, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
	}
	return out
}

// Sandbox are the nodes of a sandbox that are up, its spares last. For nodes that are not up spares stand in.
func Sandbox(name string) (*Nodes, error) {
	c, err := sandbox.Open(name)
	if err != nil {
		return nil, err
	}
	list, err := c.Nodes()
	if err != nil {
		return nil, err
	}
	all := &Nodes{Listen: func() (net.Listener, string, error) { return c.Listen(sandbox.Login) }}
	wanted := 0
	for _, n := range list {
		if n.Name == sandbox.Login {
			continue
		}
		if !n.Spare {
			wanted++
		}
		if n.State != sandbox.Up {
			continue
		}
		all.List = append(all.List, Node{n.Name, n.Group, func(command []string, input io.Reader) (*Process, error) {
			return inSandbox(c, n.Name, command, input)
		}})
	}
	if len(all.List) == 0 {
		return nil, fmt.Errorf("resman: sandbox %s: no node is up", name)
	}
	all.Spares = max(len(all.List)-wanted, 0)
	return all, nil
}

func inSandbox(c *sandbox.Cluster, node string, command []string, input io.Reader) (*Process, error) {
	ctx, cancel := context.WithCancel(context.Background())
	p, err := c.Start(ctx, node, sandbox.Command{Args: command, Stdin: input, Stdout: os.Stdout, Stderr: os.Stderr})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("resman: %w", err)
	}
	return &Process{func() error {
		defer cancel()
		code, err := p.Wait()
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d", code)
		}
		return err
	}, cancel}, nil
}
