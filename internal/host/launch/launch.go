// Package launch finds the MPIs of this machine and starts ranks with their launchers.
//
// It guarantees: the application's environment is that of the byssus that started it, plus what the MPI's launcher and
// the settings listed at Env add; standard input and error are the launcher's own, standard output too or the ranks'
// bytes and nothing else (see output); a SIGTERM that is sent to all processes does not make the launcher end the ranks.
// Which MPI is used is decided once per start: the one asked for, else the one the application was linked against,
// else what there is.
package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/host/elfcheck"
)

// Names of the MPIs.
const (
	MPICH   = "mpich"
	OpenMPI = "openmpi"
)

// ErrNoMPI means that no usable MPI was found.
var ErrNoMPI = errors.New("no MPI found")

// MPI is an installed MPI.
type MPI struct {
	Name    string `json:"name"`
	Mpirun  string `json:"mpirun"`
	Library string `json:"library"`
	Version string `json:"version,omitempty"`
}

// candidates are the launchers' names, most telling first.
var candidates = map[string][]string{
	MPICH:   {"mpirun.mpich", "mpiexec.mpich", "mpiexec.hydra", "mpirun", "mpiexec"},
	OpenMPI: {"mpirun.openmpi", "mpiexec.openmpi", "orterun", "mpirun", "mpiexec"},
}

var libraries = map[string][]string{MPICH: {"libmpich.so.12", "libmpi.so.12"}, OpenMPI: {"libmpi.so.40"}}

// Find looks for one MPI by name.
func Find(name string) (MPI, error) {
	var tried []string
	for _, c := range candidates[name] {
		path, err := exec.LookPath(c)
		if err != nil {
			continue
		}
		kind, version := identify(path)
		if kind != name {
			tried = append(tried, path+" is "+orWhat(kind))
			continue
		}
		lib := library(name, path)
		if lib == "" {
			return MPI{}, fmt.Errorf("launch: %s: %s is there, %s is not: %w", name, path, strings.Join(libraries[name], " or "), ErrNoMPI)
		}
		return MPI{name, path, lib, version}, nil
	}
	why := "none of " + strings.Join(candidates[name], ", ") + " in PATH"
	if len(tried) > 0 {
		why = strings.Join(tried, ", ")
	}
	return MPI{}, fmt.Errorf("launch: %s: %s: %w", name, why, ErrNoMPI)
}

func orWhat(kind string) string {
	if kind == "" {
		return "neither MPICH nor Open MPI"
	}
	return "of " + kind
}

// identify asks a launcher what it is.
func identify(path string) (name, version string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", ""
	}
	text := string(out)
	switch {
	case strings.Contains(text, "HYDRA"):
		name = MPICH
	case strings.Contains(text, "Open MPI") || strings.Contains(text, "OpenRTE"):
		name = OpenMPI
	}
	for _, w := range strings.Fields(text) {
		if w[0] >= '0' && w[0] <= '9' && strings.Contains(w, ".") {
			return name, w
		}
	}
	return name, ""
}

// library finds the MPI's library: next to its launcher, else where libraries are.
func library(name, mpirun string) string {
	real, err := filepath.EvalSymlinks(mpirun)
	if err != nil {
		real = mpirun
	}
	var near []string
	if prefix := filepath.Dir(filepath.Dir(real)); prefix != "/usr" && prefix != "/" {
		near = []string{filepath.Join(prefix, "lib"), filepath.Join(prefix, "lib64")}
	}
	for _, dirs := range [][]string{near, nil} {
		for _, soname := range libraries[name] {
			lib := elfcheck.FindLibrary(soname, dirs...)
			if lib != "" && !ours(lib) && (dirs == nil || slices.Contains(dirs, filepath.Dir(lib))) {
				return lib
			}
		}
	}
	return ""
}

// ours says whether a library is one of Byssus's faces, which stand in for an MPI's library under its name.
func ours(lib string) bool {
	dir, err := LibDir()
	return err == nil && strings.HasPrefix(lib, dir+string(filepath.Separator))
}

// Choose finds the MPI to use: want is a name or "auto"; face is what the application was linked against, or empty.
func Choose(want, face string) (MPI, error) {
	order := []string{want}
	switch {
	case want == "" || want == "auto":
		order = []string{MPICH, OpenMPI}
		if face == OpenMPI {
			order = []string{OpenMPI, MPICH}
		}
	case candidates[want] == nil:
		return MPI{}, fmt.Errorf("launch: MPI %q, wanted auto, mpich or openmpi", want)
	}
	var errs []error
	for _, name := range order {
		m, err := Find(name)
		if err == nil {
			return m, nil
		}
		errs = append(errs, err)
	}
	return MPI{}, errors.Join(errs...)
}

// LibDir is where byssus-rank and the faces are: $BYSSUS_LIBDIR, or ../lib/byssus from the executable.
func LibDir() (string, error) {
	if dir := os.Getenv("BYSSUS_LIBDIR"); dir != "" {
		return filepath.Abs(dir)
	}
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return "", fmt.Errorf("launch: own executable: %w", err)
	}
	return filepath.Join(filepath.Dir(filepath.Dir(exe)), "lib", "byssus"), nil
}

// RankProgram is the path of byssus-rank.
func RankProgram(libDir string) (string, error) {
	path := filepath.Join(libDir, "byssus-rank")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("launch: rank program: %w (set BYSSUS_LIBDIR when it was moved)", err)
	}
	return path, nil
}

// Saving is how ranks save their memory.
type Saving struct {
	Writers int // threads of a rank
	Policy  string
	NoFiles bool   // what is read and written in place is not saved
	Refused string // what a call of a refused function does: end the job, or error
	Lazy    bool
}

// AsItIs is what is to know of a program that is not led.
type AsItIs struct {
	Plain    bool   // App is started as it is
	Recovers bool   // the launcher goes on when a rank has died; Open MPI's
	Script   bool   // App is run once, and starts launchers by itself
	Preload  string // a library for it; empty: none
	Clients  string // socket of the agent for programs that hand files to be kept
}

// Spec is what to start.
type Spec struct {
	MPI     MPI
	Ranks   int
	Program string   // byssus-rank
	Args    []string // options for the launcher
	App     []string // to start
	Restart string   // the directory of an image to go on from; of the application itself, or of a program that it starts. Empty: none
	Job     string
	Face    string
	LibDir  string
	RunDir  string // of this start: agent.sock, page.N
	Agent   string
	Memory  string // directory in which Open MPI's ranks of a node have the memory that they share, which goes with the start; empty: its own
	Number  uint64 // of this start
	Fault   string
	Verbose bool
	Saving
	AsItIs
}

// Command returns the launcher's command line.
func (s Spec) Command() []string {
	if s.Script {
		return s.App
	}
	args := []string{s.MPI.Mpirun}
	if s.MPI.Name == OpenMPI {
		if s.oversubscribed() {
			args = append(args, "--oversubscribe")
		}
		args = append(args, "--mca", "btl_base_warn_component_unused", "0")
		// Under Byssus all ranks wait for ever in MPI_Dist_graph_create, in a third of the runs, when treematch makes the graph.
		args = append(args, "--mca", "topo", "^treematch")
		if s.Recovers {
			args = append(args, "--enable-recovery")
		}
		if s.oversubscribed() {
			args = append(args, "--mca", "mpi_yield_when_idle", "1")
		}
	}
	if s.separate() {
		args = append(args, "-outfile-pattern", filepath.Join(s.RunDir, outputName))
	}
	args = append(args, "-n", strconv.Itoa(s.Ranks))
	return append(append(args, s.Args...), s.RankCommand()...)
}

// RankCommand is what each rank is.
func (s Spec) RankCommand() []string {
	if s.Plain {
		return s.App
	}
	if s.Restart != "" {
		return append([]string{s.Program, "--restart", s.Restart, "--"}, s.App...)
	}
	return append([]string{s.Program, "--"}, s.App...)
}

func (s Spec) oversubscribed() bool { return s.Ranks > runtime.NumCPU() }

// Env returns base with what the ranks need. byssus-rank takes every BYSSUS_ variable out of the application's
// environment again, but those that its user has for libraries of ours in it (var_is_ours). Settings of the MPIs that the user has made
// already are left alone:
//
//	UCX_HANDLE_ERRORS=none, UCX_ERROR_SIGNALS=   signals of the application stay the application's
//	UCX_TCP_KEEPIDLE=inf, UCX_KEEPALIVE_INTERVAL=inf   that a node is silent is noticed by its agent (--silent-after)
//	UCX_MEM_EVENTS=no, FI_MR_CACHE_MONITOR=disabled, OMPI_MCA_mpi_leave_pinned=0
//	                                             memory of the application is not registered with the network for longer than a
//	                                             message: the libraries do not see when it is unmapped, as it is not they who do it
//	MPIR_CVAR_POLLS_BEFORE_YIELD=1               MPICH with more ranks than cores
//	OMPI_MCA_btl_vader_backing_directory         one that is removed: ranks that are killed leave what they have in /dev/shm
//	OMPI_ALLOW_RUN_AS_ROOT(_CONFIRM)=1           Open MPI as root, which it would refuse to start
func (s Spec) Env(base []string) []string {
	var env []string
	for _, kv := range base {
		if !strings.HasPrefix(kv, "BYSSUS_") || strings.HasPrefix(kv, "BYSSUS_AMT_") || strings.HasPrefix(kv, "BYSSUS_HANDOVER_") {
			env = append(env, kv)
		}
	}
	set := func(k, v string) { env = append(env, k+"="+v) }
	def := func(k, v string) {
		for _, kv := range env {
			if strings.HasPrefix(kv, k+"=") {
				return
			}
		}
		set(k, v)
	}
	def("UCX_HANDLE_ERRORS", "none")
	def("UCX_ERROR_SIGNALS", "")
	def("UCX_MEM_EVENTS", "no")
	def("UCX_TCP_KEEPIDLE", "inf")
	def("UCX_KEEPALIVE_INTERVAL", "inf")
	def("FI_MR_CACHE_MONITOR", "disabled")
	def("OMPI_MCA_mpi_leave_pinned", "0")
	if s.MPI.Name == MPICH && s.oversubscribed() {
		def("MPIR_CVAR_POLLS_BEFORE_YIELD", "1")
	}
	if (s.MPI.Name == OpenMPI || s.Script) && os.Getuid() == 0 {
		def("OMPI_ALLOW_RUN_AS_ROOT", "1")
		def("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
	}
	if s.MPI.Name == OpenMPI && s.Memory != "" {
		def("OMPI_MCA_btl_vader_backing_directory", s.Memory)
	}
	set("BYSSUS_CLIENTS", s.Clients)
	if s.Plain {
		if s.Preload != "" {
			env = preload(env, s.Preload)
		}
		return env
	}
	set("BYSSUS_AGENT", s.Agent)
	set("BYSSUS_RUNDIR", s.RunDir)
	set("BYSSUS_JOB", s.Job)
	set("BYSSUS_START_NUMBER", strconv.FormatUint(s.Number, 10))
	set("BYSSUS_LIBMPI", s.MPI.Library)
	set("BYSSUS_FACE", s.Face)
	set("BYSSUS_LIBDIR", s.LibDir)
	set("BYSSUS_NRANKS", strconv.Itoa(s.Ranks))
	set("BYSSUS_WRITERS", strconv.Itoa(s.Writers))
	set("BYSSUS_POLICY", s.Policy)
	set("BYSSUS_SAVE_FILES", flag(!s.NoFiles))
	set("BYSSUS_REFUSED", s.Refused)
	set("BYSSUS_LAZY", flag(s.Lazy))
	set("BYSSUS_VERBOSE", flag(s.Verbose))
	if s.Fault != "" {
		set("BYSSUS_FAULT", s.Fault)
	}
	return env
}

// preload puts a library before those that the user has preloaded.
func preload(env []string, lib string) []string {
	for i, kv := range env {
		if old, ok := strings.CutPrefix(kv, "LD_PRELOAD="); ok {
			env[i] = "LD_PRELOAD=" + lib + ":" + old
			return env
		}
	}
	return append(env, "LD_PRELOAD="+lib)
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
