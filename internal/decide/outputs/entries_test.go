package outputs

import (
	"slices"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/settings"
)

// deaf is a driver to which nothing matters but what is forgotten.
type deaf struct{ forgotten []uint64 }

func (d *deaf) Answer(Ask, Answer)                                                   {}
func (d *deaf) Place(uint64, bool, []int, func(string, error)) (string, bool)        { return "", false }
func (d *deaf) Commit(uint64, holding.Label, settings.Pick, []int, func(why string)) {}
func (d *deaf) Discard(uint64, bool)                                                 {}
func (d *deaf) Flush(uint64, func(error))                                            {}
func (d *deaf) Evict(uint64)                                                         {}
func (d *deaf) Forget(n uint64, _ bool)                                              { d.forgotten = append(d.forgotten, n) }
func (d *deaf) Restore(Dataset, []int, bool, func(bool, error))                      {}
func (d *deaf) Changed()                                                             {}
func (d *deaf) Counts(uint64, bool)                                                  {}
func (*deaf) Await(Ask)                                                              {}

func (d *deaf) Heeded()            {}
func (d *deaf) Say(string)         {}
func (d *deaf) Now() time.Duration { return 0 }

func checkpointCalled(name string, n uint64) Dataset {
	return Dataset{Number: n, Label: holding.Label{Name: name, Checkpoint: true, Ranks: 2}, Stored: true}
}

// currentOf is the number of the dataset that entries show as the current one.
func currentOf(b *Book) uint64 {
	for _, e := range Entries(b) {
		if e.Current {
			return e.Dataset
		}
	}
	return 0
}

func TestEntries(t *testing.T) {
	d := &deaf{}
	b := New(d, []Dataset{checkpointCalled("b", 4), checkpointCalled("a", 2), checkpointCalled("c", 6)}, 9, Memory{Bad: []uint64{6}})
	if list := Entries(b); len(list) != 3 || list[0].Name != "a" || !list[2].Bad || currentOf(b) != 4 {
		t.Fatalf("found %+v", list)
	}
	if err := Insist(b, 2); err != nil || currentOf(b) != 2 || !slices.Equal(Offered(b), []uint64{2}) {
		t.Errorf("insisted on 2: %v, current %d, offered %v", err, currentOf(b), Offered(b))
	}
	if err := Insist(b, 3); err == nil {
		t.Error("a dataset that there is not is taken")
	}
	n := Reserve(b)
	Adopt(b, n, holding.Label{Name: "b", Checkpoint: true, Ranks: 1})
	if n != 10 || currentOf(b) != 10 || !slices.Equal(d.forgotten, []uint64{4}) || !slices.Equal(Offered(b), []uint64{2, 10}) {
		t.Errorf("adopted %d: current %d, forgotten %v, offered %v", n, currentOf(b), d.forgotten, Offered(b))
	}
	for _, e := range []Edit{{EditCurrent, "c"}, {EditDropAfter, "c"}, {EditDrop, "a"}, {EditDelete, "c"}} {
		if err := e.Apply(b); err != nil {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if !slices.Equal(d.forgotten, []uint64{4, 10, 2, 6}) || len(Entries(b)) != 0 || Offered(b) != nil {
		t.Errorf("forgotten %v, left %+v", d.forgotten, Entries(b))
	}
	for _, e := range []Edit{{EditCurrent, "c"}, {EditDrop, "c"}, {"burn", "c"}} {
		if e.Apply(b) == nil {
			t.Errorf("%+v is done", e)
		}
	}
}

func TestChoose(t *testing.T) {
	list := Entries(New(&deaf{}, []Dataset{checkpointCalled("a", 2), checkpointCalled("2", 4), checkpointCalled("7", 7)}, 9, Memory{}))
	for _, c := range []struct {
		text   string
		number uint64
		want   uint64 // 0: refused
	}{{"a", 0, 2}, {"4", 4, 4}, {"2", 2, 0}, {"7", 7, 7}, {"9", 9, 0}, {"z", 0, 0}} {
		if n, err := Choose(list, c.text, c.number); n != c.want || (err != nil) != (c.want == 0) {
			t.Errorf("%s: found %d, %v, wanted %d", c.text, n, err, c.want)
		}
	}
}
