package core

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestStorm begins stops and cancels them at every moment, as fast as it can, while threads are made and end; then a
// checkpoint is taken, and the same again after the restart. A thread that is left behind by a stop hangs the program.
func TestStorm(t *testing.T) {
	b := ready(t)
	dir := scratch(t)
	p := program{file: "core_storm.c", args: []string{"12"}}
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
		if strings.Contains(r.stderr, "Error") || (storm == "400" && r.taken() != 1) {
			t.Errorf("%s stops: %d checkpoints\n%s", storm, r.taken(), r.story())
		}
	}
}
