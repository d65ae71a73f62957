package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

// TestLookUp: a program is found where a rank finds it, whatever the agent's own PATH and directory are.
func TestLookUp(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"bin", "bin2", "bin/folder"} {
		if err := os.Mkdir(at(d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"bin/text": 0o600, "bin2/text": 0o700, "bin2/app": 0o700, "bin2/folder": 0o700, "app": 0o700} {
		if err := os.WriteFile(at(name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	path := at("none") + ":" + at("bin") + ":bin2"
	for name, want := range map[string]string{
		"app": at("bin2/app"), "./app": at("app"), "bin2/app": at("bin2/app"), at("bin2/app"): at("bin2/app"),
		"text": at("bin2/text"), "folder": at("bin2/folder"), "bin/text": "", "gone": "", "./gone": "", "bin/folder": "",
	} {
		got, err := lookUp(name, path, dir)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: found %q, %v, wanted %q", name, got, err, want)
		}
	}
}

// TestTraits: what a node has of the programs, and of the processor in byssus-rank's words; or why nothing can run there.
func TestTraits(t *testing.T) {
	dir := t.TempDir()
	rank := filepath.Join(dir, "rank")
	if err := os.WriteFile(rank, []byte("#!/bin/sh\n[ \"$1\" = --processor ] && printf 'sse\\navx2\\n'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	b := &Brief{Rank: rank, App: "sh", Path: "/bin", Job: dataset.Meta{Dir: dir}}
	got := traits(b)
	if strings.Join(got.Processor, " ") != "sse avx2" || len(got.Programs) != 2 || got.Programs[0].Path != rank || got.Programs[1].Path != "/bin/sh" || got.Wrong != "" {
		t.Errorf("found %+v", got)
	}
	if b.App = ""; len(traits(b).Programs) != 1 { // ranks go on from a checkpoint
		t.Errorf("found %+v", traits(b))
	}
	for want, spoil := range map[string]func(b *Brief){
		"no such file":                 func(b *Brief) { b.Rank += ".gone" },
		"exit status 1":                func(b *Brief) { b.Rank = "/bin/false" },
		"program gone: not found":      func(b *Brief) { b.App = "gone" },
		"program ./gone: not found, o": func(b *Brief) { b.App = "./gone" },
	} {
		bad := *b
		spoil(&bad)
		if got := traits(&bad); !strings.Contains(got.Wrong, want) || len(got.Processor)+len(got.Programs) > 0 {
			t.Errorf("found %+v, wanted %q", got, want)
		}
	}
}
