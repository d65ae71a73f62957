package machine

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestMemoryLeft plays machines with limits of both versions.
func TestMemoryLeft(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"two/memory.stat":    "", // the root cgroup tells no limit
		"two/job/memory.max": "1000\n", "two/job/memory.current": "700\n", "two/job/memory.stat": "anon 300\nfile 400\ninactive_file 150\nactive_file 50\nshmem 200\n",
		"two/job/step/memory.max": "max\n", "two/job/step/memory.current": "600\n", "two/job/step/memory.stat": "",
		"two/tight/memory.max": "100\n", "two/tight/memory.current": "130\n", "two/tight/memory.stat": "inactive_file 10\n",
		"two/odd/memory.max":        "many\n",
		"one/memory.limit_in_bytes": "9223372036854771712\n", "one/memory.usage_in_bytes": "5\n",
		"one/node/memory.limit_in_bytes": "800\n", "one/node/memory.usage_in_bytes": "500\n",
		"one/node/memory.stat": "inactive_file 77\ntotal_inactive_file 100\ntotal_active_file 40\n",
	} {
		file := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	two := "30 1 0:20 / " + root + "/two rw shared:4 - cgroup2 cgroup2 rw\n"
	one := "31 1 0:21 / " + root + "/one rw - cgroup cgroup rw,memory\n32 1 0:22 / " + root + "/cpu rw - cgroup cgroup rw,cpu\n"
	part := "30 1 0:20 /job " + root + "/two/job rw - cgroup2 cgroup2 rw\n"
	for _, k := range []struct {
		name, info, own string
		left            int64
		at              string
		fails           bool
	}{
		{"of the one around", two, "0::/job/step\n", 500, "two/job", false},
		{"a part is mounted", part, "0::/job/step\n", 500, "two/job", false},
		{"more than allowed", two, "0::/tight\n", 0, "two/tight", false},
		{"version 1", one, "4:memory:/node\n2:cpu:/other\n", 440, "one/node", false},
		{"both", one + two, "4:memory:/node\n0::/job\n", 440, "one/node", false},
		{"none", one + two, "4:memory:/\n0::/\n", math.MaxInt64, "", false},
		{"not to be seen", part, "0::/other\n", math.MaxInt64, "", false},
		{"nothing mounted", "", "0::/job\n", math.MaxInt64, "", false},
		{"no number", two, "0::/odd\n", 0, "", true},
	} {
		left, at, err := memoryLeft(k.info, k.own)
		want := ""
		if k.at != "" {
			want = filepath.Join(root, k.at)
		}
		if left != k.left || at != want || (err != nil) != k.fails {
			t.Errorf("%s: found %d by %q, %v, wanted %d by %q, error: %v", k.name, left, at, err, k.left, want, k.fails)
		}
	}
	if left, at, err := MemoryLeft(); err != nil || left <= 0 {
		t.Errorf("here: %d by %q, %v", left, at, err)
	}
}
