package mover

import (
	"math/bits"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/store/format"
)

// A piece of an increment is sent without those of its blocks that are nothing but zeros: the others, one behind the other, then a
// bit for each block of the piece, the first in the lowest bit of the first byte, which says whether the block is there. A piece that is
// no shorter so is sent as it is. docs/format/bulk.md draws it.

const (
	sparseBlock = 512
	mapBytes    = redset.Piece / sparseBlock / 8 // of the longest piece
)

// blocks is how many blocks a piece has; the last may be shorter.
func blocks(length int) int { return (length + sparseBlock - 1) / sparseBlock }

// bitmapBytes is the length of the map of a piece.
func bitmapBytes(length int) int { return (blocks(length) + 7) / 8 }

// block is one of a piece's.
func block(piece []byte, i int) []byte {
	return piece[i*sparseBlock : min((i+1)*sparseBlock, len(piece))]
}

// pack leaves the blocks of zeros out of a piece, in its place, and returns how long it is then.
func pack(piece []byte) int {
	var there [mapBytes]byte
	n := 0
	for i := range blocks(len(piece)) {
		if b := block(piece, i); !format.AllZero(b) {
			there[i/8] |= 1 << (i % 8)
			n += len(b)
		}
	}
	bitmap := there[:bitmapBytes(len(piece))]
	if n+len(bitmap) >= len(piece) {
		return len(piece)
	}
	at := 0
	for i := range blocks(len(piece)) {
		if there[i/8]&(1<<(i%8)) != 0 {
			at += copy(piece[at:], block(piece, i))
		}
	}
	return at + copy(piece[at:], bitmap)
}

// unpack makes of the n bytes at its begin the piece that was packed; false: they are not what pack makes of one that long.
func unpack(piece []byte, n int) bool {
	size, count := bitmapBytes(len(piece)), blocks(len(piece))
	at := n - size
	if at < 0 {
		return false
	}
	var there [mapBytes]byte
	copy(there[:], piece[at:n])
	want := 0
	for i, b := range there[:size] {
		want += bits.OnesCount8(b) * sparseBlock
		if i == size-1 && count%8 != 0 && b>>(count%8) != 0 {
			return false // blocks behind the end
		}
	}
	last := count - 1
	if there[last/8]&(1<<(last%8)) != 0 {
		want -= sparseBlock - len(block(piece, last))
	}
	if want != at {
		return false
	}
	for i := last; i >= 0; i-- { // from behind, where no byte is needed any more
		b := block(piece, i)
		if there[i/8]&(1<<(i%8)) == 0 {
			clear(b)
			continue
		}
		at -= len(b)
		copy(b, piece[at:at+len(b)])
	}
	return true
}
