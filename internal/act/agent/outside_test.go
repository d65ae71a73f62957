package agent

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/act/mover"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/wire/bulk"
)

// obedient is the agent of a node with a cache, whose checkpoint 1 has a place, and what it answers.
type obedient struct {
	*Node
	t       *testing.T
	around  string // the directory around everything
	answers chan control.Message
}

func newObedient(t *testing.T) *obedient {
	t.Helper()
	around := t.TempDir()
	job, err := dataset.Store{Dir: filepath.Join(around, "cache")}.Create(dataset.Meta{Name: "job", ID: strings.Repeat("0", 32), Ranks: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(job.Unlock)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &obedient{t: t, around: around, answers: make(chan control.Message, 10)}
	port := bulk.NewPort(l)
	n.Node = NewNode(NodeConfig{Name: "one", Store: job, Flush: job, Port: port, Say: func(m control.Message) { n.answers <- m }})
	t.Cleanup(func() { n.Close(); port.Close() })
	if err := os.WriteFile(filepath.Join(around, "secret"), []byte("of another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if why := n.do(control.Prepare{Order: 1, Checkpoint: 1}); why != "" {
		t.Fatal(why)
	}
	return n
}

// do gives an order, and returns why it was not done.
func (n *obedient) do(order any) string {
	n.t.Helper()
	n.Hear(control.Message{Body: order})
	select {
	case m := <-n.answers:
		d, ok := m.Body.(control.Done)
		if !ok {
			n.t.Fatalf("answer %+v", m)
		}
		return d.Err
	case <-time.After(patience):
		n.t.Fatal("no answer")
	}
	return ""
}

// files are the paths of all that is there.
func (n *obedient) files() []string {
	n.t.Helper()
	var list []string
	err := filepath.WalkDir(n.around, func(path string, _ os.DirEntry, err error) error {
		list = append(list, path)
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return list
}

// header is of a set of two nodes, whose first has a file of that name.
func header(own int, file string) holding.Header {
	return holding.Header{ID: holding.ID{Dataset: 1}, Scheme: redset.Partner, Sets: 1, Own: own, Members: []holding.Member{
		{Node: "one", Files: []holding.File{{Name: file, Size: 10}}}, {Node: "two", Files: []holding.File{{Name: "rank-00001.0.img", Size: 10}}}}}
}

// TestOutside: whatever an order names, an agent makes and reads files of its checkpoints alone.
func TestOutside(t *testing.T) {
	n := newObedient(t)
	before := n.files()
	for _, name := range []string{"../../../secret", "../../../new", filepath.Join(n.around, "secret"), filepath.Join(n.around, "new"), "..", ".", "", "a/../../b", "a\nb"} {
		for what, order := range map[string]any{
			"encode what it has":     control.Encode{Order: 2, Checkpoint: 1, Header: header(0, name), Transfer: mover.Transfer{ID: 1}},
			"encode what it gets":    control.Encode{Order: 2, Checkpoint: 1, Header: header(1, name), Transfer: mover.Transfer{ID: 1}},
			"give":                   control.Rebuild{Order: 2, Checkpoint: 1, Header: header(0, name), Lost: 1, Transfer: mover.Transfer{ID: 1}},
			"become the lost member": control.Rebuild{Order: 2, Checkpoint: 1, Header: header(0, name), Lost: 0, Transfer: mover.Transfer{ID: 1}},
		} {
			if why := n.do(order); !strings.Contains(why, "not a name: wanted") {
				t.Errorf("%s %q: %q", what, name, why)
			}
		}
		for what, record := range map[string]dataset.Manifest{
			"image":      {Checkpoint: 1, Ranks: 2, Files: []dataset.File{{Name: name}}},
			"redundancy": {Checkpoint: 1, Ranks: 2, Node: "one", Parity: []string{name}},
		} {
			if why := n.do(control.Commit{Order: 3, Checkpoint: 1, Record: record}); !strings.Contains(why, "wanted") {
				t.Errorf("record of %s %q: %q", what, name, why)
			}
		}
	}
	for _, lost := range []int{-1, 2} {
		order := control.Rebuild{Order: 2, Checkpoint: 1, Header: header(0, "rank-00000.0.img"), Lost: lost, Transfer: mover.Transfer{ID: 1}}
		if why := n.do(order); !strings.Contains(why, fmt.Sprintf("member %d of 2", lost)) {
			t.Errorf("member %d is lost: %q", lost, why)
		}
	}
	if why := n.do(control.Seal{Order: 4, Checkpoint: 1, Ranks: []int{1}}); !strings.Contains(why, "rank-00001.0.img: no such file") {
		t.Errorf("another node's rank is sealed: %q", why)
	}
	if after := n.files(); !slices.Equal(before, after) {
		t.Errorf("found\n%q, wanted\n%q", after, before)
	}
}

// TestLinks: neither a checkpoint nor a file in it is reached through a link.
func TestLinks(t *testing.T) {
	n := newObedient(t)
	place := n.of(0).Path(1) + ".tmp"
	encode := control.Encode{Order: 2, Checkpoint: 1, Header: header(0, "rank-00000.0.img"), Transfer: mover.Transfer{ID: 1}}
	if err := os.Symlink(filepath.Join(n.around, "secret"), filepath.Join(place, "rank-00000.0.img")); err != nil {
		t.Fatal(err)
	}
	if why := n.do(encode); !strings.Contains(why, "rank-00000.0.img: found a link, wanted a file") {
		t.Errorf("a file that is a link: %q", why)
	}
	if err := os.Rename(place, place+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(place+".away", place); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(place+".away", n.of(0).Path(1)); err != nil {
		t.Fatal(err)
	}
	for what, order := range map[string]any{
		"encode": encode,
		"give":   control.Rebuild{Order: 2, Checkpoint: 1, Header: header(0, "rank-00000.0.img"), Lost: 1, Transfer: mover.Transfer{ID: 1}},
		"flush":  control.Flush{Order: 2, Checkpoint: 1, Ranks: []int{0}},
	} {
		if why := n.do(order); !strings.Contains(why, "found L") || !strings.Contains(why, "wanted a directory") {
			t.Errorf("%s in a directory that is a link: %q", what, why)
		}
	}
}
