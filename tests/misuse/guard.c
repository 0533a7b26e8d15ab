/* SPDX-License-Identifier: MIT
 *
 * Touches of guarded blocks (HAKMEM_GUARD=1: every block that fits). `misuse_guard BUG` says on stdout which block it
 * is about, and makes one mistake; guard.py looks at the report. `misuse_guard innocent` makes none.
 */
#include "testing.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 48, ODD = 100, TRIES = 400 };

/* Whether nobody may read the byte: the kernel says so. */
static bool is_closed(const unsigned char *byte) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    bool closed = write(ends[1], byte, 1) < 0 && errno == EFAULT;
    close(ends[0]);
    close(ends[1]);
    return closed;
}

/* A block that ends, or begins, flush at a closed page. */
static unsigned char *flush_block(size_t size, int at_end) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < TRIES; i++) {
        unsigned char *p = malloc(size);
        uintptr_t border = (uintptr_t)p + (at_end ? (size + 15) / 16 * 16 : 0);
        if (border % page == 0 && is_closed((unsigned char *)border - (at_end ? 0 : 1))) {
            printf("base %p size %zu\n", (void *)p, size);
            fflush(stdout);
            return test_opaque(p);
        }
        free(p);
    }
    exit(2);
}

static void touch(volatile unsigned char *p, long offset) { p[offset] ^= 1; }

static void overflow(void) { touch(flush_block(SIZE, 1), SIZE); }
static void underflow(void) { touch(flush_block(SIZE, 0), -1); }

static void gap(void) {
    unsigned char *p = flush_block(ODD, 1);
    touch(p, ODD);
    free(p);
}

static void use_after_free(void) {
    unsigned char *p = flush_block(SIZE, 1), *stale = test_opaque(p);
    free(p);
    touch(stale, 8);
}

static void after_realloc(void) {
    unsigned char *p = flush_block(SIZE, 1), *stale = test_opaque(p), *q = realloc(p, 5000);
    CHECK(q != NULL && q != stale);
    touch(stale, 0);
}

static void double_free(void) {
    unsigned char *p = flush_block(SIZE, 1), *stale = test_opaque(p);
    free(p);
    free(stale);
}

static void interior(void) { free(test_opaque(flush_block(SIZE, 1) + 16)); }

static void *overflow_there(void *p) {
    touch(p, SIZE);
    return NULL;
}

static void in_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, overflow_there, flush_block(SIZE, 1)) == 0);
    pthread_join(thread, NULL);
}

static void *overflow_own(void *argument) {
    overflow();
    return argument;
}

/* Its blocks are guarded from the first on. */
static void of_new_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, overflow_own, NULL) == 0);
    pthread_join(thread, NULL);
}

/* The child's touch is reported by the child, and the parent goes on. */
static void in_child(void) {
    int status;
    unsigned char *p = flush_block(SIZE, 1);
    pid_t child = fork();
    if (child == 0)
        touch(p, SIZE);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    free(p);
    kill(getpid(), SIGSEGV);
}

static void own(int number) {
    (void)number;
    (void)!write(1, "own handler\n", 12);
    _exit(3);
}

static void own_handler(void) {
    CHECK(signal(SIGSEGV, own) != SIG_ERR);
    overflow();
}

/* A fault that is none of ours is the program's alone. */
static void own_fault(void) {
    CHECK(signal(SIGSEGV, own) != SIG_ERR);
    printf("base %p size 0\n", (void *)flush_block(SIZE, 1));
    fflush(stdout);
    touch(test_opaque((unsigned char *)16), 0);
}

/* Handlers that pass on what they do not know, as most do: by a call of the one before, by putting it back, and by
 * putting it back and raising the signal. Ours comes in front of each with the next guarded block. */
static struct sigaction before;
static volatile sig_atomic_t passed_on;

static void count_pass(void) {
    (void)!write(1, "passed on\n", 10);
    if (++passed_on > 3)
        _exit(4);
}

static void call_before(int number, siginfo_t *info, void *context) {
    count_pass();
    if ((before.sa_flags & SA_SIGINFO) != 0) {
        before.sa_sigaction(number, info, context);
    } else {
        CHECK(signal(number, SIG_DFL) != SIG_ERR);
    }
}

static void put_before(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    count_pass();
    CHECK(sigaction(number, &before, NULL) == 0);
}

static void raise_before(int number, siginfo_t *info, void *context) {
    put_before(number, info, context);
    raise(number);
}

static void pass_on(void (*handler)(int, siginfo_t *, void *), int touches_guard) {
    struct sigaction mine = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &mine, &before) == 0);
    unsigned char *p = flush_block(SIZE, 1); /* which brings ours in front */
    touch(touches_guard ? p : test_opaque((unsigned char *)16), touches_guard ? SIZE : 0);
}

static void chained_call(void) { pass_on(call_before, 0); }
static void chained_put(void) { pass_on(put_before, 0); }
static void chained_raise(void) { pass_on(raise_before, 0); }
static void chained_touch(void) { pass_on(call_before, 1); }

/* On a stack of 8 KiB, as Rust gives its threads, with nothing below it that may be touched. */
static void take_small_stack(void) {
    enum { SMALL = 8192 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (SMALL + page - 1) / page * page;
    if (size < (size_t)sysconf(_SC_MINSIGSTKSZ) * 2)
        size = (size_t)sysconf(_SC_MINSIGSTKSZ) * 2;
    char *pages = mmap(NULL, page + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + page, size, PROT_READ | PROT_WRITE) == 0);
    stack_t stack = {.ss_sp = pages + page, .ss_size = size};
    CHECK(sigaltstack(&stack, NULL) == 0);
}

static void on_small_stack(void) {
    take_small_stack();
    overflow();
}

/* For HAKMEM_CRASH_REPORT. */
static void crash_on_small_stack(void) {
    static const unsigned char constant[16] = "constant";
    take_small_stack();
    touch(test_opaque((unsigned char *)(uintptr_t)constant), 0);
}

/* Every call keeps what it promises. */
static void innocent(void) {
    enum { BLOCKS = 200 };
    static unsigned char *blocks[BLOCKS];
    size_t (*good_size)(size_t);
    TEST_SYMBOL(good_size, "hak_good_size");
    for (size_t i = 0; i < 20000; i++) {
        unsigned char **block = &blocks[i % BLOCKS];
        size_t size = i * 37 % 9000 + 1, align = (size_t)16 << i % 9;
        if (i % 3 == 0) {
            *block = realloc(*block, size);
        } else {
            free(*block);
            *block = i % 3 == 1 ? calloc(1, size) : aligned_alloc(align, size);
        }
        CHECK(malloc_usable_size(*block) >= (i % 3 == 2 ? size : good_size(size)));
        CHECK(*block != NULL && (uintptr_t)*block % (i % 3 == 2 ? align : 16) == 0);
        for (size_t k = 0; k < size && i % 3 == 1; k++)
            CHECK((*block)[k] == 0);
        memset(*block, 1, size);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    void (*free_aligned_sized)(void *block, size_t align, size_t size);
    TEST_SYMBOL(free_aligned_sized, "hak_free_aligned_sized");
    for (size_t i = 0; i < 20000; i++) { /* of a class that has more, with blocks at hand */
        void *block = aligned_alloc(64, 100);
        CHECK(block != NULL);
        free_aligned_sized(block, 64, 100);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} bugs[] = {
    {"overflow", overflow},
    {"underflow", underflow},
    {"gap", gap},
    {"use_after_free", use_after_free},
    {"after_realloc", after_realloc},
    {"double_free", double_free},
    {"interior", interior},
    {"in_thread", in_thread},
    {"of_new_thread", of_new_thread},
    {"in_child", in_child},
    {"own_handler", own_handler},
    {"own_fault", own_fault},
    {"chained_call", chained_call},
    {"chained_put", chained_put},
    {"chained_raise", chained_raise},
    {"chained_touch", chained_touch},
    {"on_small_stack", on_small_stack},
    {"crash_on_small_stack", crash_on_small_stack},
    {"innocent", innocent},
};

int main(int argc, char **argv) {
    for (size_t i = 0; argc == 2 && i < sizeof bugs / sizeof *bugs; i++)
        if (strcmp(argv[1], bugs[i].name) == 0) {
            bugs[i].run();
            return 0;
        }
    return 2;
}
