/* fill.h: gives fresh memory its content together with its pages (fill.c). Context: restart, any lower
 * thread. */
#ifndef BYSSUS_FILL_H
#define BYSSUS_FILL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool fill_begin(void);                          /* false: not here; then nothing else of it is called */
bool fill_register(uint64_t start, uint64_t end);       /* private anonymous memory that nobody has touched */
bool fill_pages(char *to, const char *from, size_t n);          /* [any lower thread] whole pages */
void fill_end(void);
#endif
