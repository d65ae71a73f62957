package pup_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
)

// The benchmarks below time one helper each, per value: packing into a buffer that is used again, and unpacking into
// fresh memory or in place. Whole models, beside other encodings, are measured by bench/pup.

const benchCount = 1000

// benchmarkHelper packs and unpacks a value whose n parts the helper visits.
func benchmarkHelper[T any](b *testing.B, value *T, n int, opts ...pup.Option) {
	opts = append(opts, pup.Unchecked())
	data, err := pup.Marshal(value, opts...)
	if err != nil {
		b.Fatal(err)
	}
	perPart := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/part")
	}
	b.Run("pack", func(b *testing.B) {
		b.ReportAllocs()
		buffer := make([]byte, 0, len(data)+4<<10)
		for b.Loop() {
			if buffer, err = pup.Append(buffer[:0], value, opts...); err != nil {
				b.Fatal(err)
			}
		}
		perPart(b)
	})
	b.Run("size", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := pup.Size(value, opts...); err != nil {
				b.Fatal(err)
			}
		}
		perPart(b)
	})
	b.Run("unpack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			result := new(T)
			if err := pup.Unmarshal(data, result); err != nil {
				b.Fatal(err)
			}
			runtime.KeepAlive(result)
		}
		perPart(b)
	})
	b.Run("inplace", func(b *testing.B) {
		b.ReportAllocs()
		result := new(T)
		for b.Loop() {
			if err := pup.Unmarshal(data, result, pup.InPlace()); err != nil {
				b.Fatal(err)
			}
		}
		perPart(b)
	})
}

// benchNumbers visits each number by itself.
type benchNumbers struct{ L []int64 }

func (x *benchNumbers) PUP(p *pup.Stream) { pup.Slice(p, &x.L, pup.Number) }

func BenchmarkNumber(b *testing.B) {
	benchmarkHelper(b, &benchNumbers{make([]int64, benchCount)}, benchCount)
}

// benchStrings visits each string by itself.
type benchStrings struct{ L []string }

func (x *benchStrings) PUP(p *pup.Stream) { pup.Slice(p, &x.L, pup.String) }

func BenchmarkString(b *testing.B) {
	for _, length := range []int{8, 100, 1000} {
		b.Run(fmt.Sprintf("%dB", length), func(b *testing.B) {
			x := &benchStrings{make([]string, benchCount)}
			for i := range x.L {
				x.L[i] = fmt.Sprintf("%0*d", length, i)
			}
			benchmarkHelper(b, x, benchCount)
		})
	}
}

// benchNode is a ring in both directions, by hand.
type benchNode struct {
	Key        int64
	Next, Prev *benchNode
}

func (x *benchNode) PUP(p *pup.Stream) {
	pup.Number(p, &x.Key)
	pup.Ptr(p, &x.Next, pup.Object)
	pup.Ptr(p, &x.Prev, pup.Object)
}

func BenchmarkPtrGraph(b *testing.B) {
	first := &benchNode{}
	last := first
	for i := range benchCount - 1 {
		last.Next = &benchNode{Key: int64(i), Prev: last}
		last = last.Next
	}
	last.Next, first.Prev = first, last
	benchmarkHelper(b, first, benchCount, pup.Graph())
}

// BenchmarkPtrGraphBlocks has its values in dense blocks that lie far from each other, as a heap that was in use for long
// gives them. It should take no longer than values in one block.
func BenchmarkPtrGraphBlocks(b *testing.B) {
	const count, apart = 10_000, 1 << 20 / 24 // benchNode takes 24 bytes on most machines
	for _, blocks := range []int{1, 8} {
		b.Run(fmt.Sprint(blocks), func(b *testing.B) {
			memory, size := make([]benchNode, blocks*apart), (count+blocks-1)/blocks
			place := func(i int) *benchNode { return &memory[i/size*apart+i%size] }
			for i := range count {
				*place(i) = benchNode{int64(i), place((i + 1) % count), place((i + count - 1) % count)}
			}
			benchmarkHelper(b, place(0), count, pup.Graph())
		})
	}
}

// benchList goes one way, without the option Graph.
type benchList struct {
	Key  int64
	Next *benchList
}

func (x *benchList) PUP(p *pup.Stream) {
	pup.Number(p, &x.Key)
	pup.Ptr(p, &x.Next, pup.Object)
}

func BenchmarkPtrTree(b *testing.B) {
	var first *benchList
	for i := range benchCount {
		first = &benchList{int64(i), first}
	}
	benchmarkHelper(b, first, benchCount)
}

// benchIntMap has keys that are sorted as numbers.
type benchIntMap struct{ M map[int64]float64 }

func (x *benchIntMap) PUP(p *pup.Stream) { pup.Map(p, &x.M, pup.Number, pup.Number) }

// benchStringMap has keys that are sorted as texts.
type benchStringMap struct{ M map[string]float64 }

func (x *benchStringMap) PUP(p *pup.Stream) { pup.Map(p, &x.M, pup.String, pup.Number) }

// benchArrayMap has keys without an order of their own: they are sorted by their packed bytes.
type benchArrayMap struct{ M map[[2]int32]float64 }

func (x *benchArrayMap) PUP(p *pup.Stream) { pup.Map(p, &x.M, pup.Plain, pup.Number) }

func BenchmarkMap(b *testing.B) {
	b.Run("int64", func(b *testing.B) {
		m := map[int64]float64{}
		for i := range benchCount {
			m[int64(i*7919)] = float64(i)
		}
		benchmarkHelper(b, &benchIntMap{m}, benchCount)
	})
	b.Run("string", func(b *testing.B) {
		m := map[string]float64{}
		for i := range benchCount {
			m[fmt.Sprint("key", i*7919)] = float64(i)
		}
		benchmarkHelper(b, &benchStringMap{m}, benchCount)
	})
	b.Run("array", func(b *testing.B) {
		m := map[[2]int32]float64{}
		for i := range benchCount {
			m[[2]int32{int32(i * 7919), int32(i)}] = float64(i)
		}
		benchmarkHelper(b, &benchArrayMap{m}, benchCount)
	})
}

// benchShape is what interfaces hold here.
type benchShape interface{ area() float64 }

type benchSquare struct{ Side float64 }

type benchLabel struct {
	Side float64
	Text string
}

func (s benchSquare) area() float64 { return s.Side * s.Side }
func (l *benchLabel) area() float64 { return l.Side }

func (l *benchLabel) PUP(p *pup.Stream) {
	pup.Number(p, &l.Side)
	pup.String(p, &l.Text)
}

var (
	_ = pup.Register[benchSquare]("pup_test.benchSquare")
	_ = pup.Register[benchLabel]("pup_test.benchLabel")
)

// benchShapes visits values and pointers in interfaces.
type benchShapes struct{ L []benchShape }

func (x *benchShapes) PUP(p *pup.Stream) { pup.Slice(p, &x.L, pup.Interface) }

func BenchmarkInterface(b *testing.B) {
	x := &benchShapes{make([]benchShape, benchCount)}
	for i := range x.L {
		x.L[i] = benchSquare{float64(i)}
		if i%2 == 1 {
			x.L[i] = &benchLabel{float64(i), "label"}
		}
	}
	benchmarkHelper(b, x, benchCount)
}

// benchCell is an element with a PUP of its own.
type benchCell struct {
	ID      int64
	Name    string
	Weights []float64
}

func (x *benchCell) PUP(p *pup.Stream) {
	pup.Number(p, &x.ID)
	pup.String(p, &x.Name)
	pup.PlainSlice(p, &x.Weights)
}

// BenchmarkSmall shows what one call costs beside the content.
func BenchmarkSmall(b *testing.B) {
	benchmarkHelper(b, &benchCell{1, "cell", []float64{1, 2, 3}}, 1)
}

// benchCells visits the elements of a slice one by one.
type benchCells struct{ L []benchCell }

func (x *benchCells) PUP(p *pup.Stream) { pup.Slice(p, &x.L, pup.Object) }

func BenchmarkSliceElements(b *testing.B) {
	x := &benchCells{make([]benchCell, benchCount)}
	for i := range x.L {
		x.L[i] = benchCell{int64(i), "cell", []float64{1, 2, 3}}
	}
	benchmarkHelper(b, x, benchCount)
}

// benchPlain is copied as memory.
type benchPlain struct{ L [][3]float64 }

func (x *benchPlain) PUP(p *pup.Stream) { pup.PlainSlice(p, &x.L) }

func BenchmarkPlainSlice(b *testing.B) {
	benchmarkHelper(b, &benchPlain{make([][3]float64, benchCount)}, benchCount)
}
