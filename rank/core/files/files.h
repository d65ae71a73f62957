/* files.h: the application's descriptors: looked at, saved, made again.
 *
 * Context: ordinary lower code on the carrier while the application's threads stand still (its descriptors
 * are not the helper thread's); or restart. */
#ifndef BYSSUS_FILES_H
#define BYSSUS_FILES_H
#include "core/memory/memory.h"

void fds_inspect(struct buf *refusals, unsigned *n);            /* threads stopped; makes the records */
unsigned fds_children(struct buf *refusals);    /* helper thread: how many there are; named, unless refusals
						 * is NULL */
void fds_wait_for_child(int or_readable);  /* helper thread: until one ends, for some milliseconds at most */
void fds_settle(void);                                          /* all ranks stand: what files are now */
/* 0, or the error number for which the content of the file *unread cannot be saved. */
int fds_save(const struct vma_list *l, struct buf *fds, struct buf *content, const char **unread);
void fds_release(void);                                         /* what an inspection holds */
void places_take(struct reader fds);            /* restart: before there are other threads */
/* restart: before any of them is opened. in_image: memory with a name, which is filled; image_ns: when the
 * image was made */
void files_check(struct reader fds, bool (*in_image)(uint64_t key), uint64_t image_ns);
void fds_restore(struct reader *fds, struct reader *content);
void fds_finish(void);                                          /* restart: the threads are back */
#endif
