package pup_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/pup"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden is a value and the file that holds it.
type golden struct {
	name string
	v    any // a pointer
	opts []pup.Option
}

func goldens() []golden {
	graph, unchecked := []pup.Option{pup.Graph()}, []pup.Option{pup.Unchecked()}
	fixed := time.FixedZone("XYZ", 5400)
	return []golden{
		{"numbers", newGoldenNumbers(), nil},
		{"strings", &goldenStrings{"", "héllo\x00", "\xff\xfe", strings.Repeat("long", 50), "named"}, nil},
		{"slices", newGoldenSlices(), nil},
		{"arrays", &goldenArrays{[3]uint16{1, 2, 3}, [2][2]bool{{true, false}, {false, true}}, [2]string{"a", ""},
			[2][]byte{nil, {1}}, [0]string{}}, nil},
		{"maps", newGoldenMaps(), nil},
		{"pointers", newGoldenPointers(), nil},
		{"structs", newGoldenStructs(), nil},
		{"times", &goldenTimes{UTC: time.Date(2026, 11, 21, 1, 2, 3, 4, time.UTC), Local: time.Unix(5, 6),
			Fixed: time.Date(1969, 1, 2, 3, 4, 5, 0, fixed), Times: []time.Time{{}}}, nil},
		{"big", newGoldenBig(), nil},
		{"addrs", newGoldenAddrs(), nil},
		{"generic", &goldenBox[goldenBox[int]]{goldenBox[int]{1, []goldenBox[int]{{2, nil}}},
			[]goldenBox[goldenBox[int]]{}}, nil},
		{"interfaces", newGoldenInterfaces(), nil},
		{"hand", &goldenHand{1, []int{3, 3, 200}, newGoldenAddrs().Link, "label", nil}, nil},
		{"hands", &[]goldenHand{{Offsets: []int{0}}, {ID: 2, Offsets: []int{7}}}, nil},
		{"graph", newGoldenGraph(), graph},
		{"links", newGoldenLinks(), graph},
		{"parts", newGoldenParts(), graph},
		{"tree", newGoldenPointers(), graph},
		{"unchecked", newGoldenSlices(), unchecked},
		{"unchecked-graph", newGoldenGraph(), append(unchecked, pup.Graph())},
		{"chunks", newGoldenChunks(), nil},
		{"nothing", &struct{}{}, nil},
		{"small", newGoldenSmall(), nil},
	}
}

func goldenFile(name string) string { return filepath.Join("testdata", "golden", name+".pup") }

// TestGolden compares what is packed today with what was packed when the files were made, on this machine or another.
func TestGolden(t *testing.T) {
	for _, g := range goldens() {
		t.Run(g.name, func(t *testing.T) {
			data, err := pup.Marshal(g.v, g.opts...)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(goldenFile(g.name), data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(goldenFile(g.name))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(data, want) {
				t.Errorf("packed:\n%s\nthe file has\n%s", hex.Dump(data), hex.Dump(want))
			}
			got := reflect.New(reflect.TypeOf(g.v).Elem())
			if err := pup.FromFile(goldenFile(g.name), got.Interface()); err != nil {
				t.Fatal(err)
			}
			if again, err := pup.Marshal(got.Interface(), g.opts...); err != nil || !bytes.Equal(again, want) {
				t.Errorf("unpacked, it packs to other bytes (%v)", err)
			}
			if err := pup.Check(g.v, g.opts...); err != nil {
				t.Error(err)
			}
			// The bytes have said that NaNs have the same bits and pointers as keys lead to the same cells.
			for _, v := range []any{got.Interface(), g.v} {
				switch v := v.(type) {
				case *goldenNumbers:
					v.NaN = 0
				case *goldenGraph:
					v.Keys = nil
				}
			}
			if !reflect.DeepEqual(got.Interface(), g.v) {
				t.Errorf("found %+v, want %+v", got.Elem(), reflect.ValueOf(g.v).Elem())
			}
		})
	}
}

// A walker takes a file apart as docs/format/pup.md draws it, without the package.
type walker struct {
	t   *testing.T
	b   []byte
	pos int
}

func walk(t *testing.T, name string) *walker {
	b, err := os.ReadFile(goldenFile(name))
	if err != nil {
		t.Fatal(err)
	}
	return &walker{t: t, b: b}
}

func (w *walker) take(n int) []byte {
	w.t.Helper()
	if n > len(w.b)-w.pos {
		w.t.Fatalf("offset %d: %d bytes wanted, %d left", w.pos, n, len(w.b)-w.pos)
	}
	w.pos += n
	return w.b[w.pos-n : w.pos]
}

// fixed reads a little-endian number of n bytes.
func (w *walker) fixed(n int) (x uint64) {
	w.t.Helper()
	for i, b := range w.take(n) {
		x |= uint64(b) << (8 * i)
	}
	return x
}

// count reads a count: seven bits a byte, the least significant first.
func (w *walker) count() (x uint64) {
	w.t.Helper()
	for shift := 0; ; shift += 7 {
		b := w.fixed(1)
		if x |= b & 0x7f << shift; b < 0x80 {
			return x
		}
	}
}

func (w *walker) text() string {
	w.t.Helper()
	return string(w.take(int(w.count())))
}

// want compares what was found on the way with what the value has.
func (w *walker) want(what string, found, want any) {
	w.t.Helper()
	if fmt.Sprint(found) != fmt.Sprint(want) {
		w.t.Errorf("offset %d: %s: found %v, want %v", w.pos, what, found, want)
	}
}

// crc64 is CRC-64/NVME, bit by bit.
func crc64(b []byte) uint64 {
	crc := ^uint64(0)
	for _, x := range b {
		crc ^= uint64(x)
		for range 8 {
			crc = crc>>1 ^ -(crc&1)&0x9a6c9329ac4bc9b5
		}
	}
	return ^crc
}

// header walks through a header, and the chunk header of a body of one chunk, and returns the schema.
func (w *walker) header(flags int) string {
	w.t.Helper()
	w.want("magic", w.take(8), []byte{0x8a, 'P', 'U', 'P', '\r', '\n', 0x1a, '\n'})
	w.want("version", w.fixed(2), 1)
	w.want("flags", w.fixed(2), flags)
	schemaLen, bodyLen, hash := int(w.fixed(4)), w.fixed(8), w.fixed(8)
	schema := w.take(schemaLen)
	sum := sha256.Sum256(schema)
	w.want("schema_hash", hash, binary.LittleEndian.Uint64(sum[:8]))
	before := w.b[:w.pos]
	w.want("header_crc", w.fixed(8), crc64(before))
	chunk := w.b[w.pos:]
	w.want("length", w.fixed(4), bodyLen|1<<31)
	w.want("number", w.fixed(4), 0)
	w.want("crc", w.fixed(8), crc64(append(bytes.Clone(chunk[:8]), chunk[16:]...)))
	w.want("bytes of the body", len(w.b)-w.pos, bodyLen)
	return string(schema)
}

// TestGoldenWalkTree decodes a small tree by hand.
func TestGoldenWalkTree(t *testing.T) {
	w := walk(t, "small")
	w.want("schema", w.header(0), "golden.Small\n"+
		"golden.Point 1 struct X int16; Y float64; Z uint8\n"+
		"golden.Small 1 struct N int32; S string; L []uint16; M map[string]bool; P *golden.Point; I interface\n")
	w.want("N", int32(w.fixed(4)), -2)
	w.want("S", w.text(), "pup")
	w.want("length of L, plus 1", w.count(), 3)
	w.want("L[0]", w.fixed(2), 1)
	w.want("L[1]", w.fixed(2), 515)
	w.want("length of M, plus 1", w.count(), 3)
	w.want("first key of M", w.text(), "no")
	w.want("its value", w.fixed(1), 0)
	w.want("second key of M", w.text(), "yes")
	w.want("its value", w.fixed(1), 1)
	w.want("P is there", w.count(), 1)
	w.want("P.X, without padding behind it", w.fixed(2), 1)
	w.want("P.Y", w.fixed(8), uint64(0x3fe0_0000_0000_0000))
	w.want("P.Z", w.fixed(1), 7)
	w.want("I: a type that is new", w.count(), 1)
	w.want("its name", w.text(), "golden.Square")
	w.want("not a pointer to it", w.fixed(1), 0)
	w.want("its schema", w.text(), "golden.Square\ngolden.Square 1 struct Side float64\n")
	w.want("Side", w.fixed(8), uint64(0x3ff0_0000_0000_0000))
	w.want("bytes left", len(w.b)-w.pos, 0)
}

// TestGoldenWalkGraph decodes a small graph by hand.
func TestGoldenWalkGraph(t *testing.T) {
	w := walk(t, "links")
	w.want("schema", w.header(1), "golden.Links\n"+
		"golden.Links 1 struct First *uint16; List []uint16; Part []uint16; A *uint8; B *uint8; "+
		"Map map[uint8]uint8; Same map[uint8]uint8; Self *golden.Links\n")
	w.want("First: into object 1", w.count(), 2+2*1+1)
	w.want("element", w.count(), 1)
	w.want("path in it", w.text(), "")
	w.want("List: of object 1", w.count(), 3+1)
	w.want("elements of object 1, which is new", w.count(), 3)
	w.want("offset, length, capacity", []uint64{w.count(), w.count(), w.count()}, []uint64{0, 3, 3})
	w.want("content", []uint64{w.fixed(2), w.fixed(2), w.fixed(2)}, []uint64{10, 11, 12})
	w.want("Part: of object 1", w.count(), 3+1)
	w.want("offset, length, capacity", []uint64{w.count(), w.count(), w.count()}, []uint64{1, 1, 2})
	w.want("A: object 2, which is new", w.count(), 1)
	w.want("content", w.fixed(1), 9)
	w.want("B: object 2", w.count(), 2+2*2)
	w.want("Map: object 3, which is new", w.count(), 1)
	w.want("length, plus 1", w.count(), 2)
	w.want("key and value", []uint64{w.fixed(1), w.fixed(1)}, []uint64{5, 6})
	w.want("Same: object 3", w.count(), 2+2*3)
	w.want("Self: object 0, the root", w.count(), 2+2*0)
	w.want("bytes left", len(w.b)-w.pos, 0)
}

// TestGoldenWalkParts decodes slices of arrays in objects by hand.
func TestGoldenWalkParts(t *testing.T) {
	w := walk(t, "parts")
	w.want("schema", w.header(1), "golden.Parts\ngolden.Part 1 struct Rows [2][3]uint16\n"+
		"golden.Parts 1 struct Early []uint16; Of *golden.Part; Late []uint16; List []uint8; Pair *[2]uint8\n")
	part := func(object, element uint64, path string, length, capacity uint64) {
		t.Helper()
		w.want("token and 0", []uint64{w.count(), w.count()}, []uint64{2, 0})
		w.want("object, element", []uint64{w.count(), w.count()}, []uint64{object, element})
		w.want("path", w.text(), path)
		w.want("length, capacity", []uint64{w.count(), w.count()}, []uint64{length, capacity})
	}
	part(1, 0, ".Rows[1][1]", 2, 2)
	w.want("Of: object 1", w.count(), 2+2*1)
	for n := range uint64(6) {
		w.want("content", w.fixed(2), n+1)
	}
	part(1, 0, ".Rows[0][0]", 1, 2)
	w.want("List: object 2, which is new, and has 3 elements", []uint64{w.count(), w.count()}, []uint64{1, 3})
	w.want("content", []uint64{w.fixed(1), w.fixed(1), w.fixed(1)}, []uint64{7, 8, 9})
	w.want("Pair: into object 2", w.count(), 2+2*2+1)
	w.want("element", w.count(), 1)
	w.want("path in it", w.text(), "")
	w.want("bytes left", len(w.b)-w.pos, 0)
}

// TestGoldenDrawings compares the dumps in docs/format/pup.md, and the bytes in the tables below them, with the files.
func TestGoldenDrawings(t *testing.T) {
	page, err := os.ReadFile("../docs/format/pup.md")
	if err != nil {
		t.Fatal(err)
	}
	_, drawn, _ := strings.Cut(string(page), "## Drawn: a tree")
	tree, graph, found := strings.Cut(drawn, "## Drawn: a graph")
	if !found {
		t.Fatal("docs/format/pup.md does not have both drawings")
	}
	row := regexp.MustCompile(`(?m)^\| 0x(\w+) \| ([0-9a-f ]+)(?:\.\. (\w\w) )?\|`)
	for name, text := range map[string]string{"small": tree, "links": graph} {
		b := walk(t, name).b
		for line := range strings.Lines(hex.Dump(b)) {
			if !strings.Contains(text, "    "+line) {
				t.Errorf("%s: docs/format/pup.md does not have the line %q", goldenFile(name), line)
			}
		}
		rows := row.FindAllStringSubmatch(text, -1)
		if len(rows) < 8 {
			t.Errorf("%s: found %d rows that tell bytes", goldenFile(name), len(rows))
		}
		for _, m := range rows {
			at, err := strconv.ParseInt(m[1], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			if found := fmt.Sprintf("% x", b[at:]); !strings.HasPrefix(found+" ", m[2]) || !strings.Contains(found, m[3]) {
				t.Errorf("%s: offset 0x%s: found %.40s, want %s", goldenFile(name), m[1], found, m[2])
			}
		}
	}
}
