/* saved.S: code that is saved with the image, at BY_GATE and BY_ENTRY: never changed without a new image
 * version.
 *
 * Context: upper half, at its place in the arena; copied from here by vdso.c. */
#define __ASSEMBLER__ 1
#include "core/layout.h"

	.section .rodata.by_saved, "a"
	.globl	by_pi_code, by_pi_end
/* frame: pc, number, rsi, rdx, r9. The program makes the call again, but for errors that are neither "not
 * now" nor EINTR. */
by_pi_code:
	syscall
	mov	(%rsp), %rcx
	mov	16(%rsp), %rsi
	mov	24(%rsp), %rdx
	mov	32(%rsp), %r9
	test	%rax, %rax
	jz	1f
	cmp	$-4, %rax
	je	1f
	cmp	$-11, %rax
	jne	2f
1:	mov	8(%rsp), %rax
	sub	$2, %rcx
2:	lea	BY_PASS_FRAME(%rsp), %rsp
	jmp	*%rcx
by_pi_end:
	.globl	by_pass_code, by_pass_end, by_entry_code, by_entry_end, by_vpark_code, by_vpark_end
by_pass_code:
	syscall
	mov	(%rsp), %rcx
	lea	BY_PASS_FRAME(%rsp), %rsp
	jmp	*%rcx
by_pass_end:
	.globl	by_noted_code, by_noted_end
by_noted_code:                  /* frame: as above, and the note. What fails has done nothing */
	syscall
	mov	8 * BY_PASS_NOTE(%rsp), %rcx
	cmp	$-4095, %rax
	jae	1f
	mov	%eax, BY_NOTE_RESULT(%rcx)
	lock incl BY_NOTE_DONE(%rcx)
1:	lock incl BY_NOTE_BACK(%rcx)
	mov	(%rsp), %rcx
	lea	BY_PASS_FRAME(%rsp), %rsp
	jmp	*%rcx
by_noted_end:
by_entry_code:
	push	%rdx                    /* ld.so's function for the end of the process */
	lea	8(%rsp), %rdi
	sub	$8, %rsp
	movabs	$(BY_CTL + BY_CROSS_CODE + BY_SLOT_SIZE * (BY_NCALL - 1)), %rax
	call	*%rax
	add	$8, %rsp
	pop	%rdx
	movabs	$BY_CTL, %rax
	jmp	*BY_CTL_APP_ENTRY(%rax)
by_entry_end:
by_vpark_code:                  /* tgkill(getpid(), gettid(), BY_SIG), then the real function */
	.set n, 0
	.rept BY_NVDSO
	push	%rdi
	push	%rsi
	push	%rdx
	mov	$39, %eax
	syscall
	mov	%eax, %edi
	mov	$186, %eax
	syscall
	mov	%eax, %esi
	mov	$BY_SIG, %edx
	mov	$234, %eax
	syscall
	pop	%rdx
	pop	%rsi
	pop	%rdi
	movabs	$(BY_CTL + BY_CTL_VDSO_REAL + 8 * n), %rax
	jmp	*(%rax)
	.set n, n + 1
	.org	by_vpark_code + BY_VPARK_SIZE * n
	.endr
by_vpark_end:
	.section .note.GNU-stack, "", @progbits
