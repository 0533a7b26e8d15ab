/* SPDX-License-Identifier: MIT
 *
 * check.h: verdicts and checks, for unit tests and test programs alike. Header only, C17 and C++17.
 *
 * A test is a program that exits 0 (passed), 1 (failed, one line on stderr says where and what) or 77 (cannot run
 * here). A unit test links its own room and those below, and runs on the system's malloc. Nothing here allocates: text
 * goes through a buffer on the stack.
 */
#ifndef HK_TEST_CHECK_H
#define HK_TEST_CHECK_H

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHECK_PASS = 0, CHECK_FAIL = 1, CHECK_SKIP = 77 };

/* Whether AddressSanitizer or ThreadSanitizer looks on: both count on thread-local storage and on handlers of their
 * own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CHECK_INSTRUMENTED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { CHECK_INSTRUMENTED = 1 };
#else
enum { CHECK_INSTRUMENTED = 0 };
#endif
#else
enum { CHECK_INSTRUMENTED = 0 };
#endif

__attribute__((format(printf, 2, 0))) static inline void test_print_to(int fd, const char *format, va_list args) {
    char line[1024];
    int length = vsnprintf(line, sizeof line, format, args);
    size_t size = length < 0 ? 0 : (size_t)length < sizeof line ? (size_t)length : sizeof line - 1;
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, line + done, size - done);
        if (n <= 0)
            return;
        done += (size_t)n;
    }
}

__attribute__((format(printf, 1, 2))) static inline void test_say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    test_print_to(STDOUT_FILENO, format, args);
    va_end(args);
}

/* Ends the process at once, without exit handlers: after a failure the heap is not to be trusted. */
__attribute__((format(printf, 1, 2), noreturn)) static inline void test_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    test_print_to(STDERR_FILENO, format, args);
    va_end(args);
    _exit(CHECK_FAIL);
}

/* For main to return: the summary of the tests repeats the reason. */
static inline int check_skip(const char *reason) {
    test_say("skipped: %s\n", reason);
    return CHECK_SKIP;
}

__attribute__((noreturn)) static inline void test_skip(const char *reason) { _exit(check_skip(reason)); }

#define CHECK_SAY(condition, format, ...)                                                                              \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            test_fail("%s:%d: failed: %s: " format "\n", __FILE__, __LINE__, #condition, __VA_ARGS__);                 \
    } while (0)

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            test_fail("%s:%d: failed: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);                        \
    } while (0)

#define CHECK_EQ(got, wanted)                                                                                          \
    do {                                                                                                               \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                                              \
        if (got_ != wanted_)                                                                                           \
            test_fail("%s:%d: failed: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, got_, wanted_);               \
    } while (0)

#define CHECK_STR(got, wanted)                                                                                         \
    do {                                                                                                               \
        const char *got_ = (got), *wanted_ = (wanted);                                                                 \
        if (strcmp(got_, wanted_) != 0)                                                                                \
            test_fail("%s:%d: failed: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #got, got_, wanted_);           \
    } while (0)

/* `part` occurs in `text`. */
#define CHECK_HAS(text, part)                                                                                          \
    do {                                                                                                               \
        const char *text_ = (text), *part_ = (part);                                                                   \
        if (strstr(text_, part_) == NULL)                                                                              \
            test_fail("%s:%d: failed: no \"%s\" in \"%s\"\n", __FILE__, __LINE__, part_, text_);                       \
    } while (0)

/* Runs `body` in a child with `fd` caught in `text`; returns its wait status. */
static inline int check_child(void (*body)(void), int fd, char *text, size_t size) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], fd);
        close(ends[0]);
        close(ends[1]);
        body();
        _exit(CHECK_PASS);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; length + 1 < size && (got = read(ends[0], text + length, size - 1 - length)) > 0;)
        length += (size_t)got;
    text[length] = '\0';
    close(ends[0]);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

/* From here on the process may use one processor, the first of those that it might. */
static inline void test_use_one_processor(void) {
    cpu_set_t set;
    size_t first = 0;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    while (!CPU_ISSET(first, &set))
        first++;
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
}

#endif
