/* fill.c: gives fresh anonymous memory its content together with its pages (userfaultfd(2), UFFDIO_COPY).
 *
 * A page that is written for the first time costs a fault and is cleared before it is overwritten; a restart
 * writes all of them. Where the kernel would give huge pages by itself, one fault brings 512 pages, and
 * nothing is filled. Context: restart, any lower thread. Nobody touches memory that is to be filled before
 * fill_end (who does gets SIGBUS). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "core/image/fill.h"
#include "core/image/image.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1           /* Linux 5.11 */
#endif
static int fd = -1;

static bool huge_pages_by_themselves(void)
{
	char mode[64] = "";
	int f = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
	if (f < 0) return false;
	bool known = read(f, mode, sizeof mode - 1) > 0;
	close(f);
	return known && strstr(mode, "[always]");
}

bool fill_begin(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_SIGBUS };
	if (huge_pages_by_themselves()) return false;
	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0) return true;
	fill_end();                                     /* forbidden in a container, or an old kernel */
	return false;
}

bool fill_register(uint64_t start, uint64_t end)
{
	struct uffdio_register r = { .range = { start, end - start }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	if (ioctl(fd, UFFDIO_REGISTER, &r)) return false;
	return r.ioctls >> _UFFDIO_COPY & 1;
}

/* Copies n bytes of whole pages. A page that is there already is overwritten. False: errno says why. */
bool fill_pages(char *to, const char *from, size_t n)
{
	for (size_t at = 0; at < n; ) {
		struct uffdio_copy c = { .dst = (uint64_t)to + at,
					 .src = (uint64_t)from + at,
					 .len = n - at };
		if (ioctl(fd, UFFDIO_COPY, &c) == 0) return true;
		if (c.copy > 0) {
			at += (size_t)c.copy;
		} else if (errno == EEXIST) {
			memcpy(to + at, from + at, PAGE);
			at += PAGE;
		} else {
			return false;
		}
	}
	return true;
}

/* The memory is as any other from here on. */
void fill_end(void)
{
	if (fd >= 0) close(fd);
	fd = -1;
}
