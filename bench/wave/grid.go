package main

import "math"

const (
	reach  = 4      // cells that the stencil reaches
	spongy = 20     // cells that absorb, at each edge
	cell   = 10.0   // metres
	tick   = 1.3e-3 // seconds that a step is
	peak   = 18.0   // hertz, of the source
)

// A grid has so many cells.
type grid struct{ nz, ny, nx int }

// A slab is one rank's part of the grid: planes of it, and what the neighbours have at both sides.
type slab struct {
	grid          // the whole
	first, planes int
	fields        [2][]float32 // time levels: a step writes over the older one
	speed         []float32    // (velocity * tick / cell)^2 of each row
	sponge        []float32    // what is left of a wave at each x, after a step
}

func newSlab(g grid, rank, ranks int) *slab {
	s := &slab{grid: g, first: rank * g.nz / ranks}
	s.planes = (rank+1)*s.nz/ranks - s.first
	for i := range s.fields {
		s.fields[i] = make([]float32, (s.planes+2*reach)*s.ny*s.nx)
	}
	for z := range s.planes {
		for y := range s.ny {
			c := g.velocity(s.first+z, y) * tick / cell
			s.speed = append(s.speed, float32(c*c))
		}
	}
	for x := range s.nx {
		s.sponge = append(s.sponge, float32(left(x, s.nx)))
	}
	return s
}

// velocity is that of layers, which dip along z; y is the depth. In metres a second.
func (g grid) velocity(z, y int) float64 {
	depth, along := float64(y)/float64(g.ny), float64(z)/float64(g.nz)
	switch {
	case depth < 0.28:
		return 1500
	case depth < 0.50+0.10*along:
		return 2000
	case depth < 0.72+0.06*math.Sin(9*along):
		return 2700
	}
	return 3400
}

// left is what the edges leave of a wave in one step, at cell i of n.
func left(i, n int) float64 {
	deep := float64(max(0, spongy-min(i, n-1-i))) * 0.012
	return math.Exp(-deep * deep)
}

// at is where plane z of the slab begins.
func (s *slab) at(z int) int { return (z + reach) * s.ny * s.nx }

// own are the planes of a time level that are no neighbour's.
func (s *slab) own(level int) []float32 { return s.fields[level][s.at(0):s.at(s.planes)] }

// compute makes planes of the field after a step; those at the grid's edge stay zero.
func (s *slab) compute(step uint64, from, to int) {
	p, q := s.fields[step&1], s.fields[(step+1)&1]
	for z := from; z < to; z++ {
		if s.first+z < reach || s.first+z >= s.nz-reach {
			continue
		}
		for y := reach; y < s.ny-reach; y++ {
			g := float32(left(s.first+z, s.nz) * left(y, s.ny))
			s.row(p, q, s.at(z)+y*s.nx+reach, s.speed[z*s.ny+y], g)
		}
		if s.first+z == s.nz/2 { // the source: a Ricker wavelet in one cell
			u := math.Pi * peak * (float64(step)*tick - 1.2/peak)
			q[s.at(z)+min(spongy+reach+2, s.ny/2)*s.nx+s.nx/2] += float32((1 - 2*u*u) * math.Exp(-u*u))
		}
	}
}

// row computes a row of the next field: q has the one before, and gets the next.
func (s *slab) row(p, q []float32, at int, c, g float32) {
	const w0, w1, w2, w3, w4 = float32(3 * -205.0 / 72), float32(8.0 / 5), float32(-1.0 / 5), float32(8.0 / 315), float32(-1.0 / 560)
	n, dy, dz := s.nx-2*reach, s.nx, s.nx*s.ny
	q = q[at : at+n]
	sponge := s.sponge[reach:][:len(q)]
	of := func(d int) []float32 { return p[at+d:][:len(q)] }
	a := p[at-reach:][:len(q)+2*reach]
	y1, y2, y3, y4, u1, u2, u3, u4 := of(-dy), of(-2*dy), of(-3*dy), of(-4*dy), of(dy), of(2*dy), of(3*dy), of(4*dy)
	z1, z2, z3, z4, v1, v2, v3, v4 := of(-dz), of(-2*dz), of(-3*dz), of(-4*dz), of(dz), of(2*dz), of(3*dz), of(4*dz)
	for x := range q {
		b := a[x : x+2*reach+1 : x+2*reach+1]
		l := w0 * b[4]
		l += w1 * (b[3] + b[5] + y1[x] + u1[x] + z1[x] + v1[x])
		l += w2 * (b[2] + b[6] + y2[x] + u2[x] + z2[x] + v2[x])
		l += w3 * (b[1] + b[7] + y3[x] + u3[x] + z3[x] + v3[x])
		l += w4 * (b[0] + b[8] + y4[x] + u4[x] + z4[x] + v4[x])
		r := g * sponge[x]
		q[x] = r * (2*b[4] - r*q[x] + c*l)
	}
}

// digest is a sum over the whole of both time levels, whatever the number of ranks is.
func (s *slab) digest(step uint64) (sum uint64) {
	for i := range uint64(2) {
		for k, v := range s.own(int((step + i) & 1)) {
			sum += mix(uint64(s.first*s.ny*s.nx+k)*2 + i + mix(uint64(math.Float32bits(v))))
		}
	}
	return sum
}

func mix(x uint64) uint64 {
	x = (x ^ x>>31) * 0x7fb5d329728ea185
	x = (x ^ x>>27) * 0x81dadef4bc2dd44d
	return x ^ x>>33
}
