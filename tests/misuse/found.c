/* SPDX-License-Identifier: MIT
 *
 * One mistake, on any allocator, and then what a program goes on with. `misuse_found BUG` exits with 0 when it came to
 * its end, so nobody noticed; `misuse_found` alone lists the bugs. found.py counts who notices which.
 */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 100, MIDDLE = 5000, LARGE = 1 << 20, GO_ON = 20000, BESIDE = 64 };

typedef volatile unsigned char *bytes_t;

extern void sized_delete(void *block, size_t size) __asm__("_ZdlPvm") __attribute__((weak));

static void *beside[BESIDE];

/* A block among others of its size, all of them written to. */
static bytes_t block_of(size_t size) {
    for (unsigned i = 0; i < BESIDE; i++) {
        beside[i] = malloc(size);
        CHECK(beside[i] != NULL);
        memset(beside[i], 0x61, size);
    }
    return test_opaque(beside[BESIDE / 2]);
}

static void release(bytes_t block) {
    for (unsigned i = 0; i < BESIDE; i++)
        if (beside[i] == (void *)(uintptr_t)block)
            beside[i] = NULL;
    free((void *)(uintptr_t)block);
}

/* Frees what is left, and uses sizes around it for a while: what comes later is found later. */
static void go_on(size_t size) {
    for (unsigned i = 0; i < BESIDE; i++)
        free(beside[i]);
    for (unsigned i = 0; i < (size >= LARGE ? GO_ON / 20 : GO_ON); i++)
        free(test_opaque(malloc(size)));
}

static void write_at(size_t size, long offset, unsigned char value) {
    bytes_t block = block_of(size);
    block[offset] = value;
    release(block);
    go_on(size);
}

static void overflow_by_one(void) { write_at(SMALL, SMALL, 1); }
static void overflow_string_end(void) { write_at(SMALL + 4, SMALL + 4, 0); }
static void overflow_by_eight(void) { write_at(SMALL, SMALL + 8, 1); }
static void overflow_by_sixteen(void) { write_at(SMALL, SMALL + 16, 1); }
static void overflow_middle(void) { write_at(MIDDLE, MIDDLE, 1); }
static void overflow_large(void) { write_at(LARGE, LARGE, 1); }
static void overflow_large_odd(void) { write_at(LARGE - 100, LARGE - 100, 1); }
static void underflow_by_one(void) { write_at(SMALL, -1, 1); }
static void underflow_by_32(void) { write_at(SMALL, -32, 1); }
static void underflow_large(void) { write_at(LARGE, -1, 1); }

static void write_after_free_of(size_t size, size_t offset) {
    bytes_t block = block_of(size);
    release(block);
    block[offset] = 1;
    go_on(size);
}

static void write_after_free(void) { write_after_free_of(SMALL, 40); }
static void write_after_free_first(void) { write_after_free_of(SMALL, 0); }
static void write_after_free_middle(void) { write_after_free_of(MIDDLE, 2500); }
static void write_after_free_large(void) { write_after_free_of(LARGE, LARGE / 2); }

/* Noticed when what was there is gone, or by a fault. */
static void read_after_free_of(size_t size) {
    bytes_t block = block_of(size);
    release(block);
    if (block[size / 2] != 0x61)
        exit(3);
}

static void read_after_free(void) { read_after_free_of(SMALL); }
static void read_after_free_large(void) { read_after_free_of(LARGE); }

static void write_of_no_bytes(void) {
    bytes_t block = test_opaque(malloc(0));
    block[0] = 1;
    free((void *)(uintptr_t)block);
    go_on(16);
}

static unsigned char seen;
static void read_of_no_bytes(void) {
    bytes_t block = test_opaque(malloc(0));
    seen = block[0];
    free((void *)(uintptr_t)block);
}

static void twice(size_t size, unsigned between) {
    bytes_t block = block_of(size);
    release(block);
    for (unsigned i = 0; i < between; i++)
        free(beside[i]), beside[i] = NULL;
    free((void *)(uintptr_t)block);
    go_on(size);
}

static void double_free(void) { twice(SMALL, 0); }
static void double_free_later(void) { twice(SMALL, 30); }
static void double_free_middle(void) { twice(MIDDLE, 10); }
static void double_free_large(void) { twice(LARGE, 10); }

static void free_at(size_t size, size_t offset) {
    bytes_t block = block_of(size);
    free(test_opaque((void *)(uintptr_t)(block + offset)));
    go_on(size);
}

static void free_inside(void) { free_at(SMALL, 16); }
static void free_misaligned(void) { free_at(SMALL, 1); }
static void free_inside_large(void) { free_at(LARGE, 4096); }

static void free_of_stack(void) {
    unsigned char local[256];
    free(test_opaque(local + 128 - (uintptr_t)local % 16));
    go_on(SMALL);
}

static void free_of_global(void) {
    static unsigned char global[4096];
    free(test_opaque(global + 2048));
    go_on(SMALL);
}

static void realloc_of_freed(void) {
    bytes_t block = block_of(SMALL);
    release(block);
    beside[0] = realloc(test_opaque((void *)(uintptr_t)block), 200);
    go_on(SMALL);
}

static void delete_of(size_t size, size_t given) {
    if (sized_delete == NULL)
        exit(77);
    bytes_t block = block_of(size);
    sized_delete((void *)(uintptr_t)block, given);
    for (unsigned i = 0; i < BESIDE; i++)
        if (beside[i] == (void *)(uintptr_t)block)
            beside[i] = NULL;
    go_on(size);
}

static void sized_delete_wrong(void) { delete_of(SMALL, 1000); }
static void sized_delete_by_eight(void) { delete_of(SMALL, SMALL + 8); }

static const struct bug {
    const char *name;
    void (*make)(void);
} bugs[] = {
#define BUG(name)                                                                                                      \
    { #name, name }
    BUG(overflow_by_one),         BUG(overflow_string_end),    BUG(overflow_by_eight),  BUG(overflow_by_sixteen),
    BUG(overflow_middle),         BUG(overflow_large),         BUG(overflow_large_odd), BUG(underflow_by_one),
    BUG(underflow_by_32),         BUG(underflow_large),        BUG(write_after_free),   BUG(write_after_free_first),
    BUG(write_after_free_middle), BUG(write_after_free_large), BUG(read_after_free),    BUG(read_after_free_large),
    BUG(write_of_no_bytes),       BUG(read_of_no_bytes),       BUG(double_free),        BUG(double_free_later),
    BUG(double_free_middle),      BUG(double_free_large),      BUG(free_inside),        BUG(free_misaligned),
    BUG(free_inside_large),       BUG(free_of_stack),          BUG(free_of_global),     BUG(realloc_of_freed),
    BUG(sized_delete_wrong),      BUG(sized_delete_by_eight),
};

int main(int count, char **arguments) {
    for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) {
        if (count < 2)
            puts(bugs[i].name);
        else if (strcmp(bugs[i].name, arguments[1]) == 0) {
            bugs[i].make();
            return 0;
        }
    }
    return count < 2 ? 0 : 2;
}
