/* agent.h: the way to the user and to the agent: saying, packets, the shared page, which process of a place
 * is the rank, and how this process ends when it cannot go on.
 *
 * Of what core.h declares, this room has core_say, core_debug, core_die, core_refuse, core_send, core_reason,
 * core_page, core_begin and core_world. Context: ordinary lower code (lower half's libc, its TLS), any lower
 * thread, unless a line says otherwise. What is marked ANY_FS allocates nothing and uses no TLS. */
#ifndef BYSSUS_AGENT_H
#define BYSSUS_AGENT_H
#include "core/base/base.h"

/* -- which process of its place is the rank (place.c, begin.c) -- */
void place_at(struct abi_page *shared);
ANY_FS bool place_is_free(void);                /* nobody has begun the MPI here */
ANY_FS bool place_is_mine(void);
ANY_FS bool place_is_others(void);
/* From another process than this one, those around it and their launcher: from a batch system, for one. */
ANY_FS bool place_sent_from_outside(const siginfo_t *si);
ANY_FS bool place_sent_by_wrapper(const siginfo_t *si);  /* to the rank, by a process around it: timeout */
bool place_take(void);                          /* false: another process has it */
unsigned long place_pid(void);                  /* of the rank; 0: place_is_free */
void place_program(char **argv);        /* start: what this process executes; core_self.exe is known */
const char *place_restores(void);       /* the image's directory, if it goes on from one instead, or NULL */
char *place_describe(void);     /* for the environment of what it executes: always the same string */

/* -- saying and ending (say.c, end.c); more in core.h -- */
extern int core_stderr;                 /* where we say things: not 2 while descriptors are restored */
/* Says why the application cannot be run, to the user and to the agent, and ends the process. */
void core_exit_message(int code, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* The same where an image is not as it was written: others may be able to make it again. */
void core_damaged(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* -- the agent (wire.c, asked.c, page.c) -- */
struct wire {
	volatile int sock;              /* -1: no agent */
	int wake;                       /* an eventfd that ends the helper thread's wait */
	bool hung_up;                   /* the agent is gone */
	bool end_came;                  /* END, while a restart waited for something else */
	volatile uint32_t asked, ending; /* a SIGTERM is held back; none is held back any more */
	uint32_t writers;
	uint32_t ranks_here;            /* that share the processors of this node, this one among them */
	int file;                       /* descriptor that came with the last packet, or -1 */
	struct abi_header in;
	char body[ABI_MAX_BODY];
};
extern struct wire wire;
/* HELLO and WELCOME, and the page; ends the process on failure. The standard input for this rank, or -1. */
int wire_connect(uint32_t below, uint64_t input_read);
struct iovec;
int wire_packet(struct iovec *v, size_t nv, int file);  /* file: a descriptor that goes with it, or -1 */
int wire_send(uint16_t type, uint64_t epoch, const void *body, size_t n, const void *text, size_t m);
bool wire_receive(int flags);   /* one packet into wire.in and wire.body: whoever leads this rank at the
				 * time */
void wire_failed(uint16_t type, const char *sentence);          /* FAILED or DAMAGED */
/* restart: gives to other ranks, or waits for what they give */
int wire_hand(unsigned what, uint32_t owner, uint64_t dev, uint64_t inode, int file);
void wire_claim(const struct abi_claim *c, const char *path);   /* restart: returns if it is right */
ANY_FS void wire_wake(void);
ANY_FS void wire_last_words(const char *text, size_t n);        /* of a process that is about to end */
ANY_FS bool wire_asked_to_end(void);    /* somebody asks this process to end. True: the agent will hear of it,
					 * and decides */
void page_map(void);                            /* start and restart, first: then the place is known */
const char *page_path(void);                    /* empty: the page is nobody's but ours */
void page_share(void);          /* this process is the rank from here on: its page is the agent's */
void core_phase(unsigned phase);
#endif
