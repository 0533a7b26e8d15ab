/* SPDX-License-Identifier: MIT */
#include "core/message.h"

#include "base/build.h"
#include "core/errors.h"
#include "core/print.h"
#include "sys/sys.h"

#include <limits.h>
#include <stdatomic.h>
#include <string.h>

const char hk_build_info[] = HK_BUILD_INFO;

enum { NUMBER_MAX = 10 /* digits of a process id */ };
enum { STDERR = 2, MESSAGE_MAX = 1024 /* bytes of one message; a longer one is cut, so that it stays one write */ };

static const char MESSAGE_CUT[] = "...\n";

/* Written by hk_message_to, read by all who have something to say. Release and acquire pair: the name is there. */
static const char *_Atomic log_name;

/* The name that could not be written to and of which that was said. Relaxed: it may be said twice. */
static const char *_Atomic refused;

static void refuse(const char *name, const char *path, long error) {
    char line[HK_OUT_BUFFER], text[HK_ERROR_TEXT];
    hk_out_t out;
    if (atomic_exchange_explicit(&refused, name, memory_order_relaxed) == name)
        return;
    hk_out_to_fd(&out, STDERR, line, sizeof line);
    hk_print(&out, "hakmem: HAKMEM_LOG: cannot write to %s: %s; messages go to standard error\n", path,
             hk_error_text(error, text));
    hk_out_flush(&out);
}

/* False when they are not all there. With little stack, as a signal handler may have no more. */
static HK_NOINLINE bool write_to_log(const char *name, const char *lines, size_t length) {
    char path[hk_min(strlen(name) * NUMBER_MAX / 2 + 1, PATH_MAX)]; /* the number takes the place of two characters */
    const long fd = hk_path_expand(path, sizeof path, name) ? sys_open_append(path) : -ENAMETOOLONG;
    const long error = fd < 0 ? -fd : sys_write_whole((int)fd, lines, length, 0);
    if (fd >= 0)
        sys_close(fd);
    if (error != 0)
        refuse(name, path, error);
    return error == 0;
}

void hk_message_write(const char *lines, size_t length) {
    const char *name = atomic_load_explicit(&log_name, memory_order_acquire); /* see log_name */
    if (name == NULL || !write_to_log(name, lines, length))
        sys_write_all(STDERR, lines, length);
}

void hk_message_to(const char *name) { atomic_store_explicit(&log_name, name, memory_order_release); }

void hk_message_check(void) {
    const char *name = atomic_load_explicit(&log_name, memory_order_acquire); /* see log_name */
    char path[PATH_MAX];
    if (name == NULL)
        return;
    long error = hk_path_expand(path, sizeof path, name) ? sys_may_append(path) : ENAMETOOLONG;
    if (error != 0)
        refuse(name, path, error);
}

void hk_message(const char *format, ...) {
    char line[MESSAGE_MAX];
    hk_out_t out;
    hk_out_to_memory(&out, line, sizeof line);
    va_list args;
    va_start(args, format);
    hk_print(&out, "hakmem: ");
    hk_vprint(&out, format, args);
    hk_print(&out, "\n");
    va_end(args);
    size_t length = out.total;
    if (length >= sizeof line) {
        length = sizeof line - 1;
        memcpy(line + length - strlen(MESSAGE_CUT), MESSAGE_CUT, strlen(MESSAGE_CUT));
    }
    hk_message_write(line, length);
}
