package settings

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

// GroupWorld is the group of all nodes; groupNode that of one, whose processes fail together, or share a store.
const (
	groupNode  = "NODE"
	GroupWorld = "WORLD"
)

// Store is a directory in which datasets are kept.
type Store struct {
	Dir   string
	Count int    // so many datasets
	Group string // who shares it: NODE, WORLD or a name of Groups
}

// Ckpt says how some checkpoints are kept.
type Ckpt struct {
	Number   int
	Interval int // every so many
	Output   bool
	Store    string
	Scheme   redset.Scheme
	SetSize  int // at least, or as many nodes as there are; 0: not said
	Group    string
	Bypass   bool
}

// Group says for a host what it fails together with: hosts that have the same value of a name do.
type Group struct {
	Host string
	In   map[string]string
}

// Descriptors are the lines STORE, CKPT and GROUPS, with what parameters say where lines do not.
type Descriptors struct {
	Stores  []Store // by directory; that of SCR_CACHE_BASE is there always
	Ckpts   []Ckpt  // by number, at least one
	Groups  []Group // by host
	Implied Ckpt    // what holds where no line does
}

// Pick is how a dataset is kept.
type Pick struct {
	Ckpt
	Count  int               // so many datasets stay in its store
	Groups map[string]string // what hosts fail together with; hosts that are not in it fail alone
}

// Descriptor picks for a dataset that is the nth checkpoint, counted from 1, or 0 if it is none: for an output the first descriptor with
// OUTPUT=1; else that with the largest interval that divides n; for what is no checkpoint, of those with interval 1.
func (d *Descriptors) Descriptor(n uint64, output bool) Pick {
	best := d.Implied
	if i := slices.IndexFunc(d.Ckpts, func(c Ckpt) bool { return output && c.Output }); i >= 0 {
		best = d.Ckpts[i]
	} else {
		interval := 0
		for _, c := range d.Ckpts {
			if c.Interval > interval && max(n, 1)%uint64(c.Interval) == 0 {
				best, interval = c, c.Interval
			}
		}
	}
	p := Pick{Ckpt: best}
	if s := d.store(best.Store); s != nil {
		p.Count = s.Count
		if s.Group == GroupWorld { // it does not go with a node: the prefix is what all nodes see
			p.Scheme, p.SetSize, p.Bypass = redset.Single, 0, true
		}
	}
	for _, g := range d.Groups {
		if in, ok := g.In[p.Group]; ok {
			if p.Groups == nil {
				p.Groups = map[string]string{}
			}
			p.Groups[g.Host] = in
		}
	}
	return p
}

func (d *Descriptors) store(dir string) *Store {
	for i := range d.Stores {
		if d.Stores[i].Dir == dir {
			return &d.Stores[i]
		}
	}
	return nil
}

// mostLines is how many lines of stores, and of checkpoints, are used.
const mostLines = 1000

// lines are the lines of a kind that hold: all of one source, by their values.
func (r *resolver) lines(kind string) []*descriptor {
	for _, from := range []Source{UserFile, Config, SystemFile} {
		if held := r.s.layers[from][kind]; held != nil {
			list := slices.Collect(maps.Values(held.by))
			slices.SortFunc(list, func(a, b *descriptor) int {
				x, _ := integer(a.value)
				y, _ := integer(b.value)
				return cmp.Or(cmp.Compare(x, y), strings.Compare(a.value, b.value))
			})
			if kind != "GROUPS" && len(list) > mostLines {
				r.note(Wrong, kind, "%d lines %s: the first %d are used", len(list), kind, mostLines)
				list = list[:mostLines]
			}
			return list
		}
	}
	return nil
}

// describe makes the descriptors of the lines that hold.
func (r *resolver) describe() {
	for _, kind := range []string{"CACHE", "CACHEDIR", "CNTLDIR"} {
		if list := r.lines(kind); len(list) > 0 {
			r.note(Hint, kind, "%s=%s (%v) has no effect: SCR 3.1 reads no sizes of directories, and Byssus asks the file system", kind, list[0].value, list[0].at)
		}
	}
	r.groups()
	p := &r.s.plan
	if !r.known(p.Group) {
		at := r.of("GROUP").at
		r.note(Wrong, "SCR_GROUP", "SCR_GROUP=%s (%v): wanted NODE or a name of lines GROUPS; NODE is used instead", p.Group, at)
		p.Group = groupNode
	}
	r.stores()
	p.Implied = Ckpt{Interval: 1, Store: p.CacheBase, Scheme: schemeOf(p.CopyType), Group: p.Group, Bypass: p.Bypass}
	if p.SetSizeSet && p.Implied.Scheme == redset.XOR {
		p.Implied.SetSize = p.SetSize
	}
	list := r.lines("CKPT")
	if p.CopyType == "FILE" {
		r.ckpts(list)
	} else if len(list) > 0 {
		r.note(Hint, "CKPT", "CKPT=%s (%v) has no effect: SCR_COPY_TYPE=FILE would have lines CKPT used, found %s", list[0].value, list[0].at, p.CopyType)
	}
	if len(p.Ckpts) == 0 {
		p.Ckpts = []Ckpt{p.Implied}
	}
}

// keep lists a line that holds.
func (r *resolver) keep(kind string, d *descriptor, known ...string) {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(d.keys)) {
		e := d.keys[k]
		words = append(words, k+"="+e.value)
		if len(known) > 0 && !slices.Contains(known, k) {
			r.note(Hint, kind, "%s=%s %s=%s (%v): %s is not known%v", kind, d.value, k, e.value, e.at, k, late(func() string {
				i := slices.IndexFunc(known, func(name string) bool { return distance(k, name, 3) < 3 })
				if i < 0 {
					return ""
				}
				return meant(known[i])
			}))
		}
	}
	r.s.descriptors = append(r.s.descriptors, Setting{Name: kind + "=" + d.value, Value: strings.Join(words, " "), Origin: d.at})
}

func (r *resolver) groups() {
	r.names = map[string]bool{}
	for _, d := range r.lines("GROUPS") {
		g := Group{Host: d.value, In: map[string]string{}}
		for k, e := range d.keys {
			g.In[k], r.names[k] = e.value, true
		}
		r.keep("GROUPS", d)
		r.s.plan.Groups = append(r.s.plan.Groups, g)
	}
}

// known says whether there is a group that a failure can take: not that of all nodes.
func (r *resolver) known(group string) bool {
	return group == groupNode || r.names[group]
}

// number is what a line says of a key, at least so much; else what is used instead.
func (r *resolver) number(kind string, d *descriptor, key string, least, instead int) int {
	e, ok := d.below(key)
	if !ok {
		return instead
	}
	n, ok := integer(e.value)
	if !ok || n < int64(least) {
		r.note(Wrong, kind, "%s=%s %s=%s (%v): wanted a whole number of at least %d; %d is used instead", kind, d.value, key, e.value, e.at, least, instead)
		return instead
	}
	return int(n)
}

func (r *resolver) flag(kind string, d *descriptor, key string, instead bool) bool {
	n := 0
	if instead {
		n = 1
	}
	return r.number(kind, d, key, 0, n) != 0
}

func (r *resolver) stores() {
	p := &r.s.plan
	for _, d := range r.lines("STORE") {
		if !path.IsAbs(d.value) {
			r.note(Wrong, "STORE", "STORE=%s (%v): wanted an absolute path: the line is not used", d.value, d.at)
			continue
		}
		r.keep("STORE", d, "COUNT", "ENABLED", "FLUSH", "GROUP", "MKDIR", "VIEW")
		s := Store{Dir: path.Clean(d.value), Count: r.number("STORE", d, "COUNT", 0, p.CacheSize), Group: groupNode}
		if e, ok := d.below("GROUP"); ok && (e.value == GroupWorld || r.known(e.value)) {
			s.Group = e.value
		} else if ok {
			r.note(Wrong, "STORE", "STORE=%s GROUP=%s (%v): wanted NODE, WORLD or a name of lines GROUPS; NODE is used instead", d.value, e.value, e.at)
		}
		for _, key := range []string{"FLUSH", "MKDIR", "VIEW"} {
			if e, ok := d.below(key); ok {
				r.note(Hint, "STORE", "STORE=%s %s=%s (%v) has no effect: %s", d.value, key, e.value, e.at, byAgents)
			}
		}
		if r.flag("STORE", d, "ENABLED", true) && p.store(s.Dir) == nil {
			p.Stores = append(p.Stores, s)
		}
	}
	if p.store(p.CacheBase) == nil {
		p.Stores = append(p.Stores, Store{Dir: p.CacheBase, Count: p.CacheSize, Group: groupNode})
	}
	slices.SortFunc(p.Stores, func(a, b Store) int { return strings.Compare(a.Dir, b.Dir) })
}

func (r *resolver) ckpts(list []*descriptor) {
	p := &r.s.plan
	if len(list) == 0 {
		r.note(Refused, "SCR_COPY_TYPE", "SCR_COPY_TYPE=FILE (%v): found no line CKPT, which say how checkpoints are kept", r.of("COPY_TYPE").at)
	}
	every := false
	for _, d := range list {
		n, err := strconv.Atoi(d.value)
		if err != nil || n < 0 {
			r.note(Wrong, "CKPT", "CKPT=%s (%v): wanted a number from 0: the line is not used", d.value, d.at)
			continue
		}
		if c, used := r.ckpt(n, d); used {
			p.Ckpts = append(p.Ckpts, c)
			every = every || c.Interval == 1
		}
	}
	if len(list) > 0 && !every {
		r.note(Wrong, "CKPT", "no line CKPT has INTERVAL=1: what no other interval divides is kept in %s with XOR", p.CacheBase)
	}
}

// ckpt makes a descriptor of a line, and says whether it is used.
func (r *resolver) ckpt(n int, d *descriptor) (c Ckpt, used bool) {
	p := &r.s.plan
	r.keep("CKPT", d, "BYPASS", "ENABLED", "GROUP", "INTERVAL", "OUTPUT", "SET_FAILURES", "SET_SIZE", "STORE", "TYPE")
	if !r.flag("CKPT", d, "ENABLED", true) {
		return c, false
	}
	c = Ckpt{Number: n, Interval: r.number("CKPT", d, "INTERVAL", 1, 1), Output: r.flag("CKPT", d, "OUTPUT", false), Store: p.CacheBase,
		Scheme: r.scheme(d), Group: p.Group, Bypass: r.flag("CKPT", d, "BYPASS", p.Bypass)}
	instead := 0
	if p.SetSizeSet {
		instead = p.SetSize
	}
	if size := r.number("CKPT", d, "SET_SIZE", 2, instead); c.Scheme == redset.XOR {
		c.SetSize = size
	}
	if e, ok := d.below("GROUP"); ok && r.known(e.value) {
		c.Group = e.value
	} else if ok {
		r.note(Wrong, "CKPT", "CKPT=%d GROUP=%s (%v): wanted NODE or a name of lines GROUPS; %s is used instead", n, e.value, e.at, c.Group)
	}
	if e, ok := d.below("STORE"); ok {
		if c.Store = path.Clean(e.value); p.store(c.Store) == nil {
			r.note(Wrong, "CKPT", "CKPT=%d STORE=%s (%v): no line STORE=%s that is enabled, and SCR_CACHE_BASE is %s: the line is not used", n, e.value, e.at, e.value, p.CacheBase)
			return c, false
		}
	}
	return c, true
}

func (r *resolver) scheme(d *descriptor) redset.Scheme {
	e, ok := d.below("TYPE")
	switch word := strings.ToUpper(e.value); {
	case !ok:
		r.note(Wrong, "CKPT", "CKPT=%s (%v) has no TYPE: wanted SINGLE, PARTNER or XOR; XOR is used instead", d.value, d.at)
	case word == "RS":
		r.note(Refused, "CKPT", "CKPT=%s TYPE=%s (%v): %s", d.value, e.value, e.at, notRS)
	case word == "SINGLE", word == "PARTNER", word == "XOR":
		return schemeOf(word)
	default:
		r.note(Wrong, "CKPT", "CKPT=%s TYPE=%s (%v): wanted SINGLE, PARTNER or XOR; XOR is used instead", d.value, e.value, e.at)
	}
	return redset.XOR
}

// String is a pick as its line would be.
func (p Pick) String() string {
	yes := map[bool]int{true: 1}
	return fmt.Sprintf("CKPT=%d INTERVAL=%d GROUP=%s STORE=%s TYPE=%s SET_SIZE=%d BYPASS=%d COUNT=%d", p.Number, p.Interval, p.Group, p.Store,
		strings.ToUpper(p.Scheme.String()), p.SetSize, yes[p.Bypass], p.Count)
}
