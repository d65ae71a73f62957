package holding

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

// ErrLost marks a dataset of which more is lost than its redundancy covers.
var ErrLost = errors.New("more is lost than its redundancy covers")

// Loss is a member whose part and redundancy are to be made again, on whatever node takes its place: by the layout of its
// set, in the order of the report.
type Loss struct{ Set, Member int }

// Damage is what of a member is not as it was written.
type Damage struct {
	Header Header // of its set; Own is the member
	Ranges []redset.Range
}

// Report says of a dataset that can be had what it consists of and what of it is to be made again.
type Report struct {
	Sets []Header // by number; Own tells nothing
	Lost []Loss   // none: all is there
}

// found is what is known of a set.
type found struct {
	header  Header // the first that was found
	members map[int]bool
}

// Recoverable decides what can be rebuilt of a dataset. A header stands for a member whose files, part and redundancy, are
// all there and as their digests say: the caller leaves others out, for what is rebuilt is only as good as what it is
// rebuilt from. One that is found twice counts once.
func Recoverable(id ID, headers []Header) (Report, error) {
	sets := map[int]*found{}
	for _, h := range headers {
		if _, err := h.Check(); err != nil {
			return Report{}, err
		}
		if h.ID != id {
			return Report{}, fmt.Errorf("holding: file of %s: found %v, wanted %v", h.node(), h.ID, id)
		}
		if sets[h.Set] == nil {
			sets[h.Set] = &found{h, map[int]bool{}}
		}
		for _, other := range []Header{headers[0], sets[h.Set].header} {
			if err := agree(&other, &h); err != nil {
				return Report{}, fmt.Errorf("holding: dataset %d: files of %s and %s disagree: %w",
					id.Dataset, other.node(), h.node(), err)
			}
		}
		sets[h.Set].members[h.Own] = true
	}
	if len(headers) == 0 {
		return Report{}, fmt.Errorf("holding: dataset %d: nothing of it was found: %w", id.Dataset, ErrLost)
	}
	var r Report
	for n := range headers[0].Sets {
		if sets[n] == nil {
			return Report{}, fmt.Errorf("holding: dataset %d: set %d of %d: nothing was found: %w",
				id.Dataset, n, headers[0].Sets, ErrLost)
		}
		lost, err := sets[n].lost()
		if err != nil {
			return Report{}, fmt.Errorf("holding: dataset %d: set %d: %w", id.Dataset, n, err)
		}
		r.Sets = append(r.Sets, sets[n].header)
		for _, m := range lost {
			r.Lost = append(r.Lost, Loss{n, m})
		}
	}
	return r, nil
}

func (h *Header) node() string { return h.Members[h.Own].Node }

// lost lists the members that are not there.
func (f *found) lost() ([]int, error) {
	set := redset.Set{Scheme: f.header.Scheme}
	var list []int
	var names []string
	gone := map[int]bool{}
	for i, m := range f.header.Members {
		set.Members = append(set.Members, redset.Member{Node: i})
		if !f.members[i] {
			list, names, gone[i] = append(list, i), append(names, m.Node), true
		}
	}
	if !set.Survives(gone) {
		return nil, fmt.Errorf("lost are %s, of %d with %v: %w", strings.Join(names, ", "), len(set.Members), set.Scheme, ErrLost)
	}
	return list, nil
}

// agree says in what two headers of a dataset differ that should not: of one set, only in whose they are.
func agree(a, b *Header) error {
	switch {
	case a.Sets != b.Sets:
		return fmt.Errorf("%d and %d sets", a.Sets, b.Sets)
	case a.Set != b.Set:
		return nil
	case a.Scheme != b.Scheme:
		return fmt.Errorf("set %d: %v and %v", a.Set, a.Scheme, b.Scheme)
	case len(a.Members) != len(b.Members):
		return fmt.Errorf("set %d: %d and %d members", a.Set, len(a.Members), len(b.Members))
	}
	for i, m := range a.Members {
		o := b.Members[i]
		if m.Node != o.Node || m.Group != o.Group {
			return fmt.Errorf("set %d: member %d: %s of group %q and %s of group %q", a.Set, i, m.Node, m.Group, o.Node, o.Group)
		}
		if !slices.Equal(m.Files, o.Files) {
			return fmt.Errorf("set %d: files of %s: %s", a.Set, m.Node, differ(m.Files, o.Files))
		}
	}
	return nil
}

// differ shows the first file in which two lists differ.
func differ(a, b []File) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%+v and %+v", a[i], b[i])
		}
	}
	return fmt.Sprintf("%d and %d", len(a), len(b))
}
