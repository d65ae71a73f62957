package part

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/store/files"
)

// written are files that a rank has written: their index, and what they contain, which has no name of its own on the node.
type written struct{}

// OfIndex describes a part by its index.
func OfIndex(x *files.Index) []holding.File {
	return []holding.File{
		{Name: files.IndexName(x.Rank), Size: x.Bytes, Digest: uint64(x.Digest), Rank: x.Rank, Kind: holding.Files},
		{Name: files.ContentName(x.Rank), Size: x.Size, Digest: uint64(x.Digest), Rank: x.Rank, Kind: holding.Files}}
}

// Seal is Kind's.
func (written) Seal(ctx context.Context, dir string, rank int, _ Of, durable bool) (Sealed, error) {
	x, err := files.Make(ctx, dir, rank, durable, func(int64) {})
	if err != nil {
		return Sealed{}, err
	}
	s := Sealed{Files: OfIndex(x)}
	for _, f := range x.Files {
		s.Paths = append(s.Paths, holding.Path{Rank: rank, Hash: f.Hash()})
	}
	return s, nil
}

// open reads the index of a part, which must be the one that the manifest, or the set's header, speaks of.
func open(dir string, want []holding.File) (*files.Index, error) {
	x, err := files.Open(dir, want[0].Rank)
	if err != nil {
		return nil, err
	}
	found := OfIndex(x)
	if len(want) != len(found) || found[0] != want[0] || found[1] != want[1] {
		return nil, fmt.Errorf("%s: found %+v, wanted %+v", files.IndexName(x.Rank), found, want)
	}
	return x, nil
}

// Check is Kind's.
func (written) Check(dir string, _ int, _ Of, want []holding.File) error {
	_, err := open(dir, want)
	return err
}

// Verify is Kind's. Where the index is damaged nothing of the files is known.
func (written) Verify(ctx context.Context, dir string, want []holding.File, progress func(int64)) ([]Damage, error) {
	x, err := open(dir, want)
	if err != nil {
		return []Damage{{0, size(want), err.Error()}}, nil
	}
	found, err := x.Verify(ctx, dir, progress)
	var all []Damage
	for _, d := range found {
		all = append(all, Damage{x.Bytes + d.From, x.Bytes + d.To, d.Why})
	}
	return all, err
}

// Copy is Kind's.
func (written) Copy(ctx context.Context, from, to string, want []holding.File, durable bool) error {
	if _, err := open(from, want); err != nil {
		return Damaged(ctx, err)
	}
	_, err := files.Copy(ctx, from, to, want[0].Rank, durable)
	if errors.Is(err, files.ErrDamaged) {
		return Damaged(ctx, err)
	}
	return err
}

// Open is Kind's.
func (written) Open(dir string, want []holding.File, how How, reuse func(string) bool) (Opened, error) {
	if len(want) != len(OfIndex(&files.Index{})) {
		return Opened{}, fmt.Errorf("part: %d files of kind %v of rank %d, wanted an index and its files", len(want), holding.Files, want[0].Rank)
	}
	rank := want[0].Rank
	if how != ToMake {
		x, err := open(dir, want)
		if err != nil {
			return Opened{}, err
		}
		f, err := os.Open(filepath.Join(dir, files.IndexName(rank)))
		if err != nil {
			return Opened{}, err
		}
		c := x.Read(dir)
		switch how {
		case ToWrite:
			c = x.Repair(dir)
		case ToCompare:
			c = x.ReadGood(dir)
		}
		return Opened{Bodies: []Body{readOnly{f}, c}, Finish: c.Finish}, nil
	}
	f, err := create(dir, files.IndexName(rank))
	if err != nil {
		return Opened{}, err
	}
	c := files.MakeAgain(dir, rank, f, reuse)
	return Opened{Bodies: []Body{f, c}, Finish: func(durable bool) error {
		if err := syncIf(f, durable); err != nil {
			return err
		}
		return c.Finish(durable)
	}}, nil
}

// readOnly is an index that is good: what is repaired is its files.
type readOnly struct{ *os.File }

func (r readOnly) WriteAt(b []byte, off int64) (int, error) {
	return len(b), nil // the same bytes: it is whole, and has a checksum
}

// Publish copies a part of the kind Files to the prefix, with the index in another dataset's directory. ErrDamaged: it is not as it was
// written.
func Publish(ctx context.Context, from, to, prefix string, want []holding.File, durable bool) error {
	if _, err := open(from, want); err != nil {
		return Damaged(ctx, err)
	}
	_, err := files.Publish(ctx, from, to, prefix, want[0].Rank, durable)
	if errors.Is(err, files.ErrDamaged) {
		return Damaged(ctx, err)
	}
	return err
}
