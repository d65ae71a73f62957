package agent

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/act/mover"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/recovery"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/own"
	"github.com/byssus-hpc/byssus/internal/store/parity"
	"github.com/byssus-hpc/byssus/internal/store/part"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
)

// ParityName is the name of the file that a member of a set keeps for the others.
func ParityName(h *holding.Header) string { return fmt.Sprintf("parity.%d.%d", h.Set, h.Own) }

// rebuildAndSay does this node's share in making a lost member again.
func (n *Node) rebuildAndSay(ctx context.Context, o control.Rebuild) {
	n.cfg.Faults.Hit(faults.RebuildBegun)
	if o.Lost < 0 || o.Lost >= len(o.Header.Members) {
		n.answer(o.Order, fmt.Errorf("agent: rebuilding of checkpoint %d: member %d of %d", o.Checkpoint, o.Lost, len(o.Header.Members)))
		return
	}
	if o.Header.Own != o.Lost {
		n.answer(o.Order, n.give(ctx, o))
		return
	}
	part, err := n.become(ctx, o)
	n.cfg.Faults.Hit(faults.RebuildDone)
	n.sealed(0, o.Order, part, err)
}

// give sends what this node has to who becomes the lost member.
func (n *cache) give(ctx context.Context, o control.Rebuild) error {
	m, err := openMember(n.of(o.Header.Stream).Path(o.Checkpoint), o.Header)
	if err != nil {
		return err
	}
	defer m.close()
	at := mover.Places{}
	if at.Read[redset.Part], err = m.part(part.ToRead, o.Header.Own); err != nil {
		return err
	}
	if at.Read[redset.Redundancy], _, err = m.redundancy(part.ToRead); err != nil {
		return err
	}
	if _, err := mover.Run(ctx, n.cfg.Port, o.Transfer, m.layout.Rebuild(o.Lost, o.Header.Own, o.Gone), at); err != nil {
		return fmt.Errorf("agent: rebuilding of checkpoint %d: %w", o.Checkpoint, err)
	}
	return nil
}

// become makes the part and the redundancy of a lost member again, for the record to make them count.
func (n *cache) become(ctx context.Context, o control.Rebuild) (*dataset.Part, error) {
	store := n.of(o.Header.Stream)
	dir, err := store.RecreateTemp(o.Checkpoint)
	if err != nil {
		return nil, err
	}
	m, err := openMember(dir, o.Header)
	if err != nil {
		return nil, err
	}
	defer m.close()
	at := mover.Places{}
	if at.Write[redset.Part], err = m.part(part.ToMake, o.Lost); err != nil {
		return nil, err
	}
	if at.Write[redset.Redundancy], err = m.make(); err != nil {
		return nil, err
	}
	if _, err := mover.Run(ctx, n.cfg.Port, o.Transfer, m.layout.Rebuild(o.Lost, o.Lost, o.Gone), at); err != nil {
		return nil, fmt.Errorf("agent: rebuilding of checkpoint %d: %w", o.Checkpoint, err)
	}
	if err := m.finish(store.Meta.Fsync); err != nil {
		return nil, err
	}
	own := &dataset.Part{Files: o.Header.Members[o.Lost].Files}
	if err := store.CheckPart(o.Checkpoint, own); err != nil {
		return nil, fmt.Errorf("agent: rebuilding of checkpoint %d: %w", o.Checkpoint, err)
	}
	if err := m.unread(ctx); err != nil {
		return nil, fmt.Errorf("agent: rebuilding of checkpoint %d: %w", o.Checkpoint, err)
	}
	return own, store.SyncPart(o.Checkpoint, own)
}

// unread looks through what was made again that no rank reads before it is used: those who have given may have damage that nobody has seen.
// Images are compared with their checksums by the ranks that go on from them.
func (m *member) unread(ctx context.Context) error {
	made := append(slices.Clone(m.header.Members[m.header.Own].Files), copied(&m.header)...)
	made = slices.DeleteFunc(made, func(f holding.File) bool { return f.Kind == holding.Image })
	return intact(ctx, m.dir, made, func(int64) {})
}

// member are the open files of a member in a directory.
type member struct {
	dir    string
	header holding.Header
	layout redset.Layout
	parts  []part.Opened
	kept   *os.File // the file with redundancy
	made   *parity.Writer
	reuse  func(name string) bool // puts a file in the directory that may be written over; nil: there is none
}

func openMember(dir string, h holding.Header) (*member, error) {
	layout, err := h.Check() // it came in a message
	if err == nil {
		err = own.Dir(dir)
	}
	if err != nil {
		return nil, err
	}
	return &member{dir: dir, header: h, layout: layout}, nil
}

func (m *member) close() {
	for i := range m.parts {
		m.parts[i].Close()
	}
	if m.kept != nil {
		m.kept.Close()
	}
}

// part is that of a member: its own; or with copies those of others, one behind the other.
func (m *member) part(how part.How, of ...int) (*parity.Part, error) {
	var bodies []parity.Body
	all := holding.Member{Node: m.header.Members[m.header.Own].Node}
	for _, i := range of {
		all.Files = append(all.Files, m.header.Members[i].Files...)
		err := part.Split(m.header.Members[i].Files, func(k part.Kind, files []holding.File) error {
			opened, err := k.Open(m.dir, files, how, m.reuse)
			if err != nil {
				return fmt.Errorf("agent: %w", err)
			}
			m.parts = append(m.parts, opened)
			for _, b := range opened.Bodies {
				bodies = append(bodies, b)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return parity.NewPart(all, bodies)
}

// open opens the file with redundancy.
func (m *member) open(flags int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(m.dir, ParityName(&m.header)), flags|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	m.kept = f
	return f, nil
}

// resize cuts a file that was longer, when it was another; one that is new is as long at once as it will be.
func resize(f *os.File, size int64, fresh bool) error {
	st, err := f.Stat()
	if err == nil && (st.Size() > size || fresh) {
		err = f.Truncate(size)
	}
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

// copiedOf are the members of whose parts a member has copies, in the order in which these lie; none: it has a parity.
func copiedOf(h *holding.Header) []int { return h.Scheme.Copied(h.Own, len(h.Members)) }

// copied are the files of these copies.
func copied(h *holding.Header) []holding.File {
	var list []holding.File
	for _, i := range copiedOf(h) {
		list = append(list, h.Members[i].Files...)
	}
	return list
}

// make begins what is kept for others.
func (m *member) make() (io.WriterAt, error) {
	fresh := m.reuse == nil || !m.reuse(ParityName(&m.header))
	flags := os.O_RDWR
	if fresh {
		flags |= os.O_CREATE | os.O_EXCL
	}
	f, err := m.open(flags)
	if err != nil {
		return nil, err
	}
	var to parity.Target = f
	if fresh {
		to = part.Sparse{File: f}
	}
	if m.made, err = parity.Create(to, m.header); err != nil {
		return nil, err
	}
	if err := resize(f, m.made.Size(), fresh); err != nil {
		return nil, err
	}
	if of := copiedOf(&m.header); len(of) > 0 {
		return m.part(part.ToMake, of...)
	}
	return m.made, nil
}

// redundancy is what is kept for others, and where it is written over.
func (m *member) redundancy(how part.How) (io.ReaderAt, io.WriterAt, error) {
	if of := copiedOf(&m.header); len(of) > 0 {
		p, err := m.part(how, of...)
		return p, p, err
	}
	flags := os.O_RDONLY
	if how == part.ToWrite {
		flags = os.O_RDWR
	}
	f, err := m.open(flags)
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("agent: %w", err)
	}
	kept, err := parity.Open(f, st.Size())
	if err != nil {
		return nil, nil, err
	}
	return kept, kept.Over(f), nil
}

// repaired completes files that were written over.
func (m *member) repaired(durable bool) error {
	for _, p := range m.parts {
		if err := p.Finish(durable); err != nil {
			return fmt.Errorf("agent: %w", err)
		}
	}
	if durable && m.kept != nil {
		if err := m.kept.Sync(); err != nil {
			return fmt.Errorf("agent: %w", err)
		}
	}
	return nil
}

// finish completes what was made, with files as durable as the job wants them.
func (m *member) finish(durable bool) error {
	if err := m.repaired(durable); err != nil {
		return err
	}
	return m.made.Finish()
}

// Held lists what is in the cache, of all streams, and says what cannot be used.
func (n *cache) Held() (list []recovery.Held, damaged []string) {
	streams, err := n.store.Streams()
	if err != nil {
		return nil, []string{err.Error()}
	}
	for _, s := range streams {
		store := n.of(s)
		all, err := store.List()
		if err != nil {
			damaged = append(damaged, err.Error())
		}
		for _, c := range all {
			h, err := heldIn(store.Path(c), s, n.cfg.JobID)
			if err != nil {
				damaged = append(damaged, err.Error())
				continue
			}
			list = append(list, *h)
		}
	}
	return list, damaged
}

func heldIn(dir string, stream holding.Stream, job [16]byte) (*recovery.Held, error) {
	m, err := dataset.Check(dir)
	if err != nil {
		return nil, err
	}
	h := &recovery.Held{ID: holding.ID{Job: job, Start: m.Start, Epoch: m.Epoch, Dataset: m.Checkpoint, Stream: stream}, Ranks: m.Held()}
	if m.Label != nil {
		h.Label = *m.Label
	}
	for _, name := range m.Parity {
		header, err := readParity(filepath.Join(dir, name))
		if err == nil && header.ID != h.ID {
			err = fmt.Errorf("agent: %s: found %v, wanted %v", name, header.ID, h.ID)
		}
		if err != nil {
			return nil, err
		}
		h.Members = append(h.Members, *header)
	}
	return h, nil
}

func readParity(path string) (*holding.Header, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	return parity.ReadHeader(f, st.Size())
}
