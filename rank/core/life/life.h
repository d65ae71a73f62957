/* life.h: the life of a rank: its start, its checkpoints, its restart. The only room that knows the client
 * and its order of things; nothing of the core stands above it.
 *
 * Context: start and restart on the only thread; checkpoints on the helper thread, and on the carrier where a
 * line says so. */
#ifndef BYSSUS_LIFE_H
#define BYSSUS_LIFE_H
#include "core/files/files.h"
#include "core/image/image.h"
#include "core/threads/threads.h"

/* path NULL: argv[0] is looked for */
void start_application(const char *path, char **argv) __attribute__((noreturn));
void start_save(struct buf *b);         /* address space, program, what the entry stub has yet to do */
void start_restore(struct reader *r);
/* The launcher's process goes on from the image, or runs this again, when the rank was below it. */
void restart(const char *dir, char **argv) __attribute__((noreturn));
void restart_below(const char *dir) __attribute__((noreturn));  /* the rank, which was started again there */
void helper_start(void);                                /* the helper thread, which leads checkpoints */
void helper_listen(void);               /* it takes the socket over from who has started it */

/* -- the kinds of state in an image (sections.c): on the carrier -- */
extern const uint32_t sections_all[];
int sections_save(uint32_t type, const struct vma_list *l, const struct run_list *guards, struct buf *b,
		  const char **unread);
void sections_describe(struct abi_image_header *h);
#endif
