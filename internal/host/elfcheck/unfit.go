package elfcheck

import (
	"debug/elf"
	"strings"
)

// Unfit is something that keeps a program from running above a face, where it would give wrong results in silence. The face finds
// the same in the process, at MPI_Init (rank/mpi/face/fit.inc.c).
type Unfit struct {
	What   string `json:"what"` // a library, a symbol or a program
	Reason string `json:"reason"`
	By     string `json:"by"` // what has it
}

const (
	anotherMPI   = "a library of another MPI than the program's first"
	longIntegers = "compiled with -fdefault-integer-8, and the MPI library has INTEGERs of 4 bytes"
	otherNames   = "Fortran's names are supported in the forms mpi_name_ and mpi_name__ (-funderscoring)"
	newerModule  = "called by a library of Open MPI's for mpi_f08 that is newer than 4.1"
)

// oneInteger are common blocks of mpif.h that hold one INTEGER each.
var oneInteger = map[string]bool{"mpifcmb5_": true, "mpi_fortran_bottom_": true}

// ownFortran is how the library of Open MPI's begins that the face takes the place of.
const ownFortran = "libmpi_mpifh"

// unfitOf adds what is wrong with an object: provider tells which object has a symbol.
func (r *Report) unfitOf(o *object, provider func(name string) *object) {
	if strings.HasPrefix(o.name, ownFortran) {
		return
	}
	for _, s := range o.symbols {
		if s.Section != elf.SHN_UNDEF {
			if !o.ofMPI && oneInteger[s.Name] && s.Size == 8 {
				r.Unfit = append(r.Unfit, Unfit{o.name, longIntegers, o.name})
				return
			}
			continue
		}
		if from := provider(s.Name); from != nil && strings.HasPrefix(from.name, ownFortran) && from.function(s.Name) {
			reason := otherNames
			if strings.HasPrefix(s.Name, "ompi") {
				reason = newerModule
			}
			r.Unfit = append(r.Unfit, Unfit{s.Name, reason, o.name})
			return // the others are like it
		}
	}
}

// function says that an object has a function of that name.
func (o *object) function(name string) bool {
	for _, s := range o.symbols {
		if s.Name == name && s.Section != elf.SHN_UNDEF {
			return elf.ST_TYPE(s.Info) == elf.STT_FUNC
		}
	}
	return false
}
