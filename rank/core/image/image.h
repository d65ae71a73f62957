/* image.h: the files of an image: written and read, checked, with their memory. What the sections mean is the
 * caller's.
 *
 * Context: image_write on the carrier, the application's threads stand still; an error is reported and
 * nothing is left. The rest at a restart, on the main thread, before the application exists; an error ends
 * the process. */
#ifndef BYSSUS_IMAGE_H
#define BYSSUS_IMAGE_H
#include "core/memory/memory.h"

/* -- writing (write.c) -- */
struct image_job {
	const struct abi_drain *drain;
	unsigned writers;
	const uint32_t *sections;       /* their types in the order in which they are saved; 0 ends */
	/* Appends a section's content. 0, or the error number for which the content of the file *unread
	 * cannot be saved. */
	int (*save)(uint32_t type, const struct vma_list *l, const struct run_list *guards, struct buf *b,
		    const char **unread);
	void (*describe)(struct abi_image_header *h);   /* fills in the machine and the MPI */
	int (*given_up)(void);          /* on any lower thread */
};
struct image_result {
	int status;
	char error[6144];               /* two paths: larger than a small stack has room for */
	uint32_t nfiles;
	uint64_t bytes, logical, write_ns;
	uint32_t table_crc;
};
void image_write(const struct image_job *job, struct image_result *r);

/* -- reading (read.c), in this order -- */
void image_open(const char *dir);               /* core_job.checkpoint and core_self.exe are known then */
void image_check(const char *dir, const uint32_t *sections);    /* all headers and tables; these sections must
								 * be there */
struct reader *image_section(uint32_t type);
const char *image_path(void);
const struct abi_image_header *image_header(void);
bool image_is_below(void);                      /* of a rank that was started below the launcher's process */
bool image_has_content(uint64_t key);                   /* of a file with a name that lies in memory */
void image_begin_memory(void);  /* all mappings are there, and the client's regions have their content */
void image_start_readers(void);                                 /* threads that read the rest */
void image_finish_memory(void);                                 /* all content is there */
uint64_t image_bytes(void);
void image_release(void);
#endif
