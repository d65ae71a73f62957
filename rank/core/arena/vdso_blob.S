/* vdso_blob.S: the built stand-in vDSO as bytes of the rank. Context: data only. */
	.section .rodata
	.globl	by_vdso_blob, by_vdso_blob_end
	.balign 16
by_vdso_blob:
	.incbin "vdso_upper.so"
by_vdso_blob_end:
	.section .note.GNU-stack, "", @progbits
