package cli

import (
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/coord"
)

func TestMPIVersion(t *testing.T) {
	for says, want := range map[string]string{
		"MPICH Version:\t4.0.2\nMPICH Release date:\tThu":                   "MPICH 4.0.2",
		"MPICH Version:\t4.0.2":                                             "MPICH 4.0.2",
		"MPICH Version:      4.2.0rc1":                                      "MPICH 4.2.0rc1",
		"Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, May, 2022": "Open MPI 4.1.4",
		"Open MPI v5.0.7\n":                                                 "Open MPI 5.0.7",
		"MVAPICH2 Version      :\t2.3.7":                                    "MVAPICH2 2.3.7",
		"Intel(R) MPI Library 2021.5 for Linux* OS\n":                       "Intel(R) MPI Library 2021.5",
		"CRAY MPICH version 8.1.25.17 (ANL base 3.4a2)":                     "CRAY MPICH 8.1.25.17",
		"MPICH": "MPICH",
		"":      "",
		"v":     "v",
	} {
		if found := mpiVersion(says); found != want {
			t.Errorf("%q: found %q, wanted %q", says, found, want)
		}
	}
}

func TestTook(t *testing.T) {
	stays := took(coord.Result{Checkpoint: 3, Bytes: 2048, Stall: time.Millisecond, Took: time.Second})
	if stays != "checkpoint 3: 2.0 KiB, stall 1ms, committed after 1s" {
		t.Errorf("found %q", stays)
	}
	if leaves := took(coord.Result{Checkpoint: 3, Bytes: 2048, Took: time.Second}); leaves != "checkpoint 3: 2.0 KiB, committed after 1s" {
		t.Errorf("found %q", leaves)
	}
}
