package agent

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSharedFileSystems(t *testing.T) {
	const text = `22 27 0:21 / /proc rw,relatime - proc proc rw
30 27 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
41 30 0:45 / /home rw,relatime shared:7 master:2 - nfs4 server:/export/home rw,vers=4.2
42 30 0:46 / /scratch rw - lustre 10.1.1.1@tcp:/scratch rw
43 30 0:300 / /mnt/my\040disk rw - fuse.sshfs me@host:/there rw
44 30 0:48 / /mnt/nothing rw - fuse.mine mine rw
45 30 0:49 / /tmp rw - tmpfs tmpfs rw
short line
46 30 nonsense / /x rw - nfs a:/b rw
`
	want := map[uint64]string{
		device(0, 45):  "nfs4:server:/export/home",
		device(0, 46):  "lustre:10.1.1.1@tcp:/scratch",
		device(0, 300): "fuse.sshfs:me@host:/there",
	}
	if d := cmp.Diff(want, shared([]byte(text))); d != "" {
		t.Error(d)
	}
}

// TestDomain: a file and a pipe of this machine have domains of this boot, each device its own; the device is found again.
func TestDomain(t *testing.T) {
	d, err := newDomains()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var file, pipe syscall.Stat_t
	if err := syscall.Stat(path, &file); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Fstat(int(r.Fd()), &pipe); err != nil {
		t.Fatal(err)
	}
	a, b := d.of(file.Dev), d.of(pipe.Dev)
	if a == b || !strings.HasPrefix(b, d.boot) || d.dev[a] != file.Dev || d.dev[b] != pipe.Dev || d.of(file.Dev) != a {
		t.Errorf("%q of %d, %q of %d", a, file.Dev, b, pipe.Dev)
	}
}
