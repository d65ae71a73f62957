package core

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

// TestLayouts runs a program that makes children of every kind, with a deep stack, in every layout of the address space
// that a user can ask for, and kills and restarts it there. Children keep the filter that the rank has: none may die of it.
func TestLayouts(t *testing.T) {
	b := ready(t)
	t.Parallel()
	const unlimited = `ulimit -s unlimited; exec "$@"`
	for name, prefix := range map[string][]string{
		"unlimited":            {"sh", "-c", unlimited, "sh"},
		"huge":                 {"sh", "-c", `ulimit -s 68719476736; exec "$@"`, "sh"},
		"legacy":               {"setarch", "-L"},
		"fixed":                {"setarch", "-R"},
		"fixed legacy":         {"setarch", "-R", "-L"},
		"unlimited fixed":      {"setarch", "-R", "sh", "-c", unlimited, "sh"},
		"unlimited legacy":     {"setarch", "-L", "sh", "-c", unlimited, "sh"},
		"executable readable":  {"setarch", "-X"},
		"three gigabytes":      {"setarch", "-3"},
		"unlimited everything": {"setarch", "-R", "-L", "-X", "sh", "-c", unlimited, "sh"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			harness.Share(t, harness.Light)
			dir := scratch(t)
			p := program{file: "core_layout.c", args: []string{"4"}}
			native, err := do(t.Context(), dir, append(prefix, b.command(p)...))
			if err == nil && strings.Contains(native.stdout, "wrong: ") {
				t.Fatalf("natively: %s", native.stdout)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, options := range [][]string{{"--mode=kill"}, {"--mode=go"}} {
				at := moments(source(t.Name()+options[0]), 2, min(native.took, usual))
				r, err := do(t.Context(), dir, append(prefix, b.agent(p, at, filepath.Join(dir, "images"+options[0]), options...)...))
				if err == nil {
					err = r.differs(native)
				}
				if err != nil {
					t.Fatalf("-seed %d: %v", *seed, err)
				}
			}
		})
	}
}
