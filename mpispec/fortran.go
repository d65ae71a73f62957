package mpispec

import "strings"

// Form is how an argument of MPI's Fortran interface differs from the C one (MPI-4.1 chapter 19): all are passed by reference, handles are
// integers, and beside that what the forms say.
type Form int

// The forms.
const (
	Same    Form = iota // an integer, or an array of them, as in C
	Address             // an integer of the size of an address
	Default             // a default integer where C has an address: functions of MPI-1
	Logical             // .true. and .false.; in C an int
	Handle              // an integer that stands for an object
	Choice              // a buffer of any type; MPI_BOTTOM and MPI_IN_PLACE are places
	Status              // as in C, but MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE are places
	Weights             // as in C, but MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY are places
	Text                // without a zero, padded with blanks; its length follows all arguments
	Index               // counted from 1
	Other               // a callback, an attribute, an address that is set: each in its own way
)

var forms = map[string]Form{
	"AINT": Address, "XCOUNT": Address, "OFFSET": Address, "LOGICAL": Logical, "BUFFER": Choice, "STATUS": Status,
	"WEIGHTS": Weights, "STRING": Text, "INDEX": Index,
	"COMM": Handle, "GROUP": Handle, "REQUEST": Handle, "MESSAGE": Handle, "OP": Handle, "INFO": Handle,
	"DATATYPE": Handle, "ERRHANDLER": Handle, "WIN": Handle, "FILE": Handle, "SESSION": Handle,
	"COUNT": Same, "DISPL": Same, "INT": Same, "RANK": Same, "TAG": Same, "ERROR": Same, "KEYVAL": Same, "THREAD": Same,
	"COMPARE": Same, "TOPOLOGY": Same, "SPLIT": Same, "ORDER": Same, "DISTRIB": Same, "DARG": Same, "COMBINER": Same,
	"TYPECLASS": Same,
}

// Form is how Fortran passes a parameter of a function.
func (f *Function) Form(p Param) Form {
	form, known := forms[p.Kind]
	switch {
	case !known:
		return Other
	case form == Address && f.Chapter == "deprecated":
		return Default
	}
	return form
}

// FortranArguments are those that Fortran passes: MPI_Init has none there.
func (f *Function) FortranArguments() []Param {
	var list []Param
	for _, p := range f.Params {
		if p.Kind != "ARGC" && !(p.Kind == "ARGV" && f.HasParam("argc")) && p.Kind != "VARARGS" {
			list = append(list, p)
		}
	}
	return list
}

// OfFortran finds the function behind an entry point of the Fortran libraries (mpi_send, mpi_send_, pmpi_send_f08_), nil: there is none.
func (s *Spec) OfFortran(name string) *Function {
	name = strings.TrimRight(strings.TrimPrefix(name, "p"), "_")
	if i := strings.Index(name, "_f08"); i > 0 {
		name = name[:i]
	}
	name = strings.TrimSuffix(name, "_cptr")
	if name != strings.ToLower(name) {
		return nil
	}
	return s.lower[name]
}
