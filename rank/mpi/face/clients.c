/* clients.c: tells libscr, in the same process, where the agent hears programs (docs/format/client.md).
 *
 * The core writes it at every start, so that it is right after a restart on another node. Context: upper
 * half; no libc calls. */
#include "../../core/layout.h"

const char *byssus_clients(void);

const char *byssus_clients(void) { return BY_CTLP->clients; }
