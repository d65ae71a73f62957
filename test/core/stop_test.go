package core

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// TestStorm begins stops and cancels them at every moment, as fast as it can, while threads are made and end; then a
// checkpoint is taken, and the same again after the restart. A thread that is left behind by a stop hangs the program.
func TestStorm(t *testing.T) {
	harness.Share(t, harness.Light)
	for _, iters := range []string{"12", "120", "1200"} { // on a busy machine a program may be over before its checkpoint
		if taken := storm(t, iters); taken == 1 {
			return
		}
	}
	t.Error("400 stops: the program was always over before its checkpoint")
}

// storm returns the checkpoints that were taken behind 400 stops.
func storm(t *testing.T, iters string) (taken int) {
	b := ready(t)
	dir := scratch(t)
	p := program{file: "core_storm.c", args: []string{iters}}
	native, err := do(t.Context(), dir, b.command(p))
	if err != nil {
		t.Fatal(err)
	}
	for _, storm := range []string{"400", "2000"} {
		r, err := do(t.Context(), dir, b.agent(p, []string{"0"}, filepath.Join(dir, storm), "--storm="+storm))
		if err == nil {
			err = r.differs(native)
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(r.stderr, "Error") {
			t.Errorf("%s stops: %d checkpoints\n%s", storm, r.taken(), r.story())
		}
		if storm == "400" {
			taken = r.taken()
		}
	}
	return taken
}
