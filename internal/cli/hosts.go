package cli

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/byssus-hpc/byssus/internal/coordsrv"
	"github.com/byssus-hpc/byssus/internal/launch"
	"github.com/byssus-hpc/byssus/internal/resman"
)

// onHosts makes a job one that runs on the hosts that were given, if any.
func (f *runFlags) onHosts(opt *coordsrv.Options, spec launch.Spec) error {
	if len(f.hosts) == 0 {
		return nil
	}
	if spec.MPI.Name != launch.MPICH {
		return usage(fmt.Errorf("run: --hosts with %s: only MPICH runs on several nodes yet", spec.MPI.Name))
	}
	shell := resman.DefaultShell()
	if f.rsh != "" {
		shell = strings.Fields(f.rsh)
	}
	nodes, err := resman.Hosts(f.hosts, shell)
	if err != nil {
		return usage(err)
	}
	if opt.Address, err = f.reachable(); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cli: own executable: %w", err)
	}
	for _, n := range nodes {
		opt.Hosts = append(opt.Hosts, coordsrv.Host{Name: n.Name, Start: func(first io.Reader) (func() error, func(), error) {
			p, err := n.Start([]string{exe, "agent"}, first)
			if err != nil {
				return nil, nil, err
			}
			return p.Wait, p.End, nil
		}})
	}
	opt.Spares = f.spares
	return nil
}

// reachable is the address at which this machine listens for its agents.
func (f *runFlags) reachable() (string, error) {
	name := f.address
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("cli: name of this machine: %w", err)
		}
	}
	found, err := net.LookupHost(name)
	if err != nil {
		return "", fmt.Errorf("cli: address of this machine: %w (give --address)", err)
	}
	return found[0], nil
}
