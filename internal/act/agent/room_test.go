package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

const mib = 1 << 20

// TestRoom: what fits is not refused; what does not is, with the sum.
func TestRoom(t *testing.T) {
	for _, k := range []struct {
		room room
		want string // empty: there is room
	}{
		{room{}, ""},
		{room{copies: 3, free: 1}, ""}, // nothing is known of the images
		{room{images: 10 * mib, copies: 3, free: 30 * mib}, ""}, // to the byte
		{room{images: 10 * mib, copies: 3, free: 30*mib - 1},
			"too small: wanted 3 x (10.0 MiB images + 0 B redundancy) = 30.0 MiB, found 30.0 MiB free + 0 B held"},
		{room{images: 10 * mib, share: redset.Share{Times: 1, Less: 1}, copies: 3, free: 60 * mib}, ""}, // a copy of another's
		{room{images: 10 * mib, share: redset.Share{Times: 1, Less: 1}, copies: 3, free: 59 * mib},
			"too small: wanted 3 x (10.0 MiB images + 10.0 MiB redundancy) = 60.0 MiB, found 59.0 MiB free + 0 B held"},
		{room{images: 10 * mib, share: redset.Share{Times: 2, Less: 1}, copies: 3, free: 90 * mib}, ""}, // of two others'
		{room{images: 10 * mib, share: redset.Share{Times: 2, Less: 1}, copies: 3, free: 89 * mib},
			"too small: wanted 3 x (10.0 MiB images + 20.0 MiB redundancy) = 90.0 MiB, found 89.0 MiB free + 0 B held"},
		{room{images: 9 * mib, share: redset.Share{Times: 1, Less: 3}, copies: 3, free: 36 * mib}, ""}, // parity of four nodes
		{room{images: 9 * mib, share: redset.Share{Times: 1, Less: 3}, copies: 3, free: 35 * mib},
			"too small: wanted 3 x (9.0 MiB images + 3.0 MiB redundancy) = 36.0 MiB, found 35.0 MiB free + 0 B held"},
		{room{images: 10, share: redset.Share{Times: 1, Less: 3}, copies: 1, free: 14}, ""}, // parity is rounded up
		{room{images: 10, share: redset.Share{Times: 1, Less: 3}, copies: 1, free: 13}, "too small: wanted 1 x (10 B images + 4 B redundancy) = 14 B, found 13 B free + 0 B held"},
		{room{images: 9 * mib, share: redset.Share{Times: 1, Less: 3}, copies: 3, free: 12 * mib, held: 24 * mib}, ""}, // two are there already
		{room{images: 9 * mib, share: redset.Share{Times: 1, Less: 3}, copies: 3, free: 11 * mib, held: 24 * mib},
			"too small: wanted 3 x (9.0 MiB images + 3.0 MiB redundancy) = 36.0 MiB, found 11.0 MiB free + 24.0 MiB held"},
		{room{images: 1 * mib, copies: 3, free: 0, held: 90 * mib}, ""}, // what is there gives its place
		{room{images: 2 * mib, copies: 1, free: 1 * mib, by: "/a/b"}, "too small: wanted 1 x (2.0 MiB images + 0 B redundancy) = 2.0 MiB, " +
			"found 1.0 MiB free + 0 B held (32.0 MiB of the memory that /a/b allows are kept for the program)"},
	} {
		err := k.room.check()
		if err == nil != (k.want == "") || err != nil && (err.Error() != k.want || !errors.Is(err, ErrRoom)) {
			t.Errorf("%+v: found %v, wanted %q", k.room, err, k.want)
		}
	}
}

// TestSizes: what a directory occupies, and what its file system has left.
func TestSizes(t *testing.T) {
	dir := t.TempDir()
	before, err := size(dir)
	if err != nil || before != 0 {
		t.Fatalf("%d, %v", before, err)
	}
	sub := filepath.Join(dir, "ckpt.000001")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, sub} {
		if err := os.WriteFile(filepath.Join(d, "file"), make([]byte, mib), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := size(dir); err != nil || n < 2*mib || n > 3*mib {
		t.Errorf("%d bytes, %v", n, err)
	}
	if n, known, _, err := free(dir); err != nil || !known || n <= 0 {
		t.Errorf("%d bytes, %v, %v", n, known, err)
	}
	if _, _, inMemory, err := free("/dev/shm"); err != nil || !inMemory {
		t.Errorf("/dev/shm is in memory: %v, %v", inMemory, err)
	}
	if _, _, _, err := free(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that is not there has room")
	}
	if n, err := size(filepath.Join(dir, "none")); err != nil || n != 0 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestResident: the memory of a rank's program is what lies below the lower half.
func TestResident(t *testing.T) {
	const smaps = `10000-20000 rw-p 00000000 00:00 0                                      [heap]
Rss:                  64 kB
Anonymous:            48 kB
AnonHugePages:         0 kB
VmFlags: rd wr mr mw me ac sd
4fffffff0000-500000000000 r--p 00000000 08:01 5                      /lib/a-b
Rss:                   8 kB
500000000000-500000010000 rw-p 00000000 00:00 0
Rss:                4096 kB
`
	if all, written, err := residentBelow(strings.NewReader(smaps), arenaEnd); err != nil || all != 72<<10 || written != 48<<10 {
		t.Errorf("%d bytes, %d, %v", all, written, err)
	}
	if all, written, err := upperBytes(os.Getpid()); err != nil || written == 0 || all < written { // a Go program has its heap at 0xc000000000
		t.Errorf("%d bytes, %d, %v", all, written, err)
	}
}
