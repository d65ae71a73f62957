package amt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/byssus-hpc/byssus/amt/internal/mpiwire"
	"github.com/byssus-hpc/byssus/internal/engine/mpilib"
)

// RanksVariable says on how many ranks Run runs a program that no launcher of MPI has started; 4 if it is not set.
const RanksVariable = "BYSSUS_AMT_RANKS"

const defaultRanks = 4

// Run runs a program: on the ranks of an MPI job if a launcher of MPI has started this process, else on ranks that are
// goroutines of it (RunLocal). It returns when the main function has returned on all ranks and everything that was begun is
// done. Under MPI, Go's scheduler gets as many processors as the node has for each rank, unless GOMAXPROCS says otherwise.
// After an error there nothing is finalized: the process should end, as Main has it.
func Run(main func(Context) error) error {
	if library := mpilib.Launched(); library != "" {
		return runMPI(library, main)
	}
	n := defaultRanks
	if text := os.Getenv(RanksVariable); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			return fmt.Errorf("amt: %s=%s: a number of ranks is wanted, at least 1", RanksVariable, text)
		}
	}
	return RunLocal(n, main)
}

// Main is Run for a program's main function: it prints the error, if there is one, and ends all ranks with exit code 1.
func Main(main func(Context) error) {
	err := Run(main)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	if mpilib.Name() != "" {
		mpilib.Abort(1)
	}
	os.Exit(1)
}

// runMPI runs a program on the ranks of an MPI job.
func runMPI(library string, main func(Context) error) error {
	handlers, err := table()
	if err != nil {
		return err
	}
	if err := mpilib.Load(library); err != nil {
		return fmt.Errorf("amt: %w", err)
	}
	rank, ranks, err := mpilib.Init()
	if err != nil {
		return fmt.Errorf("amt: %w", err)
	}
	forgetTrace(rank)
	if err := sameTable(rank, ranks, handlers); err != nil {
		return errors.Join(err, mpilib.Finalize()) // all ranks know: none is to be aborted while it says so
	}
	r, w, err := openMPI(rank, ranks, handlers)
	if err != nil {
		return err
	}
	defer r.exited(func(err error) { // nobody can be given this
		fmt.Fprintln(os.Stderr, err)
		mpilib.Abort(1)
	})
	if err := r.run(main); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("amt: rank %d: %w", rank, err)
	}
	return mpilib.Finalize()
}

// openMPI makes the runtime on a rank of an MPI job.
func openMPI(self, ranks int, handlers []*entry) (*rank, *mpiwire.Wire, error) {
	e, err := mpilib.NewEngine()
	if err != nil {
		return nil, nil, fmt.Errorf("amt: rank %d: %w", self, err)
	}
	if os.Getenv("GOMAXPROCS") == "" { // more threads than processors would only take them from each other
		runtime.GOMAXPROCS(max(1, e.Share()))
	}
	w, err := mpiwire.New(e, self, ranks)
	if err != nil {
		return nil, nil, fmt.Errorf("amt: rank %d: %w", self, err)
	}
	r, err := newRank(w, e, handlers)
	return r, w, err
}

// sameTable makes sure that all ranks run the same build, with the same handlers: their numbers are in messages. If not, all ranks
// know the first rank that differs from rank 0, and in what.
func sameTable(rank, ranks int, handlers []*entry) error {
	var lines strings.Builder
	for _, e := range handlers {
		fmt.Fprintf(&lines, "%v; %d bytes\n", e, e.message.Size())
	}
	fmt.Fprintf(&lines, "the build with the id %s\n", buildID())
	mine := lines.String()
	h := fnv.New64a()
	h.Write([]byte(mine))
	head := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, h.Sum64()), uint64(len(mine)))
	first := bytes.Clone(head)
	if err := mpilib.Bcast(first, 0); err != nil {
		return fmt.Errorf("amt: rank %d: %w", rank, err)
	}
	other := ranks
	if !bytes.Equal(first, head) {
		other = rank
	}
	other, err := mpilib.Least(other)
	if err != nil || other == ranks {
		return err
	}
	theirs := make([]byte, max(1, binary.LittleEndian.Uint64(first[8:])))
	copy(theirs, mine)
	text := make([]byte, 1<<10)
	if err = mpilib.Bcast(theirs, 0); err == nil {
		copy(text, firstDifference(mine, string(theirs)))
		err = mpilib.Bcast(text, other)
	}
	if err != nil {
		return fmt.Errorf("amt: rank %d: %w", rank, err)
	}
	return fmt.Errorf("amt: rank %d runs another program than rank 0: the first that differs is %s", other, bytes.TrimRight(text, "\x00"))
}

// firstDifference tells the first line that two texts do not share.
func firstDifference(mine, theirs string) string {
	a, b := strings.Split(mine, "\n"), strings.Split(theirs, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%q there, %q on rank 0", a[i], b[i])
		}
	}
	return fmt.Sprintf("number %d", min(len(a), len(b)))
}
