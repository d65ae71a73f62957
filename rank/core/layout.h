/* layout.h: where things are in the address space of a rank, and the control block.
 *
 * Everything below BY_ARENA_HI belongs to the application (upper half) and is saved; everything above belongs
 * to the real MPI and to us (lower half) and is new after a restart. The one exception is the control block,
 * which lies in the arena so that upper code can reach it at a fixed address, but is the lower half's: it is
 * written afresh at every start and is never part of an image. Context: included by both halves and by
 * assembly; constants and plain structs only. */
#ifndef BYSSUS_LAYOUT_H
#define BYSSUS_LAYOUT_H

/* Where the filter traps. Children keep the filter, through any number of exec, and have no handler for what
 * it raises: none of their code may ever be there. For 48-bit addresses and all that mmap_rnd_bits allows (up
 * to 2^44 bytes) Linux puts code of a program that is executed, its loader, libraries and vDSO,
 *   - where the file says, if it is not position-independent: by all linkers in the first gigabytes;
 *   - if it is: from 0x5555_5555_4000 upwards (two thirds), or with the libraries;
 *   - libraries, with a limit of the stack up to BY_STACK_LIMIT: from 0x5ff0_0000_0000 or higher downwards;
 *   - with an unlimited stack: from 0x0555_5555_5000 ... 0x1555_5555_5000 downwards (a sixth);
 *   - legacy layout (setarch -L, vm.legacy_va_layout): from 0x2aaa_aaaa_b000 ... 0x3aaa_aaaa_b000 upwards (a
 * third);
 *   - of 32 bits: below 4 GiB, and the filter does not look at their calls.
 * Between 0x3aaa_aaaa_b000 with 300 GiB of libraries and 0x5000_0000_0000 is nothing. A limit of the stack
 * that is finite and beyond BY_STACK_LIMIT would move the libraries through all the rest: main.c lowers it.
 * Children that share this address space until they execute something (vfork, posix_spawn) run our handlers.
 */
#define BY_TRAP_LO    0x3b0000000000      /* system calls are trapped for pc in [TRAP_LO, ARENA_HI) */
#define BY_ARENA_HI   0x500000000000
#define BY_STACK_LIMIT (16UL << 40)
#define BY_SAVED_LO   0x000000010000      /* first saved address (ET_EXEC programs lie low) */
#define BY_CTL        0x100000000000      /* struct by_ctl; not saved */
#define BY_CTL_SIZE   0x13000
#define BY_VDSO       0x100000100000      /* stand-in vDSO, 4 pages, saved: */
#define BY_GATE       (BY_VDSO + 0x2000)  /*   signal gate code */
#define BY_ENTRY      (BY_VDSO + 0x3000)  /*   entry stub: AT_ENTRY points here */
#define BY_LOW        0x100000200000      /* stubs for calls of code at low addresses, saved (low.c) */
#define BY_LOW_SIZE   0x100000
#define BY_STATE      0x110000020000      /* saved regions of the MPI half, BY_STATE_STRIDE apart */
#define BY_STATE_STRIDE 0x100010000     /* their first pages differ in the bits by which L1 caches guess the
					 * way: 12 to 27 */
#define BY_STATE_N    64
#define BY_OURS_HI    0x200000000000      /* from BY_CTL to here: no mapping of the application's choice */
#define BY_APP        0x3b8000000000      /* and its heap, of 4 TiB at most (space.c) */
#define BY_HEAP_MAX   (4UL << 40)
#define BY_LDSO       0x3fc000000000
#define BY_MMAP_LO    0x400000000000      /* the allocator's own range */
#define BY_MMAP_HI    0x4e0000000000
#define BY_STACK_TOP  0x4fff00000000

#define BY_PASS       (BY_GATE + 0x800)   /*   one system call that the filter lets pass (trap.c) */
#define BY_PI         (BY_GATE + 0x900)   /*   waits for a futex and makes the call before it again (pi.c) */
#define BY_NOTED      (BY_GATE + 0x980)   /*   one system call whose outcome goes into a note (noted.c) */
#define BY_VPARK      (BY_GATE + 0xa00) /*   vDSO functions that park before they read, BY_VPARK_SIZE apart */
#define BY_VPARK_SIZE 64
#define BY_NVDSO      5
#define BY_PASS_FRAME 256       /*   what it takes from the stack: red zone, return address, operands */
#define BY_PASS_NR    4                   /*   the word there that is the number of the call */
#define BY_PASS_NOTE  5                   /*   the word that is the address of the note */
#define BY_PASS_TIME  6                   /*   two words: a moment, in place of the caller's (timed.c) */
#define BY_PASS_REG   8                   /*   the register that leads to it, and one; 0: there is none */
#define BY_PASS_KEPT  9                   /*   what the caller has there */

/* Crossing code and its data, in the control block: trampolines at addresses that never change, so that a
 * pointer which upper code holds in a register while it is stopped is still right after a restart. */
#define BY_CROSS_DATA 0x2000              /* from BY_CTL */
#define BY_CROSS_CODE 0x4000
#define BY_SLOT_SIZE  16        /* of the trampoline of a slot: that of slot n is at BY_CROSS_CODE +
				 * BY_SLOT_SIZE * n */
#define BY_CLIENT     0x10000             /* the client's: it writes there what upper code reads */
#define BY_CLIENT_SIZE 0x2000
#define BY_NOTES      0x12000             /* struct note: saved code counts in them */
#define BY_NOTES_SIZE 0x1000
#define BY_NOTE_BACK  20                  /* fields of a note */
#define BY_NOTE_DONE  24
#define BY_NOTE_RESULT 28

#define BY_SIG        62  /* the checkpoint signal (SIGRTMIN+28): reserved, hidden from the application */
#define BY_NCALL      768                 /* call slots */
#define BY_NSHORT     8         /* of them, those that may have a trampoline of their own (trampoline.S) */
#define BY_SHORT_SIZE 192
#define BY_WINDOW     5120      /* bytes of static TLS that the face leaves to the lower half (window.c) */

/* The window's record (struct window) in the control block, behind the call targets and three words; its
 * fields. */
#define BY_WIN         (BY_CROSS_DATA + 8 * BY_NCALL + 24)
#define BY_WIN_FS      0
#define BY_WIN_ALIKE   8
#define BY_WIN_LOW     16
#define BY_WIN_UP      48
#define BY_WIN_END     80                 /* behind it: the targets of the short trampolines */
/* Words of a thread control block that belong to a half: distance from FS. glibc's, for x86-64, of 2.26 and
 * later. */
#define BY_TCB_DTV     0x8
#define BY_TCB_SELF    0x10
#define BY_TCB_MULTIPLE 0x18              /* "there are several threads" */
#define BY_TCB_GUARD   0x30
#define BY_TCB_TID     0x2d0

/* Offsets used by assembly; checked against struct by_ctl with static assertions in core. */
#define BY_CTL_VDSO      0x10
#define BY_CTL_VDSO_REAL 0x80
#define BY_CTL_MAIN_UP   0x50
#define BY_CTL_MAIN_LOW  0x58
#define BY_CTL_APP_ENTRY 0x68
#define BY_CTL_CALL      0x400

#ifndef __ASSEMBLER__
#include <stdint.h>
/* Of every thread-local variable of byssus-rank: they come before window.c's pad, which is the end of its
 * TLS. */
#define BY_THREAD_LOCAL __thread __attribute__((section(".tdata")))
struct by_ctl {
	uint64_t magic;               /* 0x00 */
	uint32_t version, pad0;       /* 0x08 */
	uint64_t vdso[8];             /* 0x10 clock_gettime gettimeofday time getcpu clock_getres - - - */
	uint64_t main_upper_fs;       /* 0x50 FS of the application's main thread */
	uint64_t main_lower_fs;       /* 0x58 FS lent to it inside the lower half */
	uint64_t window;  /* 0x60 written by the face's constructor: FS minus the address of its TLS window */
	uint64_t app_entry;           /* 0x68 the program's own entry point */
	volatile uint32_t stop; /* 0x70 stop in effect: waiting calls return BY_AGAIN to the upper half, which
				 * parks */
	volatile uint32_t pending;      /* 0x74 a checkpoint has been asked for: collectives look at their
					 * targets */
	int64_t  wtime_shift_ns;      /* 0x78 added to CLOCK_MONOTONIC: MPI_Wtime goes on across restarts */
	uint64_t vdso_real[8];  /* 0x80 the kernel's own; vdso[] is BY_VPARK while a stop is in effect */
	int64_t  clock_shift_ns;      /* 0xc0 the part of it that the application's CLOCK_MONOTONIC has */
	char     clients[112];        /* 0xc8 where the agent hears programs (docs/format/client.md) */
	uint64_t spare[89];           /* 0x138 */
	uint64_t call[BY_NCALL];      /* 0x400 crossings: address of the trampoline of each slot */
};
#define BY_CTLP ((struct by_ctl *)BY_CTL)
#define BY_AGAIN (-1000001L)      /* result of a crossing: nothing was done, park and call again */
#endif
#endif
