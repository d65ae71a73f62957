package elfcheck

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
)

// mpi.h of an MPI with C++ bindings puts classes into every C++ program, whose virtual methods call MPI functions that the
// program itself never calls. They are told apart by where calls stand: in methods of those classes, which are short and
// whose addresses lie in tables, or elsewhere.

// longest is the size up to which a function that stands in a table can be such a method.
const longest = 512

// onlyInClasses says which of the functions are called from nowhere but such methods.
func (o *object) onlyInClasses(names []string) map[string]bool {
	idle := map[string]bool{}
	bound := slices.ContainsFunc(o.symbols, func(s elf.Symbol) bool {
		return strings.HasPrefix(s.Name, "_ZN3MPI") || strings.HasPrefix(s.Name, "_ZTVN3MPI")
	})
	if !bound || len(names) == 0 {
		return idle
	}
	starts, slots := o.functions(), o.slots()
	inTables := o.inTables(starts)
	sites := o.callSites(slots)
	for _, name := range names {
		idle[name] = len(sites[name]) > 0 && !slices.ContainsFunc(sites[name], func(site uint64) bool {
			i, found := slices.BinarySearch(starts, site)
			if !found {
				i--
			}
			return i < 0 || !inTables[starts[i]] || i+1 < len(starts) && starts[i+1]-starts[i] > longest
		})
	}
	return idle
}

// section returns a section and its bytes, nil if there are none.
func (o *object) section(name string) (*elf.Section, []byte) {
	sec := o.file.Section(name)
	if sec == nil || sec.Type == elf.SHT_NOBITS {
		return nil, nil
	}
	b, err := sec.Data()
	if err != nil {
		return nil, nil
	}
	return sec, b
}

// functions are the addresses at which functions begin, sorted: those of the table for unwinding, which is never stripped.
func (o *object) functions() []uint64 {
	sec, b := o.section(".eh_frame_hdr")
	if len(b) < 12 || !bytes.Equal(b[:4], []byte{1, 0x1b, 3, 0x3b}) {
		return nil
	}
	var starts []uint64
	for b = b[12:]; len(b) >= 8; b = b[8:] {
		starts = append(starts, sec.Addr+uint64(int64(int32(binary.LittleEndian.Uint32(b)))))
	}
	return starts
}

// slots are the places in the global offset table for the addresses of symbols from elsewhere.
func (o *object) slots() map[uint64]string {
	slots := map[uint64]string{}
	o.relocations(func(at, info, _ uint64) {
		if i := elf.R_SYM64(info); i > 0 && int(i) <= len(o.symbols) {
			if t := elf.R_X86_64(elf.R_TYPE64(info)); t == elf.R_X86_64_JMP_SLOT || t == elf.R_X86_64_GLOB_DAT {
				slots[at] = o.symbols[i-1].Name
			}
		}
	})
	return slots
}

func (o *object) relocations(each func(at, info, addend uint64)) {
	for _, sec := range o.file.Sections {
		if sec.Type != elf.SHT_RELA || sec.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		b, err := sec.Data()
		for ; err == nil && len(b) >= 24; b = b[24:] {
			each(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]))
		}
	}
}

// inTables are the functions whose addresses stand in data: by relocation, or as they are in a program at a fixed address.
func (o *object) inTables(starts []uint64) map[uint64]bool {
	in := map[uint64]bool{}
	o.relocations(func(_, info, addend uint64) {
		switch elf.R_X86_64(elf.R_TYPE64(info)) {
		case elf.R_X86_64_RELATIVE:
			in[addend] = true
		case elf.R_X86_64_64:
			if i := elf.R_SYM64(info); i > 0 && int(i) <= len(o.symbols) {
				in[o.symbols[i-1].Value+addend] = true
			}
		}
	})
	for _, name := range []string{".data.rel.ro", ".rodata"} {
		_, b := o.section(name)
		for ; o.file.Type == elf.ET_EXEC && len(b) >= 8; b = b[8:] {
			if v := binary.LittleEndian.Uint64(b); v != 0 {
				if _, found := slices.BinarySearch(starts, v); found {
					in[v] = true
				}
			}
		}
	}
	return in
}

// callSites finds the calls and jumps to functions from elsewhere, by the functions' names.
func (o *object) callSites(slots map[uint64]string) map[string][]uint64 {
	stubs := map[uint64]string{} // by any address of a stub
	sites := map[string][]uint64{}
	for _, sec := range o.file.Sections {
		if sec.Flags&elf.SHF_EXECINSTR == 0 || !strings.HasPrefix(sec.Name, ".plt") {
			continue
		}
		size := max(sec.Entsize, 8)
		each(sec, func(at uint64, b []byte) {
			if name := slots[indirect(at, b)]; name != "" {
				stubs[sec.Addr+(at-sec.Addr)/size*size] = name
			}
		})
	}
	for _, sec := range o.file.Sections {
		if sec.Flags&elf.SHF_EXECINSTR == 0 || strings.HasPrefix(sec.Name, ".plt") {
			continue
		}
		each(sec, func(at uint64, b []byte) {
			name := slots[indirect(at, b)]
			if b[0] == 0xe8 || b[0] == 0xe9 {
				name = stubs[at+5+uint64(int64(int32(binary.LittleEndian.Uint32(b[1:]))))]
			}
			if name != "" {
				sites[name] = append(sites[name], at)
			}
		})
	}
	return sites
}

// each looks at every byte of a section at which an instruction might begin.
func each(sec *elf.Section, look func(at uint64, b []byte)) {
	b, err := sec.Data()
	for i := 0; err == nil && i+7 <= len(b); i++ {
		if b[i] == 0xff || b[i] == 0xe8 || b[i] == 0xe9 || b[i] == 0x48 || b[i] == 0x4c {
			look(sec.Addr+uint64(i), b[i:])
		}
	}
}

// indirect is the address whose content an instruction calls, jumps to or loads (call, jmp, mov relative to the
// instruction), 0 for any other.
func indirect(at uint64, b []byte) uint64 {
	switch {
	case b[0] == 0xff && (b[1] == 0x15 || b[1] == 0x25):
		return at + 6 + uint64(int64(int32(binary.LittleEndian.Uint32(b[2:]))))
	case (b[0] == 0x48 || b[0] == 0x4c) && b[1] == 0x8b && b[2]&0xc7 == 0x05:
		return at + 7 + uint64(int64(int32(binary.LittleEndian.Uint32(b[3:]))))
	}
	return 0
}
