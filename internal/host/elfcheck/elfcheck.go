// Package elfcheck looks at an application's file before it is started: whether it can be run under Byssus, which MPI
// it was linked against, which MPI functions it and its libraries take from it, and which symbols nobody has.
//
// It follows DT_NEEDED as ld.so does (DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH, the directories of ld.so.conf, the
// default ones) and looks symbols up in all that is loaded, without running anything. What a program opens later with
// dlopen it cannot see. Errors name the file, what was found and what was wanted; the sentinels tell the kinds apart.
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
	Uses        []Use     `json:"mpi_functions"` // sorted
	Missing     []Missing `json:"missing_symbols"`
	Unfit       []Unfit   `json:"unfit"`
}

// Check finds an application as a shell would and examines it. The directory faces has the faces, which are loaded in the
// place of the MPI's main library; without it missing symbols are not looked for.
func Check(name, faces string) (*Report, error) {
	path, err := find(name)
	if err != nil {
		return nil, err
	}
	r := &Report{Path: path, Libraries: []Library{}, Uses: []Use{}, Missing: []Missing{}, Unfit: []Unfit{}}
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
	objects, err := r.load(f, path, faces)
	defer func() {
		for _, o := range objects[min(1, len(objects)):] { // the program itself is closed above
			o.file.Close()
		}
	}()
	if err == nil {
		r.resolve(objects)
	}
	return r, err
}

// find looks a program up as a shell does.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case errors.Is(err, exec.ErrDot):
		err = nil
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("elfcheck: program %s: %w", name, ErrNotFound)
	case err != nil:
		return "", fmt.Errorf("elfcheck: program %s: %w", name, ErrNotExec)
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
