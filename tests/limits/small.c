/* SPDX-License-Identifier: MIT
 *
 *   small KIB    prints how many KiB a program gets under so much RLIMIT_AS, in blocks of 1,000 bytes, twice: before the second time
 *                all is freed
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SIZE = 1000 };

static size_t take_all(void) {
    void **head = NULL, **block;
    size_t got = 0;
    while ((block = (void **)malloc(SIZE)) != NULL) {
        memset(block, 1, SIZE);
        *block = head;
        head = block;
        got += SIZE;
    }
    if (errno != ENOMEM)
        abort();
    while (head != NULL) {
        block = (void **)*head;
        free(head);
        head = block;
    }
    return got;
}

int main(int argc, char **argv) {
    if (argc == 2) {
        char under[] = "under";
        char *const again[] = {argv[0], argv[1], under, NULL};
        struct rlimit limit = {strtoull(argv[1], NULL, 10) * 1024, RLIM_INFINITY};
        if (setrlimit(RLIMIT_AS, &limit) == 0)
            execv("/proc/self/exe", again);
        return 1;
    }
    size_t first = take_all(), second = take_all();
    char line[64];
    int length = snprintf(line, sizeof line, "%zu %zu\n", first / 1024, second / 1024);
    return write(STDOUT_FILENO, line, (size_t)length) == length ? 0 : 1;
}
