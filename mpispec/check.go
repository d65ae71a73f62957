package mpispec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// kinds lists every kind of parameter with what it is.
var kinds = map[string]string{
	"BUFFER": "address of message data", "COUNT": "int number of elements, MPI_Count in a _c function",
	"DISPL": "int displacement, MPI_Aint in a _c function", "INT": "int that means the same everywhere",
	"INDEX":   "index into an array of the call, from 0 in C and 1 in Fortran",
	"LOGICAL": "int truth value", "RANK": "rank or one of its special values", "TAG": "tag or MPI_ANY_TAG",
	"AINT": "MPI_Aint", "XCOUNT": "MPI_Count", "OFFSET": "MPI_Offset", "ERROR": "error class or code",
	"COMM": "handle", "GROUP": "handle", "REQUEST": "handle", "MESSAGE": "handle", "OP": "handle", "INFO": "handle",
	"DATATYPE": "handle", "ERRHANDLER": "handle", "KEYVAL": "handle", "WIN": "handle", "FILE": "handle", "SESSION": "handle",
	"STATUS": "MPI_Status", "STRING": "characters", "POINTER": "address that the call sets", "EXTRA": "extra state of a callback",
	"ATTRIBUTE": "value of an attribute", "WEIGHTS": "weights of edges or a special address",
	"THREAD": "level of thread support", "COMPARE": "result of a comparison", "TOPOLOGY": "kind of topology",
	"SPLIT": "split type", "ORDER": "storage order", "DISTRIB": "distribution", "DARG": "argument of a distribution",
	"COMBINER": "combiner", "TYPECLASS": "type class", "ARGC": "argument count", "ARGV": "argument list",
	"OP_FN": "callback", "COMM_COPY_FN": "callback", "COMM_DELETE_FN": "callback", "TYPE_COPY_FN": "callback",
	"TYPE_DELETE_FN": "callback", "COMM_ERR_FN": "callback", "FN": "callback of a function that is refused",
	"FINT": "Fortran integer", "FSTATUS": "Fortran status", "FSTATUS08": "mpi_f08 status", "DOUBLE": "seconds",
	"VARARGS": "further arguments", "STRING_ARRAY": "list of strings", "STRING_2DARRAY": "list of lists of strings",
	"TOOL": "object of the tool information interface",
}

// KnownKind says whether a kind of parameter exists.
func KnownKind(k string) bool { return kinds[k] != "" }

// check verifies what the reader of one line cannot see.
func (s *Spec) check() error {
	for _, f := range s.Functions {
		if err := s.checkFunction(f); err != nil {
			return fmt.Errorf("mpispec: function %s: %w", f.Name, err)
		}
	}
	return nil
}

func (s *Spec) checkFunction(f *Function) error {
	if _, ok := s.Reasons[f.Reason]; f.Action == Refuse && !ok {
		return fmt.Errorf("reason %q: not given", f.Reason)
	}
	if f.Yield != None && f.Action != Wrap {
		return fmt.Errorf("yields, but is not wrapped")
	}
	if f.Returns != "" && !KnownKind(f.Returns) {
		return fmt.Errorf("result: kind %q: unknown", f.Returns)
	}
	for _, p := range f.Params {
		if !KnownKind(p.Kind) {
			return fmt.Errorf("parameter %s: kind %q: unknown", p.Name, p.Kind)
		}
		if err := s.checkLength(f, p); err != nil {
			return err
		}
	}
	return nil
}

var word = regexp.MustCompile(`[A-Za-z_]\w*`)

// checkLength verifies that the names in the length of an array are parameters or string limits.
func (s *Spec) checkLength(f *Function, p Param) error {
	names := word.FindAllString(p.Len, -1)
	if rule, _, ok := strings.Cut(p.Len, ":"); ok {
		if !slices.Contains([]string{"sum", "size", "in", "out"}, rule) {
			return fmt.Errorf("parameter %s: length %q: want sum:, size:, in: or out: before the name", p.Name, p.Len)
		}
		names = names[1:]
	}
	for _, n := range names {
		if !f.HasParam(n) && !s.ABI.hasLength(n) {
			return fmt.Errorf("parameter %s: length %q: no parameter %s", p.Name, p.Len, n)
		}
	}
	return nil
}

func (a *ABI) hasLength(name string) bool {
	for _, c := range a.Group("length") {
		if c.Name == name {
			return true
		}
	}
	return false
}
