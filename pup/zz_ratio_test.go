package pup_test

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/pup"
)

func cpu() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func best(n int, fs ...func()) []time.Duration {
	b := make([]time.Duration, len(fs))
	for r := 0; r < n; r++ {
		for i, f := range fs {
			runtime.GC()
			t := time.Now()
			f()
			if d := time.Since(t); r == 0 || d < b[i] {
				b[i] = d
			}
		}
	}
	return b
}

func TestRatio(t *testing.T) {
	if os.Getenv("RATIO") == "" {
		t.Skip()
	}
	src := mks()
	data, _ := pup.Marshal(src)
	data2, _ := pup.Marshal(src, pup.Unchecked())
	hand := handAppend(nil, src.L)
	r := best(40, func() { hand = handAppend(hand[:0], src.L) }, func() { data, _ = pup.Append(data[:0], src) }, func() { data2, _ = pup.Append(data2[:0], src, pup.Unchecked()) },
		func() { sinkS = handDecode(hand) }, func() { var d PSs; pup.Unmarshal(data, &d); sinkS = d.L }, func() { var d PSs; pup.Unmarshal(data2, &d); sinkS = d.L })
	for i, n := range []string{"hand append", "pup append", "pup append unchecked", "hand decode", "pup unmarshal", "pup unmarshal unchecked"} {
		fmt.Printf("%-25s %v  %.3f\n", n, r[i], float64(r[i/3*3])/float64(r[i]))
	}
}
