/* topo.h: process topologies of communicators. Context: as middle.h. */
#ifndef BYSSUS_TOPO_H
#define BYSSUS_TOPO_H
#include "middle.h"

size_t topo_bytes(const struct vtopo *t);
/* Replaces a real communicator without topology by one that has it, ranks unchanged. Collective. */
int topo_attach(rh_t *real, const struct vtopo *t);
#endif
