package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// fortran are the directories of the suite whose programs are in Fortran, each with a file of what they share in util.
var fortran = []string{"f77", "f90", "f08"}

// fortranFlags are what the suite's configuration would add for gfortran: arguments of one function have several types, and
// MPI_Alloc_mem is tested with Cray's pointers.
var fortranFlags = []string{"-fallow-argument-mismatch", "-fcray-pointer"}

// language is that of the program: one of fortran, or empty for C, in which some programs of those directories are.
func (t *test) language() string {
	for part := range strings.SplitSeq(t.Dir, "/") {
		if slices.Contains(fortran, part) && slices.ContainsFunc(t.sources, func(s string) bool { return filepath.Ext(s) != ".c" }) {
			return part
		}
	}
	return ""
}

// configured is what the suite's configuration would find out of this machine for its files whose names end with .in, by the words that
// they have between two @. Others become nothing.
var configured = map[string]string{
	"ALLOCMEMF":       "allocmemf 1",
	"F77_MPI_ADDRESS": "integer*8",
	"F77_MPI_OFFSET":  "integer*8",
	"PERL":            "perl",
}

var configuredWord = regexp.MustCompile(`@(\w+)@`)

// configure puts them into a text.
func configure(text string) string {
	return configuredWord.ReplaceAllStringFunc(text, func(word string) string { return configured[strings.Trim(word, "@")] })
}

// writeFortran makes a directory with the suite's tests in Fortran. Like the suite's own preparation it makes those of f90 of those of
// f77, and some of both from templates, by the suite's scripts.
func writeFortran(ctx context.Context, suite, into string) error {
	if err := os.RemoveAll(into); err != nil {
		return err
	}
	parts := append([]string{"maint"}, fortran...)
	for _, dir := range fortran {
		parts = append(parts, "errors/"+dir)
	}
	for _, dir := range parts {
		if err := os.CopyFS(filepath.Join(into, dir), os.DirFS(filepath.Join(suite, dir))); err != nil {
			return err
		}
	}
	// Sources in C include ../../include/mpitestconf.h.
	if err := os.Symlink("../include", filepath.Join(into, "include")); err != nil {
		return err
	}
	if err := configureAll(into); err != nil {
		return err
	}
	if err := templates(into); err != nil {
		return err
	}
	return scripts(ctx, into)
}

// configureAll writes each file NAME of which there is NAME.in, which goes.
func configureAll(into string) error {
	return filepath.WalkDir(into, func(path string, d fs.DirEntry, err error) error {
		name, ok := strings.CutSuffix(path, ".in")
		if err != nil || d.IsDir() || !ok {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(configure(string(b))), 0o666); err != nil {
			return err
		}
		return os.Remove(path)
	})
}

// templates makes those of f90/io of those of f77/io, as the rules in f90/io/Makefile.ap do.
func templates(into string) error {
	for file, change := range map[string]func(string) string{"ioharness.defn": freeDefinitions, "ioharness.tlt": freeTemplate} {
		b, err := os.ReadFile(filepath.Join(into, "f77/io", file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(into, "f90/io", file), []byte(change(string(b))), 0o666); err != nil {
			return err
		}
	}
	return nil
}

var (
	fixedFile    = regexp.MustCompile(`filename="(.*)f\.f"`)
	fixedOffset  = regexp.MustCompile(`include.*iooffset.*`)
	fixedHeader  = regexp.MustCompile(`include.*mpif.*`)
	fixedComment = regexp.MustCompile(`(?m)^C`)
	implicitNone = regexp.MustCompile(`(?m)^.*implicit *none.*\n`)
)

func freeDefinitions(text string) string {
	text = fixedFile.ReplaceAllString(text, `filename="${1}f90.f90"`)
	return fixedOffset.ReplaceAllString(text, "integer (kind=MPI_OFFSET_KIND)offset")
}

func freeTemplate(text string) string {
	text = strings.ReplaceAll(fixedHeader.ReplaceAllString(text, "use mpi"), "fheader", "f90header")
	return implicitNone.ReplaceAllString(fixedComment.ReplaceAllString(text, "!"), "")
}

// scripts runs the suite's scripts: the first makes a directory of f90 of one of f77, the second sources from templates. The first would
// also convert what the second has made, so it comes first.
func scripts(ctx context.Context, into string) error {
	for _, top := range []string{"f77", "errors/f77"} {
		entries, err := os.ReadDir(filepath.Join(into, top))
		if err != nil {
			return err
		}
		for _, e := range entries {
			from, to := filepath.Join(top, e.Name()), filepath.Join(filepath.Dir(top), "f90", e.Name())
			if !e.IsDir() {
				continue
			}
			if err := os.MkdirAll(filepath.Join(into, to), 0o777); err != nil {
				return err
			}
			if err := perl(ctx, into, "maint/f77tof90", from, to, "Makefile.am", "Makefile.ap"); err != nil {
				return err
			}
		}
	}
	for from, to := range borrowed() {
		b, err := os.ReadFile(filepath.Join(into, from))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(into, to, filepath.Base(from)), b, 0o666); err != nil {
			return err
		}
	}
	for _, dir := range fortran {
		err := perl(ctx, filepath.Join(into, dir, "io"), "../../maint/testmerge", "-defn=../../maint/common.defn", "ioharness.defn", "ioharness.tlt")
		if err != nil {
			return err
		}
	}
	return nil
}

// borrowed are sources of one directory that another one's Makefile copies.
func borrowed() map[string]string {
	return map[string]string{"f90/ext/c2f902c.c": "f08/ext", "f77/ext/ctypesfromc.c": "f08/ext"}
}

// perl runs one of the suite's scripts.
func perl(ctx context.Context, dir string, args ...string) error {
	command := exec.CommandContext(ctx, "perl", args...)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("perl %s: %w", strings.Join(args, " "), err), errors.New(string(out)))
	}
	return nil
}
