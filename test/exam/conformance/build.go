package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// What the suite's configuration would find out of this machine. The first is include/mpitestconf.h, the second dtpoolsconf.h.
const (
	testConfiguration = `#define F77_NAME_LOWER_USCORE 1
#define HAVE_GETRUSAGE 1
#define HAVE_H_ADDR_LIST 1
#define HAVE_LONG_DOUBLE 1
#define HAVE_LONG_LONG 1
#define HAVE_MEMORY_H 1
#define HAVE_MPI_IO 1
#define HAVE_MPI_SPAWN 1
#define HAVE_MPI_WIN_CREATE 1
#define HAVE_PTHREAD_BARRIER_INIT 1
#define HAVE_PTHREAD_H 1
#define HAVE_STDARG_H 1
#define HAVE_STDINT_H 1
#define HAVE_STDLIB_H 1
#define HAVE_STRDUP 1
#define HAVE_STRINGS_H 1
#define HAVE_STRING_H 1
#define HAVE_SYS_RESOURCE_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_UNISTD_H 1
#define HAVE_USLEEP 1
#define POINTERINT_t long
#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX
#define USE_LONG_DOUBLE_COMPLEX 1
`
	typesConfiguration = "#define HAVE_MEMSET 1\n#define HAVE_STRDUP 1\n"
)

// removed make Open MPI's header declare what MPI-3 has removed: the suite tests it, and the library has it.
var removed = []string{"-DOMPI_OMIT_MPI1_COMPAT_DECLS=0", "-DOMPI_REMOVED_USE_STATIC_ASSERT=0"}

// The sources that the suite's programs in C share, by the object that is made of them, below the suite.
func shared() map[string]string {
	return map[string]string{
		"mtest.o":        "util/mtest.c",
		"mtest_common.o": "util/mtest_common.c",
		"mtest_single.o": "util/mtest_single.c",
		"mtest_thread.o": "util/mtest_thread.c",
		"dtypes.o":       "util/dtypes.c",
		"dtpools.o":      "dtpools/src/dtpools.c",
		"dtp_misc.o":     "dtpools/src/dtpools_misc.c",
		"dtp_verify.o":   "dtpools/src/dtpools_init_verify.c",
		"dtp_desc.o":     "dtpools/src/dtpools_desc.c",
		"dtp_attr.o":     "dtpools/src/dtpools_attr.c",
		"dtp_custom.o":   "dtpools/src/dtpools_custom.c",
	}
}

// sharedFortran are those of programs in Fortran, by the language.
func sharedFortran() map[string]string {
	return map[string]string{"f77": "util/mtest_f77.f", "f90": "util/mtest_f90.f90", "f08": "util/mtest_f08.f90"}
}

// prepare writes the headers and compiles the shared sources.
func (x exam) prepare(ctx context.Context) error {
	include := filepath.Join(x.into, "include")
	for _, dir := range []string{include, filepath.Join(x.into, "shared"), filepath.Join(x.into, "modules"), filepath.Join(x.into, "wrong")} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	for file, text := range map[string]string{
		filepath.Join(include, "mpitestconf.h"): testConfiguration,
		filepath.Join(include, "mtest_mpix.h"):  "", // names of extensions that a later standard has without the X
		filepath.Join(x.into, "dtpoolsconf.h"):  typesConfiguration,
	} {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			return err
		}
	}
	for object, source := range shared() {
		if err := x.share(ctx, "", object, source); err != nil {
			return err
		}
	}
	for language, source := range sharedFortran() {
		if err := x.share(ctx, language, language+".o", source); err != nil {
			return err
		}
	}
	return nil
}

// share compiles a shared source.
func (x exam) share(ctx context.Context, language, object, source string) error {
	args := append(x.includes(x.suite), "-c", "-o", filepath.Join(x.into, "shared", object), filepath.Join(x.suite, source))
	if text, err := x.compile(ctx, language, args); err != nil {
		return fmt.Errorf("compiling %s: %w\n%s", source, err, text)
	}
	return nil
}

// compile runs the face's compiler; warnings are the suite's own affair. That for Fortran compiles C as well.
func (x exam) compile(ctx context.Context, language string, args []string) (string, error) {
	compiler, flags := "mpicc.", append([]string{"-w", "-g", "-O1"}, removed...)
	if language != "" {
		compiler = "mpifort."
		flags = append(append(flags, fortranFlags...), "-J"+filepath.Join(x.into, "modules"))
	}
	out, err := exec.CommandContext(ctx, compiler+x.face, append(flags, args...)...).CombinedOutput()
	return string(out), err
}

// includes are the options that find headers from a directory.
func (x exam) includes(dir string) []string {
	own := filepath.Join(x.into, "include")
	return []string{
		"-I" + own, "-I" + filepath.Join(x.suite, "include"), "-I" + filepath.Join(x.suite, "dtpools/include"),
		"-I" + dir, `-DDTP_MPI_DATATYPE="MPI_INT,MPI_INT:4+MPI_DOUBLE:8"`,
	}
}

// file is where the test's program is built.
func (x exam) file(t *test) string { return filepath.Join(x.into, "bin", t.Dir, t.Program) }

// objects are the shared ones that the test is linked with.
func (x exam) objects(t *test) []string {
	if language := t.language(); language != "" {
		return []string{filepath.Join(x.into, "shared", language+".o")}
	}
	left := "mtest_thread.o" // what a test without threads is not linked with
	if t.threads {
		left = "mtest_single.o"
	}
	var objects []string
	for object := range shared() {
		if object != left {
			objects = append(objects, filepath.Join(x.into, "shared", object))
		}
	}
	return objects
}

// build makes the test's program, unless an earlier line or an earlier exam has. One is built at a time.
func (x exam) build(ctx context.Context, t *test) error {
	x.building.Lock()
	defer x.building.Unlock()
	out := x.file(t)
	if _, err := os.Stat(out); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
		return err
	}
	dir := filepath.Join(t.root, t.Dir)
	args := append(append(x.includes(dir), t.flags...), "-o", out)
	for _, include := range t.include {
		args = append(args, "-I"+filepath.Join(dir, include))
	}
	for _, source := range t.sources {
		args = append(args, filepath.Join(dir, source))
	}
	args = append(args, x.objects(t)...)
	if text, err := x.compile(ctx, t.language(), append(args, "-lpthread", "-lm")); err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	return nil
}
