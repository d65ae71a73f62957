package launch

import (
	"strings"
	"testing"
)

const (
	dashes = "--------------------------------------------------------------------------\n"
	equals = "===================================================================================\n"
	ended  = "\n" + equals + "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   EXIT CODE: 9\n" + equals +
		"YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n" +
		"This typically refers to a problem with your application.\nPlease see the FAQ page for debugging suggestions\n"
	primary = dashes + "Primary job  terminated normally, but 1 process returned\na non-zero exit code. Per user-direction, the job has been aborted.\n" + dashes
	noticed = dashes + "mpirun.openmpi noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).\n" + dashes
	slots   = dashes + "There are not enough slots available in the system to satisfy the 50\nslots that were requested by the application:\n\n  ./app\n" + dashes
)

func TestWords(t *testing.T) {
	for name, c := range map[string]struct{ says, told, held string }{
		"nothing":            {},
		"hydra":              {ended, "", ended},
		"hydra's error":      {"[mpiexec@vm] HYDU_sock_write: error\n" + ended + "\nmore\n", "[mpiexec@vm] HYDU_sock_write: error\n\nmore\n", ended},
		"mpirun":             {primary + noticed, "", primary + noticed},
		"mpirun's error":     {slots + primary, slots, primary},
		"text between":       {"a\n" + primary + "b\n" + noticed + "c", "a\nb\nc", primary + noticed},
		"cut off":            {dashes + "mpirun noticed that process rank 1", dashes + "mpirun noticed that process rank 1", ""},
		"an empty line":      {"\n\n\nx\n", "\n\n\nx\n", ""},
		"an empty line last": {"x\n\n", "x\n\n", ""},
		"short dashes":       {"---\nnoticed that process rank 1\n---\n", "---\nnoticed that process rank 1\n---\n", ""},
	} {
		var told strings.Builder
		w := &words{}
		w.sort(strings.NewReader(c.says), &told)
		if told.String() != c.told || string(w.held) != c.held {
			t.Errorf("%s: told %q, held %q, wanted %q, %q", name, told.String(), w.held, c.told, c.held)
		}
	}
}
