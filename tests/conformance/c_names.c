/* SPDX-License-Identifier: MIT
 *
 * Every C name of the malloc family: what it returns, what it does to errno, alignment, zeroing, limits.
 * Output is compared between the C library and hakmem (compare.py).
 */
#include "report.h"

static const size_t boundaries[] = {
    0,      1,      2,      7,      8,      9,       15,      16,      17,      23,      24,       25,      31,
    32,     33,     63,     64,     65,     100,     127,     128,     129,     255,     256,      257,     511,
    512,    513,    1000,   1023,   1024,   1025,    1040,    2048,    3000,    4095,    4096,     4097,    5000,
    8192,   10000,  16384,  32767,  32768,  32769,   65535,   65536,   65537,   131071,  131072,   131073,  200000,
    262143, 262144, 262145, 500000, 524288, 1048575, 1048576, 1048577, 2097152, 5000000, 33554432, 67108864};
enum { BOUNDARY_COUNT = sizeof boundaries / sizeof *boundaries };

/* Sizes that can never be had. */
static const size_t impossible[] = {(size_t)PTRDIFF_MAX,
                                    (size_t)PTRDIFF_MAX + 1,
                                    (size_t)PTRDIFF_MAX - 4096,
                                    SIZE_MAX,
                                    SIZE_MAX - 1,
                                    SIZE_MAX - 15,
                                    SIZE_MAX - 16,
                                    SIZE_MAX - 4095,
                                    SIZE_MAX - 4096,
                                    SIZE_MAX - 65536,
                                    SIZE_MAX / 2 - 65536,
                                    (size_t)1 << 62,
                                    ((size_t)1 << 48) + 1};
enum { IMPOSSIBLE_COUNT = sizeof impossible / sizeof *impossible };

static void report_block(const char *call, void *p, size_t asked) {
    int error = errno;
    if (p == NULL) {
        REPORT("%s = NULL errno %s\n", call, error_name(error));
        return;
    }
    size_t usable = malloc_usable_size(p);
    REPORT("%s = block aligned16 %s usable>=asked %s\n", call, yes_no(aligned_to(p, 16)), yes_no(usable >= asked));
    REPORT_MAY("%s usable %zu\n", call, usable);
    memset(p, 0x5a, usable);
    free(p);
}

static void dirty_then_free(size_t size) {
    void *p = malloc(size);
    if (p != NULL)
        memset(test_opaque(p), 0xff, size);
    free(p);
}

static void section_malloc(void) {
    char call[100];
    for (unsigned i = 0; i < BOUNDARY_COUNT; i++) {
        snprintf(call, sizeof call, "malloc(%zu)", boundaries[i]);
        errno = 4711;
        report_block(call, malloc(boundaries[i]), boundaries[i]);
    }
    for (unsigned i = 0; i < IMPOSSIBLE_COUNT; i++) {
        snprintf(call, sizeof call, "malloc(%#zx)", impossible[i]);
        errno = 4711;
        report_block(call, malloc(test_opaque_size(impossible[i])), 0);
    }
    void *zero[100];
    bool unique = true;
    for (unsigned i = 0; i < 100; i++) {
        zero[i] = malloc(0);
        for (unsigned j = 0; j < i; j++)
            unique &= zero[i] != zero[j];
    }
    REPORT("malloc(0) hundred times = unique %s\n", yes_no(unique));
    for (unsigned i = 0; i < 100; i++)
        free(zero[i]);
}

static void section_calloc(void) {
    char call[100];
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < BOUNDARY_COUNT; i++) {
            dirty_then_free(boundaries[i]);
            void *p = calloc(1, boundaries[i]);
            REPORT("calloc(1, %zu) after a dirty block of that size = %s zero %s\n", boundaries[i], null_or_block(p),
                   yes_no(p != NULL && test_is_zero(p, boundaries[i])));
            if (p != NULL)
                memset(p, 0xee, boundaries[i]);
            free(p);
        }
    static const size_t pairs[][2] = {{0, 0},
                                      {0, 5},
                                      {5, 0},
                                      {3, 7},
                                      {1000, 1000},
                                      {SIZE_MAX, 0},
                                      {0, SIZE_MAX},
                                      {SIZE_MAX, 1},
                                      {1, SIZE_MAX},
                                      {SIZE_MAX, 2},
                                      {2, SIZE_MAX},
                                      {SIZE_MAX, SIZE_MAX},
                                      {SIZE_MAX / 2 + 1, 2},
                                      {(size_t)1 << 32, (size_t)1 << 32},
                                      {((size_t)1 << 32) + 1, ((size_t)1 << 32) - 1},
                                      {(size_t)1 << 33, (size_t)1 << 31},
                                      {PTRDIFF_MAX, 1},
                                      {PTRDIFF_MAX / 16 + 1, 16}};
    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        snprintf(call, sizeof call, "calloc(%#zx, %#zx)", pairs[i][0], pairs[i][1]);
        errno = 4711;
        report_block(call, calloc(test_opaque_size(pairs[i][0]), test_opaque_size(pairs[i][1])), 0);
    }
}

static void section_realloc(void) {
    errno = 4711;
    void *p = realloc(NULL, 100);
    REPORT("realloc(NULL, 100) = %s errno %s\n", null_or_block(p), error_name(errno));
    errno = 4711;
    void *q = realloc(test_opaque(p), 0);
    REPORT("realloc(block, 0) = %s errno %s\n", null_or_block(q), error_name(errno));
    errno = 4711;
    p = realloc(NULL, 0);
    REPORT("realloc(NULL, 0) = %s errno %s\n", null_or_block(p), error_name(errno));
    free(p);

    for (unsigned i = 0; i < IMPOSSIBLE_COUNT; i++) {
        unsigned char *kept = (unsigned char *)malloc(777);
        test_fill(kept, 777, i);
        errno = 4711;
        void *none = realloc(test_opaque(kept), test_opaque_size(impossible[i]));
        REPORT("realloc(block, %#zx) = %s errno %s old block kept %s\n", impossible[i], null_or_block(none),
               error_name(errno), yes_no(test_holds(kept, 777, i)));
        free(test_opaque(kept));
    }
    for (unsigned i = 1; i < BOUNDARY_COUNT; i++)
        for (unsigned j = 1; j < BOUNDARY_COUNT; j += 1 + (i + j) % 3) {
            size_t from = boundaries[i], to = boundaries[j], less = from < to ? from : to;
            if (from + to > 8 * TEST_MIB)
                continue;
            unsigned char *block = (unsigned char *)malloc(from);
            test_fill(block, from, i);
            errno = 4711;
            unsigned char *moved = (unsigned char *)realloc(block, to);
            REPORT("realloc(%zu bytes, %zu) = %s contents %s aligned16 %s errno %s\n", from, to, null_or_block(moved),
                   yes_no(test_holds(moved, less, i)), yes_no(aligned_to(moved, 16)), error_name(errno));
            free(moved);
        }
    /* Grown and shrunk step by step through every tier. */
    unsigned char *walker = NULL;
    size_t old = 0;
    bool whole = true;
    for (size_t size = 1; size < 80 * TEST_MIB; size += size / 3 + 1) {
        walker = (unsigned char *)realloc(walker, size);
        whole &= test_holds(walker, old, 9);
        test_fill(walker, size, 9);
        old = size;
    }
    for (size_t size = old; size > 0; size = size * 2 / 3) {
        walker = (unsigned char *)realloc(walker, size);
        whole &= test_holds(walker, size, 9);
    }
    REPORT("realloc up to 80 MiB and down again = contents %s\n", yes_no(whole));
    free(walker);
}

static void section_reallocarray(void) {
    static const size_t pairs[][2] = {{0, 10},       {10, 0},       {10, 10},      {1000, 1000},
                                      {SIZE_MAX, 2}, {2, SIZE_MAX}, {1, SIZE_MAX}, {(size_t)1 << 32, (size_t)1 << 32}};
    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        errno = 4711;
        void *p = reallocarray(NULL, test_opaque_size(pairs[i][0]), test_opaque_size(pairs[i][1]));
        REPORT("reallocarray(NULL, %#zx, %#zx) = %s errno %s\n", pairs[i][0], pairs[i][1], null_or_block(p),
               error_name(errno));
        free(p);
    }
    unsigned char *p = (unsigned char *)malloc(100);
    test_fill(p, 100, 3);
    errno = 4711;
    void *none = reallocarray(p, test_opaque_size(SIZE_MAX / 2), 4);
    REPORT("reallocarray(block, overflow) = %s errno %s old block kept %s\n", null_or_block(none), error_name(errno),
           yes_no(test_holds(p, 100, 3)));
    p = (unsigned char *)reallocarray(test_opaque(p), 10, 30);
    REPORT("reallocarray(100 bytes, 10, 30) = contents %s\n", yes_no(test_holds(p, 100, 3)));
    free(p);
}

static void section_posix_memalign(void) {
    static const size_t alignments[] = {0,       1,       2,       3,        4,
                                        6,       7,       8,       12,       16,
                                        24,      32,      48,      64,       100,
                                        128,     1024,    4096,    4097,     8192,
                                        65536,   1048576, 2097152, 16777216, ((size_t)1 << 63),
                                        SIZE_MAX};
    static const size_t sizes[] = {0, 1, 8, 24, 64, 100, 4096, 5000, 70000, 300000, 2000000};
    for (unsigned i = 0; i < sizeof alignments / sizeof *alignments; i++)
        for (unsigned j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            void *sentinel = (void *)boundaries, *p = sentinel;
            errno = 4711;
            int error = posix_memalign(&p, test_opaque_size(alignments[i]), sizes[j]);
            int after = errno;
            REPORT("posix_memalign(%zu, %zu) = %s pointer %s aligned %s\n", alignments[i], sizes[j], error_name(error),
                   p == sentinel ? "untouched" : null_or_block(p), yes_no(error == 0 && aligned_to(p, alignments[i])));
            /* Its answer is the error; what becomes of errno on failure is not specified. */
            REPORT_MAY("errno %s\n", error_name(after));
            if (error == 0) {
                REPORT("posix_memalign(%zu, %zu) usable>=asked %s\n", alignments[i], sizes[j],
                       yes_no(malloc_usable_size(p) >= sizes[j]));
                memset(p, 1, malloc_usable_size(p));
                free(p);
            }
        }
    for (unsigned i = 0; i < IMPOSSIBLE_COUNT; i++) {
        void *p = NULL;
        errno = 4711;
        int error = posix_memalign(&p, 64, test_opaque_size(impossible[i]));
        REPORT("posix_memalign(64, %#zx) = %s pointer %s\n", impossible[i], error_name(error), null_or_block(p));
    }
}

/* aligned_alloc of what is no power of two: glibc refuses it since 2.38; before, it rounded up as memalign does. */
static const char *may_round_up(size_t alignment) {
    return alignment == 0 || (alignment & (alignment - 1)) != 0 ? "~ " : "";
}

static void section_memalign(void) {
    static const size_t alignments[] = {0,  1,  2,   3,   7,    8,    16,   17,    24,     32,
                                        48, 64, 100, 128, 1000, 4096, 5000, 65536, 1048576};
    static const size_t sizes[] = {0, 1, 24, 100, 128, 4000, 4096, 70000, 1000000};
    for (unsigned i = 0; i < sizeof alignments / sizeof *alignments; i++)
        for (unsigned j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            size_t alignment = alignments[i], power = 1;
            while (power < alignment)
                power *= 2;
            errno = 4711;
            void *p = memalign(test_opaque_size(alignment), sizes[j]);
            REPORT("memalign(%zu, %zu) = %s errno %s aligned %s\n", alignment, sizes[j], null_or_block(p),
                   error_name(errno), yes_no(aligned_to(p, power)));
            free(p);
            errno = 4711;
            p = aligned_alloc(test_opaque_size(alignment), sizes[j]);
            REPORT("%saligned_alloc(%zu, %zu) = %s errno %s aligned %s\n", may_round_up(alignment), alignment, sizes[j],
                   null_or_block(p), error_name(errno), yes_no(aligned_to(p, power)));
            free(p);
        }
    static const size_t mad[] = {((size_t)1 << 63), ((size_t)1 << 63) + 1, SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 62};
    for (unsigned i = 0; i < sizeof mad / sizeof *mad; i++) {
        errno = 4711;
        void *p = memalign(test_opaque_size(mad[i]), 100);
        REPORT("memalign(%#zx, 100) = %s errno %s\n", mad[i], null_or_block(p), error_name(errno));
        errno = 4711;
        p = aligned_alloc(test_opaque_size(mad[i]), 100);
        REPORT("%saligned_alloc(%#zx, 100) = %s errno %s\n", may_round_up(mad[i]), mad[i], null_or_block(p),
               error_name(errno));
    }
    for (unsigned i = 0; i < IMPOSSIBLE_COUNT; i++) {
        errno = 4711;
        void *p = memalign(4096, test_opaque_size(impossible[i]));
        REPORT("memalign(4096, %#zx) = %s errno %s\n", impossible[i], null_or_block(p), error_name(errno));
        errno = 4711;
        p = aligned_alloc(64, test_opaque_size(impossible[i]));
        REPORT("aligned_alloc(64, %#zx) = %s errno %s\n", impossible[i], null_or_block(p), error_name(errno));
    }
    for (size_t alignment = 16; alignment <= (size_t)1 << 30; alignment *= 2) {
        void *p = memalign(alignment, 100);
        REPORT("memalign(%zu, 100) = %s aligned %s\n", alignment, null_or_block(p), yes_no(aligned_to(p, alignment)));
        if (p != NULL)
            memset(p, 7, 100);
        p = realloc(p, 5000);
        REPORT("realloc of it = %s first byte %d last byte %d\n", null_or_block(p), ((char *)p)[0], ((char *)p)[99]);
        free(p);
    }
}

static void section_valloc(void) {
    static const size_t sizes[] = {0, 1, 100, 4095, 4096, 4097, 10000, 1000000};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        errno = 4711;
        void *p = valloc(sizes[i]);
        REPORT("valloc(%zu) = %s errno %s page aligned %s\n", sizes[i], null_or_block(p), error_name(errno),
               yes_no(aligned_to(p, page)));
        free(p);
        errno = 4711;
        p = pvalloc(sizes[i]);
        size_t rounded = (sizes[i] + page - 1) / page * page;
        REPORT("pvalloc(%zu) = %s errno %s page aligned %s usable covers whole pages %s\n", sizes[i], null_or_block(p),
               error_name(errno), yes_no(aligned_to(p, page)), yes_no(malloc_usable_size(p) >= rounded));
        free(p);
    }
    for (unsigned i = 0; i < IMPOSSIBLE_COUNT; i++) {
        errno = 4711;
        void *p = valloc(test_opaque_size(impossible[i]));
        REPORT("valloc(%#zx) = %s errno %s\n", impossible[i], null_or_block(p), error_name(errno));
        errno = 4711;
        p = pvalloc(test_opaque_size(impossible[i]));
        REPORT("pvalloc(%#zx) = %s errno %s\n", impossible[i], null_or_block(p), error_name(errno));
    }
}

static void section_free(void) {
    for (unsigned i = 0; i < BOUNDARY_COUNT; i++) {
        void *p = malloc(boundaries[i]);
        errno = 4711;
        free(p);
        REPORT("free(%zu bytes) errno %s\n", boundaries[i], error_name(errno));
    }
    errno = 4711;
    free(NULL);
    REPORT("free(NULL) errno %s\n", error_name(errno));
    REPORT("malloc_usable_size(NULL) = %zu\n", malloc_usable_size(NULL));

    void (*sized)(void *, size_t);
    void (*aligned_sized)(void *, size_t, size_t);
    TEST_SYMBOL(sized, "free_sized");
    TEST_SYMBOL(aligned_sized, "free_aligned_sized");
    REPORT_MAY("free_sized is there %s, free_aligned_sized %s\n", yes_no(sized != NULL), yes_no(aligned_sized != NULL));
    for (unsigned i = 0; i < BOUNDARY_COUNT; i++) {
        errno = 4711;
        if (sized != NULL)
            sized(malloc(boundaries[i]), boundaries[i]);
        if (aligned_sized != NULL)
            aligned_sized(aligned_alloc(64, (boundaries[i] + 63) & ~(size_t)63), 64,
                          (boundaries[i] + 63) & ~(size_t)63);
    }
    if (sized != NULL)
        sized(NULL, 10);
    REPORT("free_sized of every size errno %s\n", error_name(errno));
}

/* Names that glibc exports for those who wrap malloc. */
static void section_libc_names(void) {
    void *(*libc_malloc)(size_t);
    void *(*libc_calloc)(size_t, size_t);
    void *(*libc_realloc)(void *, size_t);
    void *(*libc_memalign)(size_t, size_t);
    void (*libc_free)(void *);
    TEST_SYMBOL(libc_malloc, "__libc_malloc");
    TEST_SYMBOL(libc_calloc, "__libc_calloc");
    TEST_SYMBOL(libc_realloc, "__libc_realloc");
    TEST_SYMBOL(libc_memalign, "__libc_memalign");
    TEST_SYMBOL(libc_free, "__libc_free");
    char *p = (char *)libc_malloc(100);
    REPORT("__libc_malloc(100) = %s usable %s\n", null_or_block(p), yes_no(malloc_usable_size(p) >= 100));
    strcpy(p, "kept");
    p = (char *)realloc(p, 3000);
    REPORT("realloc of it contents %s\n", p);
    p = (char *)libc_realloc(p, 50);
    REPORT("__libc_realloc of it contents %s\n", p);
    free(p);
    libc_free(malloc(100));
    libc_free(NULL);
    free(libc_calloc(10, 10));
    p = (char *)libc_memalign(4096, 10);
    REPORT("__libc_memalign(4096, 10) aligned %s\n", yes_no(aligned_to(p, 4096)));
    libc_free(p);
}

/* Memory that the C library allocates for the program, and the other way round. */
static void section_libc(void) {
    char *copy = strdup("strdup");
    char *part = strndup("strndup and more", 7);
    char *text = NULL;
    int length = asprintf(&text, "%d %s %05.2f", 42, "asprintf", 3.14159);
    REPORT("strdup %s strndup %s asprintf %d %s\n", copy, part, length, text);
    copy = (char *)realloc(copy, 1000);
    REPORT("realloc(strdup) %s\n", copy);
    free(copy);
    free(part);
    free(text);

    char source[] = "first line\nsecond, a longer line than the first\n\nlast without newline";
    FILE *in = fmemopen(source, sizeof source - 1, "r");
    char *line = (char *)malloc(1);
    size_t capacity = 1;
    for (ssize_t n; (n = getline(&line, &capacity, in)) > 0;)
        REPORT("getline %zd capacity suffices %s\n", n, yes_no(capacity > (size_t)n));
    free(line);
    fclose(in);

    char *stream_text = NULL;
    size_t stream_size = 0;
    FILE *out = open_memstream(&stream_text, &stream_size);
    for (int i = 0; i < 1000; i++)
        fprintf(out, "%d,", i);
    fclose(out);
    REPORT("open_memstream %zu bytes end %s\n", stream_size, stream_text + stream_size - 8);
    free(stream_text);

    char *path = realpath("/proc/self/..", NULL);
    REPORT("realpath %s\n", path);
    free(path);
    char *directory = getcwd(NULL, 0);
    REPORT("getcwd %s\n", null_or_block(directory));
    free(directory);
    setenv("CONFORMANCE_VARIABLE", "value", 1);
    REPORT("getenv %s\n", getenv("CONFORMANCE_VARIABLE"));
    unsetenv("CONFORMANCE_VARIABLE");
}

static void *give_out(size_t count, size_t size, void **blocks) {
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        memset(blocks[i], 1, size);
    }
    return blocks;
}

static void section_introspection(void) {
    enum { COUNT = 2000, SIZE = 1000 };
    static void *blocks[COUNT];
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 35)
    REPORT("mallopt(M_MMAP_THRESHOLD, 1 GiB) = %d, -1 = %d\n", mallopt(M_MMAP_THRESHOLD, 1 << 30),
           mallopt(M_MMAP_THRESHOLD, -1));
#endif
    REPORT("mallopt(M_MXFAST, 160) = %d, 161 = %d, -1 = %d\n", mallopt(M_MXFAST, 160), mallopt(M_MXFAST, 161),
           mallopt(M_MXFAST, -1));
    REPORT_MAY("mallopt(M_MMAP_THRESHOLD) = %d\n", mallopt(M_MMAP_THRESHOLD, 1 << 20));
    REPORT("mallopt(M_MMAP_THRESHOLD, 1 MiB) = %d\n", mallopt(M_MMAP_THRESHOLD, 1 << 20));
    REPORT("mallopt(M_TRIM_THRESHOLD, 1 MiB) = %d\n", mallopt(M_TRIM_THRESHOLD, 1 << 20));
    REPORT("mallopt(M_ARENA_MAX, 2) = %d\n", mallopt(M_ARENA_MAX, 2));

    struct mallinfo2 before = mallinfo2();
    give_out(COUNT, SIZE, blocks);
    struct mallinfo2 during = mallinfo2();
    size_t grown = during.uordblks - before.uordblks;
    REPORT("mallinfo2 after 2000 blocks of 1000 bytes: uordblks grew by as much %s\n",
           yes_no(grown >= COUNT * SIZE && grown < COUNT * SIZE * 5 / 4));
    REPORT("mallinfo2 arena + hblkhd covers what is in use %s\n",
           yes_no(during.arena + during.hblkhd >= during.uordblks));
    for (unsigned i = 0; i < COUNT; i++)
        free(blocks[i]);
    struct mallinfo2 after = mallinfo2();
    REPORT("mallinfo2 after freeing them: uordblks fell by as much %s\n",
           yes_no(during.uordblks - after.uordblks >= COUNT * SIZE &&
                  during.uordblks - after.uordblks < COUNT * SIZE * 5 / 4));

    before = mallinfo2();
    void *big = malloc(100 * TEST_MIB);
    during = mallinfo2();
    REPORT("mallinfo2 after a block of 100 MiB: hblkhd + uordblks grew by it %s\n",
           yes_no(during.hblkhd + during.uordblks - before.hblkhd - before.uordblks >= 100 * TEST_MIB));
    free(big);

    REPORT_MAY("mallinfo %d\n", mallinfo().arena);
    REPORT("malloc_trim(0) after freeing = 0 or 1 %s\n", yes_no((unsigned)malloc_trim(0) <= 1));
    give_out(COUNT, SIZE * 20, blocks);
    for (unsigned i = 0; i < COUNT; i++)
        free(blocks[i]);
    long before_trim = test_rss_kib();
    int trimmed = malloc_trim(0);
    REPORT_MAY("malloc_trim(0) with 40 MB free = %d, resident %ld KiB before\n", trimmed, before_trim);
    REPORT("malloc_trim gave the free memory back %s\n", yes_no(test_rss_kib() < 12 * 1024));
}

/* Enough of XML to tell whether a text is well-formed: one root, tags nest, attributes are quoted. */
static bool well_formed(const char *p) {
    enum { DEPTH = 64, NAME = 64 };
    static char open_tags[DEPTH][NAME];
    unsigned depth = 0, roots = 0;
    while (*p != 0) {
        if (*p != '<') {
            if (depth == 0 && *p != '\n' && *p != ' ')
                return false;
            p++;
            continue;
        }
        bool closing = *++p == '/';
        p += closing;
        const char *name = p;
        while (*p != 0 && strchr(" \n\t/>", *p) == NULL)
            p++;
        size_t length = (size_t)(p - name);
        if (length == 0 || length >= NAME)
            return false;
        for (bool quoted = false; *p != 0 && (quoted || *p != '>'); p++)
            quoted ^= *p == '"';
        if (*p != '>')
            return false;
        bool empty = p[-1] == '/';
        p++;
        if (closing) {
            if (depth == 0 || strncmp(open_tags[--depth], name, length) != 0 || open_tags[depth][length] != 0)
                return false;
        } else if (!empty) {
            if (depth == DEPTH)
                return false;
            roots += depth == 0;
            memcpy(open_tags[depth], name, length);
            open_tags[depth++][length] = 0;
        }
    }
    return depth == 0 && roots == 1;
}

static void section_malloc_info(void) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    errno = 4711;
    int answer = malloc_info(0, out);
    fclose(out);
    REPORT("malloc_info(0) = %d well-formed %s starts with <malloc version= %s\n", answer, yes_no(well_formed(text)),
           yes_no(strncmp(text, "<malloc version=", 16) == 0));
    free(text);
    out = open_memstream(&text, &size);
    errno = 4711;
    answer = malloc_info(1, out);
    REPORT("malloc_info(1) = %d errno %s\n", answer, error_name(answer == 0 ? 4711 : errno));
    fclose(out);
    free(text);

    /* malloc_stats prints to stderr: into a file, to see that it does. */
    int saved = dup(2);
    FILE *file = tmpfile();
    dup2(fileno(file), 2);
    malloc_stats();
    fflush(stderr);
    dup2(saved, 2);
    REPORT("malloc_stats prints something %s\n", yes_no(lseek(fileno(file), 0, SEEK_END) > 20));
    fclose(file);
}

int main(void) {
    test_alarm(100);
    section_malloc();
    section_calloc();
    section_realloc();
    section_reallocarray();
    section_posix_memalign();
    section_memalign();
    section_valloc();
    section_free();
    section_libc_names();
    section_libc();
    section_introspection();
    section_malloc_info();
    CHECK_HEAP();
    REPORT("end\n");
    return TEST_PASS;
}
