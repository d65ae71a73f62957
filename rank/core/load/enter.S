/* enter.S: the jump to the application's first instruction.
 *
 * Context: the main thread, FS 0; nothing comes back. */
	.text
/* void by_enter(stack pointer, entry): the start of the application. */
	.globl	by_enter
	.type	by_enter, @function
by_enter:
	mov	%rdi, %rsp
	mov	%rsi, %rax
	xor	%edx, %edx
	xor	%ebp, %ebp
	jmp	*%rax
	.section .note.GNU-stack, "", @progbits
