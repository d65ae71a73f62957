/* none.c: a client without MPI: the rank is a plain process that is always ready to be stopped.
 *
 * Context: as core.h says for each function. */
#include <stddef.h>
#include <stdio.h>
#include "core/core.h"

static const char *start(void) { return NULL; }

static void message(const struct abi_header *h, const void *body)
{
	if (h->type == ABI_REQUEST) {
		uint64_t none = 0;
		core_send(ABI_CLOCKS, h->epoch, &none, sizeof none);
	} else if (h->type == ABI_TARGETS && !(h->flags & ABI_FLAG_MORE)) {
		struct abi_met m = { .version = *(const uint64_t *)body, .where = ABI_WHERE_RUN };
		core_send(ABI_MET, h->epoch, &m, sizeof m);
	}
}

static void nothing(void) { }
static int ready(char *why, size_t n) { (void)why; (void)n; return 0; }
static void describe(char *buf, size_t n) { snprintf(buf, n, "none"); }

static const struct core_client none = {
	start, message, nothing, ready, nothing, ready, ready, describe, NULL, false
};
const struct core_client *const core_client = &none;
