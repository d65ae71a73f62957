package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/byssus-hpc/byssus/internal/store/files"
	"github.com/byssus-hpc/byssus/internal/store/format"
)

const rank = 3

func nothing(int64) {}

// tree writes files below the rank's directory of a new dataset, and returns the dataset's.
func tree(t testing.TB, content map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	top := filepath.Join(dir, files.ContentName(rank))
	if err := os.Mkdir(top, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, b := range content {
		put(t, filepath.Join(top, path), b)
	}
	return dir
}

func put(t testing.TB, path string, b []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, b, 0o640)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// sample has files of all kinds: empty, nested, of a MiB and a byte more or less, one name before another as bytes and behind as elements.
func sample() map[string][]byte {
	return map[string][]byte{"empty": nil, "a/b/c": random(1, 100), "a-b": random(2, files.Chunk), "a/z": random(3, files.Chunk-1),
		"deep/er/and/deeper/file with space": random(4, 3*files.Chunk+1), "\u00e4": []byte("x"), "zeros": make([]byte, 2*files.Chunk), "latin \xe9/\xff": []byte("y")}
}

func index(t testing.TB, dir string) *files.Index {
	t.Helper()
	x, err := files.Make(t.Context(), dir, rank, true, nothing)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// same compares what lies below a rank's directory with what was written.
func same(t *testing.T, dir string, want map[string][]byte) {
	t.Helper()
	found := map[string][]byte{}
	top := filepath.Join(dir, files.ContentName(rank))
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, top+"/")] = append([]byte{}, b...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != len(want) {
		t.Errorf("%d files, wanted %d", len(found), len(want))
	}
	for path, b := range want {
		if !bytes.Equal(found[path], b) {
			t.Errorf("%s: %d bytes, wanted %d others", path, len(found[path]), len(b))
		}
	}
}

// TestMake: an index is read as it was made, and all is as it says.
func TestMake(t *testing.T) {
	dir := tree(t, sample())
	x := index(t, dir)
	again, err := files.Open(dir, rank)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(x, again, cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); d != "" {
		t.Error(d)
	}
	if damage, err := x.Verify(t.Context(), dir, nothing); err != nil || len(damage) > 0 {
		t.Errorf("%v, %v", damage, err)
	}
	if len(x.Files) != len(sample()) || x.Rank != rank {
		t.Errorf("%d files of rank %d", len(x.Files), x.Rank)
	}
}

// TestNothing: a rank may have written nothing.
func TestNothing(t *testing.T) {
	dir := tree(t, nil)
	if x := index(t, dir); len(x.Files) != 0 || x.Size != 0 {
		t.Errorf("%+v", x)
	}
	to := t.TempDir()
	if _, err := files.Copy(t.Context(), dir, to, rank, true); err != nil {
		t.Fatal(err)
	}
	same(t, to, nil)
}

// TestCopy: a copy has the same bytes, modes, times and holes.
func TestCopy(t *testing.T) {
	dir, to := tree(t, sample()), t.TempDir()
	top := filepath.Join(dir, files.ContentName(rank))
	sparse := filepath.Join(top, "sparse")
	put(t, sparse, []byte("begin"))
	if err := os.Truncate(sparse, 1<<30+7); err != nil {
		t.Fatal(err)
	}
	when := time.Unix(1e9, 5e8)
	err := errors.Join(os.Chtimes(filepath.Join(top, "empty"), when, when), os.Chmod(filepath.Join(top, "empty"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	x := index(t, dir)
	if _, err := files.Copy(t.Context(), dir, to, rank, true); err != nil {
		t.Fatal(err)
	}
	y, err := files.Open(to, rank)
	if err != nil || y.Digest != x.Digest {
		t.Fatalf("%v, %v", y, err)
	}
	if damage, err := y.Verify(t.Context(), to, nothing); err != nil || len(damage) > 0 {
		t.Errorf("%v, %v", damage, err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(filepath.Join(to, files.ContentName(rank), "sparse"), &st); err != nil || st.Size != 1<<30+7 || st.Blocks > 1<<12 {
		t.Errorf("a sparse file has %d blocks and %d bytes, %v", st.Blocks, st.Size, err)
	}
	info, err := os.Stat(filepath.Join(to, files.ContentName(rank), "empty"))
	if err != nil || !info.ModTime().Equal(when) || info.Mode().Perm() != 0o755 {
		t.Errorf("%v of %v, %v", info.Mode(), info.ModTime(), err)
	}
	if err := os.Remove(filepath.Join(to, files.ContentName(rank), "sparse")); err != nil {
		t.Fatal(err)
	}
	same(t, to, sample())
}

// TestEveryBit: a flipped bit is found wherever it is, in a file or in the index; and it is told where.
func TestEveryBit(t *testing.T) {
	content := map[string][]byte{"a/b": random(1, 300), "c": random(2, 2*files.Chunk+20)}
	dir := tree(t, content)
	x := index(t, dir)
	stored, err := os.ReadFile(filepath.Join(dir, files.IndexName(rank)))
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(stored) * 8 {
		b := bytes.Clone(stored)
		b[bit/8] ^= 1 << (bit % 8)
		if y, err := files.Parse(b); err == nil && cmp.Equal(x, y) {
			t.Fatalf("bit %d of the index: not found", bit)
		}
	}
	rng := rand.New(rand.NewPCG(5, 5))
	for range 60 {
		path := []string{"a/b", "c"}[rng.IntN(2)]
		at := rng.IntN(len(content[path]))
		b := bytes.Clone(content[path])
		b[at] ^= 1 << rng.IntN(8)
		put(t, filepath.Join(dir, files.ContentName(rank), path), b)
		damage, err := x.Verify(t.Context(), dir, nothing)
		if path == "c" {
			at += 300
		}
		if err != nil || len(damage) != 1 || int64(at) < damage[0].From || int64(at) >= damage[0].To || damage[0].To-damage[0].From > files.Chunk {
			t.Fatalf("byte %d of %s: %+v, %v", at, path, damage, err)
		}
		if _, err := files.Copy(t.Context(), dir, t.TempDir(), rank, false); !errors.Is(err, files.ErrDamaged) {
			t.Fatalf("byte %d of %s is copied: %v", at, path, err)
		}
		put(t, filepath.Join(dir, files.ContentName(rank), path), content[path])
	}
}

// TestRepair: what is damaged, gone, too short or too long is written over, and is as it was; nothing else is touched.
func TestRepair(t *testing.T) {
	content := sample()
	dir := tree(t, content)
	x := index(t, dir)
	whole := make([]byte, x.Size)
	in := x.Read(dir)
	if n, err := in.ReadAt(whole, 0); err != nil || n != len(whole) {
		t.Fatal(n, err)
	}
	in.Close()
	top := filepath.Join(dir, files.ContentName(rank))
	flipped := bytes.Clone(content["deep/er/and/deeper/file with space"])
	flipped[files.Chunk+5] ^= 4
	put(t, filepath.Join(top, "deep/er/and/deeper/file with space"), flipped)
	err := errors.Join(os.RemoveAll(filepath.Join(top, "a")), os.Truncate(filepath.Join(top, "a-b"), 10), os.Remove(filepath.Join(top, "empty")),
		os.Truncate(filepath.Join(top, "zeros"), 5*files.Chunk))
	if err != nil {
		t.Fatal(err)
	}
	damage, err := x.Verify(t.Context(), dir, nothing)
	if err != nil || len(damage) != 6 {
		t.Fatalf("%+v, %v", damage, err)
	}
	out := x.Repair(dir)
	for _, d := range damage {
		if _, err := out.WriteAt(whole[d.From:d.To], d.From); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(out.Finish(true), out.Close()); err != nil {
		t.Fatal(err)
	}
	if damage, err := x.Verify(t.Context(), dir, nothing); err != nil || len(damage) > 0 {
		t.Errorf("%+v, %v", damage, err)
	}
	same(t, dir, content)
}

// TestRefused: what cannot be part of a dataset is named.
func TestRefused(t *testing.T) {
	for want, spoil := range map[string]func(top string) error{
		"link: found L":                    func(top string) error { return os.Symlink("/etc/passwd", filepath.Join(top, "link")) },
		"pipe: found p":                    func(top string) error { return syscall.Mkfifo(filepath.Join(top, "pipe"), 0o600) },
		"no such file":                     os.RemoveAll,
		`"a\nb": wanted a path below`:      func(top string) error { return os.WriteFile(filepath.Join(top, "a\nb"), nil, 0o600) },
		"open: " + files.ErrOpen.Error():   nil,
		"mapped: " + files.ErrOpen.Error(): nil,
	} {
		dir := tree(t, map[string][]byte{"good": []byte("x"), "open": []byte("y"), "mapped": make([]byte, 4096)})
		top := filepath.Join(dir, files.ContentName(rank))
		if spoil != nil {
			if err := spoil(top); err != nil {
				t.Fatal(err)
			}
		} else {
			f, err := os.OpenFile(filepath.Join(top, strings.TrimSuffix(want, ": "+files.ErrOpen.Error())), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if strings.HasPrefix(want, "mapped") {
				m, err := syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_WRITE, syscall.MAP_SHARED)
				if err != nil {
					t.Fatal(err)
				}
				defer syscall.Munmap(m)
				f.Close()
			}
		}
		if _, err := files.Make(t.Context(), dir, rank, false, nothing); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, wanted %q", err, want)
		}
		if _, err := os.Stat(filepath.Join(dir, files.IndexName(rank))); err == nil {
			t.Errorf("%s: there is an index", want)
		}
	}
}

// TestEnds: reading ends with a context.
func TestEnds(t *testing.T) {
	dir := tree(t, sample())
	x := index(t, dir)
	ctx, end := context.WithCancel(t.Context())
	end()
	_, err := files.Make(ctx, dir, rank, false, nothing)
	_, err2 := x.Verify(ctx, dir, nothing)
	_, err3 := files.Copy(ctx, dir, t.TempDir(), rank, false)
	for _, err := range []error{err, err2, err3} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
}

// TestBound: an index that lies about its length costs no memory.
func TestBound(t *testing.T) {
	dir := tree(t, sample())
	index(t, dir)
	b, err := os.ReadFile(filepath.Join(dir, files.IndexName(rank)))
	if err != nil {
		t.Fatal(err)
	}
	copy(b[48:], []byte{0, 0, 0, 0xf, 0, 0, 0, 0}) // index_size: 251 MiB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := files.Read(bytes.NewReader(b)); err == nil {
		t.Error("it is read")
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
		t.Errorf("%d bytes of memory", got)
	}
}

// FuzzParse: whatever bytes come, reading them ends, without a panic; and what is read leads nowhere else.
func FuzzParse(f *testing.F) {
	for _, content := range []map[string][]byte{nil, sample()} {
		dir := tree(f, content)
		index(f, dir)
		b, err := os.ReadFile(filepath.Join(dir, files.IndexName(rank)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4 {
			crc := format.Checksum(b[:len(b)-4])
			copy(b[len(b)-4:], []byte{byte(crc), byte(crc >> 8), byte(crc >> 16), byte(crc >> 24)})
		}
		x, err := files.Parse(b)
		if err != nil {
			return
		}
		var sum int64
		for _, file := range x.Files {
			if !filepath.IsLocal(file.Path) || file.Path == "." || file.Size < 0 {
				t.Fatalf("%+v", file)
			}
			sum += file.Size
		}
		if sum != x.Size {
			t.Fatal(fmt.Sprint(sum, x.Size))
		}
	})
}
