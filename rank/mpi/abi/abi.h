/* abi.h: both halves: what the mpi.h of one MPI says, for its face and its driver: types, constants, and each
 * of them translated to the neutral language and back.
 *
 * The file that includes this one has defined whose ABI it speaks; it never speaks both.
 * Context: both halves, any thread; types, constants and inline functions only: no libc, no TLS, no
 * allocation. */
#ifndef BYSSUS_ABI_H
#define BYSSUS_ABI_H
#include "../neutral/neutral.h"
#if defined FACE_MPICH || defined DRIVER_MPICH
#include "abi_mpich.h"
#elif defined FACE_OPENMPI || defined DRIVER_OPENMPI
#include "abi_openmpi.h"
#else
#error "whose ABI?"
#endif
#endif
