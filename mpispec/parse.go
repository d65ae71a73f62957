package mpispec

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// Reasons that the reader gives itself.
const (
	largeReason    = "large-count"
	internalReason = "internal"
)

// Parse reads every *.mpi and abi/*.txt of a file system and checks them.
func Parse(fsys fs.FS) (*Spec, error) {
	s := &Spec{Reasons: map[string]Reason{}, byName: map[string]*Function{}, lower: map[string]*Function{}}
	names, err := fs.Glob(fsys, "*.mpi")
	if err != nil {
		return nil, fmt.Errorf("mpispec: list files: %w", err)
	}
	for _, name := range names {
		if err := s.readFile(fsys, name); err != nil {
			return nil, err
		}
	}
	if s.ABI, err = readABI(fsys); err != nil {
		return nil, err
	}
	if err := s.addInternal(); err != nil {
		return nil, err
	}
	if err := s.resolveAliases(); err != nil {
		return nil, err
	}
	return s, s.check()
}

// addInternal describes the functions that only the MPI's own other libraries call: there so that those libraries load.
func (s *Spec) addInternal() error {
	for _, t := range s.ABI.Taken {
		if !t.Function || s.byName[t.Name] != nil {
			continue
		}
		f := &Function{Name: t.Name, Chapter: "taken", Action: Refuse, Reason: internalReason, ABI: t.ABI}
		if err := s.add(f); err != nil {
			return err
		}
	}
	return nil
}

func (s *Spec) readFile(fsys fs.FS, name string) error {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return fmt.Errorf("mpispec: read %s: %w", name, err)
	}
	chapter := strings.TrimSuffix(path.Base(name), ".mpi")
	sc := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := s.readLine(chapter, line); err != nil {
			return fmt.Errorf("mpispec: %s:%d: %w", name, n, err)
		}
	}
	return sc.Err()
}

func (s *Spec) readLine(chapter, line string) error {
	if rest, ok := strings.CutPrefix(line, "reason "); ok {
		return s.readReason(rest)
	}
	if rest, ok := strings.CutPrefix(line, "alias "); ok {
		return s.readAlias(chapter, rest)
	}
	f, large, err := readFunction(line)
	if err != nil {
		return err
	}
	f.Chapter = chapter
	if err := s.add(f); err != nil || !large {
		return err
	}
	c := *f
	c.Name, c.Action, c.Yield, c.Reason = f.Name+"_c", Refuse, None, largeReason
	c.Driver, c.Hot, c.Fast, c.Hand, c.Large, c.ABI = false, false, false, false, true, "mpich"
	return s.add(&c)
}

func (s *Spec) add(f *Function) error {
	if s.byName[f.Name] != nil {
		return fmt.Errorf("function %s: described twice", f.Name)
	}
	s.byName[f.Name], s.lower[strings.ToLower(f.Name)] = f, f
	s.Functions = append(s.Functions, f)
	return nil
}

// readReason reads "name [answers CONSTANT|returns|ends]: text".
func (s *Spec) readReason(rest string) error {
	head, text, ok := strings.Cut(rest, ": ")
	if !ok {
		return fmt.Errorf("reason %q: no text after a colon", rest)
	}
	head, answer, _ := strings.Cut(head, " answers ")
	name, how, _ := strings.Cut(head, " ")
	if _, twice := s.Reasons[name]; twice {
		return fmt.Errorf("reason %s: given twice", name)
	}
	r := Reason{Name: name, Text: text, Answer: answer}
	switch how {
	case "":
	case "returns":
		r.How = Returns
	case "ends":
		r.How = Ends
	default:
		return fmt.Errorf("reason %s: found %q, want returns, ends or answers CONSTANT", name, how)
	}
	s.Reasons[name] = r
	return nil
}

// readAlias reads "[abi] MPI_New = MPI_Old".
func (s *Spec) readAlias(chapter, rest string) error {
	name, target, ok := strings.Cut(rest, "=")
	if !ok {
		return fmt.Errorf("alias %q: no equals sign", rest)
	}
	f := &Function{Chapter: chapter, Alias: strings.TrimSpace(target)}
	words := strings.Fields(name)
	switch {
	case len(words) == 1:
		f.Name = words[0]
	case len(words) == 2 && isABI(words[0]):
		f.ABI, f.Name = words[0], words[1]
	default:
		return fmt.Errorf("alias %q: want [abi] name", name)
	}
	return s.add(f)
}

// resolveAliases gives each alias the description of its target, which is no alias itself.
func (s *Spec) resolveAliases() error {
	for _, f := range s.Functions {
		if f.Alias == "" {
			continue
		}
		t := s.byName[f.Alias]
		if t == nil || t.Alias != "" {
			return fmt.Errorf("mpispec: alias %s: no function %s", f.Name, f.Alias)
		}
		f.Action, f.Yield, f.Reason, f.Params, f.Returns = t.Action, t.Yield, t.Reason, t.Params, t.Returns
	}
	return nil
}

var functionLine = regexp.MustCompile(`^([a-z][a-z0-9 -]*?)\s+(\w+)\((.*)\)(?: -> ([A-Z0-9_]+))?( \+c)?$`)

// readFunction reads one line; large says that it ends in +c.
func readFunction(line string) (f *Function, large bool, err error) {
	m := functionLine.FindStringSubmatch(line)
	if m == nil {
		return nil, false, fmt.Errorf("line %q: want action, name and parameters", line)
	}
	f = &Function{Name: m[2], Returns: m[4]}
	if err := f.readAction(strings.Fields(m[1])); err != nil {
		return nil, false, err
	}
	if f.Params, err = readParams(m[3]); err != nil {
		return nil, false, fmt.Errorf("function %s: %w", f.Name, err)
	}
	return f, m[5] != "", nil
}

func (f *Function) readAction(words []string) error {
	switch words[0] {
	case "wrap":
		f.Action = Wrap
	case "local":
		f.Action = Local
	case "refuse":
		if len(words) < 2 {
			return fmt.Errorf("function %s: refused without a reason", f.Name)
		}
		f.Action, f.Reason = Refuse, words[1]
		words = words[1:]
	default:
		return fmt.Errorf("function %s: action %q: want wrap, local, refuse or alias", f.Name, words[0])
	}
	for _, w := range words[1:] {
		if err := f.readFlag(w); err != nil {
			return err
		}
	}
	return nil
}

func (f *Function) readFlag(w string) error {
	switch {
	case w == "recall":
		f.Yield = Recall
	case w == "resume":
		f.Yield = Resume
	case w == "driver":
		f.Driver = true
	case w == "hot":
		f.Hot = true
	case w == "fast":
		f.Fast = true
	case w == "hand":
		f.Hand = true
	case isABI(w):
		f.ABI = w
	default:
		return fmt.Errorf("function %s: flag %q: unknown", f.Name, w)
	}
	return nil
}

var paramText = regexp.MustCompile(`^(?:(out|inout|ref) )?([A-Z][A-Z0-9_]*)(\?)? (\w+)(?:\[(.*)\])?$`)

func readParams(list string) ([]Param, error) {
	var ps []Param
	if list == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(list, ", ") {
		m := paramText.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("parameter %q: want [dir] KIND name[length]", text)
		}
		dir := map[string]Dir{"": In, "out": Out, "inout": InOut, "ref": Ref}[m[1]]
		ps = append(ps, Param{Dir: dir, Kind: m[2], Place: m[3] != "", Name: m[4], Len: m[5]})
	}
	return ps, nil
}
