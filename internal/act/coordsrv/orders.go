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
	rings  map[uint64]*ring      // of transfers that not all members have been told of
	again  bool                  // what is dropped is written over by what comes next: snapshots
	prefix string                // below which files that are copied get their own names; empty: they lie in the store
	mpi    string                // what rank 0 last said of its MPI and its program, for manifests
	app    string
}

func newOrders(job *dataset.Job, stream holding.Stream, mode bulk.Mode, name, pieces func(node int) string) *orders {
	return &orders{job: job, stream: stream, mode: mode, name: name, pieces: pieces, rings: map[uint64]*ring{}}
}

// ring has the keys of the links between the neighbours of a set: no plan has others. Each is used once.
type ring struct {
	forth, back []bulk.Key // from member i to the next one, and from that to i
	left        int        // members that have not been told
}

// message is an order as agents hear it.
func (o *orders) message(node int, number uint64, order keep.Order) any {
	switch k := order.(type) {
	case keep.Seal:
		return control.Seal{Order: number, Checkpoint: k.Checkpoint, Stream: o.stream, Kind: o.kind, Ranks: k.Ranks}
	case keep.Name:
		return control.Name{Order: number, Checkpoint: k.Checkpoint, Stream: o.stream, Path: k.Path}
	case keep.Encode:
		t := o.transfer(k.Transfer, k.Members, k.Header.Own)
		t.Increment = k.Base != 0
		return control.Encode{Order: number, Checkpoint: k.Header.Dataset, Header: k.Header, Transfer: t, Base: k.Base}
	case keep.Rebuild:
		return control.Rebuild{Order: number, Checkpoint: k.Header.Dataset, Header: k.Header, Lost: k.Lost,
			Transfer: o.transfer(k.Transfer, k.Members, k.Header.Own)}
	case keep.Repair:
		return control.Repair{Order: number, Checkpoint: k.Header.Dataset, Header: k.Header, Damaged: k.Damaged, Ranges: k.Ranges,
			Transfer: o.transfer(k.Transfer, k.Members, k.Header.Own)}
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

// transfer tells a member how it reaches its neighbours.
func (o *orders) transfer(id uint64, members []int, me int) mover.Transfer {
	n := len(members)
	next, before := (me+1)%n, (me+n-1)%n
	k := o.ring(id, members)
	t := mover.Transfer{ID: id, Me: me, Mode: o.mode, Peers: make([]mover.Peer, n)}
	t.Peers[before] = mover.Peer{Out: k.back[before], In: k.forth[before]}
	t.Peers[next] = mover.Peer{Out: k.forth[me], In: k.back[me]}
	if n == 2 { // each is both to the other, by one link each way
		t.Peers[next].In = k.forth[next]
	}
	for _, i := range []int{before, next} {
		if members[i] >= 0 {
			t.Peers[i].Address = o.pieces(members[i])
		}
	}
	return t
}

// ring has the keys of a transfer, until all its members have been told.
func (o *orders) ring(id uint64, members []int) *ring {
	k := o.rings[id]
	if k == nil {
		k = &ring{}
		for _, node := range members {
			k.forth, k.back = append(k.forth, bulk.NewKey()), append(k.back, bulk.NewKey())
			if node >= 0 {
				k.left++
			}
		}
		o.rings[id] = k
	}
	if k.left--; k.left == 0 {
		delete(o.rings, id)
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
