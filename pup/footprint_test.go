package pup_test

import (
	"fmt"
	"maps"
	"math/big"
	"runtime"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
)

// profiled is what the heap profiler counts for the value that make makes. Every allocation is sampled.
func profiled(t *testing.T, make func() any) (uint64, any) {
	t.Helper()
	in := func() int64 {
		runtime.GC()
		runtime.GC()
		var list []runtime.MemProfileRecord
		n, _ := runtime.MemProfile(nil, true)
		for {
			list = append(list[:0:0], makeRecords(n+50)...)
			var ok bool
			if n, ok = runtime.MemProfile(list, true); ok {
				break
			}
		}
		sum := int64(0)
		for _, r := range list[:n] {
			if inMake(r.Stack()) {
				sum += r.InUseBytes()
			}
		}
		return sum
	}
	before := in()
	v := makeValue(make)
	return uint64(in() - before), v
}

func makeRecords(n int) []runtime.MemProfileRecord { return make([]runtime.MemProfileRecord, n) }

//go:noinline
func makeValue(f func() any) any { return f() }

func inMake(stack []uintptr) bool {
	frames := runtime.CallersFrames(stack)
	for {
		f, more := frames.Next()
		if f.Function == "github.com/byssus-hpc/byssus/pup_test.makeValue" {
			return true
		}
		if !more {
			return false
		}
	}
}

type weighed struct {
	Name  string
	Vals  []float64
	Next  *weighed
	Table map[string]int
}

func TestFootprint(t *testing.T) {
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 1
	defer func() { runtime.MemProfileRate = rate }()
	for name, f := range weighedValues() {
		t.Run(name, func(t *testing.T) {
			want, v := profiled(t, f)
			found, err := pup.Footprint(v)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes, %d by the heap profiler", found, want)
			if d := float64(found)/float64(want) - 1; want == 0 || d > 0.02 || d < -0.02 {
				t.Errorf("found %d bytes, the heap profiler says %d: %+.1f%%", found, want, 100*d)
			}
			runtime.KeepAlive(v)
		})
	}
}

// weighedValues are makers of values, by name. They are two tables only because each is long.
func weighedValues() map[string]func() any {
	word := func(i int) string { return fmt.Sprintf("word number %d", i) }
	list := weighedMaps()
	maps.Copy(list, map[string]func() any{
		"floats": func() any { v := make([]float64, 100000); return &v },
		"growing": func() any {
			v := []int{}
			for i := range 5000 {
				v = append(v, i)
			}
			return &v
		},
		"strings": func() any {
			v := make([]string, 3000)
			for i := range v {
				v[i] = word(i * 100000)
			}
			return &v
		},
		"short strings": func() any {
			v := make([]string, 3000)
			for i := range v {
				v[i] = fmt.Sprint(i)
			}
			return &v
		},
		"structs": func() any {
			v := make([]weighed, 500)
			for i := range v {
				v[i].Vals = make([]float64, i)
			}
			return &v
		},
		"pointers": func() any {
			v := make([]*weighed, 500)
			for i := range v {
				v[i] = &weighed{Vals: make([]float64, 3)}
			}
			return &v
		},
		"shared": func() any {
			one := &weighed{Vals: make([]float64, 1000)}
			v := make([]*weighed, 500)
			for i := range v {
				v[i] = one
			}
			return &v
		},
		"shared arrays": func() any {
			all := make([]float64, 100000)
			v := make([][]float64, 10)
			for i := range v {
				v[i] = all[i*100:]
			}
			return &v
		},
		"list": func() any {
			var v *weighed
			for range 2000 {
				v = &weighed{Next: v}
			}
			return v
		},
		"interfaces": func() any {
			v := make([]any, 2000)
			for i := range v {
				v[i] = float64(i) + 0.5
			}
			return &v
		},
		"big": func() any {
			v := make([]*big.Int, 100)
			for i := range v {
				v[i] = new(big.Int).Lsh(big.NewInt(1), uint(64*i))
			}
			return &v
		},
	})
	return list
}

func weighedMaps() map[string]func() any {
	word := func(i int) string { return fmt.Sprintf("word number %d", i) }
	return map[string]func() any{
		"small maps": func() any {
			v := make([]map[int]int, 500)
			for i := range v {
				v[i] = map[int]int{}
				for j := range i % 9 {
					v[i][j] = j
				}
			}
			return &v
		},
		"map of ints": func() any {
			v := map[int]int{}
			for i := range 10000 {
				v[i] = i
			}
			return &v
		},
		"map of strings": func() any {
			v := map[string]string{}
			for i := range 3000 {
				v[word(i)] = word(-i)
			}
			return &v
		},
		"map of structs": func() any {
			v := map[[3]int32]weighed{}
			for i := range 3000 {
				v[[3]int32{int32(i)}] = weighed{}
			}
			return &v
		},
		"map of large": func() any {
			v := map[int][40]int64{}
			for i := range 1000 {
				v[i] = [40]int64{}
			}
			return &v
		},
		"set": func() any {
			v := map[int64]struct{}{}
			for i := range 5000 {
				v[int64(i)] = struct{}{}
			}
			return &v
		},
		"shared map": func() any {
			m := map[int]int{}
			for i := range 1000 {
				m[i] = i
			}
			v := []map[int]int{m, m, m}
			return &v
		},
	}
}
