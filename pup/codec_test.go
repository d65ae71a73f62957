package pup_test

import (
	"bytes"
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
