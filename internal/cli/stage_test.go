package cli

import (
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/decide/coord"
)

// TestStage: ps and the line of checkpoint say what is waited for, and since when.
func TestStage(t *testing.T) {
	for want, st := range map[string]coord.Status{
		"checkpoint 3: writing": {Number: 3, Stage: "writing", StageSince: time.Second},
		"checkpoint 3: rank 0 waits in MPI_Bcast for rank 3, which computes (12 s)": {Number: 3, Stage: "agreeing",
			StageSince: 8 * time.Second, Detail: "rank 0 waits in MPI_Bcast for rank 3, which computes"},
	} {
		full := coordsrv.Status{Running: 20500 * time.Millisecond, Status: st}
		if found := stage(full); found != want {
			t.Errorf("found %q, wanted %q", found, want)
		}
		if found := psRow(full)[4]; found != want {
			t.Errorf("ps: found %q, wanted %q", found, want)
		}
	}
}
