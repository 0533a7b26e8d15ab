/* SPDX-License-Identifier: MIT
 *
 * What leaks.py runs:  leaks lose | keep
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    struct node *next;
    char rest[40];
};

static struct node *list;
static _Thread_local void *volatile own;

__attribute__((noinline)) static void lose(void) {
    for (int i = 0; i < 5; i++) {
        char *volatile block = malloc(1000);
        block[0] = 1;
        block = NULL;
    }
}

__attribute__((noinline)) static struct node *node_make(void) {
    struct node *volatile node = calloc(1, sizeof *node);
    return node;
}

__attribute__((noinline)) static void lose_cycle(void) {
    struct node *volatile one = node_make(), *volatile other = node_make();
    one->next = other;
    other->next = one;
    one = other = NULL;
}

__attribute__((noinline)) static void keep(void) {
    for (int i = 0; i < 100; i++) {
        struct node *node = node_make();
        node->next = list;
        list = node;
    }
    own = malloc(2000000);
    *(void **)own = malloc(30);
}

/* No stale pointer stays on the stack. */
__attribute__((noinline)) static void wipe(void) {
    volatile char stack[16384];
    memset((char *)stack, 0, sizeof stack);
}

int main(int argc, char **argv) {
    keep();
    if (argc > 1 && strcmp(argv[1], "lose") == 0) {
        lose();
        lose_cycle();
    }
    wipe();
    printf("output\n");
    return 3;
}
