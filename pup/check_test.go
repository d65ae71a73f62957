package pup_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/pup"
)

// Each of these types has one fault that only shows at run time, or none.

type missedField struct{ A, B int }

func (x *missedField) PUP(p *pup.Stream) { pup.Number(p, &x.A) }

type doubledField struct {
	A int
	S []string
}

func (x *doubledField) PUP(p *pup.Stream) {
	pup.Number(p, &x.A)
	pup.Slice(p, &x.S, pup.String)
	pup.Number(p, &x.A)
}

type swapped struct{ A, B int }

func (x *swapped) PUP(p *pup.Stream) {
	if p.Unpacking() {
		pup.Number(p, &x.B)
		pup.Number(p, &x.A)
		return
	}
	pup.Number(p, &x.A)
	pup.Number(p, &x.B)
}

type mapOrder struct{ M map[int]string }

func (x *mapOrder) PUP(p *pup.Stream) {
	n := len(x.M)
	pup.Number(p, &n)
	if p.Unpacking() {
		x.M = map[int]string{}
		for range n {
			var k int
			var v string
			pup.Number(p, &k)
			pup.String(p, &v)
			x.M[k] = v
		}
		return
	}
	for k, v := range x.M {
		pup.Number(p, &k)
		pup.String(p, &v)
	}
}

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
	Inner []missedField
	ByKey map[string]*missedField
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

type emptyMiss struct {
	A int
	L []int
	M map[string]int
	P *int
}

func (x *emptyMiss) PUP(p *pup.Stream) { pup.Number(p, &x.A) }

var _ = pup.Register[missedField]("test.missedField")

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
		"missed":              {&missedField{1, 2}, nil, []string{"missedField.B: missed"}},
		"missed zero":         {&missedField{}, nil, []string{"missedField.B: missed"}},
		"missed empty":        {&emptyMiss{}, nil, []string{"emptyMiss.L: missed", "emptyMiss.M: missed", "emptyMiss.P: missed"}},
		"doubled":             {&doubledField{A: 1, S: []string{"a"}}, nil, []string{"doubledField.A: doubled"}},
		"swapped":             {&swapped{1, 2}, nil, []string{"swapped.A: changed", "swapped.B: changed"}},
		"map order":           {&mapOrder{map[int]string{1: "a", 2: "b", 3: "c", 4: "d", 5: "e", 6: "f", 7: "g", 8: "h"}}, nil, []string{"mapOrder: unsound"}},
		"temporaries":         {&now, nil, nil},
		"temporaries, empty":  {&temporary{when: time.Unix(0, 0)}, nil, nil},
		"skips":               {&skips{A: 1, cache: map[int]int{1: 1}, tag: make(chan int)}, nil, nil},
		"shared":              {&sharing{one, one}, nil, []string{"sharing.B: shared"}},
		"shared in a graph":   {&sharing{one, one}, []pup.Option{pup.Graph()}, nil},
		"ring":                {ring, []pup.Option{pup.Graph()}, nil},
		"mesh":                {newMesh(), []pup.Option{pup.Graph()}, nil},
		"shared arrays":       {&[][]int{all[:5], all[3:]}, nil, []string{"[][]int[1]: shared"}},
		"shared arrays graph": {&[][]int{all[:5], all[3:]}, []pup.Option{pup.Graph()}, nil},
		"everything":          {full(), nil, nil},
		"deep": {&deep{"x", []missedField{{1, 2}}, map[string]*missedField{"k": {3, 4}}, &missedField{5, 6}}, nil,
			[]string{"deep.Inner[0].B: missed", `deep.ByKey["k"].B: missed`, "deep.Any.(*pup_test.missedField).B: missed"}},
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
