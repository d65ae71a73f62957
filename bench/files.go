package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/byssus-hpc/byssus/bench/internal/job"
)

// files measures what datasets cost a program that writes them by SCR's calls: on four nodes beside plain writes of as many bytes to the
// nodes' memory, and without files on eight ranks of this machine beside the same collectives.
func (b *bench) files(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "byssus-bench.")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	c := &cluster{bench: b, name: fmt.Sprintf("bench-%d", os.Getpid()), dir: dir, copies: map[string]string{}}
	if err := c.sandbox(ctx, "create", c.name, "--nodes", fmt.Sprint(nodeCount), "--prefix", dir); err != nil {
		return err
	}
	defer func() {
		if err := c.sandbox(context.WithoutCancel(ctx), "destroy", c.name); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	const bytes = 256 << 20
	for _, mpi := range b.mpis {
		for _, scheme := range []string{"single", "partner", "xor"} {
			s := sample{name: fmt.Sprintf("FilesBlocked/%s/%s", scheme, mpi), unit: "s", limit: "1.05"}
			flags := []string{"--sandbox", c.name, "--cache", nodeCache, "--redundancy", scheme, "--flush", "0"}
			if err := c.pairs(ctx, &s, mpi, nodeCount, flags, "blocked", nodeCache, fmt.Sprint(bytes), fmt.Sprint(b.rounds)); err != nil {
				return err
			}
		}
		const ranks = 8
		s := sample{name: "FilesEmpty/" + mpi, unit: "us", limit: "native + 300 us"}
		if err := c.pairs(ctx, &s, mpi, ranks, nil, "empty", fmt.Sprint(10*b.rounds)); err != nil {
			return err
		}
	}
	return nil
}

// pairs runs the program, and takes what it prints in each round: without SCR's calls, and with them.
func (c *cluster) pairs(ctx context.Context, s *sample, mpi string, ranks int, flags []string, args ...string) error {
	program, err := c.visible("files", mpi)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(c.dir, "files")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	argv := append([]string{"run", "--plain", "-n", fmt.Sprint(ranks), "--mpi", mpi}, flags...)
	cmd := exec.CommandContext(ctx, c.tree.Exe, append(append(argv, "--", program), args...)...)
	var out job.Output
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("bench: files %s: %w", args[0], err)
	}
	for line := range strings.Lines(out.String()) {
		var plain, scr float64
		if _, err := fmt.Sscan(line, &plain, &scr); err != nil {
			return fmt.Errorf("bench: files %s: %q: %w", args[0], line, err)
		}
		s.native, s.byssus = append(s.native, plain), append(s.byssus, scr)
	}
	s.print(c.out)
	return nil
}

// scrDir is where the libraries of SCR's calls are, beside the command.
func (b *bench) scrDir() string {
	return filepath.Join(filepath.Dir(filepath.Dir(b.tree.Exe)), "lib/byssus/scr")
}
