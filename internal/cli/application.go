package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/byssus-hpc/byssus/internal/host/elfcheck"
	"github.com/byssus-hpc/byssus/mpispec"
)

// What a finding means for a program.
const (
	verdictNo    = "no"    // it does not start, or its own file calls what is refused
	verdictMaybe = "maybe" // a library of it can call what is refused; the job ends if it does
)

// finding is something about an application that will not work.
type finding struct {
	Name    string   `json:"name"` // a function, a symbol or a library
	Reason  string   `json:"reason"`
	By      []string `json:"by,omitempty"` // what takes it
	Verdict string   `json:"verdict"`
	start   bool     // the program does not start
}

// judge says what of an application will not work.
func judge(r *elfcheck.Report) ([]finding, error) {
	spec, err := mpispec.Load()
	if err != nil {
		return nil, fmt.Errorf("cli: doctor: %w", err)
	}
	out := []finding{}
	for _, l := range r.Libraries {
		if l.Path == "" {
			out = append(out, finding{Name: l.Name, Reason: "this library is not found", Verdict: verdictNo, start: true})
		}
	}
	for _, u := range r.Unfit {
		out = append(out, finding{Name: u.What, Reason: u.Reason, By: []string{u.By}, Verdict: verdictNo, start: true})
	}
	for _, m := range r.Missing {
		f := finding{Name: m.Symbol, Reason: "no library has this symbol: the program ends if it is called", By: []string{m.By}, Verdict: verdictMaybe}
		if m.AtStart {
			f.Reason, f.Verdict, f.start = "no library has this symbol: the program does not start", verdictNo, true
		}
		out = append(out, f)
	}
	return append(out, refusals(spec, r)...), nil
}

// refusals lists the MPI functions that the application takes and that are refused. An unknown one is a missing symbol.
func refusals(spec *mpispec.Spec, r *elfcheck.Report) []finding {
	var out []finding
	for _, u := range r.Uses {
		verdict := verdictMaybe
		if u.Program {
			verdict = verdictNo
		}
		if reason, ok := spec.RefusedReason(u.Function); ok {
			out = append(out, finding{Name: u.Function, Reason: reason, By: u.By, Verdict: verdict})
		}
	}
	return out
}

// text is the reason with what takes it, unless that is the program alone.
func (f finding) text(r *elfcheck.Report) string {
	if len(f.By) == 0 || len(f.By) == 1 && f.By[0] == filepath.Base(r.Path) {
		return f.Reason
	}
	return fmt.Sprintf("%s (%s)", f.Reason, strings.Join(f.By, ", "))
}

// worst is the sentence about an application for one line, or "".
func worst(r *elfcheck.Report, found []finding) string {
	var first *finding
	others := 0
	for i := range found {
		f := &found[i]
		switch {
		case first == nil:
			first = f
		case f.start && !first.start || f.Verdict == verdictNo && first.Verdict != verdictNo:
			first = f
			others++
		default:
			others++
		}
	}
	if first == nil {
		return ""
	}
	what := fmt.Sprintf("%s: %s", first.Name, first.Reason)
	if first.Name == filepath.Base(r.Path) {
		what = first.Reason
	}
	if !first.start && first.Verdict == verdictNo {
		what = fmt.Sprintf("calls %s, which is refused: %s", first.Name, first.Reason)
	} else if !first.start {
		what = fmt.Sprintf("%s can call %s, which is refused: %s", strings.Join(first.By, ", "), first.Name, first.Reason)
	}
	if others > 0 {
		what += fmt.Sprintf("; and %d more", others)
	}
	return fmt.Sprintf("program %s: %s (see byssus doctor)", filepath.Base(r.Path), what)
}
