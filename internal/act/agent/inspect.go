package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/act/mover"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/own"
	"github.com/byssus-hpc/byssus/internal/store/parity"
	"github.com/byssus-hpc/byssus/internal/store/part"
)

// Inspect reads all that a node's part of a dataset has, in a cache or where it was copied to, and says what of it is not as it was
// written. progress is told the bytes read since the last call.
func Inspect(ctx context.Context, dir string, progress func(int64)) error {
	m, err := dataset.Check(dir)
	if err != nil {
		return err
	}
	files, err := m.Parts()
	if err != nil {
		return err
	}
	err = intact(ctx, dir, files, progress)
	for _, name := range m.Parity {
		if err == nil {
			_, err = inspectKept(ctx, dir, name, progress)
		}
	}
	return err
}

// intact reads files of parts, and says what is damaged first.
func intact(ctx context.Context, dir string, files []holding.File, progress func(int64)) error {
	found, err := part.Verify(ctx, dir, files, progress)
	if err == nil && len(found) > 0 {
		err = errors.New(found[0].Why)
	}
	return err
}

// wounds is an error: what is damaged, and where.
type wounds struct {
	why string // the first
	at  []holding.Damage
}

func (w *wounds) Error() string { return w.why }

// add enters what is damaged of a member.
func (w *wounds) add(h holding.Header, ranges []redset.Range, why string) {
	if len(ranges) == 0 {
		return
	}
	if w.why == "" {
		w.why = why
	}
	w.at = append(w.at, holding.Damage{Header: h, Ranges: ranges})
}

// examine reads all that the node has of a dataset in its cache. Where what is damaged belongs to redundancy sets, the error is *wounds.
func examine(ctx context.Context, dir string) error {
	m, err := dataset.ReadManifest(dir)
	if err != nil {
		return err
	}
	if len(m.Parity) == 0 {
		return Inspect(ctx, dir, func(int64) {})
	}
	all := &wounds{}
	for _, name := range m.Parity {
		h, err := readParity(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		found, err := part.Verify(ctx, dir, h.Members[h.Own].Files, func(int64) {})
		if err != nil {
			return err
		}
		ranges, why := inPlace(redset.Part, found)
		kept, err := inspectKept(ctx, dir, name, func(int64) {})
		if err != nil && len(kept) == 0 {
			return err
		}
		more, why2 := inPlace(redset.Redundancy, kept)
		all.add(*h, append(ranges, more...), cmp.Or(why, why2))
	}
	if all.why == "" {
		return nil
	}
	return all
}

func inPlace(in redset.Place, found []part.Damage) (ranges []redset.Range, why string) {
	for i, d := range found {
		if i == 0 {
			why = d.Why
		}
		ranges = append(ranges, redset.Range{In: in, From: d.From, To: d.To})
	}
	return ranges, why
}

// inspectKept reads what the node keeps for others. With an error it says what is damaged, if that can be told.
func inspectKept(ctx context.Context, dir, name string, progress func(int64)) ([]part.Damage, error) {
	f, st, err := own.Open(filepath.Join(dir, name), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	kept, err := parity.Open(&heeding{ctx, f}, st.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var found []part.Damage
	if kept.Scheme.Copies() > 0 {
		found, err = part.Verify(ctx, dir, copied(&kept.Header), progress)
	} else {
		kept.Damaged(progress, func(from, to int64, why error) {
			found = append(found, part.Damage{From: from, To: to, Why: fmt.Sprintf("%s: %v", name, why)})
		})
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	if len(found) > 0 {
		err = errors.New(found[0].Why)
	}
	return found, err
}

// repair does this node's share in repairing what of a member is damaged. Who has it looks through it all again.
func (n *cache) repair(ctx context.Context, o control.Repair) error {
	dir := n.of(o.Header.Stream).Path(o.Checkpoint)
	m, err := openMember(dir, o.Header)
	if err != nil {
		return err
	}
	defer m.close()
	if o.Damaged < 0 || o.Damaged >= len(o.Header.Members) {
		return fmt.Errorf("agent: checkpoint %d: member %d of %d is damaged", o.Checkpoint, o.Damaged, len(o.Header.Members))
	}
	at, how := mover.Places{}, part.ToRead
	mine := o.Damaged == o.Header.Own
	if mine {
		how = part.ToWrite
	}
	whole, err := m.part(how, o.Header.Own)
	if err != nil {
		return err
	}
	from, to, err := m.redundancy(how)
	if err != nil {
		return err
	}
	if mine {
		at.Write[redset.Part], at.Write[redset.Redundancy] = whole, to
	} else {
		at.Read[redset.Part], at.Read[redset.Redundancy] = whole, from
	}
	_, err = mover.Run(ctx, n.cfg.Port, o.Transfer, m.layout.Repair(o.Damaged, o.Header.Own, o.Ranges), at)
	if err == nil && mine {
		if err = m.repaired(n.store.Meta.Fsync); err == nil {
			err = examine(ctx, dir)
		}
	}
	if err != nil {
		return fmt.Errorf("agent: repairing of checkpoint %d: %w", o.Checkpoint, err)
	}
	return nil
}
