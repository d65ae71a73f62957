package harness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestShare: tests of random weights never have more than all units between them, and all come to their turn.
func TestShare(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shares")
	const seed = 7
	random := rand.New(rand.NewPCG(seed, 0))
	var taken atomic.Int64
	var all sync.WaitGroup
	for range 24 {
		n := 1 + random.IntN(Units())
		hold := time.Duration(random.IntN(3000)) * time.Microsecond
		all.Go(func() {
			release, err := share(t.Context(), dir, n)
			if err != nil {
				t.Error(err)
				return
			}
			if now := taken.Add(int64(n)); now > int64(Units()) {
				t.Errorf("%d units are taken, there are %d", now, Units())
			}
			time.Sleep(hold) // others find them taken
			taken.Add(int64(-n))
			release()
		})
	}
	all.Wait()
}

// TestShareOfTheDead: what a process had that was killed is free.
func TestShareOfTheDead(t *testing.T) {
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	cmd := exec.Command("flock", filepath.Join(dir, "0"), "sh", "-c", `touch "$1"; exec sleep 600`, "sh", ready)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := Poll(ctx, "the other process", func() bool { _, err := os.Stat(ready); return err == nil }); err != nil {
		t.Fatal(err)
	}
	short, end := context.WithTimeout(ctx, 100*time.Millisecond)
	defer end()
	if _, err := share(short, dir, Units()); err == nil {
		t.Fatal("all units were given, though another process has one")
	}
	if who := holders(dir); !strings.Contains(who, fmt.Sprintf("unit 0: process %d: flock ", cmd.Process.Pid)) {
		t.Errorf("who has a unit: %q", who)
	}
	for _, p := range append(Descendants(cmd.Process.Pid), Process{Pid: cmd.Process.Pid}) {
		if p.start != "" {
			p.kill()
		}
	}
	_ = cmd.Process.Kill() // it may have ended with its child
	_ = cmd.Wait()
	release, err := share(ctx, dir, Units())
	if err != nil {
		t.Fatal(err)
	}
	release()
}
