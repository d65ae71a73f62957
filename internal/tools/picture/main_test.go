package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// TestCurrent: the picture is the one of the text, and is XML.
func TestCurrent(t *testing.T) {
	text, err := os.ReadFile("../../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := draw(string(text))
	if err != nil {
		t.Fatal(err)
	}
	found, err := os.ReadFile("../../../docs/architecture.svg")
	if err != nil || string(found) != want {
		t.Errorf("docs/architecture.svg is not that of ARCHITECTURE.md: go generate ./internal/tools/picture (%v)", err)
	}
	for d := xml.NewDecoder(strings.NewReader(want)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{"coordinator", "agent", "byssus-rank", "Agree", "Drain", "Commit"} {
		if !strings.Contains(want, part) {
			t.Errorf("%s is not in the picture", part)
		}
	}
}

// TestMissing: a text without what is drawn is an error.
func TestMissing(t *testing.T) {
	if _, err := draw("# Architecture\n\n## Processes\n\nnone\n"); err == nil {
		t.Error("it is drawn")
	}
}
