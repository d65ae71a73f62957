package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMake(t *testing.T) {
	const nobody = 65534
	for name, k := range map[string]struct {
		plant func(dir string) error
		why   string // empty: it is taken
	}{
		"nothing":          {func(string) error { return nil }, ""},
		"ours":             {func(dir string) error { return os.Mkdir(dir, 0o700) }, ""},
		"around it sticky": {func(dir string) error { return os.Chmod(filepath.Dir(dir), 0o777|os.ModeSticky) }, ""},
		"readable":         {func(dir string) error { return os.Mkdir(dir, 0o755) }, "wanted a directory of uid"},
		"a link":           {func(dir string) error { return errors.Join(os.Mkdir(dir+".x", 0o700), os.Symlink(dir+".x", dir)) }, "found L"},
		"a file":           {func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, "found -"},
		"around it open":   {func(dir string) error { return os.Chmod(filepath.Dir(dir), 0o777) }, "others can write"},
		"around it none":   {func(dir string) error { return os.Remove(filepath.Dir(dir)) }, "no such file"},
		"of another":       {func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, nobody, nobody)) }, fmt.Sprintf("of uid %d", nobody)},
		"around it other":  {func(dir string) error { return os.Chown(filepath.Dir(dir), nobody, nobody) }, "others can write"},
	} {
		if os.Geteuid() != 0 && strings.Contains(name, "other") {
			continue // only root gives files away
		}
		dir := filepath.Join(t.TempDir(), "around", "dir")
		if err := errors.Join(os.Mkdir(filepath.Dir(dir), 0o700), k.plant(dir)); err != nil {
			t.Fatal(err)
		}
		err := Make(dir)
		if (err == nil) != (k.why == "") || err != nil && !strings.Contains(err.Error(), k.why) {
			t.Errorf("%s: %v, wanted %q", name, err, k.why)
		}
		if k.why == "" && Check(dir) != nil {
			t.Errorf("%s: made, and %v", name, Check(dir))
		}
	}
}

func TestBases(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/x")
	if b := Bases(); len(b) != 3 || b[0] != "/x/byssus" {
		t.Errorf("found %q", b)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	if b := Bases(); len(b) != 2 || b[0] != fmt.Sprintf("/run/user/%d/byssus", os.Geteuid()) {
		t.Errorf("found %q", b)
	}
}
