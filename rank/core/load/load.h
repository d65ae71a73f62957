/* load.h: brings the application's file, its loader and its first stack into the arena.
 *
 * Context: start, lower FS, the only thread: ordinary lower code, which may allocate and end the process.
 * What says so is for a restart as well. */
#ifndef BYSSUS_LOAD_H
#define BYSSUS_LOAD_H
#include "core/base/base.h"

/* -- files (elf.c, program.c, face.c) -- */
struct elf_image { uint64_t bias, entry, phdr, end; unsigned phnum; bool exec_stack; char interp[512]; };
void elf_check(const char *path);                       /* ends the process unless the file can be run */
void elf_map(const char *path, uint64_t at, struct elf_image *out);
bool elf_interpreter(const char *path, char *interp, size_t ni, char *arg, size_t na);   /* #! */
struct elf_needs { char **soname; size_t n; char rpath[2048], runpath[2048]; };
bool elf_needs(const char *path, struct elf_needs *out);
void elf_needs_free(struct elf_needs *n);
void program_find(const char *name, char *out, size_t n);       /* as execvp finds it */
char **program_interpreters(char **argv, char *path, size_t n); /* replaces a script by its interpreter;
								 * returns the new arguments */
size_t count_strings(char **v);
const char *face_for(const char *app);                          /* "mpich", "openmpi" or "" */

/* -- the first stack (stack.c), the jump (enter.S) -- */
void stack_keep_environment(void);
uint64_t stack_build(char **argv, const char *name, const char *face, const struct elf_image *app,
		     const struct elf_image *ld);
void stack_save(struct buf *b);                                 /* what the entry stub has yet to do */
void stack_restore(struct reader *r);
void by_enter(uint64_t sp, uint64_t entry) __attribute__((noreturn));

/* -- what /proc shows (shown.c) -- */
struct shown { uint64_t arg, arg_end, env, env_end, stack, nauxv, auxv[48]; };    /* nauxv: words */
void shown_start(const struct shown *s);
void shown_save(struct buf *b);
void shown_restore(struct reader *r);
void shown_again(void);                                         /* restart: memory is back */
#endif
