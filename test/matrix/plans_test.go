package matrix

import (
	"math/rand/v2"
	"os"

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
	return []string{
		"p2p_storm", "coll_storm", "nbcoll", "types", "comm_churn", "comm_free", "threads", "straggler", "files_pipes", "memory", "children", "sparse_exchange",
		"shared_memory", "shared_files", "file_locks",
		"descriptors", "cxx_except", "omp",
		"completions", "persistent", "sendmodes", "cart", "stencil", "cg", "fft_transpose", "particles", "heartbeat", "signal_storm", "py_mpi4py.py",
		"neighbors", "nbcoll_storm", "thread_colls", "large",
	}
}

// faces are the MPIs that a program is there for: Debian's mpi4py is an Open MPI program.
func faces(name string) []string {
	if name == "py_mpi4py.py" {
		return []string{"openmpi"}
	}
	return harness.MPIs()
}

func plans(seed uint64) []harness.Plan {
	if os.Getenv("BYSSUS_TEST_LONG") != "" {
		return everything(seed)
	}
	return selection()
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

// selection is a part of everything that takes minutes: each program with each face, the drivers in turn, some with more
// ranks.
func selection() []harness.Plan {
	var some []harness.Plan
	for i, name := range programs() {
		n := 2
		if i%4 == 3 {
			n = 4
		}
		for k, face := range faces(name) {
			driver, restart := face, harness.Other(face)
			if (i+k)%3 == 1 {
				driver, restart = restart, face
			} else if (i+k)%3 == 2 {
				restart = driver
			}
			some = append(some, harness.Plan{Program: program(name), Face: face, Driver: driver, Restart: restart, Ranks: n, Cycles: 2})
		}
	}
	return some
}
