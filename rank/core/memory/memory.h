/* memory.h: the application's mappings: which there are, what they contain, whose else it is, what they have
 * beside bytes.
 *
 * Context: ordinary lower code while the application's threads stand still, or at a restart before they
 * exist. */
#ifndef BYSSUS_MEMORY_H
#define BYSSUS_MEMORY_H
#include "core/base/base.h"

/* -- mappings (vma.c) -- */
struct vma_id { uint64_t dev, inode; };
/* lines: of maps, as the kernel words them; bad: it is not complete. */
struct vma_list { struct abi_vma *v; struct vma_id *id; size_t n, cap; struct buf strings, lines; bool bad; };
void vma_scan(struct vma_list *l, struct buf *refusals, unsigned *n);
void vma_scan_again(struct vma_list *l);        /* the one that was kept, if it is still right */
void vma_keep(struct vma_list *l);              /* takes it over */
void vma_forget(void);                          /* it, before threads go on */
void vma_free(struct vma_list *l);
struct content;
void vma_add_content(struct vma_list *l, const struct content *c);      /* behind all memory */

#define VMF_HUGE      (1UL << 0)
#define VMF_NOHUGE    (1UL << 1)
#define VMF_DONTFORK  (1UL << 2)
#define VMF_DONTDUMP  (1UL << 3)
#define VMF_WIPEFORK  (1UL << 4)
#define VMF_MERGE     (1UL << 5)
#define VMF_LOCKED    (1UL << 6)
#define VMF_SEQ       (1UL << 7)
#define VMF_RANDOM    (1UL << 8)
#define VMF_NORESERVE (1UL << 9)
#define VMF_GROWSDOWN (1UL << 10)
#define VMF_WHOLE     (1UL << 11)  /* the file's bytes are in the image: comes back as anonymous memory */
#define VMF_DELETED   (1UL << 12)
#define VMF_TMPFS     (1UL << 13)
#define VMF_ONFAULT   (1UL << 20)       /* locked, page by page as they are touched */
#define VMF_DROPPABLE (1UL << 21)       /* the kernel may empty it: comes back empty */
#define VMF_SEALED    (1UL << 22)
struct run { uint64_t start, end; uint32_t vma, flags; };
#define RUN_CONTENT 2                   /* content of a file: vma is its number in the list */
#define RUN_BOUNCE 1                    /* not readable in place: read through /proc/self/mem */
struct run_list { struct run *r; size_t n, cap; bool bad; };    /* bad: it is not complete */
void pages_scan(const struct vma_list *l, struct run_list *out, struct run_list *guards);
bool pages_guarded(const struct abi_vma *v);                    /* some of its pages are guard pages */

/* -- what mappings have besides bytes (memory.c) -- */
void memory_save(const struct vma_list *l, const struct run_list *guards, struct buf *b);
void memory_restore(struct reader *r);                  /* reads the section; places memory that is to come */
void memory_restore_guards(void);                               /* content is there */
void memory_restore_lock(void);                                 /* nothing more is mapped */

/* -- files that are mapped again (libs.c) -- */
void libs_save(const struct vma_list *l, struct buf *b);
void libs_check(struct reader *r);

/* -- files that are read and written in place (inplace.c) -- */
/* The addresses are places in an image; size: in bytes. ours: the descriptor is, and not the application's;
 * journal: there may be one beside it, which stays. */
struct content {
	uint64_t key, start, end, size;
	uint32_t mode;
	int fd;
	bool ours, journal;
	const char *path;
};
/* The paths from named on are the list's own; unread: what could not be read, or NULL. */
struct content_list { struct content *c; size_t n, named; const char *unread; int error; };
bool inplace_open(int flags);                                   /* a file that is open so */
bool inplace_mapped(const struct abi_vma *v);
bool inplace_is(uint64_t key);                                  /* some rank saves its content */
void inplace_list(struct content_list *l);                      /* those that this rank saves */
void inplace_runs(const struct content_list *l, struct run_list *out);  /* without holes */
void inplace_free(struct content_list *l);
int inplace_make(const char *path, uint32_t mode);              /* restart: a descriptor of the file */
void inplace_no_journal(const char *path);                      /* restart: as there was none */
#define VMF_JOURNAL (1UL << 23)         /* of content: there was a journal beside it */

/* -- what ranks share (shared.c) -- */
struct object { uint64_t dev, inode, key, size, offset; uint32_t flags; int32_t fd; const char *path; };
void shared_begin(void);                                        /* a rank stands: nothing is known yet */
size_t shared_nobjects(void);                                   /* that were reported */
const struct object *shared_object_of(size_t i);
void shared_add(const struct object *o);                        /* something that others might have too */
void shared_report(uint64_t epoch);                             /* to the coordinator */
void shared_told(const void *body, size_t n);                   /* its answer */
bool shared_hold(void);                                         /* wait for RESUME after the image */
uint32_t shared_flags(uint64_t key, bool *others);      /* of all ranks together; others: another rank answers
							 * for it */
bool shared_can_be_read(int fd);                                /* all of the file behind it */
bool shared_is_saved(uint64_t key);                             /* by this rank: alone, or among others */
void shared_save(struct buf *b);
void shared_restore(struct reader *r);  /* makes what this rank answers for; before anything is mapped or
					 * opened */
void shared_obtain(void);               /* the rest, from other ranks; what this rank cuts has been cut */
void shared_done(void);                 /* what this rank fills is full: until that is so of all */
void shared_go_on(void);                /* all that others can see of this rank is there: until that is so of
					 * all */
/* restart: the nameless object behind mappings and descriptors */
int shared_object(uint64_t key, const char *name, uint64_t size);
int shared_known(uint64_t key);                                 /* the same if it is there already, or -1 */
void shared_close(void);
/* restart: memory with a name: what strangers write to it this job only reads; it was opened again */
bool shared_theirs(uint64_t key);
void shared_claim(uint64_t key, const char *path, int fd);
#endif
