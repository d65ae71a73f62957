package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMistakes(t *testing.T) {
	x := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", x)
	file := filepath.Join(x, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]Options{
		`name "": wanted`:                                      {Nodes: 1},
		`name "../x": wanted`:                                  {Name: "../x", Nodes: 1},
		`name ".lock": wanted`:                                 {Name: ".lock", Nodes: 1},
		"0 nodes, wanted at least 1":                           {Name: "a"},
		"-1 spares, wanted at least 0":                         {Name: "a", Nodes: 1, Spares: -1},
		"201 nodes, wanted at most 200":                        {Name: "a", Nodes: 201},
		"201 nodes and spares, wanted at most 200":             {Name: "a", Nodes: 200, Spares: 1},
		"-1 processors of a node":                              {Name: "a", Nodes: 1, CPUs: -1},
		"1000000 processors of a node, there are":              {Name: "a", Nodes: 1, CPUs: 1000000},
		"5 bytes of memory of a node, wanted at least":         {Name: "a", Nodes: 1, Memory: 5},
		"-5 bytes of a directory of a node's own":              {Name: "a", Nodes: 1, Disk: -5},
		"shared directory: /no/such: lstat":                    {Name: "a", Nodes: 1, Prefix: "/no/such"},
		file + ": not a directory":                             {Name: "a", Nodes: 1, Prefix: file},
		"shared directory: /: a node has /tmp of its own":      {Name: "a", Nodes: 1, Binds: []string{"/"}},
		"shared directory: /tmp: a node has /tmp of its own":   {Name: "a", Nodes: 1, Binds: []string{"/tmp"}},
		"shared directory: /var: a node has /var/tmp":          {Name: "a", Nodes: 1, Binds: []string{"/var"}},
		"shared directory: /proc: a node has /proc of its own": {Name: "a", Nodes: 1, Binds: []string{"/proc"}},
		"the kernel's, not to be shared":                       {Name: "a", Nodes: 1, Binds: []string{"/proc/sys"}},
		"visible directory: /no/such: lstat":                   {Name: "a", Nodes: 1, Visible: []string{"/no/such"}},
	} {
		if _, err := Create(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, wanted %q", o, err, want)
		}
		list, err := List()
		mine := slices.DeleteFunc(list, func(s Summary) bool { return !strings.HasPrefix(s.Dir, x+"/") }) // the machine may have others
		if len(mine) != 0 || err != nil {
			t.Errorf("%+v: left %+v, %v", o, mine, err)
		}
	}
	if _, err := Open("nobody"); !errors.Is(err, ErrNone) {
		t.Errorf("opened: %v", err)
	}
	if err := Destroy("../x"); !errors.Is(err, ErrName) {
		t.Errorf("destroyed: %v", err)
	}
}

// TestLongRunDirectory: a path that no socket can have is refused before anything is made.
func TestLongRunDirectory(t *testing.T) {
	x := filepath.Join(t.TempDir(), strings.Repeat("x", 80))
	if err := os.Mkdir(x, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", x)
	if _, err := Create(Options{Name: "a", Nodes: 1}); !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), "set XDG_RUNTIME_DIR") {
		t.Errorf("created: %v", err)
	}
}

// TestPlantedDirectory: what somebody has put where sandboxes lie is not looked at.
func TestPlantedDirectory(t *testing.T) {
	x, elsewhere := t.TempDir(), t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", x)
	if err := os.Mkdir(filepath.Join(x, "byssus"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(dir string) error{
		"a link":         func(dir string) error { return os.Symlink(elsewhere, dir) },
		"open to others": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)) },
		"a file":         func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
	} {
		dir := filepath.Join(x, "byssus/sandboxes")
		if err := plant(dir); err != nil {
			t.Fatal(err)
		}
		for _, base := range bases() {
			if strings.HasPrefix(base, x) {
				t.Errorf("%s: %s is taken", name, base)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDeal(t *testing.T) {
	for _, k := range []struct {
		cpus    []int
		n, each int
		want    [][]int
	}{
		{[]int{0, 1}, 4, 1, [][]int{{0}, {1}, {0}, {1}}},
		{[]int{0, 1, 2, 3, 4}, 2, 2, [][]int{{0, 1}, {2, 3}}},
		{[]int{3, 7, 9}, 2, 2, [][]int{{3, 7}, {9, 3}}},
	} {
		if d := cmp.Diff(k.want, deal(k.cpus, k.n, k.each)); d != "" {
			t.Errorf("%v: %s", k, d)
		}
	}
	for n, want := range map[int]int{1: 8, 3: 3, 5: 2, 8: 1, 20: 1} {
		if o, err := (Options{Name: "a", Nodes: n, Disk: minDisk, Prefix: t.TempDir()}).complete(8); err != nil || o.CPUs != want {
			t.Errorf("8 processors, %d nodes: %d each, wanted %d (%v)", n, o.CPUs, want, err)
		}
	}
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "512M": 512 << 20, "1.5GiB": 3 << 29, "2t": 2 << 40, "": 0, "M": 0, "1X": 0, "-1": 0, "1e9": 0, "0": 0, "99999999999T": 0} {
		if n, err := ParseSize(text); n != want || (err == nil) != (want != 0) {
			t.Errorf("size %q: %d, %v, wanted %d", text, n, err, want)
		}
	}
	for text, want := range map[string]uint64{"8kbit": 1000, "10mbit": 1250000, "1.5gbit": 187500000, "1mbps": 1000000, "1bit": 0, "10": 0, "fast": 0, "200gbit": 0} {
		if n, err := ParseRate(text); n != want || (err == nil) != (want != 0) {
			t.Errorf("rate %q: %d, %v, wanted %d", text, n, err, want)
		}
		if want == 0 {
			continue
		}
		if n, err := ParseRate(FormatRate(want)); n != want || err != nil {
			t.Errorf("rate %d is written %s", want, FormatRate(want))
		}
	}
	for text, want := range map[string]float64{"5": 5, "0.5%": 0.5, "100": 100, "0": 0, "101": 0, "NaN": 0, "x": 0} {
		if n, err := ParsePercent(text); n != want || (err == nil) != (want != 0) {
			t.Errorf("percentage %q: %g, %v, wanted %g", text, n, err, want)
		}
	}
}

// TestCgroupHome plays machines: where cgroups could be made, and why not.
func TestCgroupHome(t *testing.T) {
	root := t.TempDir()
	for path, controllers := range map[string]string{"": "cpu memory pids\n", "user": "memory pids\n", "user/session": ""} {
		dir := filepath.Join(root, path)
		err := os.MkdirAll(dir, 0o755)
		for name, text := range map[string]string{"cgroup.procs": "", "cgroup.subtree_control": controllers} {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	mounted := "22 1 0:5 / /proc rw - proc proc rw\n30 1 0:20 / " + root + " rw,relatime shared:4 - cgroup2 cgroup2 rw\n"
	part := "30 1 0:20 /user " + root + "/user rw,relatime - cgroup2 cgroup2 rw\n"
	for _, k := range []struct {
		name, info, own string
		memory          bool
		want, why       string
	}{
		{"own", mounted, "0::/user/session\n", false, root + "/user/session", ""},
		{"the one around", mounted, "1:cpu:/\n0::/user/session\n", true, root + "/user", ""},
		{"a part is mounted", part, "0::/user/session\n", true, root + "/user", ""},
		{"outside of the part", part, "0::/system\n", false, "", "does not lie below"},
		{"none mounted", "22 1 0:5 / /proc rw - proc proc rw\n", "0::/\n", false, "", "no cgroup2 file system"},
		{"version 1 only", mounted, "1:memory:/\n", false, "", "our cgroup"},
	} {
		dir, err := home(k.info, k.own, k.memory)
		if dir != k.want || (err == nil) != (k.why == "") || err != nil && (!strings.Contains(err.Error(), k.why) || !errors.Is(err, ErrUnsupported)) {
			t.Errorf("%s: %q, %v, wanted %q, %q", k.name, dir, err, k.want, k.why)
		}
	}
	one := "31 1 0:21 / " + root + " rw - cgroup cgroup rw,cpu,memory\n32 1 0:22 / /other rw - cgroup cgroup rw,pids\n"
	for own, want := range map[string]string{"8:pids:/\n4:cpu,memory:/user\n0::/\n": root + "/user", "8:pids:/user\n0::/user\n": ""} {
		if dir, err := memoryHome(one, own); dir != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, ErrUnsupported) {
			t.Errorf("limits of version 1 in %q: %q, %v, wanted %q", own, dir, err, want)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("cpu\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "user/cgroup.subtree_control"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := home(mounted, "0::/user\n", true); err == nil || !strings.Contains(err.Error(), `found "cpu", want memory in it`) {
		t.Errorf("without the controller: %v", err)
	}
}
