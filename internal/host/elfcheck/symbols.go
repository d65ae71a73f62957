package elfcheck

import (
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
)

// Use is an MPI function that the application takes from its MPI's libraries.
type Use struct {
	Function string   `json:"function"`
	By       []string `json:"by"`      // the program's file and libraries, in the order of loading
	Program  bool     `json:"program"` // the program's own file is among them
}

// Missing is a symbol that no loaded object has.
type Missing struct {
	Symbol  string `json:"symbol"`
	By      string `json:"by"`
	AtStart bool   `json:"at_start"` // the program would not start; else it ends when it calls the function
}

// resolve looks every symbol up as ld.so will: in all objects in order, the face before the libraries.
func (r *Report) resolve(objects []*object) {
	first := map[string]*object{} // who has it, apart from the face
	has := map[string]bool{}
	inFace := map[string]bool{}
	for _, o := range objects {
		for _, s := range o.symbols {
			if s.Section == elf.SHN_UNDEF || elf.ST_BIND(s.Info) == elf.STB_LOCAL {
				continue
			}
			has[s.Name] = true
			inFace[s.Name] = inFace[s.Name] || o.name == faceName
			if first[s.Name] == nil && o.name != faceName {
				first[s.Name] = o
			}
		}
	}
	uses := map[string]*Use{}
	faced := r.Face == "" || len(objects) > 1 && objects[1].name == faceName
	lacking := len(r.Unfit) > 0 || slices.ContainsFunc(r.Libraries, func(l Library) bool { return l.Path == "" })
	provider := func(name string) *object {
		if inFace[name] {
			return nil
		}
		return first[name]
	}
	for i, o := range objects {
		if o.name == faceName {
			continue
		}
		r.usesOf(o, i == 0, first, uses)
		if faced {
			r.unfitOf(o, provider)
		}
		if faced && !lacking { // else many would be missing for that reason
			r.missingIn(o, has)
		}
	}
	for _, u := range uses {
		r.Uses = append(r.Uses, *u)
	}
	slices.SortFunc(r.Uses, func(a, b Use) int { return strings.Compare(a.Function, b.Function) })
}

// ofInterface says whether a name looks like one of MPI's, in C or Fortran.
func ofInterface(name string) bool {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "P"), "p")
	return strings.HasPrefix(name, "MPI_") || strings.HasPrefix(name, "MPIX_") || strings.HasPrefix(name, "mpi_") || strings.HasPrefix(name, "mpix_")
}

// usesOf adds the MPI functions that an object of the application takes from an MPI's library. What only the unused
// methods of mpi.h's C++ classes would call does not count.
func (r *Report) usesOf(o *object, program bool, first map[string]*object, uses map[string]*Use) {
	if o.ofMPI {
		return
	}
	var names []string
	for _, s := range o.symbols {
		if from := first[s.Name]; s.Section == elf.SHN_UNDEF && ofInterface(s.Name) && (from == nil || from.ofMPI) {
			names = append(names, s.Name)
		}
	}
	idle := o.onlyInClasses(names)
	for _, name := range names {
		if idle[name] {
			continue
		}
		u := uses[name]
		if u == nil {
			u = &Use{Function: name, By: []string{}}
			uses[name] = u
		}
		u.By = append(u.By, o.name)
		u.Program = u.Program || program
	}
}

// missingIn adds what an object needs and nobody has, unless it can do without (weak), with when it matters.
func (r *Report) missingIn(o *object, has map[string]bool) {
	for i, s := range o.symbols {
		if s.Section != elf.SHN_UNDEF || s.Name == "" || elf.ST_BIND(s.Info) != elf.STB_GLOBAL || has[s.Name] {
			continue
		}
		switch data, call := o.relocated(uint32(i + 1)); {
		case data || call && o.now:
			r.Missing = append(r.Missing, Missing{s.Name, o.name, true})
		case call:
			r.Missing = append(r.Missing, Missing{s.Name, o.name, false})
		}
	}
}

// relocated says whether a symbol is needed for data, and for calls that may be bound late.
func (o *object) relocated(index uint32) (data, call bool) {
	for _, sec := range o.file.Sections {
		if sec.Type != elf.SHT_RELA || sec.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		b, err := sec.Data()
		if err != nil {
			continue
		}
		for ; len(b) >= 24; b = b[24:] {
			info := binary.LittleEndian.Uint64(b[8:])
			if elf.R_SYM64(info) != index {
				continue
			}
			if elf.R_X86_64(elf.R_TYPE64(info)) == elf.R_X86_64_JMP_SLOT {
				call = true
			} else {
				data = true
			}
		}
	}
	return data, call
}
