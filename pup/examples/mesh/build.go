package main

import "slices"

// builder makes a mesh of n by n cells that are joined to their four neighbours and, here and there, across a corner.
type builder struct {
	n, domains int
	near       [][]int // by cell
}

// NewMesh makes a mesh that is cut into domains by columns. Heat begins in one half of it.
func NewMesh(n, domains int) *Mesh {
	b := &builder{n, domains, make([][]int, n*n)}
	b.joinAll()
	m := &Mesh{}
	own := make([]*Cell, n*n) // by number
	for d := range domains {
		m.Domains = append(m.Domains, b.domain(d, own))
	}
	for _, d := range m.Domains {
		for i := range d.Halo {
			d.From = append(d.From, own[d.Halo[i].ID])
		}
	}
	m.Probe = &own[n*n/2+n/3].Value
	return m
}

func (b *builder) joinAll() {
	random := uint32(1)
	for i := range b.near {
		x, y := i%b.n, i/b.n
		if x+1 < b.n {
			b.join(i, i+1)
		}
		if y+1 < b.n {
			b.join(i, i+b.n)
		}
		random = random*1664525 + 1013904223
		if x+1 < b.n && y+1 < b.n && random>>31 == 1 {
			b.join(i, i+b.n+1)
		}
	}
}

func (b *builder) join(i, k int) {
	b.near[i] = append(b.near[i], k)
	b.near[k] = append(b.near[k], i)
}

// owner is the domain that a cell belongs to.
func (b *builder) owner(cell int) int { return cell % b.n * b.domains / b.n }

// domain makes one domain and enters its cells into own.
func (b *builder) domain(number int, own []*Cell) *Domain {
	var cells, halo []int
	for i := range b.near {
		if b.owner(i) != number {
			continue
		}
		cells = append(cells, i)
		for _, k := range b.near[i] {
			if b.owner(k) != number && !slices.Contains(halo, k) {
				halo = append(halo, k)
			}
		}
	}
	d := &Domain{Cells: make([]Cell, len(cells)+len(halo))}
	d.Own, d.Halo = d.Cells[:len(cells)], d.Cells[len(cells):]
	at := map[int]*Cell{}
	for i, cell := range slices.Concat(cells, halo) {
		c := &d.Cells[i]
		c.ID, at[cell] = int32(cell), c
		if cell/b.n < b.n/2 {
			c.Value = 2
		}
	}
	for i, cell := range cells {
		own[cell] = &d.Own[i]
		for _, k := range b.near[cell] {
			d.Own[i].Near = append(d.Own[i].Near, at[k])
		}
	}
	return d
}
