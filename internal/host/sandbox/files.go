package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A layout is what a node looks like from inside.
type layout struct {
	Name    string   `json:"name"`
	UID     int      `json:"uid"`
	Disk    int64    `json:"disk"`    // size of each directory of its own
	Cover   string   `json:"cover"`   // a directory in which nothing is to be seen
	Visible []string `json:"visible"` // in a directory of its own, and yet the machine's, read-only
	Shared  []string `json:"shared"`  // written by all nodes
	Hosts   string   `json:"hosts"`
}

// A tree is a copy of a part of the machine's mounts, not yet in its place.
type tree struct {
	fd   int
	path string // where it was and will be
}

// arrange makes the file system of a node out of the machine's. What is to stay writable is taken aside first; then
// everything becomes read-only, directories of the node's own are mounted, and what was taken aside goes back over them.
// The directory with the sockets of all sandboxes is hidden, but for what of it was taken aside.
func (l layout) arrange() error {
	shared, err := takeAll(l.Shared, false)
	if err != nil {
		return err
	}
	visible, err := takeAll(l.Visible, true)
	if err != nil {
		return err
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("files: make the machine's read-only: %w", err)
	}
	if err := l.mountOwn(); err != nil {
		return err
	}
	trees := append(visible, shared...) // what is both is writable
	hidden := func(t tree) bool { return within(t.path, l.Cover) }
	if err := putAll(slices.DeleteFunc(slices.Clone(trees), hidden)); err != nil {
		return err
	}
	if _, err := os.Lstat(l.Cover); err == nil { // in the machine's files, or in what was put back
		if err := mountTmpfs(l.Cover, 1<<20, 0o700); err != nil {
			return err
		}
	}
	if err := putAll(slices.DeleteFunc(trees, func(t tree) bool { return !hidden(t) })); err != nil {
		return err
	}
	if err := mountProc(); err != nil {
		return err
	}
	if err := mountSys(); err != nil {
		return err
	}
	if err := setTCP(); err != nil {
		return err
	}
	return l.mountHosts()
}

// takeAll takes trees aside, those around others first.
func takeAll(paths []string, readOnly bool) ([]tree, error) {
	var list []tree
	for _, path := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		t, err := take(path, readOnly)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// take copies the mounts at and below a path.
func take(path string, readOnly bool) (tree, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err == nil && readOnly {
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	}
	if err != nil {
		return tree{}, fmt.Errorf("files: take %s: %w", path, err)
	}
	return tree{fd, path}, nil
}

// putAll puts trees back.
func putAll(trees []tree) error {
	for _, t := range trees {
		if err := t.put(); err != nil {
			return err
		}
	}
	return nil
}

// put mounts a tree where it was. Where a directory of the node's own hides the place, it is made there.
func (t tree) put() error {
	defer unix.Close(t.fd)
	err := os.MkdirAll(t.path, 0o700)
	if err == nil {
		err = unix.MoveMount(t.fd, "", unix.AT_FDCWD, t.path, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err != nil {
		return fmt.Errorf("files: put %s: %w", t.path, err)
	}
	return nil
}

// tmpfsFlags are those of all directories of a node's own.
const tmpfsFlags = unix.MS_NOSUID | unix.MS_NODEV

// mountTmpfs mounts an empty directory.
func mountTmpfs(dir string, size int64, mode fs.FileMode) error {
	options := fmt.Sprintf("size=%d,mode=%o", size, mode)
	if err := unix.Mount("tmpfs", dir, "tmpfs", tmpfsFlags, options); err != nil {
		return fmt.Errorf("files: %s: %w", dir, err)
	}
	return nil
}

// mountOwn mounts the directories of the node's own.
func (l layout) mountOwn() error {
	modes := map[string]fs.FileMode{"/run": 0o755, Home: 0o700, Cache: 0o700}
	for _, dir := range OwnDirs() {
		if within(dir, "/run") {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("files: %w", err)
			}
		}
		mode, ok := modes[dir]
		if !ok {
			mode = 0o1777
		}
		if err := mountTmpfs(dir, l.Disk, mode); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		path string
		mode fs.FileMode
	}{{"/run/lock", 0o777 | fs.ModeSticky}, {"/run/user", 0o755}, {runtimeDir(l.UID), 0o700}} {
		err := os.Mkdir(d.path, 0o700)
		if err == nil {
			err = os.Chmod(d.path, d.mode) // whatever the umask
		}
		if err != nil {
			return fmt.Errorf("files: %w", err)
		}
	}
	return nil
}

// mountProc mounts the processes of our own namespace.
func mountProc() error {
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("files: /proc: %w", err)
	}
	return nil
}

// setTCP lets the node's TCP send as fast as its windows are wide, whatever is good for the machine's ways to the world.
// Some machines have bbr for these, which looks for the speed of a way and keeps to it by timers: between nodes, where the
// way is memory, everything takes half as long again. Where /proc is not ours to write, the machine's stays.
func setTCP() error {
	err := os.WriteFile("/proc/sys/net/ipv4/tcp_congestion_control", []byte("reno"), 0) // which every kernel has
	if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("files: %w", err)
	}
	return nil
}

// mountSys mounts the devices of our own network namespace, which some MPIs look for, and puts the cgroups back. A
// container whose own view of /sys is not whole may not do so: then the machine's stays.
func mountSys() error {
	const cgroups = "/sys/fs/cgroup"
	old, err := take(cgroups, true)
	if err != nil {
		return err
	}
	err = unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, "")
	if errors.Is(err, unix.EPERM) {
		unix.Close(old.fd)
		return nil
	}
	if err != nil {
		return fmt.Errorf("files: /sys: %w", err)
	}
	return old.put()
}

// mountHosts lets the nodes find each other by name.
func (l layout) mountHosts() error {
	file := filepath.Join(filepath.Dir(Home), "hosts")
	err := os.WriteFile(file, []byte(l.Hosts), 0o644)
	if err == nil {
		err = unix.Mount(file, "/etc/hosts", "", unix.MS_BIND, "")
	}
	if err != nil {
		return fmt.Errorf("files: /etc/hosts: %w", err)
	}
	return nil
}

// filler is the file that takes what a full directory must have at least.
const filler = ".byssus-disk-full"

// fillDisk leaves no room in the directory of the node's own in which path lies, and returns which that is. The
// directory is made as small as what is in it, so that it takes neither time nor memory.
func (l layout) fillDisk(path string) (string, error) {
	dir, err := ownDir(path)
	if err != nil {
		return "", err
	}
	err = os.WriteFile(filepath.Join(dir, filler), []byte("full\n"), 0o600) // one of nothing would have no limit
	if err != nil && !errors.Is(err, unix.ENOSPC) {
		return "", err
	}
	for range 100 { // others may be writing
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return "", fmt.Errorf("%s: %w", dir, err)
		}
		err = resize(dir, int64(st.Blocks-st.Bfree)*st.Bsize)
		if !errors.Is(err, unix.EINVAL) { // it has more in it by now
			break
		}
	}
	return dir, err
}

// freeDisk gives a directory its size back.
func (l layout) freeDisk(path string) (string, error) {
	dir, err := ownDir(path)
	if err != nil {
		return "", err
	}
	if err := os.Remove(filepath.Join(dir, filler)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return dir, resize(dir, l.Disk)
}

func ownDir(path string) (string, error) {
	dir := own(filepath.Clean(path))
	if dir == "" {
		return "", fmt.Errorf("%s: not in a directory of the node's own, which are %s: %w", path, strings.Join(OwnDirs(), ", "), ErrOption)
	}
	return dir, nil
}

func resize(dir string, size int64) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|tmpfsFlags, fmt.Sprintf("size=%d", size)); err != nil {
		return fmt.Errorf("%s: size %d: %w", dir, size, err)
	}
	return nil
}
