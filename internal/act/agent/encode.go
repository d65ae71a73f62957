package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/act/mover"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/part"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
)

// encodeAndSay makes what this node keeps for the others of its set.
func encodeAndSay(ctx context.Context, n *Node, o control.Encode) {
	n.cfg.Faults.Hit(faults.EncodeBegun)
	sent, err := n.encode(ctx, o)
	n.cfg.Faults.Hit(faults.EncodeDone)
	if err != nil {
		n.answer(o.Order, err)
		return
	}
	n.say(control.Message{Body: control.Encoded{Order: o.Order, Sent: sent}})
}

// encode makes what this node keeps for the others of its set, beside the parts that it has. It returns the bytes sent.
func (n *cache) encode(ctx context.Context, o control.Encode) (sent int64, err error) {
	store := n.of(o.Header.Stream)
	m, err := openMember(store.Path(o.Checkpoint)+".tmp", o.Header)
	if err != nil {
		return 0, err
	}
	m.reuse = func(name string) bool { return store.Spares().Reuse(o.Checkpoint, name) }
	defer m.close()
	at := mover.Places{}
	if o.Base != 0 {
		b, err := m.base(store, o.Base)
		if err != nil {
			return 0, fmt.Errorf("agent: redundancy of %s: %w", store.Called(o.Checkpoint), err)
		}
		defer b.close()
		at.Base = b.places
	}
	if at.Read[redset.Part], err = m.part(part.ToRead, o.Header.Own); err != nil {
		return 0, err
	}
	if err := m.unmake(); err != nil {
		return 0, err
	}
	if at.Write[redset.Redundancy], err = m.make(); err != nil {
		return 0, err
	}
	if sent, err = mover.Run(ctx, n.cfg.Port, o.Transfer, m.layout.Encode(o.Header.Own), at); err != nil {
		return sent, fmt.Errorf("agent: redundancy of %s: %w", store.Called(o.Checkpoint), err)
	}
	return sent, m.finish(n.store.Meta.Fsync)
}

// unmake removes what an earlier try has made.
func (m *member) unmake() error {
	err := os.Remove(filepath.Join(m.dir, ParityName(&m.header)))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, f := range copied(&m.header) {
		if err == nil {
			err = os.RemoveAll(filepath.Join(m.dir, f.Name))
		}
	}
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

// base is what a member has of the dataset that another is an increment of. Whatever of it is read is compared with its checksum before:
// what is wrong in it would be wrong in all that follow.
type base struct {
	member
	places [2]io.ReaderAt
}

// base opens it: it must be of the same shape.
func (m *member) base(store *dataset.Datasets, number uint64) (*base, error) {
	damaged := func(err error) (*base, error) {
		return nil, fmt.Errorf("%w: %s: %w", part.ErrDamaged, store.Called(number), err)
	}
	dir := store.Path(number)
	h, err := readParity(filepath.Join(dir, ParityName(&m.header)))
	if err != nil {
		return damaged(err)
	}
	if !h.SameShape(&m.header) {
		return nil, fmt.Errorf("%s: of another shape, wanted the same nodes, files and sizes", store.Called(number))
	}
	opened, err := openMember(dir, *h)
	if err != nil {
		return damaged(err)
	}
	b := &base{member: *opened}
	if b.places[redset.Part], err = b.part(part.ToCompare, h.Own); err == nil {
		b.places[redset.Redundancy], _, err = b.redundancy(part.ToCompare)
	}
	if err != nil {
		b.close()
		return damaged(err)
	}
	for i, from := range b.places {
		b.places[i] = suspect{from, store.Called(number)}
	}
	return b, nil
}

// suspect says of what cannot be read that it is damaged.
type suspect struct {
	io.ReaderAt
	name string
}

func (s suspect) ReadAt(p []byte, off int64) (int, error) {
	k, err := s.ReaderAt.ReadAt(p, off)
	if err != nil {
		err = fmt.Errorf("%w: %s: %w", part.ErrDamaged, s.name, err)
	}
	return k, err
}
