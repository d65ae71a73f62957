package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// MemoryLeft is how much more memory the cgroups of this process let it, and what runs beside it in them, use before the kernel kills
// something, and the directory of the one that leaves least; math.MaxInt64: none of them has a limit, or none can be seen. Of what
// is in use the content of files on disks does not count, since it is given up first.
func MemoryLeft() (bytes int64, cgroup string, err error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return 0, "", err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0, "", err
	}
	return memoryLeft(string(info), string(own))
}

// memoryFiles are the names of what a memory controller tells. The last two are keys in stat.
type memoryFiles struct {
	limit, usage     string
	inactive, active string
}

func memoryLeft(mountinfo, own string) (int64, string, error) {
	left, at := int64(math.MaxInt64), ""
	for line := range strings.Lines(own) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		files, kind := memoryFiles{"memory.max", "memory.current", "inactive_file", "active_file"}, "cgroup2"
		switch {
		case f[0] == "0":
		case slices.Contains(strings.Split(f[1], ","), "memory"):
			files, kind = memoryFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"}, "cgroup"
		default:
			continue
		}
		root, rel := mounted(mountinfo, kind, f[2])
		for dir := filepath.Join(root, rel); root != ""; dir = filepath.Dir(dir) {
			n, err := files.left(dir)
			if err != nil {
				return 0, "", err
			}
			if n < left {
				left, at = n, dir
			}
			if dir == root {
				break
			}
		}
	}
	return left, at, nil
}

// mounted is where the hierarchy with a memory controller is mounted, and what of the path of a cgroup lies below that; empty: it
// cannot be seen.
func mounted(mountinfo, kind, path string) (root, rel string) {
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		dash := slices.Index(f, "-")
		if dash <= 5 || dash+1 >= len(f) || f[dash+1] != kind || kind == "cgroup" && !slices.Contains(strings.Split(f[len(f)-1], ","), "memory") {
			continue
		}
		if r, err := filepath.Rel(f[3], path); err == nil && filepath.IsLocal(r) {
			root, rel = f[4], r
		}
	}
	return root, rel
}

// left is how much more the processes in a cgroup may use.
func (m memoryFiles) left(dir string) (int64, error) {
	limit, err := number(filepath.Join(dir, m.limit))
	if errors.Is(err, fs.ErrNotExist) || err == nil && limit > math.MaxInt64/2 { // no controller there, or no limit
		return math.MaxInt64, nil
	}
	if err != nil {
		return 0, err
	}
	usage, err := number(filepath.Join(dir, m.usage))
	if err != nil {
		return 0, err
	}
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(stat)) {
		var key string
		var n int64
		if _, err := fmt.Sscan(line, &key, &n); err == nil && (key == m.inactive || key == m.active) {
			usage -= n
		}
	}
	return max(limit-max(usage, 0), 0), nil
}

// number reads a file with a number; "max" is the highest.
func number(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	word := strings.TrimSpace(string(text))
	if word == "max" {
		return math.MaxInt64, nil
	}
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: found %.40q, wanted a number", path, word)
	}
	return n, nil
}
