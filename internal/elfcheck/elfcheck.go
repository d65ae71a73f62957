// Package elfcheck looks at an application's file before it is started: whether it can be run under Byssus, which MPI
// it was linked against, and which MPI functions it and its libraries import.
//
// It follows DT_NEEDED as ld.so does (DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH, the directories of ld.so.conf, the
// default ones), without running anything. What a program opens later with dlopen it cannot see. Errors name the file,
// what was found and what was wanted; the sentinels tell the kinds apart.
package elfcheck

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Kinds of error.
var (
	ErrNotFound = errors.New("not found")
	ErrNotExec  = errors.New("not executable")
	ErrRefused  = errors.New("cannot be checkpointed")
)

// ABIs of MPI, by the names of their libraries.
var sonames = map[string]string{"libmpich.so.12": "mpich", "libmpi.so.12": "mpich", "libmpi.so.40": "openmpi"}

// Library is a library that the application needs.
type Library struct {
	Name string `json:"name"`
	Path string `json:"path"` // empty: not found
}

// Report is what was found.
type Report struct {
	Path        string    `json:"path"`
	Interpreter string    `json:"interpreter,omitempty"` // of a script
	Machine     string    `json:"machine"`
	Face        string    `json:"mpi_abi"` // mpich, openmpi, or empty: none is linked
	MPILibrary  string    `json:"mpi_library,omitempty"`
	Libraries   []Library `json:"libraries"`
	Imports     []string  `json:"mpi_imports"` // MPI functions, sorted
}

// Check finds and examines an application as a shell would find it.
func Check(name string) (*Report, error) {
	path, err := find(name)
	if err != nil {
		return nil, err
	}
	r := &Report{Path: path, Libraries: []Library{}, Imports: []string{}}
	target, err := script(path)
	if err != nil {
		return nil, err
	}
	if target != "" {
		r.Interpreter = target
		path = target
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r.Machine = f.Machine.String()
	return r, r.libraries(f, path)
}

// find looks a program up as a shell does.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case errors.Is(err, exec.ErrDot):
		err = nil
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s: %w", name, ErrNotFound)
	case err != nil:
		return "", fmt.Errorf("%s: %w", name, ErrNotExec)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if st.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		return "", fmt.Errorf("%s: setuid or setgid: %w", path, ErrRefused)
	}
	return path, nil
}

// script returns the interpreter of a script, empty for anything else.
func script(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w: %w", path, ErrNotExec, err)
	}
	defer f.Close()
	head := make([]byte, 256)
	n, err := f.Read(head)
	if err != nil && err != io.EOF {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	line, ok := strings.CutPrefix(string(head[:n]), "#!")
	if !ok {
		return "", nil
	}
	line, _, _ = strings.Cut(line, "\n")
	words := strings.Fields(line)
	if len(words) > 1 && filepath.Base(words[0]) == "env" {
		words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "-") || strings.Contains(w, "=") })
	}
	if len(words) == 0 {
		return "", fmt.Errorf("%s: script without an interpreter: %w", path, ErrNotExec)
	}
	return find(words[0])
}

// open opens a program and refuses what the loader could not load.
func open(path string) (*elf.File, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: not an ELF program: %w", path, ErrNotExec)
	}
	var bad error
	switch {
	case f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64:
		bad = fmt.Errorf("%s: found %s %s, wanted ELFCLASS64 EM_X86_64: %w", path, f.Class, f.Machine, ErrRefused)
	case f.Type != elf.ET_DYN && f.Type != elf.ET_EXEC:
		bad = fmt.Errorf("%s: found %s, wanted a program: %w", path, f.Type, ErrNotExec)
	case !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }):
		bad = fmt.Errorf("%s: statically linked, wanted a dynamically linked program: %w", path, ErrRefused)
	}
	if bad != nil {
		f.Close()
		return nil, bad
	}
	return f, nil
}

// libraries follows what is needed, breadth first as ld.so does.
func (r *Report) libraries(f *elf.File, path string) error {
	s := search{conf: configured("/etc/ld.so.conf")}
	seen := map[string]bool{}
	imports := map[string]bool{}
	rpath := rpaths(f, path, elf.DT_RPATH)
	type object struct {
		file *elf.File
		path string
	}
	queue := []object{{f, path}}
	for len(queue) > 0 {
		o := queue[0]
		queue = queue[1:]
		r.importsOf(o.file, imports)
		needed, err := o.file.ImportedLibraries()
		if err != nil {
			return fmt.Errorf("%s: %w", o.path, err)
		}
		for _, name := range needed {
			if seen[name] {
				continue
			}
			seen[name] = true
			lib := Library{name, s.find(name, append(rpath, rpaths(o.file, o.path, elf.DT_RPATH)...), rpaths(o.file, o.path, elf.DT_RUNPATH))}
			r.Libraries = append(r.Libraries, lib)
			if face := sonames[name]; face != "" && r.Face == "" {
				r.Face, r.MPILibrary = face, lib.Path
			}
			if lib.Path == "" || ofMPI(name) {
				continue
			}
			if lf, err := elf.Open(lib.Path); err == nil {
				defer lf.Close()
				queue = append(queue, object{lf, lib.Path})
			}
		}
	}
	for name := range imports {
		r.Imports = append(r.Imports, name)
	}
	slices.Sort(r.Imports)
	return nil
}

// ofMPI says whether a library belongs to an MPI: what it imports is not the application's doing.
func ofMPI(name string) bool {
	return strings.HasPrefix(name, "libmpi") || strings.HasPrefix(name, "libopen-") || strings.HasPrefix(name, "libpmix")
}

// importsOf adds the MPI functions that an object imports.
func (r *Report) importsOf(f *elf.File, into map[string]bool) {
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return // without a symbol table nothing is imported
	}
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "MPI_") || strings.HasPrefix(s.Name, "PMPI_") || strings.HasPrefix(s.Name, "mpi_") {
			into[s.Name] = true
		}
	}
}

// rpaths returns the directories of a dynamic tag.
func rpaths(f *elf.File, path string, tag elf.DynTag) []string {
	var dirs []string
	values, err := f.DynString(tag)
	if err != nil {
		return nil
	}
	origin := filepath.Dir(path)
	for _, v := range values {
		for _, d := range filepath.SplitList(v) {
			d = strings.ReplaceAll(d, "${ORIGIN}", origin)
			dirs = append(dirs, strings.ReplaceAll(d, "$ORIGIN", origin))
		}
	}
	return dirs
}

// search is where libraries are looked for.
type search struct{ conf []string }

func (s search) find(name string, rpath, runpath []string) string {
	if strings.Contains(name, "/") {
		return existing(name)
	}
	dirs := rpath
	if len(runpath) > 0 {
		dirs = nil
	}
	dirs = append(slices.Clone(dirs), filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))...)
	dirs = append(append(dirs, runpath...), s.conf...)
	dirs = append(dirs, "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
	for _, d := range dirs {
		if p := existing(filepath.Join(d, name)); p != "" {
			return p
		}
	}
	return ""
}

func existing(path string) string {
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// configured reads the directories of ld.so.conf and of what it includes.
func configured(conf string) []string {
	b, err := os.ReadFile(conf)
	if err != nil {
		return nil
	}
	var dirs []string
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "include" && len(words) > 1:
			files, err := filepath.Glob(words[1])
			if err != nil {
				continue
			}
			for _, f := range files {
				if f != conf {
					dirs = append(dirs, configured(f)...)
				}
			}
		default:
			dirs = append(dirs, words[0])
		}
	}
	return dirs
}

// FindLibrary looks a library up in the environment's and the system's directories.
func FindLibrary(name string, before ...string) string {
	return search{conf: configured("/etc/ld.so.conf")}.find(name, before, nil)
}
