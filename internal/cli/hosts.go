package cli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/host/resman"
)

// onHosts makes a job one that runs on the hosts that were given, if any.
func (f *runFlags) onHosts(opt *coordsrv.Options) error {
	if len(f.hosts) == 0 && f.sandbox == "" {
		if f.caches.Dir != "" {
			return usage(errors.New("run: --cache is for several nodes, wanted --hosts or --sandbox, too"))
		}
		return nil
	}
	nodes, err := f.nodes()
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cli: own executable: %w", err)
	}
	for _, n := range nodes.List {
		opt.Hosts = append(opt.Hosts, coordsrv.Host{Name: n.Name, Group: n.Group, Start: func(first io.Reader) (func() error, func(), error) {
			p, err := n.Start([]string{exe, "agent"}, first)
			if err != nil {
				return nil, nil, err
			}
			return p.Wait, p.End, nil
		}})
	}
	opt.Spares, opt.Listen = nodes.Spares, nodes.Listen
	opt.Caches = f.onCaches()
	return nil
}

// nodes are those that the user has named.
func (f *runFlags) nodes() (*resman.Nodes, error) {
	if f.sandbox != "" {
		nodes, err := resman.Sandbox(f.sandbox)
		if err != nil {
			return nil, err
		}
		return nodes, f.label(nodes)
	}
	shell := resman.DefaultShell()
	if f.rsh != "" {
		shell = strings.Fields(f.rsh)
	}
	named, err := resman.Hosts(f.hosts, shell, "")
	if err != nil {
		return nil, usage(err)
	}
	if err := f.label(named); err != nil {
		return nil, err
	}
	address, err := f.reachable()
	if err != nil {
		return nil, err
	}
	nodes, err := resman.Hosts(f.hosts, shell, address)
	if err != nil {
		return nil, err
	}
	nodes.Spares = f.spares
	return nodes, f.label(nodes)
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
	if f.address != "" {
		return found[0], nil
	}
	return outward(name, found)
}

// outward is the first address that other machines can reach: many a machine's name leads to 127.0.1.1 on itself.
func outward(name string, addresses []string) (string, error) {
	for _, a := range addresses {
		if ip := net.ParseIP(a); ip != nil && !ip.IsLoopback() {
			return a, nil
		}
	}
	return "", fmt.Errorf("cli: address of this machine: its name %s leads to %s, which no other machine reaches (give --address)", name,
		strings.Join(addresses, ", "))
}
