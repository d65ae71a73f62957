package parity_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/store/parity"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// disk is a file that may lose what was not synced.
type disk struct {
	now, safe []byte
	pending   []write // since the last sync
	fail      int     // the call that fails, counted from 1; 0: none
	calls     int
}

type write struct {
	b   []byte
	off int64
}

var errDisk = errors.New("no space left on device")

func (d *disk) call() error {
	if d.calls++; d.calls == d.fail {
		return errDisk
	}
	return nil
}

func put(file, b []byte, off int64) []byte {
	if grow := int(off) + len(b) - len(file); grow > 0 {
		file = append(file, make([]byte, grow)...)
	}
	copy(file[off:], b)
	return file
}

func (d *disk) WriteAt(b []byte, off int64) (int, error) {
	if err := d.call(); err != nil {
		return 0, err
	}
	d.now, d.pending = put(d.now, b, off), append(d.pending, write{bytes.Clone(b), off})
	return len(b), nil
}

func (d *disk) ReadAt(b []byte, off int64) (int, error) { return bytes.NewReader(d.now).ReadAt(b, off) }

func (d *disk) Sync() error {
	if err := d.call(); err != nil {
		return err
	}
	d.safe, d.pending = bytes.Clone(d.now), nil
	return nil
}

// crash returns what the file may be after the machine has crashed: any of what was not synced, also parts of it.
func (d *disk) crash(rng *rand.Rand) []byte {
	file := bytes.Clone(d.safe)
	for _, w := range d.pending {
		for len(w.b) > 0 {
			n := min(len(w.b), 512)
			if rng.IntN(2) == 0 {
				file = put(file, w.b[:n], w.off)
			}
			w.b, w.off = w.b[n:], w.off+int64(n)
		}
	}
	return file
}

type (
	record = abi.ParityHeader
	header = holding.Header
)

var testID = holding.ID{Job: [16]byte{1, 2, 3, 15: 0xff}, Start: 4, Epoch: 2, Dataset: 7}

// sample describes a set of three nodes with parts of 100000, 0 and 131073 bytes: the segment is 128 KiB long.
func sample(scheme redset.Scheme, own int) holding.Header {
	return holding.Header{ID: testID, Scheme: scheme, Set: 1, Sets: 3, Own: own, Members: []holding.Member{
		{Node: "node1", Group: "rack0", Files: []holding.File{{Name: "rank-00000.0.img", Size: 99000, Digest: 1 << 60}, {Name: "rank-00001.0.img", Size: 1000, Digest: 2, Rank: 1}}},
		{Node: "node7"},
		{Node: "node3", Group: "rack1", Files: []holding.File{{Name: "empty"}, {Name: "rank-00002.0.img", Size: 131073, Digest: 1<<64 - 1, Rank: 2}}},
	}}
}

// file writes a file with such a header and random data.
func file(t testing.TB, h holding.Header, seed uint64) []byte {
	t.Helper()
	d := &disk{}
	if err := fill(d, h, seed); err != nil {
		t.Fatal(err)
	}
	return d.now
}

// content is what fill writes.
func content(h holding.Header, seed uint64) []byte {
	l, err := h.Layout()
	if err != nil || h.Scheme != redset.XOR {
		return nil
	}
	return random(rand.New(rand.NewPCG(seed, 5)), int(l.Redundancy(h.Own)))
}

func fill(d *disk, h holding.Header, seed uint64) error {
	w, err := parity.Create(d, h)
	if err != nil {
		return err
	}
	b := content(h, seed)
	for off := 0; off < len(b); off += redset.Piece {
		if _, err := w.WriteAt(b[off:min(len(b), off+redset.Piece)], int64(off)); err != nil {
			return err
		}
	}
	return w.Finish()
}

// check reads a file as a verification does.
func check(b []byte) (*parity.Reader, error) {
	r, err := parity.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	return r, r.Verify(func(int64) {})
}

func TestReadBack(t *testing.T) {
	for _, h := range []holding.Header{sample(redset.XOR, 2), sample(redset.Partner, 0), large(1), ofFiles()} {
		b := file(t, h, 1)
		r, err := check(b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(h, r.Header); d != "" {
			t.Error(d)
		}
		want := content(h, 1)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(io.NewSectionReader(r, 0, int64(len(want))), got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: the data comes back wrong: %v", h.Scheme, err)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		for range 200 {
			off := rng.IntN(len(want) + 1)
			n := rng.IntN(len(want) - off + 1)
			if k, err := r.ReadAt(got[:n], int64(off)); k != n || err != nil || !bytes.Equal(got[:n], want[off:off+n]) {
				t.Fatalf("%v: %d bytes at %d: %d, %v", h.Scheme, n, off, k, err)
			}
		}
	}
}

// large has several chunks of data, the last one not full.
func large(own int) holding.Header {
	h := sample(redset.XOR, own)
	h.Members[1].Files = []holding.File{{Name: "big", Size: 5<<20 + 70000, Digest: 9}}
	return h
}

// TestBytes: what is written stays as it is, and what was written before files had their ranks is read as it was.
func TestBytes(t *testing.T) {
	for _, c := range []struct {
		h           holding.Header
		want, older string
	}{
		{sample(redset.XOR, 2), "5796ff5a20fc274e35be64b6044e47358e401d01a0db70933595ee1532fba247", "e865ea3003a2935a8e52e4e4eb5c294b9f5971f7da2f08cc9cefa4aba9dc1849"},
		{sample(redset.Partner, 0), "885bee9b1c7b43b3e1c15cc9453f2debd169c7266a65b048e3a06385d8161274", "570a00a5042be55726c4c35774695476e96bd8d6c40b61bd09abf0fb32c9c663"},
		{ofFiles(), "21d8f4fb0d935ef6a81ce423dfd3ab4a84652d4bf1dc95875edabe564ecc620f", ""},
	} {
		b := file(t, c.h, 1)
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != c.want {
			t.Errorf("%v: sha256 %s, want %s", c.h.Scheme, got, c.want)
		}
		if c.older == "" {
			continue
		}
		b = withoutRanks(t, b, c.h)
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != c.older {
			t.Errorf("%v without ranks: sha256 %s, want %s", c.h.Scheme, got, c.older)
		}
		r, err := check(b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.h, r.Header); d != "" {
			t.Error(d)
		}
	}
}

// withoutRanks is a file as it was written before files had their ranks.
func withoutRanks(t *testing.T, b []byte, h holding.Header) []byte {
	t.Helper()
	head := abi.ParityHeader{}
	if _, err := abi.Decode(b, &head); err != nil {
		t.Fatal(err)
	}
	head.Compat = 0
	copy(b, abi.Encode(head, ""))
	for _, m := range h.Members {
		for _, f := range m.Files {
			at := bytes.Index(b, []byte(f.Name)) // behind its record, whose last field is the rank
			clear(b[at-4 : at])
		}
	}
	return resealed(b)
}

// ofFiles describes a set whose parts are files, of another stream than the checkpoints.
func ofFiles() holding.Header {
	h := sample(redset.XOR, 1)
	h.Stream = 1
	h.Members[0].Files = []holding.File{{Name: "rank-70000.index", Size: 4096, Digest: 7, Rank: 70000, Kind: holding.Files},
		{Name: "rank-70000.files", Size: 99000, Digest: 7, Rank: 70000, Kind: holding.Files}}
	return h
}

// TestEveryByteCounts turns a bit in every byte of a small file.
func TestEveryByteCounts(t *testing.T) {
	good := file(t, sample(redset.XOR, 1), 3)
	for i := range good {
		good[i] ^= 1 << (i % 8)
		if _, err := check(good); err == nil {
			t.Errorf("byte %d: a flipped bit went unnoticed", i)
		}
		good[i] ^= 1 << (i % 8)
	}
	if _, err := check(good); err != nil {
		t.Error(err)
	}
}

// TestTruncated cuts a file at every page and around, and prolongs it.
func TestTruncated(t *testing.T) {
	good := file(t, sample(redset.XOR, 1), 3)
	for n := 0; n < len(good); n++ {
		if n > 300 && n < len(good)-300 && n%abi.PageBytes > 2 {
			continue
		}
		if _, err := check(good[:n]); err == nil {
			t.Errorf("%d bytes of %d: went unnoticed", n, len(good))
		}
	}
	if _, err := check(append(good, 0)); err == nil {
		t.Error("a byte more went unnoticed")
	}
}

// resealed makes a file's header right again after an edit.
func resealed(b []byte) []byte {
	if len(b) < abi.PageBytes {
		return b
	}
	var h abi.ParityHeader
	if _, err := abi.Decode(b, &h); err == nil && h.DataOff >= 4 && h.DataOff <= uint64(len(b)) {
		binary.LittleEndian.PutUint32(b[h.DataOff-4:], format.Checksum(b[:h.DataOff-4]))
	}
	return b
}

// edited is a sample whose first record says something else.
func edited(t testing.TB, f func(h *record)) []byte {
	b := file(t, sample(redset.XOR, 1), 3)
	var h abi.ParityHeader
	if _, err := abi.Decode(b, &h); err != nil {
		t.Fatal(err)
	}
	f(&h)
	copy(b, abi.Encode(h, ""))
	return resealed(b)
}

// kindOf is a file that speaks of a kind that nobody knows.
func kindOf(t *testing.T, kind byte) []byte {
	b := file(t, ofFiles(), 1)
	b[bytes.Index(b, []byte("rank-70000.index"))-6] = kind
	return resealed(b)
}

func TestDamage(t *testing.T) {
	raw := func(f func(b []byte) []byte) []byte { return f(file(t, sample(redset.XOR, 1), 3)) }
	const first = 120 // where the first member begins
	for _, c := range []struct {
		name, want string
		file       []byte
	}{
		{"empty", "0 bytes at 0, wanted 120: truncated", nil},
		{"no header", "never written", raw(func(b []byte) []byte { clear(b[:4096]); return b })},
		{"an image", `magic "BYSSIMG\n", wanted "BYSSPAR\n": not a parity file`,
			raw(func(b []byte) []byte { copy(b, "BYSSIMG\n"); return b })},
		{"future", "format version 9, this byssus reads 1", edited(t, func(h *record) { h.Version = 9 })},
		{"needs more", "needs features 0x4", edited(t, func(h *record) { h.Incompat = 4 })},
		{"half a header", "header: crc32c", raw(func(b []byte) []byte { clear(b[512:4096]); return b })},
		{"data", "chunk 0: crc32c", raw(func(b []byte) []byte { b[4096+77] ^= 1; return b })},
		{"table", "table: crc32c", raw(func(b []byte) []byte { b[len(b)-1] ^= 1; return b })},
		{"data offset", "16384000 bytes of a file of 135172, wanted whole pages",
			edited(t, func(h *record) { h.DataOff = 16384000 })},
		{"no data offset", "0 bytes of a file of 135172", edited(t, func(h *record) { h.DataOff = 0 })},
		{"pages too many", "7828 bytes are left behind 3 members, wanted less than a page",
			edited(t, func(h *record) { h.DataOff += 4096 })},
		{"segment", "segment of 65536 bytes, chunks of 1048576, wanted 131072, 1048576",
			edited(t, func(h *record) { h.SegmentLen = 65536 })},
		{"chunks", "chunks of 4096, wanted", edited(t, func(h *record) { h.ChunkSize = 4096 })},
		{"file size", "file: 135172 bytes, header says 135171, wanted 135172", edited(t, func(h *record) { h.FileSize-- })},
		{"longer", "file: 135173 bytes, header says 135172", raw(func(b []byte) []byte { return append(b, 0) })},
		{"scheme", "scheme 5: wanted partner or xor", edited(t, func(h *record) { h.Scheme = 5 })},
		{"single", "single: wanted partner or xor", edited(t, func(h *record) { h.Scheme = 1 })},
		{"kind", "file 0: rank-70000.index: kind 9 of rank 70000", kindOf(t, 9)},
		{"own", "member 3 of 3", edited(t, func(h *record) { h.Own = 3 })},
		{"set", "set 3 of 3", edited(t, func(h *record) { h.Set = 3 })},
		{"no members", "member 1 of 0", edited(t, func(h *record) { h.NMembers = 0 })},
		{"more members", "member 236 of 1024: abi: decode", edited(t, func(h *record) { h.NMembers = 1024 })},
		{"too many members", "4294967295 members, at most 1024", edited(t, func(h *record) { h.NMembers = 1<<32 - 1 })},
		{"long name", "member 0 of 3: a name of 261 bytes", raw(func(b []byte) []byte { b[first+1] = 1; return resealed(b) })},
		{"files that are not there", "member 0 of 3: file ",
			raw(func(b []byte) []byte { b[first+15] = 0xff; return resealed(b) })},
		{"negative size", "file 0: -9223372036854676808 bytes",
			raw(func(b []byte) []byte { b[first+16+16+7] = 0x80; return resealed(b) })},
		{"way out", `member 0: node: "../e1": not a name`,
			raw(func(b []byte) []byte { copy(b[first+16:], "../e1"); return resealed(b) })},
	} {
		_, err := check(c.file)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := check(make([]byte, 8192)); !errors.Is(err, format.ErrIncomplete) {
		t.Errorf("zeros: %v", err)
	}
}

// TestHeaderRefuses: what a writer is given and no reader would take is refused before a byte is written.
func TestHeaderRefuses(t *testing.T) {
	many := make([]holding.File, 400000)
	for i := range many {
		many[i].Name = fmt.Sprintf("a-file-of-a-rank-with-a-name-%08d", i)
	}
	for _, c := range []struct {
		want string
		edit func(h *header)
	}{
		{`member 1: node: "": not a name`, func(h *header) { h.Members[1].Node = "" }},
		{`member 1: failure group: "a\n": not a name`, func(h *header) { h.Members[1].Group = "a\n" }},
		{"member 2: node node1 is there twice", func(h *header) { h.Members[2].Node = "node1" }},
		{`member 0: file 1: "..": not a name`, func(h *header) { h.Members[0].Files[1].Name = ".." }},
		{`member 0: file 1: "a/b": not a name`, func(h *header) { h.Members[0].Files[1].Name = "a/b" }},
		{"member 2: file 0: rank-00001.0.img is there twice",
			func(h *header) { h.Members[2].Files[0].Name = "rank-00001.0.img" }},
		{"member 0: file 0: -1 bytes", func(h *header) { h.Members[0].Files[0].Size = -1 }},
		{"member 0: file 1: 17592186044416 bytes behind 99000", func(h *header) { h.Members[0].Files[1].Size = redset.MaxPart }},
		{"1 members, wanted 2", func(h *header) { h.Members, h.Own = h.Members[:1], 0 }},
		{"single: wanted", func(h *header) { h.Scheme = redset.Single }},
		{"set -1 of 3", func(h *header) { h.Set = -1 }},
		{"of 1048577, member", func(h *header) { h.Sets = holding.MaxSets + 1 }},
		{"bytes, at most 16777216", func(h *header) { h.Members[1].Files = many }},
	} {
		h := sample(redset.XOR, 1)
		c.edit(&h)
		d := &disk{}
		if _, err := parity.Create(d, h); err == nil || !strings.Contains(err.Error(), c.want) || d.calls > 0 {
			t.Errorf("%v, %d writes, want %q", err, d.calls, c.want)
		}
	}
}

// TestWriterRefuses data that is not in order within its chunk, behind the end, or missing.
func TestWriterRefuses(t *testing.T) {
	w, err := parity.Create(&disk{}, large(1))
	if err != nil {
		t.Fatal(err)
	}
	mib := make([]byte, 1<<20)
	steps := []struct {
		off  int64
		n    int
		want string
	}{
		{1 << 20, 1 << 20, ""}, // chunks may come in any order
		{0, 100, ""},
		{200, 100, "chunk 0: bytes from 200 on, wanted those from 100 on"},
		{0, 100, "chunk 0: bytes from 0 on, wanted those from 100 on"},
		{1 << 20, 1, "chunk 1: bytes from 0 on, wanted those from 1048576 on"},
		{-1, 1, "1 bytes at -1"},
		{2686976, 1, "1 bytes at 2686976, the data ends at 2686976"},
		{1<<63 - 1, 2, "the data ends at"},
		{2686976, 0, ""},
	}
	for _, s := range steps {
		_, err := w.WriteAt(mib[:s.n], s.off)
		if (err == nil) != (s.want == "") || err != nil && !strings.Contains(err.Error(), s.want) {
			t.Errorf("%d bytes at %d: %v, want %q", s.n, s.off, err, s.want)
		}
	}
	if err := w.Finish(); err == nil || !strings.Contains(err.Error(), "chunk 0: 100 bytes, wanted 1048576") {
		t.Errorf("finish: %v", err)
	}
}

// TestFullDisk lets each call fail in turn: it is said, and the file is not believed.
func TestFullDisk(t *testing.T) {
	good := &disk{}
	if err := fill(good, large(0), 1); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= good.calls; n++ {
		d := &disk{fail: n}
		err := fill(d, large(0), 1)
		if !errors.Is(err, errDisk) {
			t.Errorf("call %d of %d fails: %v", n, good.calls, err)
		}
		if _, err := check(d.now); err == nil && n < good.calls { // the last is the sync of the header
			t.Errorf("call %d of %d failed, and the file is believed", n, good.calls)
		}
	}
}

// TestCrash: whatever a crash of the machine leaves of a file, at any moment, a header that is believed stands before data
// that is complete; and what Finish has said to be there is.
func TestCrash(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	good := &disk{}
	if err := fill(good, large(0), 1); err != nil {
		t.Fatal(err)
	}
	believed, refused := 0, 0
	for range 300 {
		d := &disk{fail: 1 + rng.IntN(good.calls+1)}
		finished := fill(d, large(0), 1) == nil
		left := d.crash(rng)
		_, err := parity.ReadHeader(bytes.NewReader(left), int64(len(left)))
		if err != nil {
			if refused++; finished {
				t.Fatalf("finished, and after a crash: %v", err)
			}
			continue
		}
		if believed++; !bytes.Equal(left, good.now) {
			t.Fatal("a crash left a good header and not all of the data")
		}
	}
	if believed == 0 || refused == 0 {
		t.Errorf("%d believed, %d refused", believed, refused)
	}
}

// huge is a file of zeros behind its first bytes, as a sparse file is.
type huge struct{ head []byte }

func (f huge) ReadAt(b []byte, off int64) (int, error) {
	clear(b)
	if off < int64(len(f.head)) {
		copy(b, f.head[off:])
	}
	return len(b), nil
}

// most is what reading a file may allocate: a header, the longest table, a chunk, and some.
const most = parity.MaxHeader + 64<<20 + 4<<20

// TestBound: headers that announce the largest numbers make nobody allocate what the file does not hold.
func TestBound(t *testing.T) {
	const size = 1<<63 - 4096
	for _, edit := range []func(h *record){
		func(h *record) { h.DataOff = 1 << 62 },
		func(h *record) { h.DataOff = parity.MaxHeader },
		func(h *record) { h.SegmentLen = size - 4096 },
		func(h *record) { h.NMembers = 1<<32 - 1 },
		func(h *record) { h.NSets = 1<<32 - 1 },
		func(h *record) { h.FileSize = size },
	} {
		b := edited(t, edit)
		var err error
		used := allocated(func() { _, err = parity.Open(huge{b}, size) })
		if err == nil || used > most {
			t.Errorf("%d bytes were allocated, at most %d wanted; error %v", used, most, err)
		}
	}
	h := sample(redset.XOR, 0)
	h.Members = h.Members[:2]
	h.Members[0].Files[1].Size = redset.MaxPart - 99000
	w, err := parity.Create(&disk{}, h)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(); err == nil || !strings.Contains(err.Error(), "chunk 0: 0 bytes, wanted 1048576") {
		t.Errorf("the longest part: %v", err)
	}
}

// allocated is how many bytes f makes.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func FuzzOpen(f *testing.F) {
	small := sample(redset.XOR, 1)
	small.Members[0].Files, small.Members[2].Files = small.Members[0].Files[1:], nil
	for _, b := range [][]byte{file(f, small, 1), file(f, sample(redset.Partner, 2), 1)} {
		for _, cut := range []int{0, 100, 4095, 4096, len(b) - 1, len(b)} {
			f.Add(b[:min(cut, len(b))])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = resealed(bytes.Clone(b)) // lets the fuzzer past the header's checksum
		var r *parity.Reader
		var err error
		if used := allocated(func() { r, err = check(b) }); used > 4<<20+16*uint64(len(b)) {
			t.Errorf("%d bytes were allocated for %d", used, len(b))
		}
		if err != nil {
			return
		}
		d := &disk{} // what is believed can be written again
		w, err := parity.Create(d, r.Header)
		if err == nil {
			_, err = io.Copy(io.NewOffsetWriter(w, 0), io.NewSectionReader(r, 0, int64(len(content(r.Header, 0)))))
		}
		if err == nil {
			err = w.Finish()
		}
		if back, err2 := check(d.now); err != nil || err2 != nil || !cmp.Equal(back.Header, r.Header) {
			t.Errorf("written again: %v, %v", err, err2)
		}
	})
}
