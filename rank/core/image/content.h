/* content.h: brings back files that were read and written in place (content.c). Context: restart; content_put
 * on any lower thread that reads the image. Errors end the process. */
#ifndef BYSSUS_CONTENT_H
#define BYSSUS_CONTENT_H
#include <stddef.h>
#include <stdint.h>

struct abi_vma;
void content_make(const struct abi_vma *v, const char *path);   /* empty; before anything is mapped */
void content_put(uint64_t addr, const char *p, size_t length);  /* [any lower thread] a verified chunk */
void content_end(void);                                         /* all is written */
#endif
