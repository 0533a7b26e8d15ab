/* SPDX-License-Identifier: MIT
 *
 * file.h: unbuffered files, for /proc and for messages, and what a descriptor leads to.
 */
#pragma once

#include "base/base.h"

/* Unbuffered files, for /proc and for messages. Return bytes, or a negative errno value. Nothing opens in a confined
 * process. */
long sys_open_read(const char *path);   /* sys_close_read closes it, soon: nobody confines the process so long */
long sys_open_append(const char *path); /* made if need be; a pipe that nobody reads is not waited for */
int sys_may_append(const char *path);   /* 0 when sys_open_append would open it, or an errno value; makes nothing */
bool sys_working_directory(char *path, size_t size);
long sys_read(long fd, void *buffer, size_t size);
void sys_close_read(long fd);
/* The beginning of a small text, as far as `size` goes with the 0 at its end; its length, or why it cannot be read:
 * `text` is empty then. */
long sys_read_text(const char *path, char *text, size_t size);
/* What follows `name` in the text; NULL when that is not in it. */
const char *sys_text_behind(const char *text, const char *name);
/* The number at `*text`, or behind spaces and tabs there; the text moves behind it. UINT64_MAX when there is none
 * ("max", "-1"). */
uint64_t sys_parse_number(const char **text);
void sys_close(long fd); /* it stays open in a confined process */
/* poll(2) for so long (UINT32_MAX: no end), whatever signals come meanwhile, unless one confines the process. */
struct pollfd;
long sys_poll(struct pollfd *entries, size_t count, uint32_t timeout_ms);
/* As much as can be written. A pipe that nobody reads or a file that may grow no further is no reason to end the
 * program: neither SIGPIPE nor SIGXFSZ comes of it. In a confined process that is so when no file could have a byte
 * before. */
void sys_write_all(int fd, const void *buffer, size_t size);
/* By who is about to confine the process. */
void sys_write_note_limit(bool limited);
/* sys_write_all that waits for readers of a non-blocking pipe, for so many milliseconds in all. 0 when all was written,
 * or an errno value. */
int sys_write_whole(int fd, const void *buffer, size_t size, uint32_t milliseconds);

/* A file that comes to its place when it is whole: made under another name, in place of what has that name, and then
 * renamed. 0 or an errno value, but those that open as sys_open_append. */
long sys_open_new(const char *path);
/* A device, a pipe, or what a link leads to: nothing takes its place, so it is written where it is. -ENOENT for a file
 * and for nothing. */
long sys_open_special(const char *path);
int sys_rename(const char *from, const char *to);
void sys_unlink(const char *path);

/* A descriptor and the file that it leads to. The program may close any descriptor and make another file of its number;
 * so whoever keeps one asks before use. */
typedef struct sys_file {
    long fd;                /* -1: none */
    uint64_t inode, device; /* inode 0: none */
    uint64_t born;          /* nanoseconds: numbers of inodes are used again; 0 where it is not known */
    uint32_t mode;          /* its kind, as in stat(2) */
} sys_file_t;

bool sys_is_data(long fd);    /* a regular file that is open for reading, too: no log. False where it cannot be asked */
sys_file_t sys_file(long fd); /* none when `fd` is not open, or where it cannot be asked (before Linux 4.11) */
bool sys_file_is_still(const sys_file_t *file);
void sys_file_close(sys_file_t *file); /* when it is still that file; none afterwards */
