/* SPDX-License-Identifier: MIT
 *
 * mail.c: the program of docs/rss.md. It takes in a burst of messages, frees most of them, and waits.
 *
 *   mail all      frees all
 *   mail most     keeps each fourth for its archive
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGES = 65536, BYTES = 1000, ARCHIVED = 4 };

static char *messages[MESSAGES];

static void take_in(void) {
    for (int i = 0; i < MESSAGES; i++) {
        messages[i] = malloc(BYTES);
        memset(messages[i], 'x', BYTES);
    }
}

static void archive(int keeps) {
    for (int i = 0; i < MESSAGES; i++)
        if (!keeps || i % ARCHIVED != 0)
            free(messages[i]);
}

int main(int count, char **words) {
    take_in();
    archive(count > 1 && strcmp(words[1], "most") == 0);
    puts("the burst is over");
    fflush(stdout);
    for (;;)
        pause();
}
