// Package snapshot keeps snapshots of a program's memory in the memory of its node and of others, so that the program, when it is started again
// after a crash or a lost node, goes on where it was. Nothing is written to a file, and no MPI is needed: each member of a group talks to the
// agent of its node (byssus run --plain, with --cache).
//
//	field, err := snapshot.Of(1, values)          // a []float64, say
//	s, tag, err := snapshot.Restore(ctx, snapshot.Group{Member: rank, Members: ranks}, field)
//	for step := tag + 1; step <= last; step++ {
//		... // the work
//		err = s.Start(step)                   // copies the regions: they may be written to again
//		err = s.Commit(ctx)                   // safe from the loss of a node, on all members
//	}
//	err = s.Finish(ctx, false)
//
// # What is guaranteed
//
//   - Restore gives all members the bytes of one snapshot: the newest that counts, and that all of them can read; compared with its checksums.
//   - All members hear the same of one snapshot. One counts when all have committed it, and its bytes are safe from what the redundancy covers;
//     until then the one before stands, also if it never does.
//   - A call whose context ends has lost nothing: the same call goes on waiting.
//   - Where survivors are kept (byssus run --survivors keep), calls that wait for a member that has died return ErrPeer, and States says who that
//     is, the same to all. Then survivors call Restore on what they have, and the process in the place of the dead calls the function Restore.
//   - Each call has an end, and none panics.
//
// The format is that of the C library (byssus.h, docs/memory.md): members of one group may be of both kinds.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/byssus-hpc/byssus/internal/wire/client"
)

// Errors that calls return, wrapped with what was found and wanted.
var (
	ErrUse    = errors.New("wrong use")                     // arguments, the order of calls, or two calls at a time
	ErrFailed = errors.New("the snapshot does not count")   // the one before stands, and the group goes on
	ErrRoom   = errors.New("no room for the snapshot here") // in the memory that the agent has
	ErrDiffer = errors.New("members, or a snapshot, differ")
	ErrAgent  = errors.New("the agent")   // there is none, or it refuses
	ErrLost   = errors.New("it is lost")  // Restore: snapshots were committed, and more is lost, or damaged, than their redundancy covers
	ErrPeer   = errors.New("begin again") // a member has died, and the others go on: all call Restore (byssus run --survivors keep)
)

// A Region is memory that snapshots have: ID is the program's, each once. With Leave it is left as it is when a snapshot is read. With HandOver
// it is copied while the program computes, which writes nothing there until Commit has returned without its context having ended.
type Region struct {
	ID       uint32
	Bytes    []byte
	Leave    bool
	HandOver bool
}

// A Length is that of a region in a snapshot, in bytes.
type Length struct {
	ID    uint32
	Bytes int64
}

// Of is the region of a slice's elements, which have no pointers; the slice must stay as long as it is.
func Of[T any](id uint32, values []T) (Region, error) {
	t := reflect.TypeFor[T]()
	if why := pointerIn(t); why != "" {
		return Region{}, fmt.Errorf("snapshot: region %d of %v: found %s, wanted elements without pointers: %w", id, t, why, ErrUse)
	}
	if len(values) == 0 || t.Size() == 0 {
		return Region{}, fmt.Errorf("snapshot: region %d of %v: found no bytes, wanted 1 at least: %w", id, t, ErrUse)
	}
	return Region{ID: id, Bytes: unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(t.Size()))}, nil
}

// pointerIn is what in a type points elsewhere; empty: nothing.
func pointerIn(t reflect.Type) string {
	switch k := t.Kind(); {
	case k >= reflect.Bool && k <= reflect.Complex128 && k != reflect.Uintptr:
		return ""
	case k == reflect.Array:
		return pointerIn(t.Elem())
	case k == reflect.Struct:
		for i := range t.NumField() {
			if why := pointerIn(t.Field(i).Type); why != "" {
				return why
			}
		}
		return ""
	}
	return t.String()
}

// A Group makes snapshots together. Name is at most 63 bytes without blanks, slashes and dots; empty: "memory". A process may be a member of
// several groups at once, of different names, members and policies: their snapshots, and their ends, have nothing to do with each other. All
// begin them in the same order. Policy is what its nodes do against the loss of some of them (docs/memory.md#policies): "partner", "partner:2", "ring", "pairs", "xor", "xor:4", "single";
// empty: what byssus run says.
type Group struct {
	Member, Members int
	Name            string
	Policy          string
}

// phase of a member.
type phase int

const (
	entering phase = iota
	computing
	started
	committing
	leaving
	over
	ended // by the death of a member
)

// Snapshots are those of a group, as a member makes them. Any goroutine may call, one at a time.
type Snapshots struct {
	group   Group
	regions []Region
	makes   func([]Length) ([]Region, error) // regions, when it is known how long they are; nil: they are known
	use     sync.Mutex
	phase   phase
	run     atomic.Uint64 // the epoch
	next    uint64        // the number of the next snapshot
	dir     string        // of it
	tag     uint64
	room    bool         // Start has put it there
	copied  <-chan error // what is handed over has been put there, too; nil: nothing is
	missed  error        // what became of that, if it is not there
	talk    conversation
	watch   watch
}

// Restore begins: all members call it, or Open. It gives the regions the bytes of the newest snapshot, and returns its tag; without one the group
// begins empty, the regions may have any bytes, and the tag is 0, which found tells apart. When ctx ends, nothing has begun on this member.
func Restore(ctx context.Context, g Group, regions ...Region) (s *Snapshots, tag uint64, found bool, err error) {
	return begin(ctx, g, regions, true)
}

// RestoreAs is Restore of a program that knows only then how much memory it needs: regions is told what this member has in the snapshot, and
// returns memory for that; nothing, if there is no snapshot. It is called again when that has to be an older one.
func RestoreAs(ctx context.Context, g Group, regions func(of []Length) ([]Region, error)) (s *Snapshots, tag uint64, found bool, err error) {
	if regions == nil {
		return nil, 0, false, fmt.Errorf("snapshot: begin: found no function, wanted one that makes the regions: %w", ErrUse)
	}
	if s, err = newSnapshots(g, nil); err != nil {
		return nil, 0, false, err
	}
	s.makes = regions
	return s.begins(ctx, true)
}

// Open begins without a snapshot: all members call it, or Restore.
func Open(ctx context.Context, g Group, regions ...Region) (*Snapshots, error) {
	s, _, _, err := begin(ctx, g, regions, false)
	return s, err
}

func begin(ctx context.Context, g Group, regions []Region, restore bool) (s *Snapshots, tag uint64, found bool, err error) {
	if why := wrongRegions(regions); why != "" {
		return nil, 0, false, fmt.Errorf("snapshot: begin: wanted %s: %w", why, ErrUse)
	}
	if s, err = newSnapshots(g, regions); err != nil {
		return nil, 0, false, err
	}
	return s.begins(ctx, restore)
}

func (s *Snapshots) begins(ctx context.Context, restore bool) (_ *Snapshots, tag uint64, found bool, err error) {
	tag, found, err = s.enter(ctx, restore)
	if err == nil && !found {
		err = s.make(nil)
	}
	if err != nil {
		s.talk.close()
		s.unname()
		return nil, 0, false, s.wrap("begin", err)
	}
	s.makes = nil
	return s, tag, found, nil
}

// errMake is what the program's function has failed with, or that it has made what cannot be.
var errMake = errors.New("its regions")

// make has the program make its regions, if it does so.
func (s *Snapshots) make(of []Length) error {
	if s.makes == nil {
		return nil
	}
	regions, err := s.makes(of)
	if err != nil {
		return fmt.Errorf("%w: %w", errMake, err)
	}
	if why := wrongRegions(regions); why != "" {
		return fmt.Errorf("%w: wanted %s: %w", errMake, why, ErrUse)
	}
	s.regions = slices.Clone(regions)
	return nil
}

// newSnapshots are those of a member that has not begun.
func newSnapshots(g Group, regions []Region) (*Snapshots, error) {
	if g.Name == "" {
		g.Name = "memory"
	}
	if why := wrong(g); why != "" {
		return nil, fmt.Errorf("snapshot: begin: wanted %s: %w", why, ErrUse)
	}
	s := &Snapshots{group: g, regions: slices.Clone(regions), watch: watch{turn: make(chan struct{}, 1)}}
	if !s.name() {
		return nil, fmt.Errorf("snapshot: begin: found others of member %d of group %s in this process, wanted these, or a group of another name: %w", g.Member, g.Name, ErrUse)
	}
	return s, nil
}

// wrap says what could not be done, and of which group.
func (s *Snapshots) wrap(call string, err error) error {
	if group := "group " + s.group.Name; !strings.Contains(err.Error(), group) {
		return fmt.Errorf("snapshot: %s: %w (%s)", call, err, group)
	}
	return fmt.Errorf("snapshot: %s: %w", call, err)
}

// begun are the snapshots that have begun in this process and not ended, by whose they are.
var begun = struct {
	sync.Mutex
	of map[owner]weak.Pointer[Snapshots]
}{of: map[owner]weak.Pointer[Snapshots]{}}

type owner struct {
	group  string
	member int
}

// name has the snapshots count as those of their member of their group; false: there are others.
func (s *Snapshots) name() bool {
	begun.Lock()
	defer begun.Unlock()
	o := owner{s.group.Name, s.group.Member}
	if begun.of[o].Value() != nil {
		return false
	}
	begun.of[o] = weak.Make(s)
	return true
}

func (s *Snapshots) unname() {
	begun.Lock()
	defer begun.Unlock()
	if o := (owner{s.group.Name, s.group.Member}); begun.of[o].Value() == s {
		delete(begun.of, o)
	}
}

// Restore begins again, after ErrPeer: survivors call it, with the regions that they began with. When ctx ends, it is called again.
func (s *Snapshots) Restore(ctx context.Context) (tag uint64, found bool, err error) {
	if err := s.come("restore", "found an end", computing, started, committing, leaving, ended, entering); err != nil {
		return 0, false, err
	}
	defer s.use.Unlock()
	s.handBack()
	s.talk.close()
	s.phase = entering
	if tag, found, err = s.enter(ctx, true); err != nil {
		return 0, false, s.wrap("restore", err)
	}
	return tag, found, nil
}

// enter begins, with the newest snapshot if there is one and it is wanted.
func (s *Snapshots) enter(ctx context.Context, restore bool) (tag uint64, found bool, err error) {
	ask := client.Asked{Request: client.Request{Type: client.ReqEnter}, Text: []string{s.group.Name, s.group.Policy}}
	for _, r := range s.regions {
		ask.Bytes += uint64(len(r.Bytes))
	}
	if restore {
		ask.Flags = client.FlagRestore
	}
	a, err := s.ask(ctx, ask)
	for err == nil && a.Flags&client.FlagRestore != 0 {
		found = true
		if tag, ask, err = s.readOffered(ctx, a); err == nil {
			a, err = s.ask(ctx, ask)
		}
	}
	if err == nil {
		err = s.placed(a)
	}
	if err != nil {
		return 0, false, err
	}
	if found = found && a.Valid == 1; !found {
		tag = 0
	}
	return tag, found, nil
}

func wrong(g Group) string {
	switch {
	case g.Members < 1 || g.Member < 0 || g.Member >= g.Members:
		return "a member below the number of members"
	case len(g.Name) > 63 || strings.ContainsAny(g.Name, " \t\n/.\x00"):
		return "a name of 1 to 63 bytes without blanks, slashes and dots"
	}
	return ""
}

func wrongRegions(regions []Region) string {
	if len(regions) < 1 || len(regions) > mostRegions {
		return fmt.Sprintf("1 to %d regions", mostRegions)
	}
	ids := map[uint32]bool{}
	for _, r := range regions {
		if len(r.Bytes) == 0 || ids[r.ID] {
			return "regions with at least 1 byte, and each id once"
		}
		ids[r.ID] = true
	}
	return ""
}

// readOffered reads a snapshot, and returns what is to be said of that.
func (s *Snapshots) readOffered(ctx context.Context, a client.Answered) (tag uint64, ready client.Asked, err error) {
	s.run.Store(a.Run)
	at, err := s.ask(ctx, client.Asked{Request: client.Request{Type: client.ReqFetch, Dataset: a.Dataset, Flags: a.Flags & client.FlagBypass}})
	if err == nil && len(at.Text) == 0 {
		err = fmt.Errorf("it does not say where snapshot %d is: %w", a.Dataset, ErrAgent)
	}
	ready = client.Asked{Request: client.Request{Type: client.ReqReady, Dataset: a.Dataset}, Text: []string{"", s.group.Name}}
	if err == nil {
		tag, err = s.read(at.Text[0])
	}
	switch {
	case err == nil:
		ready.Valid = 1
	case errors.Is(err, ErrDiffer):
		ready.Text[0] = err.Error()
	case ctx.Err() != nil || errors.Is(err, errMake):
		return 0, ready, err
	}
	return tag, ready, nil // what could not be read is said, and an older one offered
}

// placed takes in where the next snapshot is to be put.
func (s *Snapshots) placed(a client.Answered) error {
	if len(a.Text) == 0 || a.Text[0] == "" {
		return fmt.Errorf("it does not say where the next snapshot is to be: %w", ErrAgent)
	}
	s.run.Store(a.Run)
	s.next, s.phase = a.Dataset, computing
	s.dir = filepath.Join(a.Text[0], fmt.Sprintf("rank-%05d.files", s.group.Member))
	return nil
}

// come begins a call, which ends by unlocking use; it is wrong in other phases than these.
func (s *Snapshots) come(call, found string, in ...phase) error {
	if !s.use.TryLock() {
		return s.wrap(call, fmt.Errorf("found another call at the same time: %w", ErrUse))
	}
	if s.phase == ended && !slices.Contains(in, ended) {
		s.use.Unlock()
		return s.wrap(call, fmt.Errorf("found that a member has died, wanted Restore: %w", ErrPeer))
	}
	if !slices.Contains(in, s.phase) {
		s.use.Unlock()
		return s.wrap(call, fmt.Errorf("%s: %w", found, ErrUse))
	}
	return nil
}

// handBack waits until nothing is copied any more.
func (s *Snapshots) handBack() {
	if s.copied != nil {
		<-s.copied
		s.copied = nil
	}
}

// take waits until what was handed over is copied: there is no room for it, if it could not be.
func (s *Snapshots) take(ctx context.Context) error {
	if s.copied == nil {
		return nil
	}
	select {
	case s.missed = <-s.copied:
		s.room = s.room && s.missed == nil
		s.copied = nil
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Start copies the regions, which may be written to then, but for those that are handed over. The tag is the program's, equal on all members: a step, say. It waits for nobody.
func (s *Snapshots) Start(tag uint64) error {
	if err := s.come("start", "found a snapshot that is not committed, or an end", computing); err != nil {
		return err
	}
	defer s.use.Unlock()
	err := s.write(tag)
	s.phase, s.tag, s.room, s.missed = started, tag, err == nil, nil
	if err != nil {
		return s.wrap("start", err)
	}
	return nil
}

// Commit makes what was started the snapshot to restore: when all members have called it. All hear the same. When ctx ends, it goes on, and is
// called again.
func (s *Snapshots) Commit(ctx context.Context) error {
	if err := s.come("commit", "found nothing that was started", started, committing); err != nil {
		return err
	}
	defer s.use.Unlock()
	if err := s.take(ctx); err != nil {
		return s.wrap("commit", err)
	}
	s.phase = committing
	ask := client.Asked{Request: client.Request{Type: client.ReqCommit, Dataset: s.next}, Text: []string{strconv.FormatUint(s.tag, 10), s.group.Name}}
	for _, r := range s.regions {
		ask.Bytes += uint64(len(r.Bytes))
	}
	if s.room {
		ask.Valid = 1
	}
	err := s.committed(ctx, ask)
	if err != nil && s.missed != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w; here %w", err, s.missed)
	}
	if err != nil {
		return s.wrap("commit", err)
	}
	return nil
}

// committed asks for a commit, and takes in what became of it.
func (s *Snapshots) committed(ctx context.Context, ask client.Asked) error {
	a, err := s.ask(ctx, ask)
	if errors.Is(err, ErrDiffer) {
		s.phase = computing // it may be started again
	}
	if err == nil {
		err = s.placed(a)
	}
	if err == nil && a.Valid != 1 {
		why := "the agent does not say why"
		if len(a.Text) > 1 {
			why = a.Text[1]
		}
		err = fmt.Errorf("%s: %w", why, ErrFailed)
	}
	return err
}

// Finish ends: all members call it. Without keep the snapshots are removed; else the newest is copied to the job's store, and a later run goes on
// from it.
func (s *Snapshots) Finish(ctx context.Context, keep bool) error {
	if err := s.come("finish", "found a snapshot that is not committed, or an end", computing, leaving); err != nil {
		return err
	}
	defer s.use.Unlock()
	s.phase = leaving
	ask := client.Asked{Request: client.Request{Type: client.ReqLeave}, Text: []string{"", s.group.Name}}
	if keep {
		ask.Valid = 1
	}
	if _, err := s.ask(ctx, ask); err != nil {
		if ctx.Err() == nil && !errors.Is(err, ErrPeer) {
			s.phase = over
			s.unname()
		}
		return s.wrap("finish", err)
	}
	s.phase = over
	s.unname()
	s.watch.close()
	return nil
}

// Epoch numbers the time from one beginning, or restoring, of all members to the next: the same on all of them, and higher each time, also when
// the job is started again.
func (s *Snapshots) Epoch() uint64 { return s.run.Load() }

// ask asks the agent as this member, and waits for the answer.
func (s *Snapshots) ask(ctx context.Context, a client.Asked) (client.Answered, error) {
	a.Rank = uint32(s.group.Member)
	return s.tell(ctx, a)
}

// tell is ask of what belongs to any member.
func (s *Snapshots) tell(ctx context.Context, a client.Asked) (client.Answered, error) {
	a.NRanks, a.Run = uint32(s.group.Members), s.run.Load()
	path := os.Getenv(agentVariable)
	if path == "" {
		return client.Answered{}, fmt.Errorf("%s is not set: this needs `byssus run`: %w", agentVariable, ErrAgent)
	}
	answer, err := s.talk.ask(ctx, path, a)
	if err == nil {
		err = refusal(answer)
	}
	if errors.Is(err, ErrPeer) {
		s.phase = ended
	}
	return answer, err
}

// agentVariable names the socket at which programs find their agent.
const agentVariable = "BYSSUS_CLIENTS"

// refusal is why an answer refuses; nil: it does not.
func refusal(answer client.Answered) error {
	if answer.Refused == 0 {
		return nil
	}
	kind, why := ErrAgent, "it does not say why"
	if len(answer.Text) > 0 {
		why = answer.Text[0]
	}
	switch {
	case answer.Flags&client.FlagPeer != 0:
		kind = ErrPeer
	case answer.Flags&client.FlagLost != 0:
		kind = ErrLost
	case answer.Flags&client.FlagDiffer != 0:
		kind = ErrDiffer
	case answer.Flags&client.FlagUse != 0:
		kind = ErrUse
	case answer.Flags&client.FlagRoom != 0:
		kind = ErrRoom
	}
	return fmt.Errorf("%s: %w", why, kind)
}
