package pup_test

import (
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/testdata/odd"
)

type dates struct {
	Name string
	List []struct {
		At   time.Time
		Sum  big.Rat
		Many []*big.Int
	}
	last time.Time
}

// TestPaths cuts data at every length: the error says where, in words of the type's author, never of the standard library's.
func TestPaths(t *testing.T) {
	v := &dates{Name: "n", last: time.Now()}
	v.List = append(v.List, v.List...)
	v.List = make([]struct {
		At   time.Time
		Sum  big.Rat
		Many []*big.Int
	}, 2)
	for k := range v.List {
		v.List[k].At = time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("X", 3600))
		v.List[k].Sum.SetFrac64(3, 7)
		v.List[k].Many = []*big.Int{big.NewInt(1), nil, big.NewInt(1 << 40)}
	}
	data, err := pup.Marshal(v, pup.Unchecked())
	if err != nil {
		t.Fatal(err)
	}
	body := pup.Body(data)
	seen := map[string]bool{}
	for n := range body {
		err := pup.Unmarshal(pup.Wrap(v, false, body[:n]), &dates{})
		var e *pup.Error
		if !errors.As(err, &e) || !errors.Is(err, pup.ErrData) || e.Op != "unpack" {
			t.Fatalf("cut at %d: found %v", n, err)
		}
		seen[e.Path] = true
		if e.Path == "" || strings.Count(e.Path, ".") > 2 || strings.ContainsAny(strings.TrimPrefix(e.Path, "dates"), "abcdefghijk") && !strings.HasSuffix(e.Path, ".last") &&
			!strings.HasSuffix(e.Path, ".Name") && !strings.Contains(e.Path, ".List") {
			t.Errorf("cut at %d: path %q", n, e.Path)
		}
	}
	for _, want := range []string{"dates.Name", "dates.List", "dates.List[1].At", "dates.List[1].Sum", "dates.List[1].Many[0]", "dates.List[1].Many[2]", "dates.last"} {
		if !seen[want] {
			t.Errorf("no cut was said to be in %s: found %v", want, seen)
		}
	}
}

func TestPanics(t *testing.T) {
	dir := t.TempDir()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("packing: the panic was swallowed")
			}
		}()
		_ = pup.ToFile(filepath.Join(dir, "value"), &odd.Explosive{With: "boom"})
	}()
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
	err := pup.Unmarshal(pup.Wrap(&odd.Explosive{}, false, nil), &odd.Explosive{With: fs.ErrClosed})
	if !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), "pup: unpack: Explosive: a PUP method panicked: ") {
		t.Errorf("unpacking: found %v", err)
	}
}

// TestInnerErrors: what a method, a file or a writer said can be asked for.
func TestInnerErrors(t *testing.T) {
	if err := pup.ToFile("/nowhere/at/all", new(int)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ToFile: found %v", err)
	}
	if err := pup.FromFile("/nowhere/at/all", new(int)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("FromFile: found %v", err)
	}
	_, err := pup.Marshal(&odd.Choosy{})
	var e *pup.Error
	if !errors.Is(err, fs.ErrInvalid) || !errors.As(err, &e) || e.Op != "pack" || e.Path != "Choosy" {
		t.Errorf("Fail: found %#v", err)
	}
}
