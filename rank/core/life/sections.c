/* sections.c: the kinds of state in an image, each a section: who saves it.
 *
 * They are restored one by one, by restart.c, since threads, memory and descriptors need each other in turn.
 * Context: the carrier, while the application's threads stand still. */
#include "core/life/life.h"

/* In this order: taking the signals that wait for the process comes before taking those that wait for its
 * threads. */
const uint32_t sections_all[] = {
	ABI_SEC_PROCESS, ABI_SEC_THREADS,    ABI_SEC_FDS,    ABI_SEC_FD_CONTENT, ABI_SEC_ALLOCATOR,
	ABI_SEC_LIBS,	 ABI_SEC_ATTRIBUTES, ABI_SEC_MEMORY, ABI_SEC_SHARED,	 0
};
static struct buf content;              /* of the files whose records have been saved, until it is its turn */

int sections_save(uint32_t type, const struct vma_list *l, const struct run_list *guards, struct buf *b,
		  const char **unread)
{
	switch (type) {
	case ABI_SEC_PROCESS: process_save(b); break;
	case ABI_SEC_THREADS: threads_save(b); break;
	case ABI_SEC_FDS: return fds_save(l, b, &content, unread);
	case ABI_SEC_FD_CONTENT: *b = content, content = (struct buf){ 0 }; break;
	case ABI_SEC_ALLOCATOR: start_save(b); break;
	case ABI_SEC_LIBS: libs_save(l, b); break;
	case ABI_SEC_ATTRIBUTES: attributes_save(b); break;
	case ABI_SEC_MEMORY: memory_save(l, guards, b); break;
	case ABI_SEC_SHARED: shared_save(b); break;
	}
	return 0;
}

void sections_describe(struct abi_image_header *h)
{
	if (core_config.below) {
		h->below = core_self.began.hash;
		h->below_nth = core_self.began.nth;
		h->below_input = core_self.began.input;
	}
	cpu_describe(h);
	core_client->describe(h->mpi, sizeof h->mpi);
}
