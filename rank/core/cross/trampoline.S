/* trampoline.S: the trampolines between the halves. All switching of FS is here and in cross.c.
 *
 * The template below is copied into the control block (cross.c), at BY_CTL + BY_CROSS_CODE; it reaches
 * its data, at BY_CTL + BY_CROSS_DATA, by distance alone. A thread whose pc is in the control block is
 * never parked. A crossing takes up to six integer arguments, keeps all of them, and gives the callee an
 * aligned stack. */
#define __ASSEMBLER__ 1
#include "core/layout.h"

#define DATA(off)  (by_cross_template - BY_CROSS_CODE + BY_CROSS_DATA + (off))(%rip)
#define D_MAIN_UP   (8 * BY_NCALL)
#define D_MAIN_LOW  (8 * BY_NCALL + 8)
#define D_ENTER     (8 * BY_NCALL + 16)
#define D_SHORT     (BY_WIN + BY_WIN_END - BY_CROSS_DATA)
#define BODY_MAX    1024
#define DONOR_FS     0
#define DONOR_INSIDE 8

	.section .rodata.by_cross, "a"
	.globl	by_cross_template, by_cross_short, by_cross_short_0, by_cross_common, by_cross_fsgs
	.globl	by_cross_fsgs_end, by_cross_prctl, by_cross_prctl_end

/* Sets FS, keeps every register. */
.macro SETFS_FSGS reg
	wrfsbase \reg
.endm
.macro SETFS_PRCTL reg
	push	%rax
	push	%rdi
	push	%rsi
	push	%rcx
	push	%r11
	mov	\reg, %rsi
	mov	$0x1002, %edi
	mov	$158, %eax
	syscall
	pop	%r11
	pop	%rcx
	pop	%rsi
	pop	%rdi
	pop	%rax
.endm

/* The two ways through the window (window.c); r11: its record. Whose the words of the thread control block
 * are is told by the thread's descriptor, which changes in one store together with the table of dynamic
 * TLS. OTHERS: also the words that may differ between the halves only after a restart; they are the lower
 * half's whenever the descriptor is. A signal may come between any two instructions: window.c goes back
 * from before WAY_1 to WAY_0, for what WAY_0 reads may be old by then. Clobber r10 and xmm15. */
.macro WORDS which
	movups	\which(%r11), %xmm15
	movups	%xmm15, %fs:BY_TCB_DTV
.endm
.macro OTHERS which
	mov	\which+16(%r11), %r10
	mov	%r10, %fs:BY_TCB_GUARD
	mov	\which+24(%r11), %r10d
	mov	%r10d, %fs:BY_TCB_TID
.endm
/* A table that has grown is noted, out of line, and looked at again; a comparison, so that no load waits
 * for a store of the crossing before. */
.macro CHANGED way, which
	mov	%fs:BY_TCB_DTV, %r10
	cmp	%r10, \which(%r11)
	jne	\way\()_new
.endm
.macro NEW way, which
\way\()_new:
	mov	%r10, \which(%r11)
	jmp	\way\()_0
.endm
.macro WINDOW_IN way, others
\way\()_0:
	CHANGED	\way, BY_WIN_UP
	.if \others
	OTHERS	BY_WIN_LOW
	.endif
	WORDS	BY_WIN_LOW
\way\()_1:
.endm
.macro WINDOW_OUT way, others
\way\()_0:
	CHANGED	\way, BY_WIN_LOW
	WORDS	BY_WIN_UP
\way\()_1:
	.if \others
	OTHERS	BY_WIN_UP
	.endif
.endm
.macro WINDOW_CALL name, others, callee:vararg
	WINDOW_IN \name\()_in, \others
	sub	$8, %rsp
	call	*\callee
	add	$8, %rsp
	movabs	$(BY_CTL + BY_WIN), %r11
	WINDOW_OUT \name\()_out, \others
	ret
	NEW	\name\()_in, BY_WIN_UP
	NEW	\name\()_out, BY_WIN_LOW
.endm

	.balign 4096
by_cross_template:
	.set n, 0
	.rept BY_NCALL
	.balign BY_SLOT_SIZE
	mov	DATA(8 * n), %rax
	jmp	by_cross_common
	.set n, n + 1
	.endr

/* Short trampolines: the most usual case of the common body, once for each of the calls of inner loops:
 * fewer jumps, and a call whose target never changes. All look alike: window.c knows the labels of the
 * first. */
.macro SHORT k
	.balign 64
by_cross_short_\k:
	mov	%fs:0, %r10
	movabs	$(BY_CTL + BY_WIN), %r11
	cmp	BY_WIN_ALIKE(%r11), %r10
	jne	7f
	WINDOW_CALL by_cross_short_\k, 0, DATA(D_SHORT + 8 * \k)
7:	mov	DATA(D_SHORT + 8 * \k), %rax
	jmp	by_cross_common
	.org	by_cross_short_\k + BY_SHORT_SIZE    /* an error if it is longer */
.endm
	.balign 64
by_cross_short:
	.altmacro
	.set n, 0
	.rept BY_NSHORT
	SHORT	%n
	.set n, n + 1
	.endr
	.noaltmacro
by_cross_common:                /* one of the two bodies below is copied to here */
	.skip BODY_MAX

/* rax: callee. The data is addressed absolutely here: the body is not where it was assembled. */
.macro BODY name, setfs
9:	mov	%fs:0, %r10
	movabs	$(BY_CTL + BY_WIN), %r11
	cmp	BY_WIN_ALIKE(%r11), %r10
	jne	4f
	WINDOW_CALL \name\()_alike, 0, %rax
4:	cmp	BY_WIN_FS(%r11), %r10
	jne	3f
	WINDOW_CALL \name, 1, %rax
3:	movabs	$(BY_CTL + BY_CROSS_DATA + D_MAIN_UP), %r11
	cmp	(%r11), %r10
	jne	1f
	mov	8(%r11), %r11
	push	%r10
	\setfs	%r11
	call	*%rax
	pop	%r10
	\setfs	%r10
	ret
1:	push	%rax            /* not the main thread, or its first time: which lower TLS does it borrow? */
	push	%rdi
	push	%rsi
	push	%rdx
	push	%rcx
	push	%r8
	push	%r9
	mov	%r10, %rdi
	call	*16(%r11)       /* struct donor *cross_enter(upper FS): on the application's FS; NULL: none,
				 * look again */
	test	%rax, %rax
	jz	2f
	mov	DONOR_FS(%rax), %r11
	pop	%r9
	pop	%r8
	pop	%rcx
	pop	%rdx
	pop	%rsi
	pop	%rdi
	pop	%r10                    /* callee */
	push	%fs:0
	push	%rax
	sub	$8, %rsp
	\setfs	%r11
	call	*%r10
	add	$8, %rsp
	pop	%r11
	pop	%r10
	\setfs	%r10
	lock decl DONOR_INSIDE(%r11)
	ret
2:	pop	%r9
	pop	%r8
	pop	%rcx
	pop	%rdx
	pop	%rsi
	pop	%rdi
	pop	%rax
	jmp	9b
.endm

/* Both bodies begin with the same instructions, so one set of labels serves them. */
by_cross_fsgs:
	BODY	by_cross, SETFS_FSGS
by_cross_fsgs_end:
	.org	by_cross_fsgs + BODY_MAX    /* an error if it is longer */
by_cross_prctl:
	BODY	by_unused, SETFS_PRCTL
by_cross_prctl_end:
	.org	by_cross_prctl + BODY_MAX    /* an error if it is longer */
	.globl	by_cross_in_0, by_cross_in_1, by_cross_out_0, by_cross_out_1
	.globl	by_cross_alike_in_0, by_cross_alike_in_1, by_cross_alike_out_0, by_cross_alike_out_1
	.globl	by_cross_short_0_in_0, by_cross_short_0_in_1, by_cross_short_0_out_0, by_cross_short_0_out_1

	.section any_fs, "ax", @progbits
/* void by_window_in(void), by_window_out(void): the calling thread's words become the lower half's, the
 * upper half's. */
	.globl	by_window_in, by_window_in_0, by_window_in_1, by_window_out, by_window_out_0, by_window_out_1
	.type	by_window_in, @function
by_window_in:
	movabs	$(BY_CTL + BY_WIN), %r11
	WINDOW_IN by_window_in, 1
	ret
	NEW	by_window_in, BY_WIN_UP
	.type	by_window_out, @function
by_window_out:
	movabs	$(BY_CTL + BY_WIN), %r11
	WINDOW_OUT by_window_out, 1
	ret
	NEW	by_window_out, BY_WIN_LOW

/* long by_upcall(upper FS, lower FS, fn, long arg[6]) */
.macro UPCALL setfs
	push	%rbx
	mov	%rsi, %rbx
	mov	%rdx, %rax
	mov	%rdi, %r11
	mov	%rcx, %r10
	mov	0(%r10), %rdi
	mov	8(%r10), %rsi
	mov	16(%r10), %rdx
	mov	24(%r10), %rcx
	mov	32(%r10), %r8
	mov	40(%r10), %r9
	\setfs	%r11
	call	*%rax
	\setfs	%rbx
	pop	%rbx
	ret
.endm
	.globl	by_upcall_fsgs, by_upcall_prctl
	.type	by_upcall_fsgs, @function
by_upcall_fsgs:
	UPCALL	SETFS_FSGS
	.type	by_upcall_prctl, @function
by_upcall_prctl:
	UPCALL	SETFS_PRCTL

/* What the kernel calls for a signal of the application: (sig, info, ucontext). gate.c says whether the
 * handler may be entered directly (0: nothing of ours stays on the stack) or runs on top of lower frames. */
	.globl	by_gate
	.type	by_gate, @function
by_gate:
	push	%rdi
	push	%rsi
	push	%rdx
	call	gate_enter
	pop	%rdx
	pop	%rsi
	pop	%rdi
	movslq	%edi, %rcx
	shl	$5, %rcx                /* sizeof(struct ksigaction) */
	lea	sig_upper(%rip), %r11
	mov	(%r11, %rcx), %r11
	cmp	$1, %r11                /* reset meanwhile */
	jbe	2f
	test	%rax, %rax
	jnz	1f
	jmp	*%r11
1:	cmp	$2, %rax                /* gate.c has taken care of it */
	je	3f
	push	%rax
	call	*%r11
	pop	%rdi
/* Back to lower code, not by the restorer, which is the application's: a thread that is parked there would
 * have the lower code's address in its frame. */
4:	sub	$8, %rsp
	call	gate_leave
	add	$16, %rsp               /* and the return address: what follows is the frame */
	mov	$15, %eax
	syscall
	hlt
2:	mov	%rax, %rdi
	test	%rax, %rax
	jnz	4b
3:	ret

	.section .note.GNU-stack, "", @progbits
