package coordsrv

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

// plainJob is one that does not run, in a store below a prefix.
func plainJob(t *testing.T) (*dataset.Job, string) {
	t.Helper()
	prefix := t.TempDir()
	job, err := dataset.Store{Dir: filepath.Join(prefix, ".scr")}.Create(dataset.Meta{Name: "scr", ID: strings.Repeat("ab", 16), Ranks: 2, Fsync: true,
		State: dataset.StateStopped, Started: time.Now(), Known: dataset.Known{Plain: true, Outputs: outputs.Memory{Bad: []uint64{77}}}})
	must(t, err)
	t.Cleanup(job.Unlock)
	return job, prefix
}

// adoptDir writes a checkpoint of two ranks and adopts it.
func adoptDir(t *testing.T, job *dataset.Job, prefix, name string) uint64 {
	t.Helper()
	put(t, filepath.Join(prefix, name, "r0"), []byte("zero"))
	put(t, filepath.Join(prefix, name, "r1"), []byte("one"))
	a, err := EditOutputs(job, OutputsRequest{Adopt: &Adoption{Label: holding.Label{Name: name, Checkpoint: true, Ranks: 2}, Prefix: prefix,
		Paths: [][]string{{name + "/r0"}, {name + "/r1"}}}}, func(text string) { t.Error(text) })
	must(t, err)
	return a.Adopted
}

// TestIndexInStore: datasets of a job that does not run are adopted, counted, made current, forgotten and removed, and whoever opens the job
// next finds them so.
func TestIndexInStore(t *testing.T) {
	job, prefix := plainJob(t)
	for i, name := range []string{"a", "b", "c"} {
		if n := adoptDir(t, job, prefix, name); n != uint64(i+1) {
			t.Errorf("%s has number %d", name, n)
		}
	}
	do := func(verb, name string) error {
		_, err := EditOutputs(job, OutputsRequest{Edit: outputs.Edit{Verb: verb, Name: name}}, func(text string) { t.Error(text) })
		return err
	}
	must(t, do(outputs.EditCurrent, "b"))
	again, err := dataset.Store{Dir: filepath.Join(prefix, ".scr")}.Open("scr")
	must(t, err)
	list, err := Outputs(again, func(text string) { t.Error(text) })
	must(t, err)
	CountFiles(again, list)
	if len(list) != 3 || !list[1].Current || list[1].Files != 2 || list[1].Bytes != 7 || !list[1].InPlace || !list[1].Stored {
		t.Errorf("found %+v", list)
	}
	if _, err := dataset.Verify(again.Of(agent.Written).Path(2), func(int64) {}); err != nil {
		t.Error(err)
	}
	must(t, do(outputs.EditDelete, "b"))
	must(t, do(outputs.EditDropAfter, "a"))
	if err := do(outputs.EditDrop, "c"); err == nil {
		t.Error("a dataset is forgotten twice")
	}
	if _, err := os.Stat(filepath.Join(prefix, "b")); err == nil {
		t.Error("files of b are still there")
	}
	if _, err := os.Stat(filepath.Join(prefix, "c", "r0")); err != nil {
		t.Error(err)
	}
	left, err := again.Of(agent.Written).List()
	if err != nil || !slices.Equal(left, []uint64{1}) {
		t.Errorf("left: %v, %v", left, err)
	}
	if m := job.Meta.Outputs; m.Current != 0 || !slices.Equal(m.Bad, []uint64{77}) {
		t.Errorf("remembered: %+v", m)
	}
	if n := adoptDir(t, job, prefix, "d"); n != 4 {
		t.Errorf("a number is used again: %d", n)
	}
}

// TestAdoptRefused: what cannot be adopted leaves nothing behind.
func TestAdoptRefused(t *testing.T) {
	job, prefix := plainJob(t)
	for _, a := range []Adoption{
		{Label: holding.Label{Name: "gone", Checkpoint: true, Ranks: 1}, Prefix: prefix, Paths: [][]string{{"gone/file"}}},
		{Label: holding.Label{Name: "outside", Checkpoint: true, Ranks: 1}, Prefix: prefix, Paths: [][]string{{"../x"}}},
		{Label: holding.Label{Name: "many", Checkpoint: true, Ranks: 3}, Prefix: prefix, Paths: [][]string{{}}},
		{Label: holding.Label{Checkpoint: true, Ranks: 1}, Prefix: prefix, Paths: [][]string{{}}},
	} {
		if _, err := EditOutputs(job, OutputsRequest{Adopt: &a}, func(text string) { t.Error(text) }); err == nil {
			t.Errorf("%s is adopted", a.Label.Name)
		}
	}
	if streams, err := job.Streams(); err != nil || len(streams) != 0 {
		t.Errorf("left: %v, %v", streams, err)
	}
	if left, _ := filepath.Glob(filepath.Join(job.Dir, "stream*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
