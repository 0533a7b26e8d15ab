/* SPDX-License-Identifier: MIT
 *
 * A program with an allocator of its own, which has not all names: hakmem, preloaded, is behind it. An array that is
 * resized comes from the program's, as its free goes there.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 22, HEAD = 16 };

static _Alignas(HEAD) char memory[BYTES];
static size_t used;
static unsigned strangers;

static int is_ours(const void *block) { return (const char *)block >= memory && (const char *)block < memory + BYTES; }

void *malloc(size_t size) {
    char *block = memory + used + HEAD;
    if (size > BYTES - used - 2 * HEAD)
        return NULL;
    memcpy(block - HEAD, &size, sizeof size);
    used += HEAD + (size + HEAD - 1) / HEAD * HEAD;
    return block;
}

void free(void *block) { strangers += block != NULL && !is_ours(block); }

void *calloc(size_t count, size_t size) { return malloc(count * size); }

void *realloc(void *block, size_t size) {
    void *now = malloc(size);
    size_t before = 0;
    if (block != NULL)
        memcpy(&before, (char *)block - HEAD, sizeof before);
    return now != NULL && block != NULL ? memcpy(now, block, before < size ? before : size) : now;
}

int main(void) {
    char *volatile array = reallocarray(NULL, 10, 10);
    if (array == NULL || !is_ours(array))
        return puts("reallocarray has memory of another allocator") < 0 ? 2 : 1;
    strcpy(array, "kept");
    array = reallocarray(array, 100, 10);
    if (array == NULL || !is_ours(array) || strcmp(array, "kept") != 0 || reallocarray(array, (size_t)-1, 2) != NULL)
        return 1;
    free(array);
    return strangers != 0;
}
