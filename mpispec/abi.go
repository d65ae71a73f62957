package mpispec

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// The ABIs that have faces and drivers.
const (
	MPICH   = "mpich"
	OpenMPI = "openmpi"
)

func isABI(s string) bool { return s == MPICH || s == OpenMPI }

// Object is a predefined object of MPI.
type Object struct {
	Kind    string // comm, datatype ...
	Name    string // COMM_WORLD, without MPI_
	Neutral int
	MPICH   string // the handle as a C integer, "-", or "~NAME"
	OpenMPI string // the data symbol (keyval: the integer), "-", or "~NAME"
	Fortran string // Fortran integer under Open MPI, or "-"
	Size    int    // of a datatype, in bytes
	Extent  int
	Class   string
}

// Value is the object's handle in an ABI; false if the ABI has no such object.
func (o Object) Value(abi string) (string, bool) { return value(abi, o.MPICH, o.OpenMPI) }

// StandIn names the object that serves instead where the ABI has no such object, or "".
func (o Object) StandIn(abi string) string { return standIn(abi, o.MPICH, o.OpenMPI) }

// value picks the entry of an ABI and says whether it is one of its own.
func value(abi, mpich, openmpi string) (string, bool) {
	v := openmpi
	if abi == MPICH {
		v = mpich
	}
	return v, v != "-" && !strings.HasPrefix(v, "~")
}

func standIn(abi, mpich, openmpi string) string {
	v, _ := value(abi, mpich, openmpi)
	name, ok := strings.CutPrefix(v, "~")
	if !ok {
		return ""
	}
	return name
}

// Constant is an integer or an address whose value depends on the ABI.
type Constant struct {
	Group   string // constants of one group are translated together
	Name    string // without MPI_
	Neutral int64
	MPICH   string // "-" or "~NAME" if the ABI lacks it, "symbol" if it is the value of a variable
	OpenMPI string
}

// Value is the constant in an ABI; false if the ABI has no such constant.
func (c Constant) Value(abi string) (string, bool) { return value(abi, c.MPICH, c.OpenMPI) }

// StandIn names the constant that is given out instead where the ABI has no such constant, or "".
func (c Constant) StandIn(abi string) string { return standIn(abi, c.MPICH, c.OpenMPI) }

// Symbol is a data object that a library exports.
type Symbol struct {
	Name  string
	Size  int
	Value string // object, zero, &symbol or =OBJECT
}

// Taken is a symbol that another library of an MPI takes from its main library, and that is no function of the API.
type Taken struct {
	ABI, Name string
	Function  bool
}

// Fortran is an entry point of the Fortran libraries: the C function's name in lower case.
type Fortran struct {
	Name  string
	Forms map[string][]string // by ABI: f77, f08, f08ts
}

// Field is one field of MPI_Status.
type Field struct{ ABI, Name, Type string }

// ABI holds the tables of abi/*.txt.
type ABI struct {
	Objects   []Object
	Constants []Constant
	Symbols   []Symbol // of Open MPI's library
	Status    []Field  // of MPI_Status, in the order of memory
	Taken     []Taken
	Fortran   []Fortran
}

// Group lists the constants of a group in order.
func (a *ABI) Group(name string) []Constant {
	var cs []Constant
	for _, c := range a.Constants {
		if c.Group == name {
			cs = append(cs, c)
		}
	}
	return cs
}

// Kind lists the predefined objects of a kind in order of their neutral number.
func (a *ABI) Kind(kind string) []Object {
	var os []Object
	for _, o := range a.Objects {
		if o.Kind == kind {
			os = append(os, o)
		}
	}
	return os
}

func readABI(fsys fs.FS) (*ABI, error) {
	a := &ABI{}
	for name, add := range map[string]func([]string) error{
		"abi/objects.txt":   a.addObject,
		"abi/constants.txt": a.addConstant,
		"abi/symbols.txt":   a.addSymbol,
		"abi/status.txt":    a.addField,
		"abi/taken.txt":     a.addTaken,
		"abi/fortran.txt":   a.addFortran,
	} {
		if err := readTable(fsys, name, add); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// readTable hands the fields of each line of a table to add.
func readTable(fsys fs.FS, name string, add func([]string) error) error {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return fmt.Errorf("mpispec: read %s: %w", name, err)
	}
	sc := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; sc.Scan(); n++ {
		text, _, _ := strings.Cut(sc.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		if err := add(fields); err != nil {
			return fmt.Errorf("mpispec: %s:%d: %w", name, n, err)
		}
	}
	return sc.Err()
}

func (a *ABI) addObject(f []string) error {
	if len(f) != 6 && len(f) != 9 {
		return fmt.Errorf("object %q: found %d fields, want 6 or 9", f, len(f))
	}
	n, err := strconv.Atoi(f[2])
	if err != nil {
		return fmt.Errorf("object %s: neutral number: %w", f[1], err)
	}
	o := Object{Kind: f[0], Name: f[1], Neutral: n, MPICH: f[3], OpenMPI: f[4], Fortran: f[5]}
	if len(f) == 9 {
		o.Size, _ = strconv.Atoi(f[6])
		o.Extent, _ = strconv.Atoi(f[7])
		o.Class = f[8]
	}
	if want := len(a.Kind(o.Kind)); n != want {
		return fmt.Errorf("object %s: found neutral number %d, want %d", o.Name, n, want)
	}
	a.Objects = append(a.Objects, o)
	return nil
}

func (a *ABI) addField(f []string) error {
	if len(f) != 3 || !isABI(f[0]) {
		return fmt.Errorf("status field %q: want abi, name and type", f)
	}
	a.Status = append(a.Status, Field{ABI: f[0], Name: f[1], Type: f[2]})
	return nil
}

func (a *ABI) addConstant(f []string) error {
	if len(f) != 5 {
		return fmt.Errorf("constant %q: found %d fields, want 5", f, len(f))
	}
	n, err := strconv.ParseInt(f[2], 0, 64)
	if err != nil {
		return fmt.Errorf("constant %s: neutral value: %w", f[1], err)
	}
	a.Constants = append(a.Constants, Constant{Group: f[0], Name: f[1], Neutral: n, MPICH: f[3], OpenMPI: f[4]})
	return nil
}

func (a *ABI) addSymbol(f []string) error {
	if len(f) != 3 {
		return fmt.Errorf("symbol %q: found %d fields, want 3", f, len(f))
	}
	n, err := strconv.Atoi(f[1])
	if err != nil {
		return fmt.Errorf("symbol %s: size: %w", f[0], err)
	}
	a.Symbols = append(a.Symbols, Symbol{Name: f[0], Size: n, Value: f[2]})
	return nil
}

func (a *ABI) addTaken(f []string) error {
	if len(f) < 4 || !isABI(f[0]) {
		return fmt.Errorf("taken symbol %q: want abi, symbol, kind and libraries", f)
	}
	a.Taken = append(a.Taken, Taken{ABI: f[0], Name: f[1], Function: f[2] == "function"})
	return nil
}

func (a *ABI) addFortran(f []string) error {
	e := Fortran{Name: f[0], Forms: map[string][]string{}}
	for _, word := range f[1:] {
		abi, form, ok := strings.Cut(word, ":")
		if !ok || !isABI(abi) {
			return fmt.Errorf("fortran entry %s: form %q: want abi:form", f[0], word)
		}
		e.Forms[abi] = append(e.Forms[abi], form)
	}
	a.Fortran = append(a.Fortran, e)
	return nil
}
