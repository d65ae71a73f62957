/* fds.h: records of the application's descriptors, shared by fds.c (save), fds_restore.c, socket.c and
 * marks.c. Context: as files.h says. */
#ifndef BYSSUS_FDS_H
#define BYSSUS_FDS_H
#include <limits.h>
#include <sys/stat.h>
#include "core/files/files.h"

enum fd_kind {
	FD_INHERITED = 1,       /* the launcher's: the new process has its own; x[0]: number at start; x[1]:
				 * flags that are the application's */
	FD_FILE,                /* x[0]: size; x[1]: 1 when it is written at its end; x[2]: inode; x[3]: birth
				 * in ns; x[4]: FILE_* */
	FD_DELETED,             /* file without a name: its content is in the image; x[0]: size */
	FD_DIRECTORY,
	FD_PIPE,                /* x[0]: capacity; x[1]: a writer writes packets */
	FD_EVENTFD,             /* x[0]: count, x[1]: semaphore */
	FD_EPOLL,               /* extra: struct epoll_entry */
	FD_TIMERFD,             /* x[0]: clock, and how it was set << 32; x[1]: ticks, x[2..5]: value and
				 * interval, seconds and ns */
	FD_SIGNALFD,            /* x[0]: mask */
	FD_MEMFD,               /* x[0]: size, x[1]: seals */
	FD_DEVICE,              /* null, zero, random, terminals: opened again */
	FD_SOCKETPAIR,          /* x[0]: type, x[1]: inode of the peer, x[2]: own inode; extra: struct
				 * socket_head and what it says */
	FD_LOST,                /* cannot be saved; comes back closed when policy says so */
	FD_PIDFD,               /* of the process itself */
	FD_OWN_PROC,            /* below /proc/<own pid>: the path is with the application's numbers; opened
				 * when the threads are back */
};

struct fd_rec {
	int32_t fd, kind, flags, cloexec;
	int32_t same;           /* index of the record whose open file this one shares, or -1 */
	int32_t content;  /* index of the record that has the content of the same object, or -1: this one */
	int32_t in_flight;      /* 1: not at a number, but in a message that waits in a socket */
	int32_t owner_type, owner, sig; /* F_SETOWN_EX (owner_type -1: nobody) with the application's numbers,
					 * and F_SETSIG */
	uint64_t key, offset, x[6];
	uint64_t path, npath;   /* in memory: pointer; in the image: they follow */
	uint64_t extra, nextra;
	uint64_t locks, nlocks; /* struct fd_lock; after extra */
};
/* Another rank brings it to its size; strangers write to it; its content is in an image. */
enum { FILE_OF_ANOTHER = 1, FILE_FOREIGN = 2, FILE_IN_PLACE = 4 };
void file_settle(struct fd_rec *r);             /* files.c: all ranks stand */
/* the same of files that have been written and closed, anew; is_written: but this one is open, for writing */
void closed_settle(struct buf *b, bool (*is_written)(uint64_t key));
uint64_t file_birth(const struct statx *st);    /* in ns; 0: not known */
bool file_is_another(const struct statx *st, uint64_t inode, uint64_t birth);
/* unfinished.c: an attempt begins; whether the content of the file goes into the image; what is known of the
 * others (the image is written); restart */
void unfinished_begin(void);
bool unfinished_young(const struct fd_rec *r, uint64_t size);
void unfinished_save(const struct fd_rec *recs, size_t nrecs, struct buf *out);
void unfinished_check(struct reader *list);
void file_claim(const struct fd_rec *r, const char *path, int fd);      /* restart: it is open again */
struct epoll_entry {
	int32_t fd;             /* the number under which it was entered */
	int32_t rec;            /* the open file: index of a record that has it */
	uint32_t events;
	uint32_t pad;
	uint64_t data;
};
enum { LOCK_RECORD, LOCK_FLOCK, LOCK_OFD, LOCK_LEASE };
struct fd_lock { int32_t class, type; int64_t start, len; };

/* -- places.c: restart -- */
void places_hold(int fd);                       /* a stand-in has that number until it is filled */
void places_filled(int fd);
void places_release(void);                      /* those that nothing has filled */

/* -- socket.c -- */
enum { SOCKET_NO_READ = 1, SOCKET_NO_WRITE = 2, SOCKET_RESET = 4 };
/* Then noptions {int32 level, name; uint64 length; bytes padded to 8}, then nmessages {uint64 length, number
 * of descriptors; their records' indexes as int32, padded to 8; bytes padded to 8}. */
struct socket_head { uint32_t state, peek; uint64_t noptions, nmessages; };
struct socket_look { struct buf saved; bool renew; };
bool socket_look(int fd, uint64_t inode, int type, struct socket_look *s, char *why, size_t n);
bool socket_renew(int fd, int peer, uint64_t inode, struct buf *saved, char *why, size_t n);
void socket_options(int fd, const void *saved, size_t n);
/* fd_of: the descriptor of a record now. False with errno when not all could be sent. */
bool socket_send(int to, const void *saved, size_t n, int (*fd_of)(int32_t rec));
void socket_end(int fd, const void *saved, size_t n);
int32_t fds_hold(int fd);                       /* a descriptor out of a message: index of its record */
int fds_held(int32_t rec);

/* -- marks.c: what hangs on descriptors beside their kind -- */
struct look { int fd; struct stat st; char path[PATH_MAX]; char *info; struct buf *refusals; unsigned *n; };
int fd_lost(struct look *l, const char *what);
void marks_save(struct look *l, struct fd_rec *r);
void marks_owner(const struct fd_rec *r, int fd);
/* NULL, or what is wrong */
const char *marks_lock(const struct fd_rec *r, const char *path, const void *locks, int fd);
#define SET_LATER (O_APPEND | O_NONBLOCK)
#endif
