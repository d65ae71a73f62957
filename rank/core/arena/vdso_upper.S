/* vdso_upper.S: the stand-in for linux-vdso.so.1 that the application sees. It is saved with the image;
 * its functions jump to the running kernel's own through the control block. Built into a shared object of
 * one segment. */
#define __ASSEMBLER__ 1
#include "core/layout.h"
.macro FORWARD name, slot
	.globl	__vdso_\name
	.type	__vdso_\name, @function
__vdso_\name:
	movabs	$(BY_CTL + BY_CTL_VDSO + 8 * \slot), %rax
	jmp	*(%rax)
	.size	__vdso_\name, . - __vdso_\name
	.weak	\name
	.set	\name, __vdso_\name
.endm
	.text
	FORWARD	clock_gettime, 0
	FORWARD	gettimeofday, 1
	FORWARD	time, 2
	FORWARD	getcpu, 3
	FORWARD	clock_getres, 4
	.section .note.GNU-stack, "", @progbits
