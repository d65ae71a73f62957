package adopt

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		what  string
		paths string
		ranks int
		want  string // ranks behind each other
	}{
		{"one file", "state", 0, "state"},
		{"no ranks in names", "a b", 0, "a b"},
		{"from 0", "ckpt.10/rank_0 ckpt.10/rank_1 ckpt.10/rank_2", 0, "ckpt.10/rank_0 | ckpt.10/rank_1 | ckpt.10/rank_2"},
		{"from 1, with zeros", "p001 p002 p003", 0, "p001 | p002 | p003"},
		{"one that all share", "head r0 r1", 0, "head r0 | r1"},
		{"directories", "processor0/5/U processor0/5/p processor1/5/U processor1/5/p", 0, "processor0/5/U processor0/5/p | processor1/5/U processor1/5/p"},
		{"several files of a rank", "r0.0 r0.1 r1.0 r1.1 r2.0 r2.1", 0, "r0.0 r0.1 | r1.0 r1.1 | r2.0 r2.1"},
		{"as many ranks as are wanted", "0.0 0.1 0.2 1.0 1.1 1.2", 2, "0.0 0.1 0.2 | 1.0 1.1 1.2"},
		{"gaps are no ranks", "step10 step20", 0, "step10 step20"},
		{"more ranks than have files", "r0 r1", 4, "r0 r1 |  |  | "},
		{"a number that is none", "r99999999999999999999 r0", 0, "r0 r99999999999999999999"},
	} {
		paths := strings.Fields(c.paths)
		slices.Reverse(paths)
		got, err := Split(paths, c.ranks)
		var words []string
		for _, list := range got {
			words = append(words, strings.Join(list, " "))
		}
		if found := strings.Join(words, " | "); err != nil || found != c.want {
			t.Errorf("%s: found %q, wanted %q: %v", c.what, found, c.want, err)
		}
	}
}

// FuzzSplit: no file is lost, and none is twice.
func FuzzSplit(f *testing.F) {
	f.Add("a0 a1 b", 0)
	f.Add("x1.2 x2.1 x1.1 x2.2", 2)
	f.Fuzz(func(t *testing.T, text string, ranks int) {
		paths := strings.Fields(text)
		split, err := Split(paths, ranks%100)
		if err != nil {
			return
		}
		want := slices.Compact(slices.Sorted(slices.Values(paths)))
		if found := slices.Sorted(slices.Values(slices.Concat(split...))); len(want) > 0 && !reflect.DeepEqual(found, want) {
			t.Errorf("found %q, wanted %q", found, want)
		}
	})
}
