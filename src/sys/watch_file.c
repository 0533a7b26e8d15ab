/* SPDX-License-Identifier: MIT */
#include "sys/watch_file.h"

#include "sys/control_socket.h"
#include "sys/raw_call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Both ends of a pipe, so that it stays open when nobody else writes to it. */
static long open_any(const char *path) {
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    return fd == -ENXIO ? sys_connect(path, SOCK_STREAM) : fd;
}

/* The socket's peer may be gone, which must not raise SIGPIPE. */
static bool send_first(long fd, bool is_socket, const void *data, size_t size) {
    long sent = is_socket ? sys_call6(SYS_sendto, fd, (long)data, (long)size, MSG_NOSIGNAL, 0, 0)
                          : sys_call3(SYS_write, fd, (long)data, (long)size);
    return sent == (long)size;
}

bool sys_watch_open(sys_watch_t *watch, const char *path, const void *data, size_t size) {
    long fd = open_any(path);
    if (sys_failed(fd))
        return false;
    const sys_file_t file = sys_file(fd);
    bool is_socket = S_ISSOCK(file.mode), is_stream = is_socket || S_ISFIFO(file.mode);
    if ((!S_ISREG(file.mode) && !is_stream) || (size > 0 && !send_first(fd, is_socket, data, size))) {
        sys_close(fd);
        return false;
    }
    *watch = (sys_watch_t){.file = file, .is_stream = is_stream};
    /* A socket without a peer, whose shutdown wakes who polls it. Unlike an eventfd it has an inode of its own. */
    watch->bell = sys_file(sys_call3(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return true;
}

void sys_watch_cancel(const sys_watch_t *watch) {
    if (sys_file_is_still(&watch->bell))
        (void)sys_call2(SYS_shutdown, watch->bell.fd, SHUT_RDWR);
}

void sys_watch_close(sys_watch_t *watch) {
    sys_file_close(&watch->file);
    sys_file_close(&watch->bell);
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

sys_watch_seen_t sys_watch_wait(const sys_watch_t *watch, uint32_t timeout_ms) {
    struct pollfd entries[] = {{.fd = (int)watch->file.fd, .events = watch->is_stream ? POLLIN : POLLPRI},
                               {.fd = (int)watch->bell.fd, .events = POLLIN}};
    const long got = sys_poll(entries, 2, timeout_ms);
    if (got == 0)
        return SYS_WATCH_QUIET;
    short seen = entries[0].revents;
    if (got < 0 || entries[1].revents != 0 || (seen & (POLLIN | POLLPRI)) == 0 || !sys_file_is_still(&watch->file))
        return SYS_WATCH_OVER;
    return !watch->is_stream || drain(watch->file.fd) ? SYS_WATCH_EVENT : SYS_WATCH_OVER;
}
