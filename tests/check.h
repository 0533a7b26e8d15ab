/* SPDX-License-Identifier: MIT
 *
 * check.h: what the unit tests share. A unit test is one program that exits 0 (passed), 1 (failed, one line on stderr
 * says where) or 77 (cannot run here). It links its own room and those below, and runs on the system's malloc.
 */
#ifndef HK_TEST_CHECK_H
#define HK_TEST_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHECK_PASS = 0, CHECK_FAIL = 1, CHECK_SKIP = 77 };

/* For main to return: the summary of the tests repeats the reason. */
static inline int check_skip(const char *reason) {
    printf("skipped: %s\n", reason);
    return CHECK_SKIP;
}

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            _exit(CHECK_FAIL);                                                                                         \
        }                                                                                                              \
    } while (0)

#define CHECK_EQ(got, wanted)                                                                                          \
    do {                                                                                                               \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                                              \
        if (got_ != wanted_) {                                                                                         \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, got_, wanted_);                 \
            _exit(CHECK_FAIL);                                                                                         \
        }                                                                                                              \
    } while (0)

#define CHECK_STR(got, wanted)                                                                                         \
    do {                                                                                                               \
        const char *got_ = (got), *wanted_ = (wanted);                                                                 \
        if (strcmp(got_, wanted_) != 0) {                                                                              \
            fprintf(stderr, "%s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #got, got_, wanted_);             \
            _exit(CHECK_FAIL);                                                                                         \
        }                                                                                                              \
    } while (0)

/* `part` occurs in `text`. */
#define CHECK_HAS(text, part)                                                                                          \
    do {                                                                                                               \
        const char *text_ = (text), *part_ = (part);                                                                   \
        if (strstr(text_, part_) == NULL) {                                                                            \
            fprintf(stderr, "%s:%d: no \"%s\" in \"%s\"\n", __FILE__, __LINE__, part_, text_);                         \
            _exit(CHECK_FAIL);                                                                                         \
        }                                                                                                              \
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

#endif
