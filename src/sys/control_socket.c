/* SPDX-License-Identifier: MIT */
#include "sys/control_socket.h"

#include "sys/clock.h"
#include "sys/confined.h"
#include "sys/file.h"
#include "sys/kernel.h"
#include "sys/raw_call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum {
    BACKLOG = 8,
    OWNER_ONLY = 0600,
    STATUS_MAX = 512, /* as far as the line "Uid:", before which only the name may be long, 64 bytes */
};

#define MEMORY_FILE_CLOEXEC 1U /* MFD_CLOEXEC */

_Static_assert(sizeof(((struct sockaddr_un *)0)->sun_path) == SYS_CONTROL_PATH_MAX, "unix(7)");

static long make_socket(int type) { return sys_call3(SYS_socket, AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

static bool address_of(const char *path, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const size_t length = strlen(path);
    if (length >= sizeof address->sun_path)
        return false;
    memcpy(address->sun_path, path, length);
    return true;
}

long sys_connect(const char *path, int type) {
    struct sockaddr_un address;
    const long fd = address_of(path, &address) ? make_socket(type) : -ENAMETOOLONG;
    const long got = sys_failed(fd) ? fd : sys_call3(SYS_connect, fd, (long)&address, sizeof address);
    if (!sys_failed(got))
        return fd;
    if (!sys_failed(fd))
        sys_close(fd);
    return got;
}

/* What connect(2) says. */
static long try_to_connect(const char *path) {
    const long fd = sys_connect(path, SOCK_SEQPACKET);
    if (!sys_failed(fd))
        sys_close(fd);
    return fd;
}

static bool is_socket(const struct sockaddr_un *address) {
    kernel_statx_t what;
    const long got =
        sys_call6(SYS_statx, AT_FDCWD, (long)address->sun_path, AT_SYMLINK_NOFOLLOW, KERNEL_STATX_TYPE, (long)&what, 0);
    return !sys_failed(got) && S_ISSOCK(what.stx_mode);
}

/* bind(2) where there is something of that name: a socket that nobody listens at any more makes room, another one stays
 * (-EADDRINUSE), and so does what is none (-EEXIST), which connect(2) refuses in the same way. */
static long bind_again(long fd, const struct sockaddr_un *address) {
    if (!is_socket(address))
        return -EEXIST;
    if (try_to_connect(address->sun_path) != -ECONNREFUSED)
        return -EADDRINUSE;
    (void)sys_call3(SYS_unlinkat, AT_FDCWD, (long)address->sun_path, 0);
    return sys_call3(SYS_bind, fd, (long)address, sizeof *address);
}

/* The name gets the mode that the socket has (unix(7) and its source), so that no moment passes in which others may
 * open it. */
static long listen_at(const struct sockaddr_un *address) {
    const long fd = make_socket(SOCK_SEQPACKET);
    if (sys_failed(fd))
        return fd;
    long got = sys_call2(SYS_fchmod, fd, OWNER_ONLY);
    if (!sys_failed(got))
        got = sys_call3(SYS_bind, fd, (long)address, sizeof *address);
    if (got == -EADDRINUSE)
        got = bind_again(fd, address);
    if (!sys_failed(got))
        got = sys_call2(SYS_listen, fd, BACKLOG);
    if (!sys_failed(got))
        return fd;
    sys_close(fd);
    return got;
}

long sys_control_listen(const char *path) {
    struct sockaddr_un address;
    if (!address_of(path, &address))
        return -ENAMETOOLONG;
    if (!sys_passage_begin())
        return -EPERM;
    const long fd = listen_at(&address);
    sys_passage_end();
    return fd;
}

void sys_control_wake(const char *path) {
    if (!sys_passage_begin())
        return;
    (void)try_to_connect(path);
    sys_passage_end();
}

/* 0 when there is something to read, or a negated errno value. */
static long wait_for(long fd, uint32_t timeout_ms) {
    struct pollfd entry = {.fd = (int)fd, .events = POLLIN};
    const long got = sys_poll(&entry, 1, timeout_ms);
    return got > 0 ? 0 : got == 0 ? -EAGAIN : got;
}

/* Is no guest any more. */
static int take_guest(sys_control_guests_t *guests, uint32_t at) {
    const int fd = guests->fds[at];
    for (guests->count--; at < guests->count; at++) {
        guests->fds[at] = guests->fds[at + 1];
        guests->until_ms[at] = guests->until_ms[at + 1];
    }
    return fd;
}

static long accept_guest(long listener, sys_control_guests_t *guests, uint32_t patience_ms) {
    const long fd = sys_call4(SYS_accept4, listener, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (sys_failed(fd))
        return fd;
    if (guests->count == SYS_CONTROL_GUESTS)
        sys_close(take_guest(guests, 0));
    guests->fds[guests->count] = (int)fd;
    guests->until_ms[guests->count++] = sys_now_ms() + patience_ms;
    return -EAGAIN;
}

/* How long to wait for the next that happens. */
static uint32_t let_go_of_silent(sys_control_guests_t *guests, uint32_t timeout_ms) {
    const uint64_t now_ms = guests->count > 0 ? sys_now_ms() : 0;
    while (guests->count > 0 && guests->until_ms[0] <= now_ms)
        sys_close(take_guest(guests, 0));
    return guests->count > 0 ? (uint32_t)hk_min(guests->until_ms[0] - now_ms, timeout_ms) : timeout_ms;
}

/* No call is made after the wait in a process that is confined meanwhile. */
long sys_control_next(long listener, sys_control_guests_t *guests, uint32_t timeout_ms, uint32_t patience_ms) {
    const uint32_t wait_ms = let_go_of_silent(guests, timeout_ms);
    struct pollfd entries[1 + SYS_CONTROL_GUESTS] = {{.fd = (int)listener, .events = POLLIN}};
    for (uint32_t i = 0; i < guests->count; i++)
        entries[1 + i] = (struct pollfd){.fd = guests->fds[i], .events = POLLIN};
    const long got = sys_poll(entries, 1 + guests->count, wait_ms);
    if (got <= 0 || sys_is_confined())
        return got < 0 ? got : got == 0 ? -EAGAIN : -EPERM;
    for (uint32_t i = 0; i < guests->count; i++)
        if (entries[1 + i].revents != 0)
            return take_guest(guests, i);
    return accept_guest(listener, guests, patience_ms);
}

uint32_t sys_control_peer(long connection) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    const long got = sys_call6(SYS_getsockopt, connection, SOL_SOCKET, SO_PEERCRED, (long)&peer, (long)&size, 0);
    return sys_failed(got) || size != sizeof peer ? SYS_NO_USER : peer.uid;
}

/* The line is "real effective saved file system": proc_pid_status(5). */
uint32_t sys_effective_user(void) {
    char text[STATUS_MAX];
    (void)sys_read_text("/proc/self/status", text, sizeof text);
    const char *at = sys_text_behind(text, "\nUid:");
    if (at == NULL)
        return SYS_NO_USER;
    (void)sys_parse_number(&at);
    return (uint32_t)sys_parse_number(&at);
}

long sys_control_receive(long connection, void *data, size_t size, uint32_t timeout_ms) {
    const long got = wait_for(connection, timeout_ms);
    return got != 0 ? got : sys_call6(SYS_recvfrom, connection, (long)data, (long)size, MSG_TRUNC, 0, 0);
}

void sys_control_send(long connection, const void *data, size_t size, long file) {
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.space = {0}};
    const int descriptor = (int)file;
    struct iovec piece = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (file >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof descriptor);
        memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
    }
    (void)sys_call3(SYS_sendmsg, connection, (long)&message, MSG_NOSIGNAL);
}

long sys_memory_file(const char *name) { return sys_call2(SYS_memfd_create, (long)name, MEMORY_FILE_CLOEXEC); }
