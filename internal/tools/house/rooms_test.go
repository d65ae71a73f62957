package house

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A plan is what rooms.txt says, whose head explains the words.
type plan struct {
	uses         map[string][]string // room to the rooms that it may use
	fronts       map[string][]string // the same for folders without code
	doors, given []string
}

// readPlan parses the text of rooms.txt. What is wrong with it is returned, by line.
func readPlan(text string) (plan, []string) {
	p := plan{uses: map[string][]string{}, fronts: map[string][]string{}}
	var wrong []string
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		head, list, isRoom := strings.Cut(line, ":")
		words, used := strings.Fields(head), strings.Fields(list)
		switch {
		case len(words) == 0:
		case words[0] == "door" && !isRoom:
			p.doors = append(p.doors, words[1:]...)
		case words[0] == "given" && !isRoom:
			p.given = append(p.given, words[1:]...)
		case isRoom && (len(words) == 1 || len(words) == 2 && words[0] == "front"):
			name := words[len(words)-1]
			for _, u := range used {
				if p.uses[u] == nil && p.fronts[u] == nil {
					wrong = append(wrong, fmt.Sprintf("rooms.txt:%d: %s may not use %s, which does not stand above it", n+1, name, u))
				}
			}
			if p.uses[name] != nil || p.fronts[name] != nil {
				wrong = append(wrong, fmt.Sprintf("rooms.txt:%d: %s stands there twice", n+1, name))
			}
			into := p.uses
			if len(words) == 2 {
				into = p.fronts
			}
			into[name] = append([]string{}, used...)
		default:
			wrong = append(wrong, fmt.Sprintf("rooms.txt:%d: found %q, want a room, front, door or given", n+1, line))
		}
	}
	return p, wrong
}

// roomOf returns the room that a file of rank/ lies in, or "".
func (p plan) roomOf(file string) string {
	dir := path.Dir(file)
	if p.uses[dir] != nil {
		return dir
	}
	for ; dir != "."; dir = path.Dir(dir) {
		if p.uses[dir+"/..."] != nil {
			return dir + "/..."
		}
	}
	return ""
}

// reached lists the rooms that code of this one may call into, itself and those behind fronts included.
func (p plan) reached(room string) []string {
	list := []string{room}
	for _, u := range p.uses[room] {
		if rooms, ok := p.fronts[u]; ok {
			list = append(list, rooms...)
		} else {
			list = append(list, u)
		}
	}
	return list
}

// mayInclude reports whether a file of this room may include the header.
func (p plan) mayInclude(room, header string) bool {
	if slices.Contains(p.doors, header) || p.roomOf(header) == room {
		return true
	}
	dir := path.Dir(header)
	return slices.Contains(p.uses[room], dir) && header == dir+"/"+path.Base(dir)+".h"
}

var includeLine = regexp.MustCompile(`(?m)^#include "([^"]+)"`)

// checkSources looks at files of rank/, named relative to it, with their texts.
func (p plan) checkSources(files map[string]string) []string {
	var wrong []string
	for _, file := range slices.Sorted(maps.Keys(files)) {
		room := p.roomOf(file)
		if room == "" {
			if !slices.Contains(p.doors, file) {
				wrong = append(wrong, fmt.Sprintf("rank/%s: found in no room of rooms.txt, want it in one", file))
			}
			continue
		}
		for _, m := range includeLine.FindAllStringSubmatch(files[file], -1) {
			header := path.Join(path.Dir(file), m[1])
			if _, beside := files[header]; !beside {
				header = m[1]
			}
			if _, ok := files[header]; !ok {
				wrong = append(wrong, fmt.Sprintf("rank/%s: includes %q: found nowhere in rank/", file, m[1]))
			} else if !p.mayInclude(room, header) {
				wrong = append(wrong, fmt.Sprintf("rank/%s: includes %s; want only its own room's, doors, and the one header of: %s",
					file, header, strings.Join(p.uses[room], " ")))
			}
		}
		if strings.HasSuffix(file, ".c") && !strings.HasSuffix(room, "/...") {
			wrong = append(wrong, bypasses(file, files[file])...)
		}
	}
	return wrong
}

var (
	externLine    = regexp.MustCompile(`(?m)^\s*extern\b.*$`)
	prototypeLine = regexp.MustCompile(`(?m)^(?:\w[\w\s*]*?[\s*])(\w+)\([^={}]*\)[^={};]*;$`)
)

// bypasses finds declarations in a source file of what is defined elsewhere: they belong into a header, which the file that
// defines it includes too.
func bypasses(file, text string) []string {
	var wrong []string
	for _, line := range externLine.FindAllString(text, -1) {
		wrong = append(wrong, fmt.Sprintf("rank/%s: found %q, want it in a header", file, strings.TrimSpace(line)))
	}
	for _, m := range prototypeLine.FindAllStringSubmatch(text, -1) {
		own := regexp.MustCompile(`(?m)^[\w\s*]*\b` + m[1] + `\([^;]*\)\s*(\{|$)`)
		if strings.HasPrefix(m[0], "static ") || strings.HasPrefix(m[0], "typedef ") || strings.Contains(m[0], "alias(") || own.MatchString(text) {
			continue
		}
		wrong = append(wrong, fmt.Sprintf("rank/%s: found a declaration of %s, want it in a header", file, m[1]))
	}
	return wrong
}

// An object is what a source file defines for others and what it takes from them.
type object struct{ defined, taken []string }

// checkSymbols compares what each object takes with the rooms that define it.
func (p plan) checkSymbols(objects map[string]object) []string {
	definer := map[string][]string{}
	for file, o := range objects {
		for _, s := range o.defined {
			definer[s] = append(definer[s], file)
		}
	}
	var wrong []string
	for _, file := range slices.Sorted(maps.Keys(objects)) {
		reached := p.reached(p.roomOf(file))
		for _, s := range objects[file].taken {
			in := func(f string) bool { return slices.Contains(reached, p.roomOf(f)) }
			if len(definer[s]) == 0 || slices.Contains(p.given, s) || slices.ContainsFunc(definer[s], in) {
				continue
			}
			wrong = append(wrong, fmt.Sprintf("rank/%s: uses %s, found in rank/%s; want it in one of: %s", file, s, definer[s][0], strings.Join(reached, " ")))
		}
	}
	return wrong
}

// rankSources are the texts of all C and assembly files and headers of rank/.
func rankSources(t *testing.T) map[string]string {
	list := map[string]string{}
	for _, file := range files(t, ".c", ".h", ".S") {
		if rel, ok := strings.CutPrefix(file, "rank/"); ok {
			list[rel] = string(read(t, file))
		}
	}
	return list
}

// rankObjects compiles rank/ in a directory of its own, which stays for the next time, and returns it.
func rankObjects(t *testing.T) string {
	t.Helper()
	build, err := filepath.Abs(filepath.Join(root, "build/house"))
	if err != nil {
		t.Fatal(err)
	}
	run(t, "make", "-s", fmt.Sprintf("-j%d", runtime.NumCPU()), "-C", "rank", "BUILD="+build, noJumpTables, "objects", "none")
	return filepath.Join(build, "obj/rank")
}

// readObject asks nm, gcc's own since some objects hold code that is compiled when it is linked.
func readObject(t *testing.T, file string) object {
	var o object
	for line := range strings.Lines(run(t, "gcc-nm", "-P", file)) {
		f := strings.Fields(line)
		switch {
		case len(f) < 2:
		case f[1] == "U":
			o.taken = append(o.taken, f[0])
		case f[1] == strings.ToUpper(f[1]) || f[1] == "u":
			o.defined = append(o.defined, f[0])
		}
	}
	return o
}

// TestRooms compares rank/ with rooms.txt: where its files lie, what they include, and what their objects take from
// each other.
func TestRooms(t *testing.T) {
	p, wrong := readPlan(string(read(t, "internal/tools/house/rooms.txt")))
	sources := rankSources(t)
	wrong = append(wrong, p.checkSources(sources)...)
	dir, objects := rankObjects(t), map[string]object{}
	for file := range sources {
		o := filepath.Join(dir, strings.TrimSuffix(file, path.Ext(file))+".o")
		if _, err := os.Stat(o); err == nil && path.Ext(file) != ".h" {
			objects[file] = readObject(t, o)
		}
	}
	if len(objects) < len(sources)/3 {
		t.Errorf("%s: found %d objects of %d sources", dir, len(objects), len(sources))
	}
	for _, w := range append(wrong, p.checkSymbols(objects)...) {
		t.Error(w)
	}
	for room := range p.uses {
		if _, err := os.Stat(filepath.Join(root, "rank", strings.TrimSuffix(room, "/..."))); err != nil {
			t.Errorf("rooms.txt names %s, which does not exist", room)
		}
	}
}
