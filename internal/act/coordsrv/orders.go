package coordsrv

import (
	"fmt"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/act/mover"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/keep"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/wire/bulk"
)

// orders puts what package keep orders into the messages that agents hear, and their answers into keep's.
type orders struct {
	job    *dataset.Job   // in the store that all nodes see
	stream holding.Stream // that of the keeper
	kind   holding.Kind   // of what ranks write
	mode   bulk.Mode
	name   func(node int) string
	pieces func(node int) string // where it takes what others send it
	keys   map[uint64]*keys      // of transfers that not all members have been told of
	again  bool                  // what is dropped is written over by what comes next: snapshots
	prefix string                // below which files that are copied get their own names; empty: they lie in the store
	mpi    string                // what rank 0 last said of its MPI and its program, for manifests
	app    string
}

func newOrders(job *dataset.Job, stream holding.Stream, mode bulk.Mode, name, pieces func(node int) string) *orders {
	return &orders{job: job, stream: stream, mode: mode, name: name, pieces: pieces, keys: map[uint64]*keys{}}
}

// keys are those of the links between members of a set, by who sends and who receives: as far apart as plans reach. Each is used once,
// and told to these two.
type keys struct {
	of   map[[2]int]bulk.Key
	left int // members that have not been told
}

// link is the key of a link.
func (k *keys) link(from, to int) bulk.Key {
	key, ok := k.of[[2]int{from, to}]
	if !ok {
		key = bulk.NewKey()
		k.of[[2]int{from, to}] = key
	}
	return key
}

// message is an order as agents hear it.
func (o *orders) message(node int, number uint64, order keep.Order) any {
	switch k := order.(type) {
	case keep.Seal:
		return control.Seal{Order: number, Checkpoint: k.Checkpoint, Stream: o.stream, Kind: o.kind, Ranks: k.Ranks}
	case keep.Name:
		return control.Name{Order: number, Checkpoint: k.Checkpoint, Stream: o.stream, Path: k.Path}
	case keep.Encode:
		t := o.transfer(k.Transfer, k.Members, &k.Header)
		t.Increment = k.Base != 0
		return control.Encode{Order: number, Checkpoint: k.Header.Dataset, Header: k.Header, Transfer: t, Base: k.Base}
	case keep.Rebuild:
		return control.Rebuild{Order: number, Checkpoint: k.Header.Dataset, Header: k.Header, Lost: k.Lost,
			Transfer: o.transfer(k.Transfer, k.Members, &k.Header), Gone: missing(k.Members)}
	case keep.Repair:
		return control.Repair{Order: number, Checkpoint: k.Header.Dataset, Header: k.Header, Damaged: k.Damaged, Ranges: k.Ranges,
			Transfer: o.transfer(k.Transfer, k.Members, &k.Header)}
	case keep.Record:
		m := o.record(k.Dataset, k.Files).Labelled(k.Label)
		m.Node, m.Start, m.Epoch = o.name(node), k.Start, k.Epoch
		for _, h := range k.Members {
			m.Parity = append(m.Parity, agent.ParityName(&h))
		}
		return control.Commit{Order: number, Checkpoint: k.Dataset, Stream: o.stream, Record: *m}
	case keep.Withdraw:
		return control.Discard{Order: number, Checkpoint: k.Checkpoint, Stream: o.stream}
	case keep.Drop:
		return control.Drop{Order: number, Checkpoint: k.Checkpoint, Stream: o.stream, Keep: o.again}
	case keep.Flush:
		return control.Flush{Order: number, Checkpoint: k.Checkpoint, Stream: o.stream, Ranks: k.Ranks, Prefix: o.prefix}
	case keep.Inspect:
		return control.Inspect{Order: number, Checkpoint: k.Checkpoint, Stream: o.stream}
	case keep.Abandon:
		return control.Abandon{Transfer: k.Transfer}
	}
	return nil
}

// answer is what an agent has answered.
func (o *orders) answer(m control.Message) keep.Answer {
	switch b := m.Body.(type) {
	case control.Done:
		return keep.Answer{Text: b.Text, Err: b.Err, Follows: b.Follows, Damaged: b.Damaged, Damage: b.Damage}
	case control.Encoded:
		return keep.Answer{Sent: b.Sent}
	case control.Sealed:
		if b.Part.MPI != "" {
			o.mpi, o.app = b.Part.MPI, b.Part.App
		}
		return keep.Answer{Files: b.Part.Files, Paths: b.Part.Paths}
	}
	return keep.Answer{Err: fmt.Sprintf("coordsrv: an agent answers %T", m.Body)}
}

// record is the manifest of so many files.
func (o *orders) record(n uint64, files []holding.File) *dataset.Manifest {
	return o.job.Of(o.stream).Manifest(n, &dataset.Part{Files: files, MPI: o.mpi, App: o.app})
}

// missing are the members that no node is.
func missing(members []int) (list []int) {
	for m, node := range members {
		if node < 0 {
			list = append(list, m)
		}
	}
	return list
}

// transfer tells a member how it reaches those around it.
func (o *orders) transfer(id uint64, members []int, h *holding.Header) mover.Transfer {
	n, me := len(members), h.Own
	k := o.keysOf(id, members)
	t := mover.Transfer{ID: id, Me: me, Mode: o.mode, Peers: make([]mover.Peer, n)}
	reach := min(h.Scheme.Reach(), n-1)
	for d := -reach; d <= reach; d++ {
		peer := (me + d + n) % n
		if peer == me || members[peer] < 0 {
			continue
		}
		t.Peers[peer] = mover.Peer{Address: o.pieces(members[peer]), Out: k.link(me, peer), In: k.link(peer, me)}
	}
	return t
}

// keysOf has the keys of a transfer, until all its members have been told.
func (o *orders) keysOf(id uint64, members []int) *keys {
	k := o.keys[id]
	if k == nil {
		k = &keys{of: map[[2]int]bulk.Key{}}
		for _, node := range members {
			if node >= 0 {
				k.left++
			}
		}
		o.keys[id] = k
	}
	if k.left--; k.left == 0 {
		delete(o.keys, id)
	}
	return k
}

// work is what is to be done in the store that all nodes see.
func (o *orders) work(work keep.Work) func() error {
	store := o.job.Of(o.stream)
	switch w := work.(type) {
	case keep.Place:
		return func() error { return store.Bring(w.Checkpoint) }
	case keep.Enter:
		record := o.record(w.Checkpoint, w.Files).Labelled(w.Label)
		return func() error { return store.Commit(w.Checkpoint, record) }
	case keep.Clear:
		return func() error { return store.Discard(w.Checkpoint) }
	case keep.Remove:
		return func() error { return store.Drop(w.Checkpoint) }
	}
	return func() error { return fmt.Errorf("coordsrv: %T is nothing to do", work) }
}
