// Package resman hands out the nodes of a job, and starts processes on them: hosts that a remote shell reaches.
//
// It guarantees: what a process on a node is told on its standard input is told to nobody else; its standard output and error
// are ours; when its end is asked for, the remote shell that carries it is ended, and with it, as far as the shell sees to
// that, the process.
package resman

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// Node is a machine, or what stands for one.
type Node struct {
	Name  string
	shell []string // words before the command
}

var validHost = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// DefaultShell is ssh, which asks nobody for a password and does not wait for ever.
func DefaultShell() []string {
	return []string{"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"}
}

// Hosts are the nodes of a list of names, reached by a remote shell: its words, the host's name, then the command.
func Hosts(names, shell []string) ([]Node, error) {
	if len(shell) == 0 {
		return nil, errors.New("resman: the remote shell is empty")
	}
	var nodes []Node
	for i, name := range names {
		switch {
		case !validHost.MatchString(name):
			return nil, fmt.Errorf("resman: host %q: wanted a name of letters, digits, '.', '_' and '-'", name)
		case slices.Contains(names[:i], name):
			return nil, fmt.Errorf("resman: host %s is named twice", name)
		}
		nodes = append(nodes, Node{name, append(slices.Clone(shell), name)})
	}
	return nodes, nil
}

// Process is a process on a node.
type Process struct{ cmd *exec.Cmd }

// Start starts a command on the node, which reads from input.
func (n Node) Start(command []string, input io.Reader) (*Process, error) {
	words := append(slices.Clone(n.shell), quoted(command)...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("resman: %s: %w", n.Name, err)
	}
	p := &Process{cmd}
	if _, err := io.Copy(in, input); err != nil {
		p.End()
		return nil, fmt.Errorf("resman: %s: %w", n.Name, errors.Join(err, p.Wait()))
	}
	in.Close()
	return p, nil
}

// quoted are words as a shell on the other side reads them.
func quoted(words []string) []string {
	var out []string
	for _, w := range words {
		out = append(out, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
	}
	return out
}

// Wait waits for the end of the process; its exit code is the error.
func (p *Process) Wait() error {
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", p.cmd.Args[0], err)
	}
	return nil
}

// End ends the remote shell.
func (p *Process) End() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
}
