/* switch.S: onto another stack, into a new thread, back to where a signal frame says.
 *
 * Context: on whatever FS the thread has; nothing here uses TLS. */
	.section any_fs, "ax", @progbits
/* void by_on_stack(stack top, fn, arg): calls fn(arg) there and comes back. */
	.globl	by_on_stack
	.type	by_on_stack, @function
by_on_stack:
	push	%rbx
	mov	%rsp, %rbx
	mov	%rdi, %rsp
	mov	%rdx, %rdi
	call	*%rsi
	mov	%rbx, %rsp
	pop	%rbx
	ret

/* void by_sigreturn(ucontext): goes on where the kernel's frame says. */
	.globl	by_sigreturn
	.type	by_sigreturn, @function
by_sigreturn:
	mov	%rdi, %rsp
	mov	$15, %eax
	syscall
	hlt

/* long by_clone(flags, stack top, ptid, ctid, tls, arg): the new thread calls thread_revived(arg). */
	.globl	by_clone
	.type	by_clone, @function
by_clone:
	push	%r12
	mov	%r9, %r12
	mov	%rcx, %r10
	mov	$56, %eax
	syscall
	test	%eax, %eax
	jz	1f
	pop	%r12
	ret
1:	xor	%ebp, %ebp
	mov	%r12, %rdi
	call	thread_revived
	hlt
	.section .note.GNU-stack, "", @progbits
