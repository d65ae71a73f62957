package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/host/resman"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/wire/bulk"
)

const (
	defaultFlush    = 10 // SCR's
	defaultScavenge = 30 * time.Second
)

func (f *runFlags) addCaches(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.caches.Dir, "cache", "", "directory of each node's own in which its ranks write, as /dev/shm/byssus (default: the store)")
	fl.StringVar(&f.caches.Redundancy, "redundancy", "xor", "what caches do against the loss of nodes: single (nothing), partner (a copy), partner:2 (copies on two other nodes) to partner:8, or xor (parity)")
	fl.IntVar(&f.caches.SetSize, "set-size", 0, "nodes that protect each other, at least (default: 8 with xor, 2 with partner, 3 with partner:2, or as fits)")
	fl.StringSliceVar(&f.groups, "groups", nil, "what fails together, as n1=rack1,n2=rack1; no two nodes of a group are in one set (default: each node alone)")
	fl.IntVar(&f.caches.Flush, "flush", defaultFlush, "copy every so many checkpoints from the caches to the store; 0: only the last, when the job leaves")
	fl.DurationVar(&f.caches.Scavenge, "scavenge", defaultScavenge, "when byssus is gone, and nobody goes on with the job for so long, copy what caches have to the store; 0: never")
	fl.StringVar(&f.caches.Transport, "transport", "encrypted", "what goes from cache to cache: encrypted, or only authenticated")
}

func transports() map[string]bulk.Mode {
	return map[string]bulk.Mode{"encrypted": bulk.Encrypted, "authenticated": bulk.Authenticated}
}

func (f *runFlags) checkCaches() error {
	c := &f.caches
	scheme, err := redset.ParseScheme(c.Redundancy)
	switch {
	case c.Dir != "" && !filepath.IsAbs(c.Dir):
		return usage(fmt.Errorf("run: --cache %s, wanted an absolute path, which is the same on all nodes", c.Dir))
	case err != nil:
		return usage(fmt.Errorf("run: --redundancy %w", err))
	case c.SetSize < 0 || c.SetSize == 1:
		return usage(fmt.Errorf("run: --set-size %d, wanted at least 2", c.SetSize))
	case c.SetSize > 0 && c.SetSize < scheme.Members():
		return usage(fmt.Errorf("run: --set-size %d, wanted at least %d with --redundancy %v", c.SetSize, scheme.Members(), scheme))
	case c.Flush < 0:
		return usage(fmt.Errorf("run: --flush %d, wanted at least 0", c.Flush))
	case c.Scavenge < 0:
		return usage(fmt.Errorf("run: --scavenge %v, wanted at least 0", c.Scavenge))
	}
	if _, ok := transports()[c.Transport]; !ok {
		return usage(fmt.Errorf("run: --transport %q, wanted encrypted or authenticated", c.Transport))
	}
	return nil
}

// ownCaches is what the job remembers, nil: it writes to the store.
func (f *runFlags) ownCaches() *dataset.Caches {
	if f.caches.Dir == "" {
		return nil
	}
	c := f.caches
	return &c
}

func (f *runFlags) onCaches() *coordsrv.Caches {
	if f.caches.Dir == "" {
		return nil
	}
	c := &f.caches
	scheme, _ := redset.ParseScheme(c.Redundancy) // which checkCaches has seen
	return &coordsrv.Caches{Dir: c.Dir, Scheme: scheme, Size: c.SetSize, Flush: c.Flush, Mode: transports()[c.Transport], Scavenge: c.Scavenge}
}

// keepOldCaches takes over what was not given.
func (f *runFlags) keepOldCaches(changed func(string) bool, meta *dataset.Meta) {
	old := meta.Caches
	if old == nil || len(f.hosts) == 0 && f.sandbox == "" {
		return
	}
	if !changed("cache") {
		f.caches.Dir = old.Dir
	}
	if !changed("redundancy") {
		f.caches.Redundancy = old.Redundancy
	}
	if !changed("set-size") {
		f.caches.SetSize = old.SetSize
	}
	if !changed("flush") {
		f.caches.Flush = old.Flush
	}
	if !changed("scavenge") {
		f.caches.Scavenge = old.Scavenge
	}
	if !changed("transport") {
		f.caches.Transport = old.Transport
	}
}

// label puts nodes into the failure groups that the user has named.
func (f *runFlags) label(nodes *resman.Nodes) error {
	groups := map[string]string{}
	for _, pair := range f.groups {
		host, group, ok := strings.Cut(pair, "=")
		if !ok || group == "" {
			return usage(fmt.Errorf("run: --groups %q, wanted NODE=GROUP", pair))
		}
		groups[host] = group
	}
	for i, n := range nodes.List {
		if group, ok := groups[n.Name]; ok {
			nodes.List[i].Group = group
			delete(groups, n.Name)
		}
	}
	for host := range groups {
		return usage(fmt.Errorf("run: --groups: %s is none of the nodes", host))
	}
	return nil
}
