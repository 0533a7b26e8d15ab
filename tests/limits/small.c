/* SPDX-License-Identifier: MIT
 *
 *   small KIB SIZE    prints how many KiB a program gets under so much RLIMIT_AS, in blocks of SIZE bytes, twice:
 *                     before the second time all is freed
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static size_t take_all(size_t size) {
    void **head = NULL, **block;
    size_t got = 0;
    while ((block = (void **)malloc(size)) != NULL) {
        memset(block, 1, size);
        *block = head;
        head = block;
        got += size;
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
    if (argc < 3)
        return 1;
    if (argc == 3) {
        char under[] = "under";
        char *const again[] = {argv[0], argv[1], argv[2], under, NULL};
        struct rlimit limit = {strtoull(argv[1], NULL, 10) * 1024, RLIM_INFINITY};
        if (setrlimit(RLIMIT_AS, &limit) == 0)
            execv("/proc/self/exe", again);
        return 1;
    }
    size_t size = strtoull(argv[2], NULL, 10), first = take_all(size), second = take_all(size);
    char line[64];
    int length = snprintf(line, sizeof line, "%zu %zu\n", first / 1024, second / 1024);
    return write(STDOUT_FILENO, line, (size_t)length) == length ? 0 : 1;
}
