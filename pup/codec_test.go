package pup_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
)

type letter struct {
	From, Subject string
	Pages         []string
	Copies        map[string]int
	At            [3]float64
	Next          *letter
}

func someLetter() *letter {
	return &letter{"a", "long enough to be no short one", []string{"1", "", "3"}, map[string]int{"x": 1, "y": -2}, [3]float64{1, 2, 3},
		&letter{From: "b", Pages: make([]string, 1000)}}
}

// TestCodec packs the same values with and without what a codec leaves out.
func TestCodec(t *testing.T) {
	k, err := pup.CodecOf[letter]()
	if err != nil {
		t.Fatal(err)
	}
	v := someLetter()
	whole, err := pup.Marshal(v, pup.Unchecked())
	if err != nil {
		t.Fatal(err)
	}
	for _, room := range []int{0, 7, 100, 1 << 16} {
		b, err := k.Append(append(make([]byte, 0, room), "before"...), v)
		if err != nil {
			t.Fatal(err)
		}
		if body := b[len("before"):]; !bytes.HasPrefix(b, []byte("before")) || len(body) >= len(whole) || !bytes.Contains(whole, k.Schema()) || !bytes.HasSuffix(whole, body) {
			t.Errorf("room for %d: %d bytes, %d with a header", room, len(b), len(whole))
		}
		var got letter
		if err := k.Unmarshal(b[len("before"):], &got); err != nil || !reflect.DeepEqual(&got, v) {
			t.Errorf("room for %d: %v; %+v", room, err, got)
		}
	}
}

// TestCodecBadData gives a codec what is too short, too long or changed: an error or a value, nothing else.
func TestCodecBadData(t *testing.T) {
	k, err := pup.CodecOf[letter]()
	if err != nil {
		t.Fatal(err)
	}
	good, err := k.Append(nil, someLetter())
	if err != nil {
		t.Fatal(err)
	}
	for n := range good {
		if err := k.Unmarshal(good[:n], new(letter)); err == nil {
			t.Errorf("%d bytes of %d: no error", n, len(good))
		}
		bad := bytes.Clone(good)
		bad[n] ^= 0xff
		_ = k.Unmarshal(bad, new(letter)) // without checksums some changes are values
	}
	if err := k.Unmarshal(append(good, 0), new(letter)); err == nil {
		t.Error("a byte too many: no error")
	}
	if err := k.Unmarshal(good, nil); err == nil {
		t.Error("into nil: no error")
	}
	if _, err := k.Append(nil, nil); err == nil {
		t.Error("nil: no error")
	}
	if _, err := pup.CodecOf[chan int](); err == nil {
		t.Error("a channel: no error")
	}
	if _, err := pup.CodecOf[struct{ C chan int }](); err == nil {
		t.Error("a structure with a channel: no error")
	}
}

// BenchmarkCodec packs and unpacks a structure with strings.
func BenchmarkCodec(b *testing.B) {
	type note struct {
		From, To, Text string
		Size           int64
	}
	k, err := pup.CodecOf[note]()
	if err != nil {
		b.Fatal(err)
	}
	v, room := &note{"rank 0", "rank 1", "what there is to say", 42}, make([]byte, 0, 256)
	var got note
	b.ReportAllocs()
	for b.Loop() {
		data, err := k.Append(room, v)
		if err == nil {
			err = k.Unmarshal(data, &got)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

type sheets struct {
	First []byte
	Name  string
	Words []float64
	Short []int32
	More  []uint64
	Bits  []bool
	Rows  [][]int16
}

func someSheets(n int) *sheets {
	v := &sheets{First: make([]byte, n), Name: "of a sheet", Words: make([]float64, n), Short: []int32{1, 2}, More: make([]uint64, n), Bits: make([]bool, n)}
	for i := range n {
		v.First[i], v.Words[i], v.More[i], v.Bits[i] = byte(i), float64(i), ^uint64(i), i%3 == 0
	}
	for i := range 5 {
		v.Rows = append(v.Rows, make([]int16, n+i))
		v.Rows[i][n-1] = int16(i)
	}
	return v
}

// TestCodecSized packs behind what it is given, without moving it, and unpacks with and without owning the data.
func TestCodecSized(t *testing.T) {
	k, err := pup.CodecOf[sheets]()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 100, 5000, 100_003} {
		v := someSheets(n)
		var room []byte
		b, err := k.AppendSized(v, func(size int) ([]byte, error) {
			room = append(make([]byte, 0, 1+size), 'x')
			return room, nil
		})
		if err != nil || &b[0] != &room[0] || len(b) != cap(room) || b[0] != 'x' {
			t.Fatalf("%d: %v; %d bytes, in room for %d", n, err, len(b), cap(room))
		}
		want, err := k.Append(nil, v)
		if err != nil || !bytes.Equal(b[1:], want) {
			t.Fatalf("%d: %v; packed otherwise than by Append", n, err)
		}
		var copied, owned sheets
		if err := k.Unmarshal(b[1:], &copied); err != nil || !reflect.DeepEqual(&copied, v) {
			t.Errorf("%d: %v; another value", n, err)
		}
		if err := k.UnmarshalOwned(b[1:], &owned); err != nil || !reflect.DeepEqual(&owned, v) {
			t.Errorf("%d, owned: %v; another value", n, err)
		}
		if n > 4096 && &owned.First[0] == &copied.First[0] {
			t.Errorf("%d: what was copied lies in the data", n)
		}
		owned.First, owned.Words, owned.More = append(owned.First, 7), append(owned.Words, 7), append(owned.More, 7)
		if owned.Name != v.Name || !reflect.DeepEqual(owned.Rows, v.Rows) || !reflect.DeepEqual(owned.More[:n], v.More) {
			t.Errorf("%d: what is appended to a slice changes another", n)
		}
	}
	refused := errors.New("no room")
	if _, err := k.AppendSized(someSheets(9), func(int) ([]byte, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("%v, want %v", err, refused)
	}
}

// TestCodecOwnedMemory: data that is owned is moved at most.
func TestCodecOwnedMemory(t *testing.T) {
	k, err := pup.CodecOf[sheets]()
	if err != nil {
		t.Fatal(err)
	}
	data, err := k.Append(nil, &sheets{Words: make([]float64, 1<<17), More: make([]uint64, 1<<17)})
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := allocated(func() error { return k.UnmarshalOwned(data, new(sheets)) })
	if most := uint64(256 << 10); err != nil || bytes > most {
		t.Errorf("%v: %d bytes are made for %d, want no more than %d", err, bytes, len(data), most)
	}
}
