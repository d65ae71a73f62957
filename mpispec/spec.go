// Package mpispec holds the C API of MPI as text and reads it.
//
// It guarantees that every function and every constant that the faces, the drivers and the commands of Byssus know
// comes from one description: the files *.mpi (functions, a file per chapter of the standard) and abi/*.txt (handles
// and constants of each ABI). What Load returns has been checked: names are unique, kinds are known, lengths of
// arrays name parameters, reasons and aliases exist.
//
// A function is one line:
//
//	action flags  MPI_Name(dir KIND name[length], ...) -> KIND +c
//
// The action is wrap (crosses to the middle), local (answered in the face), refuse REASON, or alias (alias MPI_A =
// MPI_B). Flags: recall or resume say what the face does when a checkpoint interrupts the call, driver asks for an
// entry in the table of the real library, hot says that the slot's function is in rank/mpi/driver/hot.inc.c, fast that
// the face's function is in rank/mpi/face/face_fast.inc.c, which takes what is not common to the generated one, hand that
// the face's function is written by hand, mpich or openmpi that only this ABI has it. The direction is nothing (in), out, inout, or ref (passed by address but only read). A
// question mark after BUFFER: MPI_IN_PLACE may be given. +c: MPI 4 has a large-count variant MPI_Name_c, refused.
// The length of an array is a parameter, * where nobody needs it, sum:NAME (of the elements of NAME), size:COMM (its
// processes), in:COMM or out:COMM (the neighbours that one receives from or sends to), or SET<=ROOM.
//
// A reason is one line: reason NAME [answers CONSTANT|returns|ends]: TEXT; see Reason. abi/taken.txt adds the functions
// that only the libraries of an MPI themselves call.
//
// To add a function: write its line in the file of its chapter, run go generate ./mpispec, and write mid_name in rank/mpi.
package mpispec

//go:generate go run ../cmd/mpistubgen -root ..

import (
	"embed"
	"slices"
	"strings"
)

//go:embed *.mpi abi/*.txt
var files embed.FS

// Action says what a face does with a call.
type Action int

// The actions.
const (
	Wrap   Action = iota // cross to the middle
	Local                // answer in the face
	Refuse               // report an error with a reason
)

// Yield says how a wrapped call goes on after a checkpoint has interrupted it.
type Yield int

// The yields.
const (
	None   Yield = iota // the call never waits
	Recall              // the same crossing is made again
	Resume              // the call is continued through its nx_cont
)

// Dir is the direction of a parameter.
type Dir int

// The directions.
const (
	In Dir = iota
	Out
	InOut
	Ref // passed by address, read only
)

// Param is one parameter of a function.
type Param struct {
	Dir   Dir
	Kind  string // COMM, COUNT, BUFFER ...
	Place bool   // a buffer that may be MPI_IN_PLACE
	Name  string
	Len   string // "" for a scalar, else the length of the array as written
}

// Array says whether the parameter is an array of values (a string is not).
func (p Param) Array() bool { return p.Len != "" && p.Kind != "STRING" }

// Function is one function of the API.
type Function struct {
	Name    string // with prefix: MPI_Send
	Chapter string // file that describes it, without suffix
	Action  Action
	Yield   Yield
	Driver  bool   // has an entry in the driver's table
	Hot     bool   // its common case is compiled into each driver
	Fast    bool   // the face has a way of its own for its common case
	Hand    bool   // the face's function is written by hand
	ABI     string // "" or the only ABI that has it
	Reason  string // name of the reason when refused
	Alias   string // function whose body it shares, or ""
	Large   bool   // this is the large-count variant of another function
	Params  []Param
	Returns string // kind of the result, "" for an error code
}

// Short is the name without its prefix and in lower case: "send".
func (f *Function) Short() string {
	return strings.ToLower(strings.TrimPrefix(f.Name, "MPI_"))
}

// Profiled says that the function also has the name that starts with P.
func (f *Function) Profiled() bool {
	return strings.HasPrefix(f.Name, "MPI_") || strings.HasPrefix(f.Name, "MPIX_")
}

// In says whether an ABI has the function.
func (f *Function) In(abi string) bool { return f.ABI == "" || f.ABI == abi }

// HasParam reports whether a parameter is called that.
func (f *Function) HasParam(name string) bool {
	return slices.ContainsFunc(f.Params, func(p Param) bool { return p.Name == name })
}

// How says what a refused function does for a program that handles errors (--refused=error).
type How int

// The ways.
const (
	Raises  How = iota // it calls the communicator's error handler
	Returns            // it returns the error: the default error handler of files is MPI_ERRORS_RETURN
	Ends               // it ends the job even so: its caller would not look at an error
)

// Reason is why functions are refused.
type Reason struct {
	Name   string
	Text   string // a clause for the user: "one-sided communication is not supported yet"
	Answer string // constant that the function returns at once, which the standard allows it always; or ""
	How    How
}

// Spec is the whole API.
type Spec struct {
	Functions []*Function // in the order of the files (by name) and lines
	Reasons   map[string]Reason
	ABI       *ABI
	byName    map[string]*Function
	lower     map[string]*Function // the same by names in lower case: Fortran has no other
}

// Function finds a function by its full name, or nil.
func (s *Spec) Function(name string) *Function { return s.byName[name] }

// RefusedReason says why calls of name (MPI_ or PMPI_, or an entry point of the Fortran interface) are refused; false if they are not.
func (s *Spec) RefusedReason(name string) (string, bool) {
	f := s.byName[strings.TrimPrefix(name, "P")]
	if f == nil {
		f = s.OfFortran(name)
	}
	if f == nil || f.Action != Refuse {
		return "", false
	}
	return s.Reasons[f.Reason].Text, true
}

// Load reads the description that is built into the program.
func Load() (*Spec, error) { return Parse(files) }
