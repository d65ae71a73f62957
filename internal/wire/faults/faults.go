// Package faults is the one table of named crash points, shared by the Go programs and the rank core.
//
// BYSSUS_FAULT=name[:n][@rank] makes the process that reaches the point for the n-th time (1 when not given) end by
// SIGKILL there (some do not end it, see below); @rank limits a rank's point to that rank (every rank when not given);
// @node, a name, means the agent of that node instead of byssus run. Points are compiled in: they cost one comparison of a
// pointer that is nil without the variable. A test iterates over All.
//
// To add a point: a line in All, `go generate ./internal/wire/abi` (the C side gets ABI_FAULT_<NAME>), and the call.
package faults

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Side says which program has the point.
type Side string

// The programs.
const (
	Rank  Side = "rank"  // byssus-rank, C
	Coord Side = "coord" // byssus run, or an agent
	Agent Side = "agent" // an agent that has a cache
)

// Point is a named crash point.
type Point struct {
	Name    string
	Side    Side
	Restart bool // reached only when a rank continues an image
	Doc     string
}

// The points that end nothing: an allocation fails, and with it a checkpoint.
const (
	Memory = "rank-memory"
	Drain  = "rank-drain"
)

// The points that stop a rank, by SIGSTOP, at a moment that chance seldom brings: where it learns whether all have drained their
// messages, and between a collective and the wait in front of it.
const (
	Outcome = "rank-outcome"
	Arrived = "rank-arrived"
)

// The points of the Go side.
const (
	CommitSynced   = "commit-synced"
	CommitManifest = "commit-manifest"
	CommitRenamed  = "commit-renamed"
	DrainSent      = "drain-sent"
	RetentionDrop  = "retention-drop"
	EncodeBegun    = "encode-begun"
	EncodeDone     = "encode-done"
	RebuildBegun   = "rebuild-begun"
	RebuildDone    = "rebuild-done"
	FlushBegun     = "flush-begun"
	FlushDone      = "flush-done"
	NodeClocks     = "node-clocks"
	NodeDrain      = "node-drain"
	NodeImage      = "node-image"
	NodeRestored   = "node-restored"
	WrittenOpen    = "written-open"
	WrittenSaid    = "written-said"
	WrittenSealed  = "written-sealed"
	WrittenCounts  = "written-counts"
	WrittenFlushed = "written-flushed"
)

// All is the table.
var All = []Point{
	{"rank-requested", Rank, false, "a checkpoint has been asked for, nothing is answered yet"},
	{"rank-stopped", Rank, false, "threads stand still, STOPPED is not sent yet"},
	{"rank-drained", Rank, false, "the MPI is at rest, nothing is written yet"},
	{"rank-chunk", Rank, false, "after a chunk of memory has been written"},
	{"rank-tables", Rank, false, "data and tables are written, the header is not"},
	{"rank-header", Rank, false, "the image is complete, IMAGE is not sent yet"},
	{"rank-image", Rank, false, "IMAGE is sent, the application has not gone on"},
	{"rank-resumed", Rank, false, "the application goes on after a checkpoint"},
	{"rank-mapped", Rank, true, "memory is back, threads are not"},
	{"rank-rebuilt", Rank, true, "the MPI is built anew, RESTORED is not sent yet"},
	{"rank-restored", Rank, true, "RESTORED is sent, the application has not gone on"},
	{Memory, Rank, false, "memory for a checkpoint: it is not there, and the checkpoint fails"},
	{Drain, Rank, false, "memory for a message that is drained: it is not there, and the checkpoint fails on all ranks"},
	{Outcome, Rank, false, "messages are drained, it is not known yet whether all have done so: stopped until it is continued"},
	{Arrived, Rank, false, "all have come to a collective: a communicator's last rank is stopped in front of it, and goes on when its clocks are asked for; the others do not see it before a stop"},
	{DrainSent, Coord, false, "the order to write is out"},
	{CommitSynced, Coord, false, "images are complete, the manifest is not written"},
	{CommitManifest, Coord, false, "the manifest is written, the directory not renamed"},
	{CommitRenamed, Coord, false, "the checkpoint is committed, older ones not dropped"},
	{RetentionDrop, Coord, false, "an older checkpoint is half dropped"},
	{EncodeBegun, Agent, false, "other nodes wait for this one's share of their redundancy"},
	{EncodeDone, Agent, false, "the redundancy is made, the coordinator does not know it"},
	{RebuildBegun, Agent, true, "who takes the place of a lost node, or gives to it, has been told so"},
	{RebuildDone, Agent, true, "what was lost is made again, it does not count yet"},
	{FlushBegun, Agent, false, "a copy for the store has been ordered"},
	{FlushDone, Agent, false, "the node's share of a copy is in the store, the coordinator does not know it"},
	{NodeClocks, Agent, false, "ranks of the node have told their clocks, the coordinator does not know them"},
	{NodeDrain, Agent, false, "the node's ranks have been told to write"},
	{NodeImage, Agent, false, "images of the node's ranks are written, the coordinator does not know it"},
	{NodeRestored, Agent, true, "ranks of the node are back, the coordinator does not know it"},
	{WrittenOpen, Coord, false, "a program begins a dataset of its own, the place for it is not made"},
	{WrittenSaid, Agent, false, "a rank has written its part of such a dataset, the coordinator does not know it"},
	{WrittenSealed, Agent, false, "the node's parts of it are sealed, the coordinator does not know it"},
	{WrittenCounts, Coord, false, "it is stored, nobody knows that it counts"},
	{WrittenFlushed, Coord, false, "it is in the prefix, nobody knows that"},
}

// Set is an armed crash point; nil: none.
type Set struct {
	name string
	left atomic.Int64
}

// Parse reads a value of BYSSUS_FAULT and arms its point when it is one of the Go side, for the agent of a node, or for byssus
// run (no node). The empty value arms nothing.
func Parse(value, node string) (*Set, error) {
	if value == "" {
		return nil, nil
	}
	name, where, _ := strings.Cut(value, "@")
	name, count, counted := strings.Cut(name, ":")
	n := int64(1)
	if counted {
		var err error
		if n, err = strconv.ParseInt(count, 10, 32); err != nil || n < 1 {
			return nil, fmt.Errorf("faults: parse %q: count %q, want a number from 1", value, count)
		}
	}
	p, ok := find(name)
	if !ok {
		return nil, fmt.Errorf("faults: parse %q: no such point", value)
	}
	if p.Side == Rank || where != node {
		return nil, nil
	}
	s := &Set{name: name}
	s.left.Store(n)
	return s, nil
}

// ForRanks returns the value that ranks of this start should see: each rank point is armed once, so that the
// restart that follows its crash goes through. start counts the starts of the job's ranks from 0.
func ForRanks(value string, start int, restart bool, restartsBefore int) string {
	name, _, _ := strings.Cut(value, "@")
	name, _, _ = strings.Cut(name, ":")
	p, ok := find(name)
	switch {
	case !ok || p.Side != Rank:
		return ""
	case p.Restart && restart && restartsBefore == 0:
		return value
	case !p.Restart && start == 0:
		return value
	}
	return ""
}

// Hit ends the process when the point is armed and has been reached often enough.
func (s *Set) Hit(name string) {
	if s == nil || s.name != name || s.left.Add(-1) != 0 {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func find(name string) (Point, bool) {
	for _, p := range All {
		if p.Name == name {
			return p, true
		}
	}
	return Point{}, false
}
