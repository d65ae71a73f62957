package matrix

import (
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/byssus-hpc/byssus/test/harness"
)

// program is a test program as the matrix uses it. Its pace is chosen so that an iteration has time in and out of MPI.
func program(name string) harness.Program {
	switch name {
	case "straggler":
		return harness.Program{Name: name, Args: []string{"--pace", "300000"}}
	default:
		return harness.Program{Name: name, Args: []string{"--pace", "10000"}}
	}
}

// programs are all of the matrix.
func programs() []string {
	return append([]string{
		"p2p_storm", "coll_storm", "nbcoll", "types", "comm_churn", "comm_free", "threads", "straggler", "files_pipes", "memory", "children", "sparse_exchange",
		"shared_memory", "shared_files", "in_place", "log_each_step", "unfinished", "file_locks",
		"descriptors", "cxx_except", "omp",
		"completions", "persistent", "sendmodes", "cart", "stencil", "cg", "fft_transpose", "particles", "heartbeat", "signal_storm", "py_mpi4py.py", "py_sqlite.py",
		"neighbors", "nbcoll_storm", "thread_colls", "thread_bsend", "large",
	}, fortranPrograms("")...)
}

// faces are the MPIs that a program is there for: Debian's mpi4py is an Open MPI program.
func faces(name string) []string {
	if filepath.Ext(name) == ".py" {
		return []string{"openmpi"}
	}
	return harness.MPIs()
}

func plans(seed uint64) []harness.Plan {
	if long() {
		return everything(seed)
	}
	return selection(seed)
}

// everything is the whole matrix: programs x face x driver x restart driver x ranks. It is shuffled, so that the part
// done at any time is a sample of all.
func everything(seed uint64) []harness.Plan {
	var all []harness.Plan
	for _, name := range programs() {
		for _, face := range faces(name) {
			for _, driver := range harness.MPIs() {
				for _, restart := range harness.MPIs() {
					for _, n := range []int{2, 4, 8} {
						all = append(all, harness.Plan{Program: program(name), Face: face, Driver: driver, Restart: restart, Ranks: n, Cycles: 2})
					}
				}
			}
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all
}

// sampled says whether a combination belongs to a sample of half of them, i being the sum of the numbers of its values: all of one
// parity, which have every pair of values. The seed says which.
func sampled(i int) bool { return long() || (uint64(i)+*seed)%2 == 0 }

func long() bool { return os.Getenv("BYSSUS_TEST_LONG") != "" }

// selection is a part of everything that takes minutes. It has all pairs of program, face, driver and restart driver: of each program
// two jobs, of which the second has the other face, driver and restart driver. The seed says which, and which have more ranks. A commit
// runs one of the two (harness.Chosen).
func selection(seed uint64) []harness.Plan {
	var some []harness.Plan
	random := rand.New(rand.NewPCG(seed, 1))
	mpis := harness.MPIs()
	for i, name := range programs() {
		n := 2
		if random.IntN(4) == 0 {
			n = 4
		}
		driver, restart := random.IntN(2), random.IntN(2)
		for k, face := range faces(name) {
			if len(faces(name)) > 1 && !harness.Chosen(i+k) {
				continue
			}
			some = append(some, harness.Plan{Program: program(name), Face: face, Driver: mpis[(driver+k)%2], Restart: mpis[(restart+k)%2],
				Ranks: n, Cycles: 2})
		}
	}
	return some
}
