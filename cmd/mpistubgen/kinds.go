package main

import "github.com/byssus-hpc/byssus/mpispec"

// class is how values of a kind travel.
type class int

const (
	plain   class = iota // an integer that means the same everywhere
	wide                 // a 64-bit integer that means the same everywhere
	handle               // an object
	mapped               // an integer with other values in other ABIs
	buffer               // an address of data
	status               // MPI_Status
	text                 // characters
	address              // an address that means the same everywhere
	weights              // an address with special values
	callback
)

// kind is what the generator knows about a kind of parameter.
type kind struct {
	class  class
	object string // of a handle: the kind in objects.txt
	group  string // of mapped values: the group in constants.txt
	ctype  string // of addresses: the C type when it is an input
}

var kinds = map[string]kind{
	"COUNT": {class: plain}, "DISPL": {class: plain}, "INT": {class: plain}, "INDEX": {class: plain}, "LOGICAL": {class: plain}, "TAG": {class: plain},
	"FINT": {class: plain},
	"AINT": {class: wide}, "XCOUNT": {class: wide}, "OFFSET": {class: wide},
	"COMM": {class: handle, object: "comm"}, "GROUP": {class: handle, object: "group"},
	"REQUEST": {class: handle, object: "request"}, "MESSAGE": {class: handle, object: "message"},
	"OP": {class: handle, object: "op"}, "INFO": {class: handle, object: "info"},
	"DATATYPE": {class: handle, object: "datatype"}, "ERRHANDLER": {class: handle, object: "errhandler"},
	"KEYVAL": {class: handle, object: "keyval"}, "WIN": {class: handle, object: "win"},
	"FILE": {class: handle, object: "file"}, "SESSION": {class: handle, object: "session"},
	"RANK": {class: mapped, group: "rank"}, "ERROR": {class: mapped, group: "error"},
	"THREAD": {class: mapped, group: "thread"}, "COMPARE": {class: mapped, group: "compare"},
	"TOPOLOGY": {class: mapped, group: "topology"}, "SPLIT": {class: mapped, group: "split"},
	"ORDER": {class: mapped, group: "order"}, "DISTRIB": {class: mapped, group: "distrib"},
	"DARG": {class: mapped, group: "darg"}, "COMBINER": {class: mapped, group: "combiner"},
	"TYPECLASS": {class: mapped, group: "typeclass"},
	"BUFFER":    {class: buffer}, "STATUS": {class: status}, "STRING": {class: text}, "WEIGHTS": {class: weights},
	"POINTER": {class: address, ctype: "void *"}, "EXTRA": {class: address, ctype: "void *"},
	"ATTRIBUTE": {class: address, ctype: "void *"}, "ARGC": {class: address, ctype: "int"},
	"DOUBLE": {class: address, ctype: "double"},
	"ARGV":   {class: address, ctype: "char **"},
	"OP_FN":  {class: callback}, "COMM_COPY_FN": {class: callback}, "COMM_DELETE_FN": {class: callback},
	"TYPE_COPY_FN": {class: callback}, "TYPE_DELETE_FN": {class: callback}, "COMM_ERR_FN": {class: callback},
}

// kindOf finds what a parameter is. Parameters of refused functions are never looked at.
func kindOf(p mpispec.Param) kind { return kinds[p.Kind] }

// declare joins a C type and a name.
func declare(ctype, name string) string {
	if ctype[len(ctype)-1] == '*' {
		return ctype + name
	}
	return ctype + " " + name
}

// neutralType is the C type of a parameter between face, middle (handles nx_t) and driver (handles rh_t).
func neutralType(p mpispec.Param, handleType string) string {
	k := kindOf(p)
	base := map[class]string{plain: "int", mapped: "int", wide: "nx_aint", handle: handleType}[k.class]
	switch k.class {
	case plain, mapped, wide, handle:
		return pass(p, base)
	case buffer:
		return constIf(p.Dir == mpispec.In, "void *")
	case status:
		return constIf(p.Dir == mpispec.In, "nx_status *")
	case text:
		return constIf(p.Dir == mpispec.In, "char *")
	case weights:
		return constIf(p.Dir == mpispec.In, "int *")
	case callback:
		return "void *"
	}
	if p.Dir == mpispec.In {
		return k.ctype
	}
	return pointer(k.ctype)
}

// pass says how a value of a base type is passed: a value that is only read travels by value.
func pass(p mpispec.Param, base string) string {
	switch {
	case p.Array():
		return constIf(p.Dir == mpispec.In, base+" *")
	case p.Dir == mpispec.In || p.Dir == mpispec.Ref:
		return base
	}
	return base + " *"
}

func pointer(ctype string) string {
	if ctype[len(ctype)-1] == '*' {
		return ctype + "*"
	}
	return ctype + " *"
}

func constIf(yes bool, ctype string) string {
	if yes {
		return "const " + ctype
	}
	return ctype
}
