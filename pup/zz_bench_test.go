package pup_test

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"math"
	"runtime"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
)

type P72 struct {
	Pos, Vel [3]float64
	Mass     float64
	ID       int64
	Charge   float64
}
type PS struct {
	P       P72
	Name    string
	Samples []float64
}

var blk = pup.BlockOf[PS]("P")

func (x *PS) PUP(p *pup.Stream) {
	if pup.Old(p, x) {
		return
	}
	blk.PUP(p, x)
	pup.String(p, &x.Name)
	pup.PlainSlice(p, &x.Samples)
}

type PSs struct{ L []PS }

func (x *PSs) PUP(p *pup.Stream) {
	if pup.Old(p, x) {
		return
	}
	pup.Slice(p, &x.L, func(p *pup.Stream, e *PS) { e.PUP(p) })
}

const np = 100000

func mk() []P72 {
	l := make([]P72, np)
	for i := range l {
		l[i].ID = int64(i)
		l[i].Mass = float64(i)
	}
	return l
}
func mks() *PSs {
	l := make([]PS, np)
	for i := range l {
		l[i].P.ID = int64(i)
		l[i].Name = "particle-name"[:5+i%8]
		l[i].Samples = make([]float64, 3+i%4)
	}
	return &PSs{l}
}

var sinkB []byte
var sinkP []P72

func BenchmarkPlain(b *testing.B) {
	src := mk()
	bs := int64(np * 72)
	raw := make([]byte, np*72)
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(bs)
		dst := make([]P72, np)
		for b.Loop() {
			copy(dst, src)
		}
	})
	b.Run("alloccopy", func(b *testing.B) {
		b.SetBytes(bs)
		for b.Loop() {
			d := make([]P72, np)
			copy(d, src)
			sinkP = d
		}
	})
	_ = raw
	for _, o := range []struct {
		n string
		o []pup.Option
	}{{"checked", nil}, {"unchecked", []pup.Option{pup.Unchecked()}}} {
		data, _ := pup.Marshal(&src, o.o...)
		b.Run(o.n+"/append", func(b *testing.B) {
			b.SetBytes(bs)
			for b.Loop() {
				data, _ = pup.Append(data[:0], &src, o.o...)
			}
		})
		b.Run(o.n+"/marshal", func(b *testing.B) {
			b.SetBytes(bs)
			for b.Loop() {
				sinkB, _ = pup.Marshal(&src, o.o...)
			}
		})
		b.Run(o.n+"/unmarshal", func(b *testing.B) {
			b.SetBytes(bs)
			for b.Loop() {
				var d []P72
				if err := pup.Unmarshal(data, &d, o.o...); err != nil {
					b.Fatal(err)
				}
				sinkP = d
			}
		})
		b.Run(o.n+"/inplace", func(b *testing.B) {
			b.SetBytes(bs)
			d := make([]P72, np)
			for b.Loop() {
				if err := pup.Unmarshal(data, &d, pup.InPlace()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func handAppend(b []byte, l []PS) []byte {
	le := binary.LittleEndian
	b = binary.AppendUvarint(b, uint64(len(l)))
	for i := range l {
		x := &l[i]
		for _, f := range x.P.Pos {
			b = le.AppendUint64(b, math.Float64bits(f))
		}
		for _, f := range x.P.Vel {
			b = le.AppendUint64(b, math.Float64bits(f))
		}
		b = le.AppendUint64(b, math.Float64bits(x.P.Mass))
		b = le.AppendUint64(b, uint64(x.P.ID))
		b = le.AppendUint64(b, math.Float64bits(x.P.Charge))
		b = binary.AppendUvarint(b, uint64(len(x.Name)))
		b = append(b, x.Name...)
		b = binary.AppendUvarint(b, uint64(len(x.Samples)))
		for _, f := range x.Samples {
			b = le.AppendUint64(b, math.Float64bits(f))
		}
	}
	return b
}

func handDecode(b []byte) []PS {
	le := binary.LittleEndian
	n, k := binary.Uvarint(b)
	b = b[k:]
	l := make([]PS, n)
	f := func() float64 { v := math.Float64frombits(le.Uint64(b)); b = b[8:]; return v }
	for i := range l {
		x := &l[i]
		for j := range x.P.Pos {
			x.P.Pos[j] = f()
		}
		for j := range x.P.Vel {
			x.P.Vel[j] = f()
		}
		x.P.Mass = f()
		x.P.ID = int64(le.Uint64(b))
		b = b[8:]
		x.P.Charge = f()
		n, k := binary.Uvarint(b)
		b = b[k:]
		x.Name = string(b[:n])
		b = b[n:]
		n, k = binary.Uvarint(b)
		b = b[k:]
		x.Samples = make([]float64, n)
		for j := range x.Samples {
			x.Samples[j] = f()
		}
	}
	return l
}

var sinkS []PS

func BenchmarkFields(b *testing.B) {
	src := mks()
	data, _ := pup.Marshal(src)
	hand := handAppend(nil, src.L)
	b.Run("hand/append", func(b *testing.B) {
		b.SetBytes(int64(len(hand)))
		for b.Loop() {
			hand = handAppend(hand[:0], src.L)
		}
	})
	b.Run("hand/appendnew", func(b *testing.B) {
		b.SetBytes(int64(len(hand)))
		for b.Loop() {
			sinkB = handAppend(nil, src.L)
		}
	})
	b.Run("hand/decode", func(b *testing.B) {
		b.SetBytes(int64(len(hand)))
		for b.Loop() {
			sinkS = handDecode(hand)
		}
	})
	for _, o := range []struct {
		n string
		o []pup.Option
	}{{"checked", nil}, {"unchecked", []pup.Option{pup.Unchecked()}}} {
		data, _ = pup.Marshal(src, o.o...)
		b.Run(o.n+"/append", func(b *testing.B) {
			b.SetBytes(int64(len(hand)))
			for b.Loop() {
				data, _ = pup.Append(data[:0], src, o.o...)
			}
		})
		b.Run(o.n+"/marshal", func(b *testing.B) {
			b.SetBytes(int64(len(hand)))
			for b.Loop() {
				sinkB, _ = pup.Marshal(src, o.o...)
			}
		})
		b.Run(o.n+"/size", func(b *testing.B) {
			b.SetBytes(int64(len(hand)))
			for b.Loop() {
				pup.Size(src, o.o...)
			}
		})
		b.Run(o.n+"/unmarshal", func(b *testing.B) {
			b.SetBytes(int64(len(hand)))
			for b.Loop() {
				var d PSs
				if err := pup.Unmarshal(data, &d); err != nil {
					b.Fatal(err)
				}
				sinkS = d.L
			}
		})
	}
	b.Run("gob/encode", func(b *testing.B) {
		b.SetBytes(int64(len(hand)))
		for b.Loop() {
			var w bytes.Buffer
			gob.NewEncoder(&w).Encode(src)
			sinkB = w.Bytes()
		}
	})
	b.Run("gob/decode", func(b *testing.B) {
		b.SetBytes(int64(len(hand)))
		for b.Loop() {
			var d PSs
			gob.NewDecoder(bytes.NewReader(sinkB)).Decode(&d)
		}
	})
}

type Node struct {
	Key         int64
	Left, Right *Node
	Parent      *Node
}

func (n *Node) PUP(p *pup.Stream) {
	if pup.Old(p, n) {
		return
	}
	pup.Number(p, &n.Key)
	pup.Ptr(p, &n.Left, pup.Object)
	pup.Ptr(p, &n.Right, pup.Object)
	pup.Ptr(p, &n.Parent, pup.Object)
}

func build(lo, hi int, parent *Node) *Node {
	if lo >= hi {
		return nil
	}
	m := (lo + hi) / 2
	n := &Node{Key: int64(m), Parent: parent}
	n.Left = build(lo, m, n)
	n.Right = build(m+1, hi, n)
	return n
}

func BenchmarkTree(b *testing.B) {
	const n = 1000000
	root := build(0, n, nil)
	data, err := pup.Marshal(root, pup.Graph())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("marshal", func(b *testing.B) {
		for b.Loop() {
			if data, err = pup.Append(data[:0], root, pup.Graph()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/node")
	})
	b.Run("unmarshal", func(b *testing.B) {
		for b.Loop() {
			var d Node
			if err := pup.Unmarshal(data, &d); err != nil {
				b.Fatal(err)
			}
			runtime.KeepAlive(d)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/node")
	})
}
