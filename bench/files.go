package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/byssus-hpc/byssus/bench/internal/job"
	"github.com/byssus-hpc/byssus/internal/store/timeline"
)

// files measures what datasets cost a program that writes them by SCR's calls: on four nodes beside plain writes of as many bytes to the
// nodes' memory, and without files on eight ranks of this machine beside the same collectives.
func (b *bench) files(ctx context.Context) error {
	c, destroy, err := b.onNodes(ctx)
	if err != nil {
		return err
	}
	defer destroy()
	const bytes = 256 << 20
	for _, mpi := range b.mpis {
		for _, scheme := range []string{"single", "partner", "xor"} {
			s := sample{name: fmt.Sprintf("FilesBlocked/%s/%s", scheme, mpi), unit: "s", limit: "1.05"}
			flags := []string{"--sandbox", c.name, "--cache", nodeCache, "--redundancy", scheme, "--flush", "0"}
			if _, err := c.pairs(ctx, &s, "files", mpi, nodeCount, flags, "blocked", nodeCache, fmt.Sprint(bytes), fmt.Sprint(b.rounds)); err != nil {
				return err
			}
		}
		const ranks = 8
		s := sample{name: "FilesEmpty/" + mpi, unit: "us", limit: "native + 300 us"}
		if _, err := c.pairs(ctx, &s, "files", mpi, ranks, nil, "empty", fmt.Sprint(10*b.rounds)); err != nil {
			return err
		}
	}
	return nil
}

// onNodes makes a sandbox.
func (b *bench) onNodes(ctx context.Context) (c *cluster, destroy func(), err error) {
	dir, err := os.MkdirTemp("", "byssus-bench.")
	if err != nil {
		return nil, nil, fmt.Errorf("bench: %w", err)
	}
	c = &cluster{bench: b, name: fmt.Sprintf("bench-%d", os.Getpid()), dir: dir, copies: map[string]string{}}
	if err := c.sandbox(ctx, "create", c.name, "--nodes", fmt.Sprint(nodeCount), "--prefix", dir); err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	return c, func() {
		if err := c.sandbox(context.WithoutCancel(ctx), "destroy", c.name); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.RemoveAll(dir)
	}, nil
}

// snapshots measures what snapshots of memory cost: starting one beside a copy in memory, also of what is watched, or handed over; committing
// it, where all bytes have changed and where few have, beside writing as much over in memory; and which part of the memory nodes send each
// other when few have.
func (b *bench) snapshots(ctx context.Context) error {
	c, destroy, err := b.onNodes(ctx)
	if err != nil {
		return err
	}
	defer destroy()
	const bytes = 256 << 20
	for _, mpi := range b.mpis {
		for _, row := range []struct{ what, scheme, limit string }{
			{"start", "partner", "1.2"}, {"track", "partner", ""}, {"hand", "partner", ""}, {"commit", "partner", "3.5"}, {"commit", "xor", "3.5"}, {"few", "partner", ""}, {"few", "xor", ""},
		} {
			s := sample{name: fmt.Sprintf("Snapshot/%s/%s/%s", row.what, row.scheme, mpi), unit: "s", limit: row.limit}
			flags := []string{"--sandbox", c.name, "--cache", nodeCache, "--redundancy", row.scheme, "--transport", "authenticated"}
			dir, err := c.pairs(ctx, &s, "snapshots", mpi, nodeCount, flags, row.what, nodeCache, fmt.Sprint(bytes), fmt.Sprint(b.rounds))
			if err != nil {
				return err
			}
			if row.what != "few" {
				continue
			}
			s = sample{name: fmt.Sprintf("Snapshot/sent/%s/%s", row.scheme, mpi), unit: "B", limit: "0.025"}
			if err := s.sent(dir, bytes, b.rounds*nodeCount); err != nil {
				return err
			}
			s.print(c.out)
		}
	}
	return nil
}

// sent takes what nodes have sent for the last so many parts of datasets, beside the length of these.
func (s *sample) sent(dir string, bytes float64, parts int) error {
	all, _, err := timeline.Read(filepath.Join(dir, ".scr", "scr"))
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(all) {
		if e.Kind == timeline.Encoded && len(s.native) < parts {
			s.native, s.byssus = append(s.native, bytes), append(s.byssus, float64(e.Bytes))
		}
	}
	return nil
}

// pairs runs a program, and takes what it prints in each round: without our calls, and with them. It returns where it ran.
func (c *cluster) pairs(ctx context.Context, s *sample, name, mpi string, ranks int, flags []string, args ...string) (dir string, err error) {
	program, err := c.visible(name, mpi)
	if err != nil {
		return "", err
	}
	if dir, err = os.MkdirTemp(c.dir, name); err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	argv := append([]string{"run", "--plain", "-n", fmt.Sprint(ranks), "--mpi", mpi}, flags...)
	cmd := exec.CommandContext(ctx, c.tree.Exe, append(append(argv, "--", program), args...)...)
	var out job.Output
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("bench: %s %s: %w", name, args[0], err)
	}
	for line := range strings.Lines(out.String()) {
		var plain, ours float64
		if _, err := fmt.Sscan(line, &plain, &ours); err != nil {
			return "", fmt.Errorf("bench: %s %s: %q: %w", name, args[0], line, err)
		}
		s.native, s.byssus = append(s.native, plain), append(s.byssus, ours)
	}
	s.print(c.out)
	return dir, nil
}

// libraries is where those are that programs are linked to, beside the command.
func (b *bench) libraries(name string) string {
	dir := map[string]string{"scr": "scr", "byssus": "memory"}[name]
	return filepath.Join(filepath.Dir(filepath.Dir(b.tree.Exe)), "lib/byssus", dir)
}
