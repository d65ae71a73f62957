package mpispec

import (
	"debug/elf"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite abi/taken.txt and abi/fortran.txt from the libraries of this machine")

// family is an MPI's main library, which a face stands in for, and the others that come with it.
type family struct {
	abi    string
	main   string
	others []string // patterns
}

// liboshmem is not among them: it takes the runtime's objects too (libopen-rte's), and a program for it is no MPI program.
var families = []family{
	{MPICH, "libmpich.so.12", []string{"libmpichcxx.so.12", "libmpichfort.so.12"}},
	{OpenMPI, "libmpi.so.40", []string{"libmpi_*.so.40", "libompitrace.so.40", "libopen-*.so.40"}},
}

const libraryDir = "/usr/lib/x86_64-linux-gnu"

// installed skips a test where the libraries are not those that the tables were made from.
func installed(t *testing.T) {
	t.Helper()
	for _, f := range families {
		for _, name := range append([]string{f.main}, f.others...) {
			if found, err := filepath.Glob(filepath.Join(libraryDir, name)); (err != nil || len(found) == 0) && !strings.HasPrefix(name, "libompitrace") {
				t.Skipf("SKIP: %s: %s is not installed", f.abi, name)
			}
		}
	}
}

// dynamic reads the dynamic symbols of a library: what it defines and the names that it takes from elsewhere.
func dynamic(t *testing.T, path string) (defined map[string]elf.Symbol, taken []string) {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	defined = map[string]elf.Symbol{}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF {
			taken = append(taken, s.Name)
		} else {
			defined[s.Name] = s
		}
	}
	return defined, taken
}

// others lists the paths of a family's other libraries.
func (f family) paths() []string {
	var paths []string
	for _, pattern := range f.others {
		found, _ := filepath.Glob(filepath.Join(libraryDir, pattern)) // the patterns are well formed
		paths = append(paths, found...)
	}
	return paths
}

// publicName says whether a symbol is one of the API under its own or its profiling name, which *.mpi describe.
func publicName(name string) bool {
	name = strings.TrimPrefix(name, "P")
	return (strings.HasPrefix(name, "MPI_") || strings.HasPrefix(name, "MPIX_")) && strings.ToUpper(name) != name
}

// taken are the lines of abi/taken.txt as the libraries say.
func taken(t *testing.T) []string {
	t.Helper()
	var lines []string
	for _, f := range families {
		main, _ := dynamic(t, filepath.Join(libraryDir, f.main))
		by := map[string][]string{}
		for _, path := range f.paths() {
			_, names := dynamic(t, path)
			library, _, _ := strings.Cut(filepath.Base(path), ".so")
			for _, name := range names {
				if _, ok := main[name]; ok && !publicName(name) {
					by[name] = append(by[name], library)
				}
			}
		}
		for name, libraries := range by {
			kind := "function"
			if s := main[name]; elf.ST_TYPE(s.Info) == elf.STT_OBJECT {
				kind = fmt.Sprint(s.Size)
			}
			lines = append(lines, fmt.Sprintf("%-8s %-40s %-9s %s", f.abi, name, kind, strings.Join(libraries, " ")))
		}
	}
	slices.Sort(lines)
	return lines
}

// fortranName is the C function's name in lower case of an entry point of the Fortran interface (mpi_send, mpi_send_f08_),
// and which of the forms it is; false for anything else.
func fortranName(symbol string) (base, form string, ok bool) {
	if !strings.HasPrefix(symbol, "mpi_") && !strings.HasPrefix(symbol, "mpix_") || strings.ToLower(symbol) != symbol {
		return "", "", false
	}
	for _, form := range []string{"f08ts_large", "f08_large", "f08ts", "f08"} {
		if base, found := strings.CutSuffix(symbol, "_"+form+"_"); found {
			return base, form, true
		}
	}
	base, ok = strings.CutSuffix(symbol, "_")
	if strings.HasSuffix(base, "_") || strings.HasSuffix(base, "_fn") || strings.HasSuffix(base, "_fn_null") || strings.HasPrefix(base, "mpi_sizeof") {
		return "", "", false // another way to write it, a predefined callback, or nothing that looks at a process
	}
	return base, "f77", ok
}

// fortran are the lines of abi/fortran.txt as the libraries say.
func fortran(t *testing.T) []string {
	t.Helper()
	forms := map[string][]string{}
	for _, f := range families {
		main, _ := dynamic(t, filepath.Join(libraryDir, f.main))
		for _, path := range f.paths() {
			defined, _ := dynamic(t, path)
			for symbol, s := range defined {
				base, form, ok := fortranName(symbol)
				if _, there := main[symbol]; !ok || there || elf.ST_TYPE(s.Info) != elf.STT_FUNC {
					continue
				}
				if word := f.abi + ":" + form; !slices.Contains(forms[base], word) {
					forms[base] = append(forms[base], word)
				}
			}
		}
	}
	var lines []string
	for base, words := range forms {
		slices.Sort(words)
		lines = append(lines, fmt.Sprintf("%-40s %s", base, strings.Join(words, " ")))
	}
	slices.Sort(lines)
	return lines
}

// current compares a table with what the libraries say, or writes it.
func current(t *testing.T, name string, want []string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var head, found []string
	for line := range strings.Lines(string(data)) {
		switch line = strings.TrimSuffix(line, "\n"); {
		case strings.HasPrefix(line, "#"):
			head = append(head, line)
		case line != "":
			found = append(found, line)
		}
	}
	if *update {
		if err := os.WriteFile(name, []byte(strings.Join(append(head, want...), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, line := range want {
		if !slices.Contains(found, line) {
			t.Errorf("%s: missing: %s", name, line)
		}
	}
	for _, line := range found {
		if !slices.Contains(want, line) {
			t.Errorf("%s: not so in the libraries of this machine: %s", name, line)
		}
	}
}

// TestTaken finds in abi/taken.txt every symbol that another library of an MPI takes from its main library.
func TestTaken(t *testing.T) {
	installed(t)
	current(t, "abi/taken.txt", taken(t))
}

// TestFortran finds in abi/fortran.txt every entry point of the Fortran libraries.
func TestFortran(t *testing.T) {
	installed(t)
	current(t, "abi/fortran.txt", fortran(t))
}

// TestSizes compares the sizes of Open MPI's data objects with the library's.
func TestSizes(t *testing.T) {
	installed(t)
	main, _ := dynamic(t, filepath.Join(libraryDir, "libmpi.so.40"))
	for _, s := range load(t).ABI.Symbols {
		if found, ok := main[s.Name]; ok && found.Size != uint64(s.Size) {
			t.Errorf("%s: found %d bytes in the library, %d in symbols.txt", s.Name, found.Size, s.Size)
		}
	}
}
