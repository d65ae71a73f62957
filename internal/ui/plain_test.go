package ui

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"cli: list: 1 of 2":                              "list: 1 of 2",
		"coordsrv: dataset: job a: gone":                 "job a: gone",
		"a.img: format: header: crc32c 1, wanted 2":      "a.img: header: crc32c 1, wanted 2",
		"launch: x: none; launch: y: none":               "x: none; y: none",
		"launch: x: none\nlaunch: y: none\n":             "x: none; y: none",
		"not copied; agent: spawn: it is gone; input: b": "not copied; it is gone; b",
		"standard input: cut":                            "standard input: cut",
		"job input: not there":                           "job input: not there",
		"what follows is: launch":                        "what follows is: launch",
		"dataset":                                        "dataset",
		"":                                               "",
		": ":                                             ": ",
		"; ":                                             "; ",
		"program launch: a  b : c":                       "program launch: a  b : c",
	} {
		if found := Plain(in); found != want {
			t.Errorf("%q: found %q, wanted %q", in, found, want)
		}
	}
}

func TestPlainKnowsAllPackages(t *testing.T) {
	files, err := filepath.Glob("../*/*.go")
	deeper, err2 := filepath.Glob("../*/*/*.go") // those of groups; below them are tools and what tests share
	names := map[string]bool{}
	for _, f := range append(files, deeper...) {
		if dir := filepath.Dir(f); !strings.HasPrefix(filepath.Base(dir), "gen") {
			names[filepath.Base(dir)] = true
		}
	}
	if err = errors.Join(err, err2); err != nil || len(names) < 30 {
		t.Fatalf("%d packages, %v", len(names), err)
	}
	for name := range names {
		if !isPackage(name) {
			t.Errorf("package %s is not known to Plain", name)
		}
	}
}

func TestSay(t *testing.T) {
	var b strings.Builder
	Say(&b, "dataset: job a\x1b: gone")
	if b.String() != "byssus: job a\\x1b: gone\n" {
		t.Errorf("found %q", b.String())
	}
}
