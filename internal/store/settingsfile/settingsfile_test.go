package settingsfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/byssus-hpc/byssus/internal/decide/settings"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	prefix, system, other := filepath.Join(dir, "p"), filepath.Join(dir, "s"), filepath.Join(dir, "o")
	if err := os.Mkdir(prefix, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, ".scrconf"), "SCR_FLUSH=1\n")
	write(t, filepath.Join(prefix, ".scrconf"), "SCR_FLUSH=2\n")
	write(t, other, "SCR_FLUSH=3\n")
	write(t, system, "SCR_FLUSH=4\nSCR_CACHE_BASE=/x/$BYSSUS_TEST_JOB\n")
	t.Setenv("BYSSUS_TEST_JOB", "7")
	for _, c := range []struct {
		environ, app []string
		want         string
		from         string
	}{
		{nil, nil, "1", filepath.Join(dir, ".scrconf:1")},
		{[]string{"SCR_PREFIX=p"}, nil, "2", filepath.Join(prefix, ".scrconf:1")},
		{nil, []string{"SCR_PREFIX=" + prefix}, "2", filepath.Join(prefix, ".scrconf:1")},
		{[]string{"SCR_CONF_FILE=o"}, nil, "3", other + ":1"},
		{[]string{"SCR_CONF_FILE=/dev/null", "SCR_PREFIX=p/none"}, nil, "4", system + ":1"},
		{[]string{"SCR_PREFIX=p/none"}, []string{"SCR_FLUSH=5"}, "5", "SCR_Config"},
	} {
		src, err := Read(dir, append(c.environ, "SCR_CONFIG_FILE="+system), c.app)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := settings.Resolve(src)
		if set, _ := s.Get("SCR_FLUSH"); set.Value != c.want || set.Origin.String() != c.from {
			t.Errorf("%v, %v: found %s (%v), wanted %s (%s)", c.environ, c.app, set.Value, set.Origin, c.want, c.from)
		}
		if base := s.Plan().CacheBase; base != "/x/7" {
			t.Errorf("%v: the cache is in %s", c.environ, base)
		}
	}
	if _, err := Read("x", nil, nil); err == nil {
		t.Error("a directory that is no absolute path was taken")
	}
}

func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	fifo, large := filepath.Join(dir, "fifo"), filepath.Join(dir, "large")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, large, strings.Repeat("#", most+1))
	for path, want := range map[string]string{"none": "no such file", fifo: "wanted a file", large: "more than 1048576 bytes", dir: "wanted a file"} {
		src, err := Read(dir, []string{"SCR_CONF_FILE=" + path}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, notes := settings.Resolve(src)
		if len(notes) != 1 || notes[0].Level != settings.Wrong || !strings.Contains(notes[0].Text, want) {
			t.Errorf("%s: found %v, wanted %s", path, notes, want)
		}
	}
}
