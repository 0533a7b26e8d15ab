/* SPDX-License-Identifier: MIT
 *
 * shop.c: the service of docs/tutorials.md. It serves orders: each is parsed, which takes memory for a moment; its
 * answer is kept in a cache of 200; and its session is remembered for good, which is the bug.
 *
 *   shop           serves 500 orders a second until it is ended
 *   shop test      serves 1,000 orders and ends, as a test does
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CACHED = 200, PAUSE_US = 2000, TEST_ORDERS = 1000 };

typedef struct session {
    struct session *next;
    char text[480];
} session_t;

static char *answers[CACHED];
static session_t *last_session;

static void remember_session(int order) {
    session_t *session = malloc(sizeof *session);
    snprintf(session->text, sizeof session->text, "session of order %d", order);
    session->next = NULL; /* and nothing leads to the one before any more */
    last_session = session;
}

static char *parse_order(int order) {
    char *text = malloc(4000);
    memset(text, ' ', 4000);
    snprintf(text, 4000, "order %d", order);
    return text;
}

static void cache_answer(int order, const char *text) {
    free(answers[order % CACHED]);
    answers[order % CACHED] = strdup(text);
}

static void serve(int order) {
    char *text = parse_order(order);
    cache_answer(order, text);
    remember_session(order);
    free(text);
}

int main(int count, char **words) {
    (void)words;
    for (int order = 0; count == 1 || order < TEST_ORDERS; order++) {
        serve(order);
        if (count == 1)
            usleep(PAUSE_US);
    }
    puts("all orders are served");
    return 0;
}
