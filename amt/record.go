package amt

import "unsafe"

// A batch is records, one after the other, each at a multiple of 8, all numbers as this machine has them:
//
//	0  4  bytes of the payload
//	4  2  number of the handler, or what else it is
//	6  2  priority
//	8  8  epoch
//	16 n  payload, filled up to a multiple of 8
const headerSize = 16

// A what says what a record is: the number of a handler or one of those below, and a priority.
type what uint32

func whatOf(id uint16, p Priority) what { return what(id) | what(uint16(p))<<16 }

func (w what) id() uint16         { return uint16(w) }
func (w what) priority() Priority { return Priority(int16(w >> 16)) }

// What a record is that is for no handler of the program.
const (
	recordDetector  = uint16(iota) // a term.Message, of no epoch's account
	recordAgreement                // an agree.Message, of no epoch
	recordWatch                    // a notice of a watch, of no epoch, whose kind is in its place: alone in its batch
	recordTrace                    // the number of its batch, in the place of its epoch, if the sender is traced
	recordNothing                  // a message that could not be packed: it is counted only
	recordFailure                  // a text: the epoch has failed
	recordHang                     // the same, of a HangError: its text, 0, its graph
	recordSpread                   // a root and a record: for all ranks, to be passed on down a tree
	recordNews                     // what the parts of a collection tell each other of an element
	recordElement                  // an element that goes to another rank
	recordBroadcast                // a message for all elements of a collection
	firstHandler

	firstCounted = recordNothing // those from here on are in their epoch's account
)

const maxPayload = 1<<32 - 64 // bytes: its size has 32 bits, also with what a broadcast puts before it

const maxHandlers = 1<<16 - int(firstHandler)

// wholeSize is the size of a record with so many bytes of payload.
func wholeSize(n int) int { return headerSize + (n+7)&^7 }

// openRecord leaves room for a header at the end of a batch, and returns where the record begins.
func openRecord(b []byte) ([]byte, int) {
	at := len(b)
	if cap(b)-at >= headerSize {
		return b[:at+headerSize], at
	}
	return append(b, make([]byte, headerSize)...), at
}

// closeRecord fills in the header of the record that begins at an offset and ends with the batch.
func closeRecord(b []byte, at int, w what, epoch uint64) []byte {
	n := len(b) - at - headerSize
	if odd := n & 7; odd != 0 {
		b = append(b, make([]byte, 8-odd)...)
	}
	putHeader(b[at:], n, w, epoch)
	return b
}

// putHeader writes the header of a record with so many bytes of payload.
func putHeader(b []byte, n int, w what, epoch uint64) {
	head := (*[2]uint64)(unsafe.Pointer(&b[:headerSize][0]))
	head[0], head[1] = uint64(uint32(n))|uint64(w)<<32, epoch
}

// nextRecord reads the first record of a batch and returns what follows it; ok is false if it is not whole. (What it returns is no
// struct: that would be written to memory for every message.)
func nextRecord(b []byte) (w what, epoch uint64, payload, rest []byte, ok bool) {
	if len(b) < headerSize {
		return 0, 0, nil, nil, false
	}
	head := (*[2]uint64)(unsafe.Pointer(&b[0]))
	n := int(uint32(head[0]))
	end := wholeSize(n)
	if end > len(b) {
		return 0, 0, nil, nil, false
	}
	return what(head[0] >> 32), head[1], b[headerSize : headerSize+n : headerSize+n], b[end:], true
}
