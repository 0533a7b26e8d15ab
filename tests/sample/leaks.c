/* SPDX-License-Identifier: MIT
 *
 * What leaks.py runs:  leaks lose | keep | heap | reserve | reader | confined | files
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

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

/* The one pointer to a block lies deep in a large block of a heap of the program's. */
__attribute__((noinline)) static void keep_in_heap(void) {
    static void **in_heap;
    void *(*heap_new)(const void *), *(*heap_malloc)(void *, size_t);
    *(void **)&heap_new = dlsym(RTLD_DEFAULT, "hak_heap_new");
    *(void **)&heap_malloc = dlsym(RTLD_DEFAULT, "hak_heap_malloc");
    in_heap = heap_malloc(heap_new(NULL), 8 << 20);
    in_heap[(6 << 20) / sizeof *in_heap] = malloc(1000);
}

/* It would take a minute to read it. */
static void reserve(void) {
    void *all =
        mmap(NULL, (size_t)256 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        exit(77);
}

static void *read_on(void *unused) {
    (void)unused;
    (void)getchar();
    return NULL;
}

/* A thread has the lock of standard input for as long as it waits for a character. */
static void wait_for_input(void) {
    pthread_t reader;
    if (pthread_create(&reader, NULL, read_on, NULL) != 0)
        exit(77);
    sleep(1);
}

/* No stale pointer stays on the stack. */
__attribute__((noinline)) static void wipe(void) {
    volatile char stack[16384];
    memset((char *)stack, 0, sizeof stack);
}

int main(int argc, char **argv) {
    keep();
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "heap") == 0)
        keep_in_heap();
    if (strcmp(what, "reserve") == 0)
        reserve();
    if (strcmp(what, "lose") == 0 || strcmp(what, "reader") == 0) {
        lose();
        lose_cycle();
    }
    if (strcmp(what, "reader") == 0)
        wait_for_input();
    if (strcmp(what, "confined") == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return 77;
    if (strcmp(what, "files") == 0 && setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, 3}) != 0)
        return 77;
    wipe();
    printf("output\n");
    return 3;
}
