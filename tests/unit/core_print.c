/* SPDX-License-Identifier: MIT
 *
 * Printing without stdio: every conversion, against the C library's where it has the same; cutting; one write per
 * message.
 */
#include "check.h"
#include "core/message.h"
#include "core/print.h"

#include <limits.h>
#include <sys/socket.h>

static char text[256];

__attribute__((format(printf, 1, 2))) static const char *printed(const char *format, ...) {
    hk_out_t out;
    va_list args;
    va_start(args, format);
    hk_out_to_memory(&out, text, sizeof text);
    hk_vprint(&out, format, args);
    va_end(args);
    CHECK_EQ(out.total, strlen(text));
    return text;
}

#define SAME(...)                                                                                                      \
    do {                                                                                                               \
        char wanted[256];                                                                                              \
        snprintf(wanted, sizeof wanted, __VA_ARGS__);                                                                  \
        CHECK_STR(printed(__VA_ARGS__), wanted);                                                                       \
    } while (0)

static void conversions(void) {
    SAME("plain");
    SAME("%s|%8s|%-8s|%2s", "text", "right", "left", "long");
    SAME("%d %d %d", 0, INT_MAX, INT_MIN);
    SAME("%ld %ld", LONG_MAX, LONG_MIN);
    SAME("%zd", (ssize_t)-5);
    SAME("%u %lu %zu", UINT_MAX, ULONG_MAX, (size_t)0);
    SAME("%x %lx %zx", 0xdeadbeefu, ULONG_MAX, (size_t)0);
    SAME("%8d|%-8d|%8zu|%-8lx|", -42, 42, (size_t)7, 0xabcul);
    SAME("%c%c%%", 'a', 'z');
    SAME("%.*s|%.*s|%.*s", 3, "abcdef", 10, "abc", 0, "abc");
    SAME("%p", (void *)text);
    CHECK_STR(printed("%p", NULL), "0x0");
    CHECK_STR(printed("%-6s|%6c|", "ab", 'c'), "ab    |     c|");
}

static void unterminated_text(void) {
    char bytes[3] = {'a', 'b', 'c'};
    CHECK_STR(printed("%.*s", 3, bytes), "abc");
}

static void cutting(void) {
    char small[8];
    hk_out_t out;
    memset(small, 'x', sizeof small);
    hk_out_to_memory(&out, small, 5);
    hk_print(&out, "%s%d", "abc", 12345);
    CHECK_STR(small, "abc1");
    CHECK_EQ(out.total, 8);
    CHECK_EQ(small[5], 'x');
    hk_out_to_memory(&out, small, 0);
    hk_print(&out, "abc");
    CHECK_EQ(out.total, 3);
    CHECK_EQ(small[0], 'a');
    hk_out_to_memory(&out, NULL, 0);
    hk_print(&out, "abc");
    CHECK_EQ(out.total, 3);
}

static void to_descriptor(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    char buffer[HK_OUT_BUFFER];
    hk_out_t out;
    hk_out_to_fd(&out, ends[1], buffer, sizeof buffer);
    for (int i = 0; i < 300; i++)
        hk_print(&out, "%4d,", i);
    CHECK_EQ(out.total, 1500);
    hk_out_flush(&out);
    char got[2048];
    CHECK_EQ(read(ends[0], got, sizeof got), 1500);
    CHECK(memcmp(got + 1495, " 299,", 5) == 0);
    hk_out_flush(&out);
    close(ends[1]);
    CHECK_EQ(read(ends[0], got, sizeof got), 0);
}

/* A datagram socket keeps writes apart. */
static void messages(void) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    int saved = dup(2);
    dup2(ends[1], 2);
    char path[2000];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    hk_message("%s of %zu", "report", (size_t)12);
    hk_message("%s", path);
    dup2(saved, 2);
    char got[4096];
    ssize_t length = read(ends[0], got, sizeof got);
    CHECK_EQ(length, strlen("hakmem: report of 12\n"));
    CHECK(memcmp(got, "hakmem: report of 12\n", (size_t)length) == 0);
    length = read(ends[0], got, sizeof got);
    CHECK(length > 1000 && memcmp(got + length - 5, "p...\n", 5) == 0);
}

int main(void) {
    conversions();
    unterminated_text();
    cutting();
    to_descriptor();
    messages();
    return CHECK_PASS;
}
