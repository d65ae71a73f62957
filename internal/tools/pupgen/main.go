package pupgen

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Exit codes of the command.
const (
	exitOK    = 0
	exitFault = 1
	exitUsage = 2
)

const help = `pupgen writes the PUP methods of Go types from the types alone.

Usage: pupgen [flags] [directory]

It reads the package in the directory (default: the current one) and writes methods for every type whose declaration
carries the comment //pup:generate, or for the types that -type names. A field with the comment //pup:skip reason, or
the tag pup:"-,reason", is left out.

Flags:
  -type A,B    the types (default: those with //pup:generate)
  -out FILE    file to write in the package's directory (default pup_gen.go; with -test pup_gen_test.go)
  -test        generate for the types of the _test.go files
  -tags A,B    build tags to read the package with
  -check       write nothing; fail and print the difference when the file is not current
  -help        this text

Examples:
  //go:generate go run github.com/byssus-hpc/byssus/cmd/pupgen
  //go:generate go run github.com/byssus-hpc/byssus/cmd/pupgen -type Particle,Cell -out particle_pup.go
  pupgen -check ./sim

Exit codes:
  0  the file is written, or current
  1  the types cannot be generated, or with -check the file is not current
  2  the command line is wrong
`

// usageError is a mistake on the command line.
type usageError struct{ error }

func usage(format string, args ...any) error {
	return usageError{fmt.Errorf("pupgen: "+format, args...)}
}

// Main runs the command with its arguments and returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	cfg, check, err := parse(args)
	if err == nil {
		err = run(cfg, check, stdout)
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, help)
		return exitOK
	}
	fmt.Fprintln(stderr, err)
	if errors.As(err, new(usageError)) {
		fmt.Fprintln(stderr, "pupgen -help tells more")
		return exitUsage
	}
	return exitFault
}

// parse reads the command line.
func parse(args []string) (cfg Config, check bool, err error) {
	fs := flag.NewFlagSet("pupgen", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	var list string
	fs.StringVar(&list, "type", "", "")
	fs.StringVar(&cfg.Out, "out", "", "")
	fs.StringVar(&cfg.Tags, "tags", "", "")
	fs.BoolVar(&cfg.Test, "test", false, "")
	fs.BoolVar(&check, "check", false, "")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return cfg, check, err
		}
		return cfg, check, usage("%v", err)
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			cfg.Types = append(cfg.Types, name)
		}
	}
	switch fs.NArg() {
	case 0:
		cfg.Dir = "."
	case 1:
		cfg.Dir = fs.Arg(0)
	default:
		return cfg, check, usage("arguments: found %q, wanted one directory after the flags", fs.Args())
	}
	if info, err := os.Stat(cfg.Dir); err != nil || !info.IsDir() {
		return cfg, check, usage("arguments: %s: wanted a directory", cfg.Dir)
	}
	return cfg, check, nil
}

// run writes the file, or compares it with what would be written.
func run(cfg Config, check bool, stdout io.Writer) error {
	f, err := Generate(cfg)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(f.Path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("pupgen: read: %w", err)
	}
	name := filepath.Join(cfg.Dir, filepath.Base(f.Path))
	switch {
	case err == nil && bytes.Equal(old, f.Content):
		return nil
	case check:
		fmt.Fprintf(stdout, "--- %s\n+++ %s as generated\n%s", name, name, diff(string(old), string(f.Content)))
		return fmt.Errorf("pupgen: check: %s: not current, run go generate", name)
	}
	if err := os.WriteFile(f.Path, f.Content, 0o644); err != nil {
		return fmt.Errorf("pupgen: write: %w", err)
	}
	return nil
}
