package mpispec

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

// records reads the lines of a table in testdata.
func records(t *testing.T, name string) [][]string {
	t.Helper()
	file, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var rs [][]string
	for sc := bufio.NewScanner(file); sc.Scan(); {
		if line := sc.Text(); line != "" && line[0] != '#' {
			rs = append(rs, strings.Fields(line))
		}
	}
	return rs
}

func load(t *testing.T) *Spec {
	t.Helper()
	s, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestComplete finds every symbol that a library exports in the description.
func TestComplete(t *testing.T) {
	s := load(t)
	for _, r := range records(t, "exports.txt") {
		if strings.HasSuffix(r[0], "_FN") || r[0] == "MPI_CONVERSION_FN_NULL" || !strings.ContainsAny(r[0], "abcdefghijklmnopqrstuvwxyz") {
			continue // Fortran's entry points and variables are no functions of the C API
		}
		f := s.Function(r[0])
		if f == nil {
			t.Errorf("%s: exported, but not described", r[0])
			continue
		}
		for _, abi := range r[1:] {
			if isABI(abi) && !f.In(abi) {
				t.Errorf("%s: exported by %s, but described for %s only", r[0], abi, f.ABI)
			}
		}
	}
}

// unchanged are parameters that the standard calls inout although C passes them by value or never changes them.
var unchanged = map[string]bool{
	"MPI_Start request": true, "MPI_Startall array_of_requests": true, "MPI_Type_commit datatype": true, "MPI_Cancel request": true,
	"MPI_Info_create_env argc": true, "MPI_Info_create_env argv": true,
	"MPI_Status_f082f f08_status": true, "MPI_Status_f2f08 f_status": true,
}

// TestFacts compares names, directions and kinds of parameters with the standard's.
func TestFacts(t *testing.T) {
	s := load(t)
	for _, r := range records(t, "facts.txt") {
		f := s.Function(r[0])
		if f == nil {
			t.Errorf("%s: not described", r[0])
			continue
		}
		if f.Alias != "" {
			continue
		}
		if len(f.Params) != len(r)-1 {
			t.Errorf("%s: found %d parameters, want %d", r[0], len(f.Params), len(r)-1)
			continue
		}
		for i, want := range r[1:] {
			compareParam(t, f, f.Params[i], want)
		}
	}
}

func compareParam(t *testing.T, f *Function, p Param, want string) {
	t.Helper()
	w := strings.Split(want, ":")
	kind, array := strings.CutSuffix(w[2], "[]")
	if p.Name != w[0] {
		t.Errorf("%s: found parameter %s, want %s", f.Name, p.Name, w[0])
	}
	if dir := map[Dir]string{In: "in", Ref: "in", Out: "out", InOut: "inout"}[p.Dir]; dir != w[1] && !unchanged[f.Name+" "+p.Name] {
		t.Errorf("%s: parameter %s: found direction %s, want %s", f.Name, p.Name, dir, w[1])
	}
	if found := rough(p.Kind); found != kind && p.Kind != "TOOL" && p.Kind != "POINTER" {
		t.Errorf("%s: parameter %s: found kind %s, want %s", f.Name, p.Name, p.Kind, kind)
	}
	if p.Array() != array && p.Kind != "ARGV" && p.Kind != "ERROR" && p.Kind != "STRING" {
		t.Errorf("%s: parameter %s: found array %v, want %v", f.Name, p.Name, p.Array(), array)
	}
}

// rough is the kind as facts.txt knows it.
func rough(kind string) string {
	switch kind {
	case "COMM", "GROUP", "REQUEST", "MESSAGE", "OP", "INFO", "DATATYPE", "ERRHANDLER", "KEYVAL", "WIN", "FILE", "SESSION",
		"STATUS", "STRING", "BUFFER", "EXTRA", "ATTRIBUTE":
		return strings.ToLower(kind)
	}
	if kind == "FN" || strings.HasSuffix(kind, "_FN") {
		return "function"
	}
	return "-"
}
