/* fds.h: records of the application's descriptors, shared by fds.c (save) and fds_restore.c. */
#ifndef BYSSUS_FDS_H
#define BYSSUS_FDS_H
#include "internal.h"

enum fd_kind {
	FD_INHERITED = 1,       /* the launcher's: the new process has its own; x[0]: number at start */
	FD_FILE,                /* x[0]: size; x[1]: 1 when it is written at its end; x[2]: inode; x[3]: birth in ns; x[4]: FILE_* */
	FD_DELETED,             /* file without a name: its content is in the image; x[0]: size */
	FD_DIRECTORY,
	FD_PIPE,                /* x[0]: capacity */
	FD_EVENTFD,             /* x[0]: count, x[1]: semaphore */
	FD_EPOLL,               /* extra: struct epoll_entry */
	FD_TIMERFD,             /* x[0]: clock, x[1]: ticks, x[2..5]: value and interval, seconds and ns */
	FD_SIGNALFD,            /* x[0]: mask */
	FD_MEMFD,               /* x[0]: size, x[1]: seals */
	FD_DEVICE,              /* null, zero, random, terminals: opened again */
	FD_SOCKETPAIR,          /* x[0]: type, x[1]: inode of the peer, x[2]: own inode */
	FD_LOST,                /* cannot be saved; comes back closed when policy says so */
};

struct fd_rec {
	int32_t fd, kind, flags, cloexec;
	int32_t same;           /* index of the record whose open file this one shares, or -1 */
	int32_t content;        /* index of the record that has the content of the same object, or -1: this one */
	uint64_t key, offset, x[6];
	uint64_t path, npath;   /* in memory: pointer; in the image: they follow */
	uint64_t extra, nextra;
};
enum { FILE_OF_ANOTHER = 1, FILE_FOREIGN = 2 };  /* another rank brings it to its size; strangers write to it */
void file_settle(struct fd_rec *r);             /* files.c: all ranks stand */
struct epoll_entry { int32_t fd; uint32_t events; uint64_t data; };
struct fd_lock { int32_t flock, type; int64_t start, len; };

struct inherited { int fd; uint64_t key; uint32_t mode; };
enum { MAX_INHERITED = 64 };
extern struct inherited inherited[MAX_INHERITED];
extern unsigned ninherited;
#endif
