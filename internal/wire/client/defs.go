package client

// This file is the single definition of what programs and agents say to each other on an agent's client socket. gencheader reads it (it
// must therefore import nothing) and writes client/c/client_gen.h in the order of this file.
//
// To add a request: a Req constant at the end. To add a field: at the end, out of reserved space.

// Protocol constants.
const (
	Magic   = 0x43535942 // "BYSC" in memory
	Version = 1
	MaxText = 128 << 10 // bytes of a message behind its record
	MaxName = 1024      // bytes of a dataset's name, or of a path for a program, with the zero at its end
)

// Requests of a program. Rank 0 says for all ranks what is not said by each of them. docs/format/client.md says what goes with each.
const (
	ReqBegin   = 1  // of rank 0: a program begins
	ReqJoin    = 2  // of each rank: it runs on the node of this agent
	ReqOpen    = 3  // of rank 0: a dataset begins
	ReqWritten = 4  // of each rank: it has written its files, if valid; one rank may say it for others of its node
	ReqNewest  = 5  // of rank 0: the newest dataset to restart from
	ReqFetch   = 6  // of each rank: where its files of a dataset are
	ReqRead    = 7  // of rank 0: all ranks have read a dataset, if valid; else it is not offered again
	ReqNeed    = 8  // of rank 0: whether a checkpoint is due
	ReqExit    = 9  // of rank 0: whether the program should end
	ReqCurrent = 10 // of rank 0: the dataset of this name is the one to restart from
	ReqDrop    = 11 // of rank 0: the dataset of this name is forgotten; its files in the prefix stay
	ReqDelete  = 12 // of rank 0: the dataset of this name is removed with its files
	ReqConfig  = 13 // a setting is asked for
	ReqEnd     = 14 // of rank 0: the program is done; answered when what it has written counts, or cannot
	ReqEnter   = 15 // of each member: a group that makes snapshots begins; this and what follows is answered when all have said it, and has the group's name in its text
	ReqReady   = 16 // of each member: it has read a snapshot, if valid; the text says how its regions differ from the snapshot's
	ReqCommit  = 17 // of each member: its part of the next snapshot is in its place, if valid
	ReqLeave   = 18 // of each member: it makes no more; snapshots stay, if valid
	ReqState   = 19 // of each member: which members have died, when that is another version than it knows
	ReqSpare   = 20 // of a process that is no member: it waits for the place of one that has died
)

// Flags of datasets. CHECKPOINT and OUTPUT are SCR's.
const (
	FlagCheckpoint = 1    // the program can restart from it
	FlagOutput     = 2    // a result: it is copied to the prefix always
	FlagBypass     = 4    // its files are in the prefix themselves
	FlagMore       = 8    // the text goes on in the next message of this connection
	FlagAny        = 16   // of ReqEnter: a snapshot of another number of members is good as well
	FlagNext       = 32   // of ReqWritten: the same of another rank follows on this connection; one answer is to all
	FlagRestore    = 64   // of ReqEnter: with the newest snapshot; of its answer: there is one, to be read first
	FlagDiffer     = 128  // of an answer that refuses: since members, or a snapshot, differ
	FlagPeer       = 256  // of an answer that refuses: since a member has died; all begin again (ReqEnter)
	FlagLost       = 512  // of an answer that refuses: since more is lost than redundancy covers
	FlagUse        = 1024 // of an answer that refuses: since what was asked for cannot be
	FlagRoom       = 2048 // of an answer that refuses: since a node has no room
)

// Request is what a program says. A text follows: strings, each with a zero at its end.
type Request struct {
	Magic   uint32
	Version uint16
	Type    uint16
	Rank    uint32
	NRanks  uint32 `c:"nranks"`
	Run     uint64 // which of the programs that this job has seen; 0: it has not begun yet
	Dataset uint64
	Flags   uint32
	Valid   uint32
	NFiles  uint64 `c:"nfiles"`
	Bytes   uint64
	Length  uint32 // bytes of the text
	Pad     uint32
}

// Answer is what the agent says to each request, but for those with MORE or NEXT. A text follows: strings, each with a zero at its end; if it is
// refused, one that says why.
type Answer struct {
	Magic   uint32
	Version uint16
	Refused uint16 // 1: the text says why
	Flags   uint32
	Valid   uint32 // of ReqFetch: how many ranks the dataset has
	Run     uint64
	Dataset uint64
	Length  uint32 // bytes of the text
	Node    uint32 // of ReqJoin: the node, by a number; 0: each rank speaks for itself
}
