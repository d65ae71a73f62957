package parity

import (
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
)

// Body is the content of a file of a part, as *os.File has it.
type Body interface {
	io.ReaderAt
	io.WriterAt
}

// Part is a member's part as plans see it: the bytes of its files one behind the other, then zeros.
type Part struct {
	files  []holding.File
	bodies []Body
	begins []int64 // one more than files: the end of the last
}

// NewPart puts a part together from the files of a member and their contents, in the same order.
func NewPart(m holding.Member, bodies []Body) (*Part, error) {
	if len(bodies) != len(m.Files) {
		return nil, fmt.Errorf("parity: part of %s: %d files, wanted %d", m.Node, len(bodies), len(m.Files))
	}
	p := &Part{files: m.Files, bodies: bodies, begins: []int64{0}}
	for _, f := range m.Files {
		p.begins = append(p.begins, p.begins[len(p.begins)-1]+f.Size)
	}
	return p, nil
}

// ReadAt fills all of b. A file that is shorter than it should be is an error.
func (p *Part) ReadAt(b []byte, off int64) (int, error) {
	clear(b[min(int64(len(b)), max(0, p.begins[len(p.files)]-off)):])
	err := p.each(b, off, func(i int, b []byte, at int64) error { return readFull(p.bodies[i], b, at) })
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// WriteAt writes what lies in the files. What lies behind them must be zero: where it is not, what was rebuilt is wrong.
func (p *Part) WriteAt(b []byte, off int64) (int, error) {
	if end := p.begins[len(p.files)]; off+int64(len(b)) > end {
		behind := b[max(0, end-off):]
		if i := slices.IndexFunc(behind, func(c byte) bool { return c != 0 }); i >= 0 {
			at := max(off, end) + int64(i)
			return 0, fmt.Errorf("parity: part: byte %d is %#x, wanted 0 behind the end at %d", at, behind[i], end)
		}
	}
	err := p.each(b, off, func(i int, b []byte, at int64) error {
		_, err := p.bodies[i].WriteAt(b, at)
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// each hands every file its share of b.
func (p *Part) each(b []byte, off int64, f func(i int, b []byte, at int64) error) error {
	if off < 0 {
		return fmt.Errorf("parity: part: offset %d", off)
	}
	end := off + int64(len(b))
	first := sort.Search(len(p.files), func(i int) bool { return p.begins[i+1] > off })
	for i := first; i < len(p.files) && p.begins[i] < end; i++ {
		from, to := max(off, p.begins[i]), min(end, p.begins[i+1])
		if from == to {
			continue // an empty file
		}
		if err := f(i, b[from-off:to-off], from-p.begins[i]); err != nil {
			return fmt.Errorf("parity: part: %s: %w", p.files[i].Name, err)
		}
	}
	return nil
}
