package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// broker passes descriptors of objects from rank to rank at a restart, and holds the barriers (meetings) of a restart. A request is
// answered when some rank has given the object, a meeting when the coordinator says that the ranks of all nodes have come; one that waits for a
// rank that is gone waits until its own end, which the coordinator sees to. Objects are kept until they are filled, and nothing beyond
// the last meeting.
type broker struct {
	cfg *Config
	say func(node.Report) // to the coordinator; it does not wait

	mu     sync.Mutex
	given  map[object]*os.File
	wanted map[object][]*session
	here   map[uint64][]*session // by the number of the meeting
	claims map[claimed][]claim
}

// name is an object as the kernel tells them apart, on one node at one time.
type name struct{ dev, inode uint64 }

// object is an object as it was at the checkpoint: on the owner's node, where all were that had it. The others that are here now may
// have been on another, on which the same name was another object's.
type object struct {
	owner uint32
	name
}

// claimed is what a rank says that it has opened again by its name, as it is now. Memory that is open as a file, too, is claimed as both.
type claimed struct {
	name
	memory bool
}

// claim is what a file, or memory with a name, was at the checkpoint.
type claim struct {
	was    origin
	rank   int
	writes bool
}

// origin tells whether two ranks mean the same object.
type origin struct {
	owner      uint32
	was, birth uint64
}

// hand performs what a rank asks of the broker.
func (b *broker) hand(ses *session, m abi.Message, file *os.File) error {
	var h abi.Hand
	if _, err := abi.Decode(m.Body, &h); err != nil {
		return errors.Join(err, closeFile(file))
	}
	n := object{h.Owner, name{h.Dev, h.Inode}}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case h.What == abi.HandGive && file != nil && b.given[n] == nil:
		if b.given == nil {
			b.given = map[object]*os.File{}
		}
		b.given[n] = file
		h.What = abi.HandWant
		for _, to := range b.wanted[n] {
			to.handed(h, file)
		}
		delete(b.wanted, n)
		return nil
	case h.What == abi.HandWant && file == nil && !slices.Contains(b.cfg.Ranks, int(h.Owner)):
		b.say(node.Failed{Rank: ses.rank, Text: fmt.Sprintf("it shares something without a name with rank %d, which is on another node: "+
			"ranks that do must be on one", h.Owner)})
		return nil
	case h.What == abi.HandWant && file == nil:
		if f := b.given[n]; f != nil {
			ses.handed(h, f)
			return nil
		}
		if b.wanted == nil {
			b.wanted = map[object][]*session{}
		}
		b.wanted[n] = append(b.wanted[n], ses)
		return nil
	case h.What == abi.HandHere && file == nil:
		if b.here == nil {
			b.here = map[uint64][]*session{}
		}
		if b.here[h.Dev] = append(b.here[h.Dev], ses); len(b.here[h.Dev]) == len(b.cfg.Ranks) {
			b.cfg.Here(h.Dev)
		}
		return nil
	}
	return errors.Join(fmt.Errorf("agent: rank %d: hand %d of object %d:%d, file %v: cannot be", ses.rank, h.What, h.Dev, h.Inode, file != nil), closeFile(file))
}

// claim notes what a rank has opened again by its name. Where the ranks of several nodes come together on one, two of them may mean
// two objects by one name; where those of one node come apart, memory that they share would become two. Neither can be: such a rank
// fails, and waits for its end.
//
//	at the checkpoint   rank 0 on node1 writes /tmp/log (inode 7)    rank 1 on node2 writes /tmp/log (inode 9)
//	at the restart      both on node3; rank 0 opens /tmp/log: it was 7
//	                    rank 1 opens /tmp/log, the same file: it was 9, and both write: rank 1 fails, and says so
func (b *broker) claim(ses *session, m abi.Message) error {
	var c abi.Claim
	path, err := abi.Decode(m.Body, &c)
	if err != nil {
		return err
	}
	memory := c.Flags&abi.ClaimMemory != 0
	mine := claim{origin{c.Owner, c.Was, c.Birth}, ses.rank, c.Flags&abi.ClaimWrites != 0}
	at := claimed{name{c.Dev, c.Inode}, memory}
	b.mu.Lock()
	defer b.mu.Unlock()
	if memory && !slices.Contains(b.cfg.Ranks, int(c.Owner)) {
		b.say(node.Failed{Rank: ses.rank, Text: fmt.Sprintf("it shares the memory %s with rank %d, which is on another node: ranks that do must be on one",
			path, c.Owner)})
		return nil
	}
	for _, other := range b.claims[at] {
		if other.was != mine.was && (other.writes || mine.writes) {
			b.say(node.Failed{Rank: ses.rank, Text: fmt.Sprintf("its %s is not that which rank %d has under this name: "+
				"they were on two nodes, and need two again", path, other.rank)})
			return nil
		}
	}
	if b.claims == nil {
		b.claims = map[claimed][]claim{}
	}
	if !slices.Contains(b.claims[at], mine) {
		b.claims[at] = append(b.claims[at], mine)
	}
	ses.handed(abi.Hand{What: abi.HandClaimed, Dev: c.Dev, Inode: c.Inode}, nil)
	return nil
}

// met lets the ranks go on from a meeting to which all have come.
func (b *broker) met(meeting uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, to := range b.here[meeting] {
		to.handed(abi.Hand{What: abi.HandHere, Dev: meeting}, nil)
	}
	delete(b.here, meeting)
	if meeting >= abi.MeetingFilled { // nobody wants anything any more
		b.closeFiles()
	}
	if meeting >= abi.MeetingRestored {
		b.here, b.claims = nil, nil
	}
}

func (b *broker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closeFiles()
}

func (b *broker) closeFiles() {
	for _, f := range b.given {
		f.Close()
	}
	b.given, b.wanted = nil, nil
}

// handed answers a rank.
func (s *session) handed(h abi.Hand, file *os.File) {
	body := abi.Encode(h, "")
	s.put(packet{abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgHanded, Rank: uint32(s.rank)}, Body: body}), file})
}

// send writes a message. A file that has been closed meanwhile is one that nobody waits for any more.
func (p packet) send(c *net.UnixConn) error {
	if p.file == nil {
		_, err := c.Write(p.bytes)
		return err
	}
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) {
		_, _, sent = c.WriteMsgUnix(p.bytes, syscall.UnixRights(int(fd)), nil)
	})
	return errors.Join(err, sent)
}

// errMany is the error of a packet that is not as any of ours is.
var errMany = errors.New("agent: a message with more than one descriptor, or with one that this process has no room for")

// receive reads a packet and the descriptor that came with it, if any. There is room for one: of others the kernel makes nothing.
func receive(c *net.UnixConn, buf []byte) (int, *os.File, error) {
	oob := make([]byte, syscall.CmsgLen(4))
	n, k, flags, _, err := c.ReadMsgUnix(buf, oob)
	if err != nil {
		return n, nil, err
	}
	file, err := cameWith(oob[:k])
	if err == nil && flags&syscall.MSG_CTRUNC != 0 {
		return n, nil, errors.Join(errMany, closeFile(file))
	}
	return n, file, err
}

// cameWith is the file that came with a packet, if any.
func cameWith(oob []byte) (*os.File, error) {
	list, err := syscall.ParseSocketControlMessage(oob)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	fds, err := syscall.ParseUnixRights(&list[0])
	if err != nil || len(fds) == 0 {
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), "object"), nil
}

func closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}
