package amt

import "math/bits"

// An Index says which element of a collection is meant. A value of its type also serves as an extent, which holds all indices below it in
// each dimension. Index1 to Index4 are such; so is every type of a program's own that has these methods and is without pointers.
type Index[I any] interface {
	comparable
	// Number is the number of an index within this extent, from 0; ok is false if it is not within.
	Number(i I) (n uint64, ok bool)
	// At is the index with a number.
	At(n uint64) I
	// Count is how many there are; ok is false if numbers of 64 bits do not suffice.
	Count() (n uint64, ok bool)
}

// Index1 is an index of one dimension.
type Index1 struct{ X int }

// Index2 is an index of two dimensions, the last of which is the fastest: neighbours in it have neighbouring numbers.
type Index2 struct{ X, Y int }

// Index3 is an index of three dimensions.
type Index3 struct{ X, Y, Z int }

// Index4 is an index of four dimensions.
type Index4 struct{ X, Y, Z, W int }

// Number is Index's.
func (e Index1) Number(i Index1) (uint64, bool) { return uint64(i.X), uint(i.X) < uint(e.X) && e.X > 0 }

// At is Index's.
func (e Index1) At(n uint64) Index1 { return Index1{int(n)} }

// Count is Index's.
func (e Index1) Count() (uint64, bool) { return countOf(e.X) }

// Number is Index's.
func (e Index2) Number(i Index2) (uint64, bool) {
	return uint64(i.X)*uint64(e.Y) + uint64(i.Y), within(i.X, e.X) && within(i.Y, e.Y)
}

// At is Index's.
func (e Index2) At(n uint64) Index2 { return Index2{int(n / uint64(e.Y)), int(n % uint64(e.Y))} }

// Count is Index's.
func (e Index2) Count() (uint64, bool) { return countOf(e.X, e.Y) }

// Number is Index's.
func (e Index3) Number(i Index3) (uint64, bool) {
	n, ok := Index2{e.X, e.Y}.Number(Index2{i.X, i.Y})
	return n*uint64(e.Z) + uint64(i.Z), ok && within(i.Z, e.Z)
}

// At is Index's.
func (e Index3) At(n uint64) Index3 {
	plane := Index2{e.X, e.Y}.At(n / uint64(e.Z))
	return Index3{plane.X, plane.Y, int(n % uint64(e.Z))}
}

// Count is Index's.
func (e Index3) Count() (uint64, bool) { return countOf(e.X, e.Y, e.Z) }

// Number is Index's.
func (e Index4) Number(i Index4) (uint64, bool) {
	n, ok := Index3{e.X, e.Y, e.Z}.Number(Index3{i.X, i.Y, i.Z})
	return n*uint64(e.W) + uint64(i.W), ok && within(i.W, e.W)
}

// At is Index's.
func (e Index4) At(n uint64) Index4 {
	space := Index3{e.X, e.Y, e.Z}.At(n / uint64(e.W))
	return Index4{space.X, space.Y, space.Z, int(n % uint64(e.W))}
}

// Count is Index's.
func (e Index4) Count() (uint64, bool) { return countOf(e.X, e.Y, e.Z, e.W) }

func within(i, extent int) bool { return i >= 0 && i < extent }

// countOf multiplies extents.
func countOf(extents ...int) (n uint64, ok bool) {
	n = 1
	for _, e := range extents {
		if e < 0 {
			return 0, false
		}
		high, low := bits.Mul64(n, uint64(e))
		if n = low; high > 0 {
			return 0, false
		}
	}
	return n, true
}

// blocks gives each rank a block of so many elements, of nearly equal lengths, and tells whose one is.
func blocks(count uint64, ranks int) func(n uint64) int {
	begins := make([]uint64, ranks+1)
	for rank := range begins {
		high, low := bits.Mul64(uint64(rank), count)
		quotient, rest := bits.Div64(high, low, uint64(ranks))
		begins[rank] = quotient
		if rest > 0 {
			begins[rank]++
		}
	}
	each := float64(ranks) / float64(count)
	return func(n uint64) int { // a division takes longer than all else that sending does
		rank := min(int(float64(n)*each), ranks-1)
		for n < begins[rank] {
			rank--
		}
		for n >= begins[rank+1] {
			rank++
		}
		return rank
	}
}
