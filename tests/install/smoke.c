/* SPDX-License-Identifier: MIT
 *
 * smoke.c: a small program that uses every tier, from several threads, and asks hakmem whether it was served by it.
 *
 * It is built against an installed hakmem (dynamic, static, by CMake, by pkg-config), for other architectures and for
 * other C libraries. Prints one line and exits 0, or says what was wrong and exits 1.
 *
 * `smoke copy` grows blocks above 64 KiB by copying: qemu-user takes the pages that MREMAP_DONTUNMAP leaves mapped for
 * unmapped (target_mremap in its linux-user/mmap.c), so a program that it runs cannot touch them again.
 */
#include <hakmem.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 4000, HELD = 200, COPY_ABOVE = 65536 };

static bool copy_large;

static void require(bool condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "smoke: %s\n", what);
        exit(1);
    }
}

static size_t next_size(uint32_t *state) {
    static const size_t top[] = {64, 64, 1024, 1024, 20000, 300000, 3000000};
    *state = *state * 1664525u + 1013904223u;
    uint32_t value = *state >> 8;
    return 1 + value % top[value % (sizeof top / sizeof top[0])];
}

/* A block carries its seed in its first and last byte. */
static unsigned char *make(size_t size, unsigned char seed) {
    unsigned char *block = malloc(size);
    require(block != NULL, "malloc returned NULL");
    require((uintptr_t)block % 16 == 0, "malloc returned a block that is not aligned to 16");
    block[0] = block[size - 1] = seed;
    return block;
}

static unsigned char *resize(unsigned char *block, size_t old_size, size_t size) {
    if (!copy_large || (old_size <= COPY_ABOVE && size <= COPY_ABOVE))
        return realloc(block, size);
    unsigned char *copy = malloc(size);
    require(copy != NULL, "malloc returned NULL");
    memcpy(copy, block, old_size < size ? old_size : size);
    free(block);
    return copy;
}

static void *churn(void *argument) {
    unsigned char *held[HELD] = {NULL};
    size_t sizes[HELD] = {0};
    uint32_t state = (uint32_t)(uintptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        unsigned slot = (unsigned)round * 7919u % HELD;
        unsigned char seed = (unsigned char)slot;
        if (held[slot] != NULL) {
            require(held[slot][0] == seed && held[slot][sizes[slot] - 1] == seed, "a block changed its content");
            size_t size = next_size(&state);
            held[slot] = resize(held[slot], sizes[slot], size);
            require(held[slot] != NULL && held[slot][0] == seed, "realloc lost the content");
            if (round % 3 == 0) {
                free(held[slot]);
                held[slot] = NULL;
                continue;
            }
            sizes[slot] = size;
            held[slot][size - 1] = seed;
            continue;
        }
        sizes[slot] = next_size(&state);
        held[slot] = make(sizes[slot], seed);
    }
    for (unsigned slot = 0; slot < HELD; slot++)
        free(held[slot]);
    return make(100, (unsigned char)(uintptr_t)argument);
}

int main(int argc, char **argv) {
    copy_large = argc > 1 && strcmp(argv[1], "copy") == 0;
    static const size_t sizes[] = {1, 16, 100, 1024, 5000, 100000, 1000000, (size_t)64 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *block = make(sizes[i], 1);
        require(hak_owns(block), "malloc is not hakmem's");
        free(block);
        unsigned char *zeroed = calloc(1, sizes[i]);
        require(zeroed != NULL && zeroed[0] == 0 && zeroed[sizes[i] - 1] == 0,
                "calloc returned memory that is not zero");
        free(zeroed);
    }
    for (size_t alignment = 16; alignment <= (size_t)1 << 20; alignment *= 2) {
        void *block = aligned_alloc(alignment, alignment * 2);
        require(block != NULL && (uintptr_t)block % alignment == 0, "aligned_alloc returned a misaligned block");
        memset(block, 1, alignment * 2);
        free(block);
    }
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        require(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)) == 0, "pthread_create failed");
    for (uintptr_t i = 0; i < THREADS; i++) {
        void *left;
        require(pthread_join(threads[i], &left) == 0, "pthread_join failed");
        require(*(unsigned char *)left == i + 1, "a block of a thread that ended changed");
        free(left);
    }
    char *text = strdup("from the C library");
    require(hak_owns(text), "strdup's memory is not hakmem's");
    free(text);
    require(hak_check() == 0, "hak_check found violations");
    require(hak_version() == HAK_VERSION_MAJOR * 10000 + HAK_VERSION_MINOR * 100 + HAK_VERSION_PATCH,
            "another version");
    printf("smoke: served by %s\n", hak_build_info());
    return 0;
}
