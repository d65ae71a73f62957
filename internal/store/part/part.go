// Package part is what the store and the agents do with the parts that ranks have of a dataset, by their kind: seal, check, verify,
// copy, and open as a row of bytes.
//
//	a part = its files, in the order of holding.File, one behind the other
//
// It guarantees, whatever the kind: what Seal has returned is whole, belongs to the dataset, and names nothing but what is in the
// dataset's directory; Verify and Copy compare every byte with a checksum, and tell damage from other errors; Open gives exactly the
// bytes that the files say.
package part

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
)

// Of says of which dataset a part must be.
type Of struct {
	Job     string // its identity, in hexadecimal digits
	Ranks   int    // of the job
	Dataset uint64
}

// Sealed is the part of a rank that is whole.
type Sealed struct {
	Files    []holding.File
	Paths    []holding.Path // of what the rank has written, of the kind Files
	MPI, App string         // what rank 0 says of its MPI and its program; empty: the kind does not tell
}

// ErrDamaged marks what is not as it was written.
var ErrDamaged = errors.New("damaged")

// Damage is a piece of a part that is not as it was written.
type Damage struct {
	From, To int64  // in the part
	Why      string // with file and place
}

// Body is the content of one of a part's files, as *os.File has it.
type Body interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// How says for what a part is opened.
type How int

// The ways.
const (
	ToRead    How = iota
	ToMake        // the files are not there; Finish completes them
	ToWrite       // over what there is: where it is damaged, with what it was
	ToCompare     // to read, each byte compared with a checksum before it is handed out: files.ErrDamaged; only of the kind Files
)

// Kind is what can be done with parts of one kind.
type Kind interface {
	// Seal looks whether what the rank has written into a dataset's directory is whole. With durable it is on stable storage then.
	Seal(ctx context.Context, dir string, rank int, of Of, durable bool) (Sealed, error)
	// Check compares a part, but for the data, with the files that a manifest has of it.
	Check(dir string, rank int, of Of, files []holding.File) error
	// Verify reads all of a part and returns what is damaged; an error is none of damage. progress is told the bytes read.
	Verify(ctx context.Context, dir string, files []holding.File, progress func(int64)) ([]Damage, error)
	// Copy copies a part to another dataset's directory. ErrDamaged: it is not as it was written.
	Copy(ctx context.Context, from, to string, files []holding.File, durable bool) error
	// Open opens the files of a part. Files that are made may be written over, if reuse finds some of their names (nil: never).
	Open(dir string, files []holding.File, how How, reuse func(name string) bool) (Opened, error)
}

// Opened are the open files of a part.
type Opened struct {
	Bodies []Body
	// Finish completes files that were made or written to; with durable they are on stable storage then.
	Finish func(durable bool) error
}

// Close closes them.
func (o *Opened) Close() {
	for _, b := range o.Bodies {
		b.Close() // what was written has been synced, or does not count
	}
}

// OfKind returns the operations of a kind.
func OfKind(k holding.Kind) (Kind, error) {
	switch k {
	case holding.Image:
		return image{}, nil
	case holding.Files:
		return written{}, nil
	}
	return nil, fmt.Errorf("part: %v: this byssus does not know it", k)
}

// Split hands the files of each rank to f, which stand one behind the other.
func Split(files []holding.File, f func(Kind, []holding.File) error) error {
	for i := 0; i < len(files); {
		n := i + 1
		for n < len(files) && files[n].Rank == files[i].Rank && files[n].Kind == files[i].Kind {
			n++
		}
		k, err := OfKind(files[i].Kind)
		if err == nil {
			err = f(k, files[i:n])
		}
		if err != nil {
			return err
		}
		i = n
	}
	return nil
}

// Verify reads all of these files, of any ranks, and returns what is damaged, in the part that they are together.
func Verify(ctx context.Context, dir string, files []holding.File, progress func(int64)) ([]Damage, error) {
	var all []Damage
	var begin int64
	err := Split(files, func(k Kind, files []holding.File) error {
		found, err := k.Verify(ctx, dir, files, progress)
		for _, d := range found {
			all = append(all, Damage{begin + d.From, begin + d.To, d.Why})
		}
		begin += size(files)
		return err
	})
	return all, err
}

func size(files []holding.File) int64 { return holding.Member{Files: files}.Bytes() }
