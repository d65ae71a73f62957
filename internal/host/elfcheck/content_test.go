package elfcheck

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestContent: programs are told apart by their build ids where they have one, else by their bytes; never by place or time.
func TestContent(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	build(t, "int main(void){return 0;}", "-Wl,--build-id=0x0123456789abcdef", "-o", at("a"))
	build(t, "int main(void){return 1;}", "-Wl,--build-id=0x0123456789abcdee", "-o", at("b"))
	build(t, "int main(void){return 0;}", "-Wl,--build-id=none", "-o", at("plain"))
	build(t, "int main(void){return 1;}", "-Wl,--build-id=none", "-o", at("plain2"))
	for _, name := range []string{"a", "plain"} {
		b, err := os.ReadFile(at(name))
		if err == nil {
			err = os.WriteFile(at(name+".copy"), b, 0o755)
		}
		if err == nil {
			err = os.Chtimes(at(name+".copy"), time.Unix(1, 0), time.Unix(1, 0))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at("script"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	content := func(name string) string {
		c, err := Content(at(name))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := content("a"); c != "build id 0123456789abcdef" {
		t.Errorf("found %s", c)
	}
	if c := content("script"); c != "sha256 a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf" {
		t.Errorf("found %s", c)
	}
	if !strings.HasPrefix(content("plain"), "sha256 ") || content("plain") != content("plain.copy") || content("a") != content("a.copy") {
		t.Error("copies differ")
	}
	if content("a") == content("b") || content("plain") == content("plain2") {
		t.Error("other programs are the same")
	}
	if _, err := Content(at("none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("found %v", err)
	}
}
