/* SPDX-License-Identifier: MIT
 *
 * Somebody else reserves address space, as language runtimes do: memory is there as long as the kernel has some.
 *
 *   reserved random       many starts, each with sixteen reservations of 4 TiB at random places, before the first
 *                         allocation or after it
 *   reserved fixed        many starts, each with a heap at 17 to 32 TiB, as CLISP has it
 *   reserved all before   all of the address space is reserved and given back before the first allocation works
 *   reserved all after    the same when the heap is there already
 */
#include "testing.h"

#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>

enum {
    STARTS = 60,
    RESERVATIONS = 16,
    BLOCKS = 100000,
    SIZE = 500,
    PIECES_MAX = 4096,
    KEPT_MAX = 100000,
    IN_VAIN = 300
};
#define RESERVATION ((size_t)4 << 40)

static void *reserve(void *hint, size_t size) {
    void *at = mmap(hint, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void use(void) {
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = (char *)malloc(SIZE);
        CHECK_SAY(blocks[i] != NULL, "no memory after %d blocks", i);
        blocks[i][0] = blocks[i][SIZE - 1] = (char)i;
    }
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(blocks[i][0] == (char)i && blocks[i][SIZE - 1] == (char)i);
        free(blocks[i]);
    }
}

static void reserve_some(void) {
    for (int i = 0; i < RESERVATIONS; i++) {
        uintptr_t hint = 0;
        CHECK(getrandom(&hint, sizeof hint, 0) == sizeof hint);
        if (reserve((void *)(hint & 0x3ffffffff000), RESERVATION) == NULL)
            return;
    }
}

static void one_start(bool before) {
    if (!before)
        free(malloc(100));
    reserve_some();
    use();
    _exit(TEST_PASS);
}

static void fixed_start(bool before) {
    if (!before)
        free(malloc(100));
    void *from = (void *)((uintptr_t)17 << 40);
    size_t size = (size_t)15 << 40;
    CHECK(mmap(from, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) ==
          from);
    use();
    _exit(TEST_PASS);
}

static int many(void (*start)(bool before)) {
    unsigned failed = 0;
    for (int i = 0; i < STARTS; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            start(i % 2 == 0);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        failed += status != 0;
    }
    CHECK_SAY(failed == 0, "%u of %d starts have no memory", failed, STARTS);
    return TEST_PASS;
}

static int all(bool before) {
    static struct {
        void *at;
        size_t size;
    } pieces[PIECES_MAX];
    unsigned count = 0;
    if (!before)
        use();
    for (size_t size = (size_t)1 << 46; size >= 2 * TEST_MIB && count < PIECES_MAX;) {
        pieces[count].size = size;
        pieces[count].at = reserve(NULL, size);
        if (pieces[count].at != NULL)
            count++;
        else
            size /= 2;
    }
    CHECK(count > 0 && count < PIECES_MAX);
    void *block, *keep = NULL;
    for (int i = 0; i < KEPT_MAX && (block = malloc(20 * TEST_KIB)) != NULL; i++) {
        *(void **)block = keep;
        keep = block;
    }
    /* However often it is asked for in vain. */
    for (int i = 0; i < IN_VAIN; i++)
        CHECK_SAY(malloc(20 * TEST_KIB) == NULL && errno == ENOMEM, "%u reservations leave room", count);
    for (unsigned i = 0; i < count; i++)
        CHECK(munmap(pieces[i].at, pieces[i].size) == 0);
    use();
    CHECK(malloc(8 * TEST_MIB) != NULL);
    while (keep != NULL) {
        block = *(void **)keep;
        free(keep);
        keep = block;
    }
    CHECK_HEAP();
    return TEST_PASS;
}

int main(int argc, char **argv) {
    test_alarm(100);
    CHECK(argc >= 2);
    if (strcmp(argv[1], "random") == 0)
        return many(one_start);
    if (strcmp(argv[1], "fixed") == 0)
        return many(fixed_start);
    CHECK(argc == 3);
    return all(strcmp(argv[2], "before") == 0);
}
