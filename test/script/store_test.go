package script

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/store/input"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
	"github.com/byssus-hpc/byssus/test/harness"
)

// realStore is the store of two real jobs that have ended: hurt, with two ranks and the checkpoints 1 and 2, and well.
type realStore struct {
	t    *testing.T
	job  *harness.Job
	dir  string // of hurt
	id   [16]byte
	rand *rand.Rand
}

func makeRealStore(t *testing.T, ctx context.Context, writers string) *realStore {
	t.Helper()
	site, err := harness.Here()
	if err == nil {
		err = site.Build()
	}
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	seed := harness.Seed()
	t.Logf("seed %d", seed)
	s := &realStore{t: t, dir: filepath.Join(work, "store", "hurt"), rand: rand.New(rand.NewPCG(seed, 1))}
	for _, name := range []string{"well", "hurt"} {
		s.job = site.NewJob(name, work)
		t.Cleanup(s.job.Close)
		program := harness.Program{Name: "stencil", Args: []string{"--iters", "100000", "--pace", "5000"}}
		if err := s.job.Run(ctx, "mpich", 2, []string{"--retries", "0", "--writers", writers}, site.Command(program, "mpich")...); err != nil {
			t.Fatal(err)
		}
		s.runs(ctx)
		for range 2 {
			if _, err := s.job.Checkpoint(ctx); err != nil {
				t.Fatal(err)
			}
		}
		s.end(ctx)
	}
	job, err := dataset.Store{Dir: filepath.Dir(s.dir)}.Open("hurt")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := hex.Decode(s.id[:], []byte(job.Meta.ID)); n != len(s.id) || err != nil {
		t.Fatalf("job id %q: %v", job.Meta.ID, err)
	}
	return s
}

// runs waits until the job makes progress.
func (s *realStore) runs(ctx context.Context) {
	s.t.Helper()
	err := s.job.Proc().Until(ctx, "progress", func(text string) bool { return strings.Contains(text, "iter ") })
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.job.Story())
	}
}

// goesOn waits until the job runs again: a rank may print before the last one has come back.
func (s *realStore) goesOn(ctx context.Context) {
	s.t.Helper()
	err := harness.Poll(ctx, "a restart", func() bool {
		return !s.job.Proc().Running() || strings.Contains(s.job.Proc().Stderr.String(), "goes on from checkpoint")
	})
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.job.Story())
	}
}

func (s *realStore) end(ctx context.Context) {
	s.t.Helper()
	if _, errs, code := s.job.Command(ctx, "stop", "--now", s.job.Name); code != 0 {
		s.t.Fatalf("stop: %d %s", code, errs)
	}
	select {
	case <-s.job.Proc().Done():
	case <-ctx.Done():
		s.t.Fatal(ctx.Err())
	}
}

func (s *realStore) read(path string) []byte {
	s.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

func (s *realStore) write(path string, b []byte) {
	s.t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// image reads an image as a verification does before it reads the memory.
func image(b []byte) (*format.Image, error) { return format.Read(bytes.NewReader(b), int64(len(b))) }

// TestEveryByteOfARealStore turns a bit in every byte of a real job's files, one after the other: in every one of the
// small files, and of the headers, sections and tables of images, and in samples of their memory.
func TestEveryByteOfARealStore(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	s := makeRealStore(t, ctx, "2")
	count := map[string]int{}
	err := filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || e.Name() == "timeline.jsonl" {
			return err // the log is for people: nothing is read from it that a job needs, and it has no checksums
		}
		if strings.HasSuffix(path, ".img") {
			s.everyByteOfImage(path, count)
		} else {
			s.everyByteOfFile(path, count)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("bytes: %v", count)
}

func (s *realStore) everyByteOfFile(path string, count map[string]int) {
	sound := s.read(path)
	for i := range sound {
		bad := slices.Clone(sound)
		bad[i] ^= 1 << s.rand.IntN(8)
		s.write(path, bad)
		job, err := dataset.Store{Dir: filepath.Dir(s.dir)}.Open("hurt")
		if err != nil {
			s.t.Fatalf("%s, byte %d hides the job: %v", path, i, err)
		}
		damage := job.Verify()
		if filepath.Base(path) == "input" {
			damage = append(damage, input.Check(s.dir, s.id))
		}
		if dir := filepath.Dir(path); dir != s.dir {
			if _, err := dataset.Check(dir); err != nil {
				damage = append(damage, err)
			}
		}
		if len(damage) != 1 || damage[0] == nil || !strings.Contains(damage[0].Error(), filepath.Base(path)) {
			s.t.Errorf("%s, byte %d: found %v", path, i, damage)
		}
		count[filepath.Base(path)]++
	}
	s.write(path, sound)
}

func (s *realStore) everyByteOfImage(path string, count map[string]int) {
	b := s.read(path)
	im, err := image(b)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range b {
		if uint64(i) >= im.Header.DataOff && uint64(i) < im.Header.SectionsOff {
			continue
		}
		bit := byte(1) << s.rand.IntN(8)
		b[i] ^= bit
		if _, err := image(b); err == nil {
			s.t.Errorf("%s: byte %d of %d: a turned bit went unnoticed", path, i, len(b))
		}
		b[i] ^= bit
		count["headers, sections, tables"]++
	}
	for i := 0; i < 3000 && len(im.Chunks) > 0; i++ {
		one := *im
		c := im.Chunks[s.rand.IntN(len(im.Chunks))]
		one.Chunks = []abi.Chunk{c}
		i, bit := c.Offset+s.rand.Uint64N(uint64(c.Length)), byte(1)<<s.rand.IntN(8)
		b[i] ^= bit
		if err := one.VerifyData(bytes.NewReader(b), func(int64) {}); err == nil {
			s.t.Errorf("%s: byte %d of %d: a turned bit went unnoticed", path, i, len(b))
		}
		b[i] ^= bit
		count["memory"]++
	}
}

// TestRestartAfterDamage turns single bits in each kind of place and runs the verbs: verify names the file, list shows
// the other job, and a restart says what is wrong and goes on from the older checkpoint, or from the newer one when
// what was damaged could be made again.
func TestRestartAfterDamage(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	s := makeRealStore(t, ctx, "2")
	newest := filepath.Join(s.dir, "ckpt.000002")
	meta := s.read(filepath.Join(s.dir, "job.json"))
	for _, place := range []string{"job.json", "manifest.json", "header", "memory", "section's type", "section's length",
		"section's checksum", "section's bytes", "padding", "mappings", "chunks"} {
		path, at := s.place(newest, place)
		sound := s.read(path)
		bad := slices.Clone(sound)
		bad[at] ^= 1 << s.rand.IntN(8)
		s.write(path, bad)
		t.Logf("%s: byte %d of %s", place, at, filepath.Base(path))
		if _, errs, code := s.job.Command(ctx, "verify", "hurt"); code != 122 || !strings.Contains(errs, filepath.Base(path)) {
			t.Errorf("%s: verify: exit code %d: %s", place, code, errs)
		}
		if out, _, _ := s.job.Command(ctx, "list"); !strings.Contains(out, "well") || strings.Count(out, "\nhurt") != 2 {
			t.Errorf("%s: list: %s", place, out)
		}
		if err := s.job.Restart(ctx, []string{"mpich", "openmpi"}[s.rand.IntN(2)], "--retries", "0"); err != nil {
			t.Fatal(err)
		}
		s.goesOn(ctx)
		want := "goes on from checkpoint 1"
		if strings.HasSuffix(place, ".json") {
			want = "goes on from checkpoint 2"
		}
		s.end(ctx)
		if said := s.job.Proc().Stderr.String(); !strings.Contains(said, want) || !strings.Contains(said, filepath.Base(path)) {
			t.Errorf("%s: restart says: %s", place, said)
		}
		if !strings.HasSuffix(place, ".json") {
			s.write(path, sound)
		}
		s.write(filepath.Join(s.dir, "job.json"), meta) // it has gone back behind the newest
		if err := s.job.Verify(ctx); err != nil {
			t.Errorf("%s: afterwards: %v", place, err)
		}
	}
}

// place finds a byte of some kind in a checkpoint: its file, and where it is there.
func (s *realStore) place(dir, kind string) (string, uint64) {
	s.t.Helper()
	switch kind {
	case "job.json":
		return s.somewhere(filepath.Join(s.dir, kind))
	case "manifest.json":
		return s.somewhere(filepath.Join(dir, kind))
	}
	path := filepath.Join(dir, fmt.Sprintf("rank-%05d.0.img", s.rand.IntN(2)))
	im, err := image(s.read(path))
	if err == nil && (kind == "memory" || kind == "chunks") && (s.rand.IntN(2) == 0 || len(im.Chunks) == 0) { // of the other writer
		if other, oerr := image(s.read(strings.Replace(path, ".0.img", ".1.img", 1))); oerr == nil && len(other.Chunks) > 0 {
			path, im = strings.Replace(path, ".0.img", ".1.img", 1), other
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	h := &im.Header
	within := func(off, n uint64) (string, uint64) { return path, off + s.rand.Uint64N(n) }
	switch kind {
	case "header":
		return within(0, 4096)
	case "memory":
		return within(h.DataOff, h.DataLen)
	case "mappings":
		return within(h.VMAsOff, h.NVMAs*56)
	case "chunks":
		return within(h.ChunksOff, h.NChunks*24)
	}
	some := im.Sections[s.rand.IntN(len(im.Sections))]
	for some.Length == 0 || kind == "padding" && some.Length%8 == 0 {
		some = im.Sections[s.rand.IntN(len(im.Sections))]
	}
	switch kind {
	case "section's type":
		return within(some.Offset-16, 4)
	case "section's checksum":
		return within(some.Offset-12, 4)
	case "section's length":
		return within(some.Offset-8, 8)
	case "section's bytes":
		return within(some.Offset, some.Length)
	default:
		return within(some.Offset+some.Length, 8-some.Length%8)
	}
}

func (s *realStore) somewhere(path string) (string, uint64) {
	return path, s.rand.Uint64N(uint64(len(s.read(path))))
}

// checksumOf reads a part of a file.
func (s *realStore) checksumOf(path string, from, to int64) uint32 {
	s.t.Helper()
	f, err := os.Open(path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if _, err := io.Copy(sum, io.NewSectionReader(f, from, to-from)); err != nil {
		s.t.Fatal(err)
	}
	return sum.Sum32()
}

// peak waits for the end of a command and returns the most memory, in KiB, that a rank of it had.
func peak(p *harness.Proc) int {
	most := 0
	for p.Running() {
		for _, r := range harness.Ranks(p.Pid()) {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Pid)) // it may have ended
			for line := range strings.Lines(string(b)) {
				var n int
				if k, _ := fmt.Sscanf(line, "VmHWM: %d kB", &n); k == 1 {
					most = max(most, n)
				}
			}
		}
	}
	return most
}

// poke overwrites the beginning of a file.
func (s *realStore) poke(path string, b []byte) {
	s.t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	f.Close()
}

// TestCraftedImages: files that somebody made up, with checksums that are right and numbers as large as can be, are
// refused by the ranks within a bound of memory.
func TestCraftedImages(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	const hole = 384 << 20
	const bound = 150 << 10 // KiB of a rank
	s := makeRealStore(t, ctx, "1")
	dir := filepath.Join(s.dir, "ckpt.000002")
	path := filepath.Join(dir, "rank-00000.0.img")
	sound, text := s.read(path), s.read(filepath.Join(dir, "manifest.json"))
	for name, craft := range map[string]func(h *abi.ImageHeader) uint64{ // returns where the hole begins
		"chunks of nothing": func(h *abi.ImageHeader) uint64 {
			h.NChunks += hole / 24
			return h.FileSize
		},
		"mappings of nothing": func(h *abi.ImageHeader) uint64 {
			end := h.VMAsOff + h.NVMAs*56
			h.NVMAs += hole / 56
			h.ChunksOff, h.NChunks = h.VMAsOff+h.NVMAs*56, 0
			return end
		},
		"sections of nothing": func(h *abi.ImageHeader) uint64 {
			end := h.SectionsOff + h.SectionsLen
			h.SectionsLen += hole
			h.VMAsOff, h.NVMAs, h.NChunks = h.SectionsOff+h.SectionsLen, 0, 0
			h.ChunksOff = h.VMAsOff
			return end
		},
		"too many parts": func(h *abi.ImageHeader) uint64 { h.NParts = 1 << 31; return h.FileSize },
	} {
		head := slices.Clone(sound[:4096])
		var h abi.ImageHeader
		if _, err := abi.Decode(head, &h); err != nil {
			t.Fatal(err)
		}
		old := fmt.Sprintf("%08x", h.HeaderCRC)
		end := craft(&h)
		h.FileSize = h.ChunksOff + h.NChunks*24
		s.write(path, sound[:end])
		if err := os.Truncate(path, int64(h.FileSize)); err != nil {
			t.Fatal(err)
		}
		h.TablesCRC = s.checksumOf(path, int64(h.VMAsOff), int64(h.FileSize))
		copy(head, abi.Encode(h, ""))
		crc := checksum(head[:4092])
		binary.LittleEndian.PutUint32(head[4092:], crc)
		s.poke(path, head)
		told := bytes.ReplaceAll(text, []byte(old), fmt.Appendf(nil, "%08x", crc))
		told = bytes.ReplaceAll(told, fmt.Appendf(nil, "\"size\": %d,", len(sound)), fmt.Appendf(nil, "\"size\": %d,", h.FileSize))
		s.write(filepath.Join(dir, "manifest.json"), resealed(told))
		if _, errs, code := s.job.Command(ctx, "verify", "hurt"); code != 122 || !strings.Contains(errs, "rank-00000.0.img") {
			t.Errorf("%s: verify: exit code %d: %s", name, code, errs)
		}
		if err := s.job.Restart(ctx, "mpich", "--checkpoint", "2", "--retries", "0"); err != nil {
			t.Fatal(err)
		}
		p := s.job.Proc()
		used := peak(p)
		if said := p.Stderr.String(); p.ExitCode() != 124 || !strings.Contains(said, "rank-00000.0.img") {
			t.Errorf("%s: restart: exit code %d: %s", name, p.ExitCode(), said)
		}
		t.Logf("%s: %d KiB", name, used)
		if used > bound || used == 0 && name != "too many parts" { // which the command itself finds
			t.Errorf("%s: a rank had %d KiB, at most %d wanted", name, used, bound)
		}
	}
}
