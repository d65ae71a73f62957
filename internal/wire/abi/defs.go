package abi

// This file is the single definition of the messages, the shared page and the image records. gencheader reads it
// (it must therefore import nothing) and writes rank/core/base/abi_gen.h in the order of this file.
//
// To add a message: a Msg constant at the end of its direction's block, its body as a struct, `go generate`.
// To add a field: at the end, out of reserved space; never between others, never with a different meaning.
// Names in C: type Foo becomes struct abi_foo, constant FooBar becomes ABI_FOO_BAR (MsgFoo: ABI_FOO), field FooBar
// becomes foo_bar; the tag `c:"name"` overrides, `c:",char"` makes an array of bytes a C string.

// Protocol constants.
const (
	Magic        = 0x53535942 // "BYSS" in memory
	Version      = 1
	MaxBody      = 256 << 10 // longest body of a message
	PageBytes    = 4096      // size of the shared page and of an image's header
	MaxChunk     = 1 << 20   // longest chunk of an image
	ImageVersion = 6
	HeaderCRCOff = 4092 // offset of header_crc in an image's header
)

// ImageMagic is the first eight bytes of an image file.
const ImageMagic = "BYSSIMG\n"

// Flags of a message's header.
const (
	FlagMore = 1 // the list goes on in the next message of this type
)

// Messages from a rank to its agent.
const (
	MsgHello    = 1  // Hello: first message on a connection
	MsgClocks   = 2  // u64 n, n x Clock: every live communicator of this rank; answers REQUEST
	MsgRaise    = 3  // Clock: the rank goes beyond the target of a communicator; sent before it enters
	MsgMet      = 4  // Met: all own clocks have reached the targets of that version
	MsgWaiting  = 5  // Waiting: not met, and standing still in an MPI call (where RUN: no longer)
	MsgStopped  = 6  // Stopped and text, one refusal a line
	MsgImage    = 7  // Image and text, the error when status is not 0
	MsgResumed  = 8  // Resumed
	MsgRestored = 9  // Restored
	MsgFailed   = 10 // text: the rank cannot start or restart, and ends next
	MsgInit     = 11 // text, the library's version: MPI_Init is done
	MsgFini     = 12 // text: MPI_Finalize is done
	MsgReason   = 13 // text: why this rank is about to end the job (an abort, a refused call)
	MsgObjects  = 14 // n x Object: what this rank has and others might have too; before STOPPED
	MsgHand     = 15 // Hand: at a restart, an object for other ranks, or a wish; its descriptor goes with it

	MsgFinalizing = 16 // the rank enters MPI_Finalize: it cannot be stopped any more
	MsgTerminate  = 17 // somebody has sent this rank a SIGTERM that would end it; it is held back
	MsgClaim      = 18 // Claim and text, the path: at a restart, a file, or memory with a name, that this rank has opened again
	MsgDamaged    = 19 // text: as FAILED, because an image is not as it was written
	MsgPlace      = 20 // a process below the one that the launcher has started begins the MPI: it is the rank from here on
	MsgRefused    = 21 // text: what this process is about to do cannot be; the job ends with EXIT_REFUSED. Also as the first message
)

// Messages from the agent to a rank.
const (
	MsgWelcome = 64 // Welcome: answers HELLO
	MsgRefuse  = 65 // text: the rank prints it and ends
	MsgRequest = 66 // a checkpoint is asked for
	MsgTargets = 67 // u64 version, u64 n, n x Clock: only what changed; the union counts
	MsgStop    = 68 // every clock of every rank has met: stop the threads
	MsgDrain   = 69 // Drain: every rank is stopped: drain, write the image, go on
	MsgResume  = 70 // after EXIT_AFTER: go on after all
	MsgCancel  = 71 // this attempt is given up: go on
	MsgExit    = 72 // end with EXIT_STOPPED, when the image under way is over
	MsgShared  = 73 // SharedHead, n x Share: what several ranks have; before DRAIN
	MsgHanded  = 74 // Hand: answers HAND; the descriptor goes with it
	MsgEnd     = 75 // the job ends without a checkpoint: SIGTERM has its effect, beginning with one that comes now
)

// Header opens every message.
type Header struct {
	Magic    uint32
	Version  uint16
	Type     uint16
	Rank     uint32
	Flags    uint32
	Epoch    uint64 // the attempt this belongs to; 0: none
	Length   uint32 // bytes of the body
	Reserved uint32
}

// Hello introduces a rank.
type Hello struct {
	PID        uint32
	NRanks     uint32 `c:"nranks"`
	ABIVersion uint32
	Restarted  uint32
	Checkpoint uint64    // the image it continues, when restarted
	App        [256]byte `c:",char"`
	Host       [64]byte  `c:",char"`
	Version    [64]byte  `c:",char"` // of Byssus
	Page       [256]byte `c:",char"` // path of the shared page it has mapped
	Start      uint64    // which start of the job's ranks it belongs to
	Input      uint64    // of rank 0, restarted: bytes of the job's standard input that it had read
	Below      uint32    // BELOW_*: whose process this is
	WantsInput uint32    // of rank 0, BELOW_RESTORED: its standard input was the job's
}

// What Hello.below says.
const (
	BelowNot      = 0 // the process that the launcher has started
	BelowStarted  = 1 // one that was started below it: it may become the rank (PLACE)
	BelowRestored = 2 // the same, and it is the rank: it goes on from an image
)

// Welcome answers Hello. With it comes the standard input of rank 0, when it says its first HELLO in a start.
type Welcome struct {
	Flags   uint64
	Writers uint32 // threads that write the image
	Here    uint32 // ranks of this node; 0: not said
}

// Clock is the number of the last collective on a communicator that all members must have started before the rank may be
// stopped: the last blocking one it has entered, or non-blocking one whose completion it has seen.
type Clock struct {
	Comm     uint64 // agreed at the communicator's creation, the same on every member
	Seq      uint64
	NMembers uint32 `c:"nmembers"`
	State    uint32
}

// Met is the body of MET.
type Met struct {
	Version uint64 // of the targets
	Where   uint32 // WHERE_*
	Pad     uint32
}

// Waiting is the body of WAITING.
type Waiting struct {
	Version uint64 // of the targets
	Where   uint32 // WHERE_*
	Pad     uint32
	Call    [32]byte `c:",char"` // the MPI call that the rank is inside of; empty: not known
}

// Stopped says that no thread of the application runs.
type Stopped struct {
	StopNS    uint64
	NThreads  uint32 `c:"nthreads"`
	NRefusals uint32 `c:"nrefusals"`
	NPassing  uint32 `c:"npassing"` // the last so many of them may be gone a moment later: child processes
	Pad       uint32
}

// Image says that a rank's image is written.
type Image struct {
	Status       uint32 // 0: complete
	NFiles       uint32 `c:"nfiles"`
	Bytes        uint64 // of all files
	LogicalBytes uint64 // of memory that they stand for
	StopNS       uint64
	DrainNS      uint64
	WriteNS      uint64
	TableCRC     uint64
}

// Resumed says that the application goes on.
type Resumed struct {
	StallNS uint64 // time for which it stood still
}

// Restored says, after a restart, that the application is about to go on.
type Restored struct {
	ReadNS    uint64
	RestoreNS uint64
	Bytes     uint64
}

// Flags of Drain.
const (
	DrainExitAfter = 1 // wait for EXIT or RESUME after IMAGE
)

// Drain orders the image.
type Drain struct {
	Flags      uint32
	Writers    uint32
	Dir        [1000]byte `c:",char"`
	Checkpoint uint64
	JobID      [16]byte
	Input      uint64 // of rank 0: bytes of the job's standard input that it has read
}

// Flags of Object and Share.
const (
	ObjectNameless   = 1    // has no name: its content is in the image
	ObjectMemory     = 2    // has a name, lies in memory (tmpfs) and is mapped: its content is in the image
	ObjectKernel     = 4    // pipe, socket, eventfd: cannot be shared with another process
	ObjectWrites     = 8    // open or mapped for writing
	ObjectEnd        = 16   // written at its end
	ObjectWhole      = 32   // the rank can save all of its content
	ObjectFront      = 256  // the rank can save its content up to the size that it tells
	ObjectInPlace    = 512  // a file that is open or mapped for reading and writing: its content is in the image
	ObjectUnfinished = 1024 // one whose writing the rank has begun since its image before: with ObjectInPlace
	ShareForeign     = 64   // other processes write to it
	ShareEveryone    = 128  // no rank can save all of it: each saves what it maps
)

// Object is something that a rank has open or mapped and that other processes might have too. A rank may report the same
// object several times: once for each open file, once for its mappings.
type Object struct {
	Dev   uint64
	Inode uint64
	Size  uint64 // of the file, or the end of what is mapped
	Flags uint32 // OBJECT_*
	FD    int32  `c:"fd"` // a descriptor of it, -1: it is only mapped
}

// Flags of SharedHead.
const (
	SharedHold = 1 // several ranks share something: wait for RESUME (or EXIT) after IMAGE
)

// SharedHead opens SHARED.
type SharedHead struct {
	Flags uint32
	Pad   uint32
}

// Share is an object that several ranks have, or that strangers write to.
type Share struct {
	Dev   uint64
	Inode uint64
	Size  uint64
	Flags uint32 // of all ranks together
	Owner uint32 // the rank that saves and restores it
}

// What Hand says.
const (
	HandGive = 1 // here is the object
	HandWant = 2 // which is answered when some rank has given it
	HandHere = 3 // the rank has come to the meeting with that number, which is answered when all have

	HandClaimed = 4 // answers CLAIM: it is this rank's
)

// The meetings of a restart, in their order. Ranks that share nothing come to the last one only.
const (
	MeetingCut      = 1 // files have their sizes: they may be opened
	MeetingFilled   = 2 // what ranks share has its content: it may be sealed, and the agent forgets it
	MeetingRestored = 3 // all that others can see of a rank is there again: all may go on
)

// Hand passes objects from rank to rank at a restart.
type Hand struct {
	What  uint32
	Owner uint32 // WANT: the rank that gives it
	Dev   uint64 // as they were at the checkpoint; HERE: the number of the meeting; CLAIMED: those of CLAIM
	Inode uint64
}

// Flags of Claim.
const (
	ClaimMemory = 1 // it is memory, whose content comes back; else a file
	ClaimWrites = 2 // this rank changes it
)

// Claim says what a file, or memory with a name, as it is found at a restart, was at the checkpoint.
type Claim struct {
	Dev   uint64 // as they are now
	Inode uint64
	Was   uint64 // of a file its inode, or a hash of machine, device and inode; of memory the mappings' inode_key
	Birth uint64 // of a file when it was made, in nanoseconds, 0: not known; else 0
	Owner uint32 // of memory the rank that brings its content back; else 0
	Flags uint32
}

// What a rank is doing (Page.phase).
const (
	PhaseStart     = 0
	PhaseRun       = 1
	PhasePending   = 2
	PhaseStopping  = 3
	PhaseDraining  = 4
	PhaseWriting   = 5
	PhaseReading   = 6
	PhaseRestoring = 7
	PhaseEnded     = 8 // the application ends by itself; exit_code is valid
)

// Where a rank's MPI thread is (Page.where, Met.where, Waiting.where).
const (
	WhereRun        = 0
	WhereCollective = 1
	WhereP2P        = 2 // waits in point-to-point
	WhereParked     = 3 // holds before a collective
	WhereInit       = 4
)

// Page is shared by a rank (writes) and its agent (reads), without locks: each word is valid by itself.
type Page struct {
	Magic         uint32
	Version       uint32
	PID           uint32
	Rank          uint32
	Phase         uint64
	PhaseSinceNS  uint64 // CLOCK_MONOTONIC
	BytesDone     uint64 // of the image now written or read
	BytesTotal    uint64
	Checkpoints   uint64
	Where         uint64
	Traps         uint64
	ResidentAdded uint64
	ExitCode      uint64 // with PHASE_ENDED: what the application gave to exit_group, or MPI_Abort's code
	Claimed       uint64 // the process that has begun the MPI in this place, the rank for good; 0: none yet
	Reserved      [4000]byte
}

// Exit codes of byssus-rank.
const (
	ExitStopped  = 123 // ended on request after a checkpoint
	ExitInternal = 124 // start or restart failed
	ExitRefused  = 125 // the application cannot be run
	ExitNotExec  = 126 // found, and not executable
	ExitNotFound = 127
)

// Index into ImageHeader.cpuid.
const (
	CPUID1ECX  = 0 // leaf 1
	CPUID1EDX  = 1
	CPUID7EBX  = 2 // leaf 7, subleaf 0
	CPUID7ECX  = 3
	CPUID7EDX  = 4
	CPUID71EAX = 5 // leaf 7, subleaf 1
	CPUIDD1EAX = 6 // leaf 0xd, subleaf 1
	CPUIDX1ECX = 7 // leaf 0x80000001
	CPUIDX1EDX = 8
	NCPUID     = 16
)

// ImageHeader is page 0 of an image file. It is written last: a file without a valid header is incomplete.
type ImageHeader struct {
	Magic         [8]byte `c:",char"`
	Version       uint32
	HeaderSize    uint32
	Compat        uint64 // features that a reader may ignore
	Incompat      uint64 // features that a reader must know
	Rank          uint32
	NRanks        uint32 `c:"nranks"`
	Part          uint32
	NParts        uint32 `c:"nparts"`
	JobID         [16]byte
	Checkpoint    uint64
	CreatedUnixNS uint64
	PageSize      uint32
	ChunkSize     uint32
	HWCap         uint64 `c:"hwcap"`
	HWCap2        uint64 `c:"hwcap2"`
	XCR0          uint64 `c:"xcr0"`
	CPUID         [16]uint32
	Kernel        [64]byte  `c:",char"`
	Libc          [32]byte  `c:",char"`
	Byssus        [32]byte  `c:",char"`
	MPI           [128]byte `c:",char"`
	App           [256]byte `c:",char"`
	SectionsOff   uint64
	SectionsLen   uint64
	NSections     uint64
	VMAsOff       uint64 `c:"vmas_off"`
	NVMAs         uint64 `c:"n_vmas"`
	ChunksOff     uint64
	NChunks       uint64
	DataOff       uint64
	DataLen       uint64
	FileSize      uint64
	TablesCRC     uint32 // crc32c of the vma table followed by the chunk table
	Pad           uint32
	XsaveSize     uint32 // bytes of a signal frame's extended state; 0: none
	XsavePad      uint32
	XsaveLayout   [64]uint32 // offset and size of component i of XCR0 in it, at 2 i and 2 i + 1
	Start         uint64     // which start of the job's ranks wrote it; 0: not told
	Input         uint64     // of rank 0: bytes of the job's standard input that it has read
	Below         uint64     // of a rank below the launcher's process: a hash of its file and arguments; 0: it is that process
	BelowNth      uint32     // the how-manieth process of its place that was started with these, from 0
	BelowInput    uint32     // 1: its standard input was the job's
	Zero          [3020]byte
	HeaderCRC     uint32 // crc32c of the first 4092 bytes
}

// Kinds of VMA.
const (
	VMAAnon        = 1
	VMAFilePrivate = 2
	VMAAnonShared  = 3
	VMAFileShared  = 4
	VMAStack       = 5
	VMABrk         = 6
	VMAContent     = 7 // no mapping: the content of a file that is read and written in place
)

// ContentLo is where the addresses of chunks begin that are places in the content of files, behind all memory.
const ContentLo = 0x500000000000

// Features that a reader must know.
const (
	FeatureContent = 1 // entries of the kind VMA_CONTENT
)

// VMA is one mapping of the application (part 0 only).
type VMA struct {
	Start      uint64
	End        uint64
	Prot       uint32
	Flags      uint32
	FileOffset uint64
	InodeKey   uint64 // equal for mappings of the same shared object
	Kind       uint32 // VMA_*
	Name       uint32 // offset into the STRINGS section
	VMFlags    uint64 `c:"vmflags"` // transparent huge pages, dontfork, ...
}

// Chunk is a run of saved memory.
type Chunk struct {
	Addr   uint64
	Offset uint64 // in the file, a multiple of the page size
	Length uint32
	CRC32C uint32 `c:"crc32c"`
}

// Types of section.
const (
	SecProcess    = 1 // cwd, umask, rlimits, brk, timers, dispositions, pending signals
	SecThreads    = 2
	SecFds        = 3
	SecFDContent  = 4 // bytes in pipes, deleted files
	SecStrings    = 5
	SecAllocator  = 6
	SecLibs       = 7
	SecClient     = 8  // what the MPI half asks to be kept
	SecAttributes = 12 // of threads and process: affinity, priorities, personality, ...
	SecMemory     = 13 // guard pages, NUMA policies, locks of memory that is to come
	SecShared     = 19 // what ranks share
	SecEnd        = 20 // one more than the highest type; goes up with each new one

	SecMayIgnore = 1 << 31 // in a type: a reader that does not know it goes on without it; all others it refuses
)

// Section opens a section (part 0 only); its bytes follow, padded to a multiple of 8.
type Section struct {
	Type   uint32
	CRC32C uint32 `c:"crc32c"` // of type, length, the bytes and their padding
	Length uint64
}

// Limits of an image file, which its writer keeps and its readers ask for before they make memory.
const (
	MaxParts = 1024
	MaxTable = 64 << 30 // bytes of all sections together, and of the VMA and chunk tables together
)
