/* SPDX-License-Identifier: MIT */
#include "sys/raw_call.h"
#include "sys/sys.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

/* What the descriptor refers to: statx(2) is the same on every architecture. */
static bool identify(long fd, struct statx *what) {
    return !sys_failed(sys_call6(SYS_statx, fd, (long)"", AT_EMPTY_PATH, STATX_TYPE | STATX_INO, (long)what, 0));
}

static uint64_t device_of(const struct statx *what) {
    return (uint64_t)what->stx_dev_major << 32 | what->stx_dev_minor;
}

/* A connection to the stream socket at `path`, or a negated errno value. */
static long connect_to(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path));
    long fd = sys_call3(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sys_failed(fd))
        return fd;
    long got = sys_call3(SYS_connect, fd, (long)&address, sizeof address);
    if (!sys_failed(got))
        return fd;
    sys_close(fd);
    return got;
}

/* Both ends of a pipe, so that it stays open when nobody else writes to it. */
static long open_any(const char *path) {
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    return fd == -ENXIO ? connect_to(path) : fd;
}

/* The socket's peer may be gone, which must not raise SIGPIPE. */
static bool send_first(long fd, bool is_socket, const void *data, size_t size) {
    long sent = is_socket ? sys_call6(SYS_sendto, fd, (long)data, (long)size, MSG_NOSIGNAL, 0, 0)
                          : sys_call3(SYS_write, fd, (long)data, (long)size);
    return sent == (long)size;
}

/* A socket without a peer, whose shutdown wakes who polls it. Unlike an eventfd it has an inode of its own. */
static void make_bell(sys_watch_t *watch) {
    struct statx what;
    watch->bell = sys_call3(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sys_failed(watch->bell) || !identify(watch->bell, &what)) {
        watch->bell = -1; /* not watched by ppoll */
        return;
    }
    watch->bell_inode = what.stx_ino;
    watch->bell_device = device_of(&what);
}

bool sys_watch_open(sys_watch_t *watch, const char *path, const void *data, size_t size) {
    struct statx what;
    long fd = open_any(path);
    if (sys_failed(fd))
        return false;
    bool known = identify(fd, &what), is_file = known && S_ISREG(what.stx_mode);
    bool is_socket = known && S_ISSOCK(what.stx_mode), is_stream = is_socket || (known && S_ISFIFO(what.stx_mode));
    if ((!is_file && !is_stream) || (size > 0 && !send_first(fd, is_socket, data, size))) {
        sys_close(fd);
        return false;
    }
    *watch = (sys_watch_t){.fd = fd, .inode = what.stx_ino, .device = device_of(&what), .is_stream = is_stream};
    make_bell(watch);
    return true;
}

/* The program may have closed the descriptor, and its number may be another file now. */
static bool is_still(long fd, uint64_t inode, uint64_t device) {
    struct statx what;
    return inode != 0 && identify(fd, &what) && what.stx_ino == inode && device_of(&what) == device;
}

static bool is_still_ours(const sys_watch_t *watch) { return is_still(watch->fd, watch->inode, watch->device); }

static bool has_bell(const sys_watch_t *watch) { return is_still(watch->bell, watch->bell_inode, watch->bell_device); }

void sys_watch_cancel(const sys_watch_t *watch) {
    if (has_bell(watch))
        (void)sys_call2(SYS_shutdown, watch->bell, SHUT_RDWR);
}

void sys_watch_close(sys_watch_t *watch) {
    if (is_still_ours(watch))
        sys_close(watch->fd);
    if (has_bell(watch))
        sys_close(watch->bell);
    *watch = (sys_watch_t){0};
}

/* What the events say does not matter. False at the end of the stream. */
static bool drain(long fd) {
    char drained[64];
    long got;
    do
        got = sys_read(fd, drained, sizeof drained);
    while (got > 0);
    return got == -EAGAIN;
}

bool sys_watch_wait(const sys_watch_t *watch) {
    struct pollfd entries[] = {{.fd = (int)watch->fd, .events = watch->is_stream ? POLLIN : POLLPRI},
                               {.fd = (int)watch->bell, .events = POLLIN}};
    long got;
    do
        got = sys_call6(SYS_ppoll, (long)entries, 2, 0, 0, sizeof(uint64_t), 0);
    while (got == -EINTR);
    short seen = entries[0].revents;
    if (got <= 0 || entries[1].revents != 0 || (seen & (POLLIN | POLLPRI)) == 0 || !is_still_ours(watch))
        return false;
    return !watch->is_stream || drain(watch->fd);
}
