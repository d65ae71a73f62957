package pup_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/testdata/faulty"
)

type temporary struct {
	when time.Time
	list []int
	on   bool
}

func (x *temporary) PUP(p *pup.Stream) {
	at := x.when.UnixNano()
	pup.Number(p, &at)
	n := len(x.list)
	pup.Length(p, &n)
	if p.Unpacking() {
		x.when = time.Unix(0, at)
		x.list = make([]int, n)
	}
	for i := range x.list {
		pup.Number(p, &x.list[i])
	}
	on := x.on
	pup.Bool(p, &on)
	x.on = on
}

type deep struct {
	Name  string
	Inner []faulty.Missed
	ByKey map[string]*faulty.Missed
	Any   any
}

type skips struct {
	A     int
	cache map[int]int
	tag   chan int `pup:"-,made again"`
}

func (x *skips) PUP(p *pup.Stream) {
	pup.Number(p, &x.A)
	pup.Skip(p, &x.cache, "made again")
}

type sharing struct{ A, B *missed2 }
type missed2 struct{ X, Y int }

func TestCheck(t *testing.T) {
	one := &missed2{1, 2}
	now := temporary{when: time.Unix(5, 6), list: []int{1}}
	ring := &gnode{ID: 1}
	ring.Next = &gnode{ID: 2, Prev: ring, Next: ring}
	all := make([]int, 10)
	cases := map[string]struct {
		v    any
		opts []pup.Option
		want []string // path and kind of each fault
	}{
		"missed":                {&faulty.Missed{A: 1, B: 2}, nil, []string{"Missed.B: missed"}},
		"missed zero":           {&faulty.Missed{}, nil, []string{"Missed.B: missed"}},
		"missed empty":          {&faulty.Empty{}, nil, []string{"Empty.L: missed", "Empty.M: missed", "Empty.P: missed"}},
		"doubled":               {&faulty.Doubled{A: 1, S: []string{"a"}}, nil, []string{"Doubled.A: doubled"}},
		"swapped":               {&faulty.Swapped{A: 1, B: 2}, nil, []string{"Swapped.A: changed", "Swapped.B: changed"}},
		"map order":             {&faulty.MapOrder{M: map[int]string{1: "a", 2: "b", 3: "c", 4: "d", 5: "e", 6: "f", 7: "g", 8: "h"}}, nil, []string{"MapOrder: unsound"}},
		"embedded":              {&faulty.Embedding{}, nil, []string{"Embedding.Missed.B: missed"}},
		"data decides":          {&faulty.Straggler{A: 1, B: 2}, nil, []string{"Straggler.B: missed"}},
		"lossy":                 {&faulty.Lossy{A: 1 << 40}, nil, []string{"Lossy.A: changed"}},
		"counter":               {&faulty.Counter{}, nil, []string{"Counter: unsound", "Counter.Packed: changed", "Counter.Packed: changed"}},
		"cache":                 {&faulty.Cache{Words: []string{"a"}, Index: map[string]int{"a": 0}}, nil, []string{`Cache.Index["a"]: missed`}},
		"alias":                 {&faulty.Alias{All: all, Some: all[2:4]}, nil, []string{"Alias.Some: shared"}},
		"temporaries":           {&now, nil, nil},
		"temporaries, nothing":  {&temporary{when: time.Unix(0, 0), list: []int{}}, nil, nil},
		"temporaries, empty":    {&temporary{when: time.Unix(0, 0)}, nil, nil},
		"skips":                 {&skips{A: 1, cache: map[int]int{1: 1}, tag: make(chan int)}, nil, nil},
		"shared":                {&sharing{one, one}, nil, []string{"sharing.B: shared"}},
		"shared in a graph":     {&sharing{one, one}, []pup.Option{pup.Graph()}, nil},
		"ring":                  {ring, []pup.Option{pup.Graph()}, nil},
		"mesh":                  {newMesh(), []pup.Option{pup.Graph()}, nil},
		"shared arrays":         {&[][]int{all[:5], all[3:]}, nil, []string{"[][]int[1]: shared"}},
		"shared arrays graph":   {&[][]int{all[:5], all[3:]}, []pup.Option{pup.Graph()}, nil},
		"everything":            {full(), nil, nil},
		"sized otherwise":       {&faulty.Liar{Name: "a", N: 1}, nil, []string{"Liar: unsound"}},
		"union":                 {&[]faulty.Shape{{}, {Kind: 1}, {Kind: 2}, {Kind: 3}, {Kind: 4}, {Kind: 5}, {Kind: 4, Of: &faulty.Shape{}}}, nil, nil},
		"union, filled":         {&faulty.Shape{Kind: 2, Sides: []float64{0}, Radius: 1}, nil, []string{"Shape.Radius: missed"}},
		"union by words":        {&[]faulty.Worded{{}, {Kind: "a"}, {Kind: "b", B: 1}}, nil, nil},
		"union by a word":       {&faulty.Worded{Kind: "a", B: 1}, nil, []string{"Worded.B: missed"}},
		"union of unions":       {&faulty.Outer{Kind: 1, Any: 5, After: &faulty.Inner{A: 1}}, nil, nil},
		"union of unions, lost": {&faulty.Outer{Lost: faulty.Inner{A: 1}}, nil, []string{"Outer.Lost.A: missed"}},
		"union, zero":           {&faulty.Outer{}, nil, nil},
		"never visited":         {&faulty.Plenty{}, nil, []string{"Plenty.Never: missed"}},
		"never visited, all":    {&faulty.Plenty{Kind: 1, On: true, Word: "x", List: []int{1}, Ptr: new(int), Map: map[string]int{"a": 1}, Any: 1, F: 1}, nil, []string{"Plenty.Never: missed"}},
		"loop":                  {&faulty.Loop{N: 2}, nil, nil},
		"optional":              {&[]faulty.Optional{{}, {Has: true}, {Flag: 4}}, nil, nil},
		"deep": {&deep{"x", []faulty.Missed{{A: 1, B: 2}}, map[string]*faulty.Missed{"k": {A: 3, B: 4}}, &faulty.Missed{A: 5, B: 6}}, nil,
			[]string{"deep.Inner[0].B: missed", `deep.ByKey["k"].B: missed`, "deep.Any.(*faulty.Missed).B: missed"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := pup.Check(c.v, c.opts...)
			var list *pup.CheckError
			if err != nil && !errors.As(err, &list) {
				t.Fatal(err)
			}
			var found []string
			if list != nil {
				for _, f := range list.Faults {
					found = append(found, f.Path+": "+string(f.Kind))
				}
			}
			if strings.Join(found, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("found\n  %v\nwant\n  %s", err, strings.Join(c.want, "\n  "))
			}
		})
	}
}

// TestCheckNamesTheSize asks for the type and both sizes, where the value lies deep, in a tree and a graph.
func TestCheckNamesTheSize(t *testing.T) {
	v := &struct {
		M map[string][]any
		N *[1]*faulty.Liar
	}{map[string][]any{"k": {1, faulty.Liar{Name: "abc"}}}, &[1]*faulty.Liar{{}}}
	for _, opts := range [][]pup.Option{nil, {pup.Graph()}} {
		err := pup.Check(v, opts...)
		if err == nil {
			t.Fatal("no fault")
		}
		for _, want := range []string{`.M["k"][1].(faulty.Liar): unsound: a faulty.Liar`, `.N[0]: unsound: a faulty.Liar`, "is sized as", "packed to"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("found %v, want %q", err, want)
			}
		}
	}
}

// localAlone tells a process of this test that nothing else is to be run.
const localAlone = "PUP_TEST_LOCAL_TIME"

// TestLocalTime: the first use of the local time in a process changes what a time.Time points to; that is not PUP's doing.
func TestLocalTime(t *testing.T) {
	if os.Getenv(localAlone) == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestLocalTime$")
		cmd.Env = append(os.Environ(), localAlone+"=yes", "TZ=Europe/Berlin")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	v := struct{ T time.Time }{time.Now()}
	if err := pup.Check(&v, pup.Graph()); err != nil {
		t.Error(err)
	}
}
