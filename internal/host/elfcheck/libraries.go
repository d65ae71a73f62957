package elfcheck

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// An object is the program, a library that it needs, or the face that takes the place of the MPI's main library.
type object struct {
	name    string // as it was asked for
	path    string
	parent  *object // who asked first; nil: the program
	file    *elf.File
	symbols []elf.Symbol // dynamic ones, without the first
	now     bool         // all symbols are bound when it is loaded
	ofMPI   bool         // what it takes is not the application's doing
}

// load opens what ld.so would load, in its order: the program, the face, what LD_PRELOAD names, and what is needed,
// breadth first.
func (r *Report) load(f *elf.File, path, faces string) ([]*object, error) {
	s := search{conf: configured("/etc/ld.so.conf")}
	origin, err := filepath.EvalSymlinks(path) // as the kernel tells ld.so
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	objects := []*object{newObject(filepath.Base(path), origin, nil, f)}
	seen := map[string]bool{}
	need := func(name string, by *object) {
		if seen[name] {
			return
		}
		seen[name] = true
		lib := Library{name, s.find(name, by.dirs(), rpaths(by.file, by.path, elf.DT_RUNPATH))}
		r.Libraries = append(r.Libraries, lib)
		if face := sonames[name]; face != "" {
			if r.Face == "" {
				r.Face, r.MPILibrary = face, lib.Path
			}
			if r.Face != face {
				r.Unfit = append(r.Unfit, Unfit{name, anotherMPI, by.name})
			}
			return // the face is there instead
		}
		if lf, err := elf.Open(lib.Path); lib.Path != "" && err == nil {
			objects = append(objects, newObject(name, lib.Path, by, lf))
		}
	}
	for _, name := range strings.FieldsFunc(os.Getenv("LD_PRELOAD"), func(c rune) bool { return c == ':' || c == ' ' }) {
		need(name, objects[0])
	}
	for i := 0; i < len(objects); i++ {
		needed, err := objects[i].file.ImportedLibraries()
		if err != nil {
			return objects, fmt.Errorf("%s: %w", objects[i].path, err)
		}
		for _, name := range needed {
			need(name, objects[i])
		}
	}
	if r.Face == "" || faces == "" {
		return objects, nil
	}
	path = filepath.Join(faces, r.Face, map[string]string{"mpich": "libmpich.so.12", "openmpi": "libmpi.so.40"}[r.Face])
	ff, err := elf.Open(path)
	if err != nil {
		return objects, nil // without it nothing starts, which others say
	}
	face := newObject(faceName, path, nil, ff)
	return append([]*object{objects[0], face}, objects[1:]...), nil
}

// faceName is the name of the face among the objects.
const faceName = "face"

func newObject(name, path string, parent *object, f *elf.File) *object {
	o := &object{name: name, path: path, parent: parent, file: f, ofMPI: ofMPI(name)}
	o.symbols, _ = f.DynamicSymbols() // without a table it takes and gives nothing
	if v, err := f.DynValue(elf.DT_FLAGS); err == nil && len(v) > 0 && v[0]&uint64(elf.DF_BIND_NOW) != 0 {
		o.now = true
	}
	if v, err := f.DynValue(elf.DT_FLAGS_1); err == nil && len(v) > 0 && v[0]&uint64(elf.DF_1_NOW) != 0 {
		o.now = true
	}
	if v, err := f.DynValue(elf.DT_BIND_NOW); err == nil && len(v) > 0 {
		o.now = true
	}
	o.now = o.now || os.Getenv("LD_BIND_NOW") != ""
	return o
}

// dirs are the directories of DT_RPATH that count for what the object needs: its own, then those of who asked for it. An
// object with DT_RUNPATH has none.
func (o *object) dirs() []string {
	if len(rpaths(o.file, o.path, elf.DT_RUNPATH)) > 0 {
		return nil
	}
	var dirs []string
	for ; o != nil; o = o.parent {
		if len(rpaths(o.file, o.path, elf.DT_RUNPATH)) == 0 {
			dirs = append(dirs, rpaths(o.file, o.path, elf.DT_RPATH)...)
		}
	}
	return dirs
}

// ofMPI says whether a library belongs to an MPI.
func ofMPI(name string) bool {
	return strings.HasPrefix(name, "libmpi") || strings.HasPrefix(name, "libopen-") || strings.HasPrefix(name, "libpmix") ||
		strings.HasPrefix(name, "liboshmem")
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
	dirs := append(append([]string(nil), rpath...), filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))...)
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
