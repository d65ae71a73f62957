// Package keep decides how the checkpoints of a job come to lie in the caches of its nodes, so that the loss of some of them
// costs nothing: sealing, redundancy, the record and when a checkpoint counts; what is made again after a loss, and on whom;
// copies in the store that all nodes see; what becomes of what is damaged.
//
// It guarantees: that a checkpoint is committed is told only when no loss that its redundancy sets survive can take its record;
// one that was given up is withdrawn everywhere; nothing is dropped but by order; a job goes on only where all images are,
// or were made again. A node that is lost answers all that it was asked, as lost: so everything that was begun comes to an end.
//
// It is pure: a Driver carries out orders and calls back. Nothing here is safe for concurrent use: a driver calls one function,
// or one callback, at a time, and never a callback from within a call.
package keep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

// Driver carries out what is decided.
type Driver interface {
	// Ask gives a node an order, whose answer is heard later.
	Ask(node int, order Order, then func(Answer))
	// Tell gives a node an order that is not answered.
	Tell(node int, order Order)
	// Store works on the store that all nodes see; how that went is heard later.
	Store(work Work, then func(error))
	// Committed: a checkpoint counts from now on, or why it does not (then it is to be discarded).
	Committed(checkpoint uint64, why string)
	// Flushed: a checkpoint is in the store that all nodes see.
	Flushed(checkpoint uint64)
	// Rebuilt: what a node held that is lost has been made again on another.
	Rebuilt(checkpoint uint64, lost string, on int, bytes int64)
	// Repaired: so many bytes of what a node has were damaged, and are as they were written again.
	Repaired(checkpoint uint64, node int, bytes int64, why string)
	// Say tells the user.
	Say(text string)
}

// Answer of a node. Files are those of a part that it has sealed.
type Answer struct {
	Err     string
	Follows bool             // from what another node could not do
	Damaged bool             // what the node has is not as it was written
	Damage  []holding.Damage // where, if that is known: Inspect
	Files   []holding.File
	Paths   []holding.Path // of the files that the ranks have written, if they have
	Text    string         // Name
	Sent    int64          // bytes: Encode
}

// Order is something for a node to do: one of these.
type Order interface{ order() }

// The orders.
type (
	// Seal makes sure that the images of these ranks, which the node has, are whole and durable.
	Seal struct {
		Checkpoint uint64
		Ranks      []int
	}
	// Name asks for the path of a file that a rank has written.
	Name struct {
		Checkpoint uint64
		holding.Path
	}
	// Encode makes what the node keeps for the others of its set; Header.Own is the member that it is. All members do it at once.
	Encode struct {
		Header   holding.Header
		Transfer uint64
		Members  []int  // nodes, by member
		Base     uint64 // made as an increment of this dataset, which all members have; 0: of all bytes
	}
	// Record makes a part count, with what it keeps for others.
	Record struct {
		holding.ID
		Label   holding.Label
		Files   []holding.File
		Members []holding.Header // which members of sets the node is
	}
	// Rebuild makes a lost member again; Header.Own is the member that the node is, or becomes.
	Rebuild struct {
		Header   holding.Header
		Lost     int
		Transfer uint64
		Members  []int // nodes, by member; -1: it is lost, too
	}
	// Repair repairs what of a member is damaged, on the node that has it; Header.Own is the member that the node is.
	Repair struct {
		Header   holding.Header
		Damaged  int
		Ranges   []redset.Range
		Transfer uint64
		Members  []int // nodes, by member
	}
	// Inspect reads all that the node has of a checkpoint, with what it keeps for others: an error says what of it is not as it was
	// written.
	Inspect struct{ Checkpoint uint64 }
	// Abandon ends what is done for a transfer, or will be: it cannot succeed.
	Abandon struct{ Transfer uint64 }
	// Withdraw removes what there is of a checkpoint that does not count.
	Withdraw struct{ Checkpoint uint64 }
	// Drop removes a committed checkpoint.
	Drop struct{ Checkpoint uint64 }
	// Flush copies the images of these ranks to the store that all nodes see, and seals them there.
	Flush struct {
		Checkpoint uint64
		Ranks      []int
	}
)

func (Seal) order()     {}
func (Name) order()     {}
func (Encode) order()   {}
func (Record) order()   {}
func (Rebuild) order()  {}
func (Repair) order()   {}
func (Inspect) order()  {}
func (Abandon) order()  {}
func (Withdraw) order() {}
func (Drop) order()     {}
func (Flush) order()    {}

// Work is something to do in the store that all nodes see: one of these.
type Work interface{ work() }

// The works.
type (
	// Place makes room for the images of a checkpoint.
	Place struct{ Checkpoint uint64 }
	// Enter makes a checkpoint count there, which consists of these files.
	Enter struct {
		Checkpoint uint64
		Label      holding.Label
		Files      []holding.File
	}
	// Clear removes what was not entered.
	Clear struct{ Checkpoint uint64 }
	// Remove removes a checkpoint that counts there.
	Remove struct{ Checkpoint uint64 }
)

func (Place) work()  {}
func (Enter) work()  {}
func (Clear) work()  {}
func (Remove) work() {}

// Config is how a job uses the caches of its nodes for one of its streams of datasets.
type Config struct {
	Job    [16]byte
	Stream holding.Stream
	Kind   holding.Kind // of what ranks write
	Ranks  int
	Scheme redset.Scheme
	Size   int // of sets, at least; 0: as fits
	Flush  int // every so many checkpoints one is copied to the store; 0: none
}

// Keeper is what is known of a job's checkpoints: where they are stored, and what is being made of them at the moment. What the nodes
// have of them is its crew's.
type Keeper struct {
	crew
	inspections
	cfg      Config
	stored   map[uint64]bool // in the store that all nodes see
	flushing uint64          // what is being copied there, or repaired for that, 0: nothing
	dropped  []uint64        // meanwhile
	evicted  []uint64        // meanwhile
	making   bool            // something that is lost is made again
	settled  []func()        // that waits for its end
	commits  int
	full     map[string]int // commits of a group that send all, before an increment is tried again
	doubts   int            // copies to the store that found something damaged
	told     string         // what was said of redundancy that is less than was asked for
}

// New returns a keeper that knows of no node; stored are the checkpoints that all nodes see.
func New(cfg Config, driver Driver, stored []uint64) *Keeper {
	k := &Keeper{crew: crew{driver: driver, stream: cfg.Stream}, cfg: cfg, stored: map[uint64]bool{}, full: map[string]int{}}
	k.inspections = inspections{&k.crew, map[uint64][]func(){}}
	for _, n := range stored {
		k.stored[n] = true
	}
	return k
}

// Present says whether all nodes that have had a part of a checkpoint have joined, and live: what they do not have of it, or of a newer
// one, will not turn up.
func (k *Keeper) Present(checkpoint uint64) bool {
	_, err := k.plan(checkpoint, k.alive())
	return err == nil && !k.Away(checkpoint)
}

// Stored says whether a checkpoint is in the store that all nodes see.
func (k *Keeper) Stored(checkpoint uint64) bool { return k.stored[checkpoint] }

// Idle says whether nothing is being copied to the store.
func (k *Keeper) Idle() bool { return k.flushing == 0 }

// Check says whether these nodes can protect each other as was asked for.
func (k *Keeper) Check(nodes []int) error {
	_, err := redset.Divide(k.members(nodes, true), k.cfg.Scheme, k.cfg.Size)
	if err != nil {
		var names []string
		for _, n := range nodes {
			names = append(names, k.nodes[n].name)
		}
		err = fmt.Errorf("keep: of %s: %w", strings.Join(names, ", "), err)
	}
	return err
}

// Share is how much a node keeps for others, of its own images, when these nodes have a checkpoint; at least. Zero: nothing, or it is not
// known.
func (k *Keeper) Share(nodes []int) redset.Share {
	sets, err := redset.Divide(k.members(nodes, true), k.cfg.Scheme, k.cfg.Size)
	if err != nil {
		return redset.Share{}
	}
	return slices.MaxFunc(sets, func(a, b redset.Set) int { return cmp.Compare(len(a.Members), len(b.Members)) }).Share()
}

// failure is the first that answers say went wrong; what followed from something else, only if nothing else did.
func failure(answers []Answer) string {
	follows := ""
	for _, a := range answers {
		switch {
		case a.Err == "":
		case !a.Follows:
			return a.Err
		case follows == "":
			follows = a.Err
		}
	}
	return follows
}

// Discard withdraws a checkpoint that nobody was told of.
func (k *Keeper) Discard(checkpoint uint64) {
	k.forget(checkpoint)
	k.remove(Withdraw{checkpoint})
}

// Drop removes a committed checkpoint everywhere.
func (k *Keeper) Drop(checkpoint uint64) {
	if checkpoint == k.flushing {
		k.dropped = append(k.dropped, checkpoint)
		return
	}
	k.forget(checkpoint)
	k.remove(Drop{checkpoint})
	if k.stored[checkpoint] {
		delete(k.stored, checkpoint)
		k.driver.Store(Remove{checkpoint}, k.complain)
	}
}

// Evict removes a checkpoint from the caches; what the store has of it stays.
func (k *Keeper) Evict(checkpoint uint64) {
	if checkpoint == k.flushing {
		k.evicted = append(k.evicted, checkpoint)
		return
	}
	k.forget(checkpoint)
	k.remove(Drop{checkpoint})
}

func (k *Keeper) complain(err error) {
	if err != nil {
		k.driver.Say(err.Error())
	}
}

// say says something about redundancy, once.
func (k *Keeper) say(text string) {
	if text != k.told {
		k.told = text
		k.driver.Say(text)
	}
}
