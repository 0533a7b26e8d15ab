/* SPDX-License-Identifier: MIT
 *
 * What foreign addresses are: the reader against a fixed list cut at every place, then real addresses of this process.
 */
#include "check.h"
#include "watch/foreign.h"

#include <pthread.h>
#include <sys/mman.h>

static const char MAPS[] = "00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/program\n"
                           "00651000-00652000 rw-p 00051000 08:02 173521      /usr/bin/program\n"
                           "00652000-00655000 rw-p 00000000 00:00 0 \n"
                           "00e03000-00e24000 rw-p 00000000 00:00 0           [heap]\n"
                           "7f1000000000-7f1000021000 rw-p 00000000 00:00 0 \n"
                           "7f1000021000-7f1004000000 ---p 00000000 00:00 0 \n"
                           "7f2000000000-7f2000001000 rw-p 00000000 00:00 0   [anon:pool]\n"
                           "7f3000000000-7f3000001000 r--p 00000000 08:02 9   /tmp/with space\n"
                           "7f3000001000-7f3000002000 rw-p 00000000 00:00 0 \n"
                           "7f4000000000-7f4000001000 rw-s 00000000 00:01 5   /memfd:x (deleted)\n"
                           "7ffd10000000-7ffd10021000 rw-p 00000000 00:00 0   [stack]\n"
                           "7ffd10100000-7ffd10102000 r-xp 00000000 00:00 0   [vdso]\n";

static const struct {
    uintptr_t address;
    foreign_kind_t kind;
    const char *path;
} answers[] = {
    {0, FOREIGN_UNMAPPED, ""},
    {0x3fffff, FOREIGN_UNMAPPED, ""},
    {0x400000, FOREIGN_FILE, "/usr/bin/program"},
    {0x451fff, FOREIGN_FILE, "/usr/bin/program"},
    {0x452000, FOREIGN_UNMAPPED, ""},
    {0x652010, FOREIGN_FILE, "/usr/bin/program"}, /* zero-initialised variables */
    {0xe03010, FOREIGN_BRK, ""},
    {0x7f1000000010, FOREIGN_STACK, ""}, /* holds the stack pointer given */
    {0x7f1000021000, FOREIGN_ANONYMOUS, ""},
    {0x7f2000000000, FOREIGN_ANONYMOUS, ""},
    {0x7f3000000fff, FOREIGN_FILE, "/tmp/with space"},
    {0x7f3000001000, FOREIGN_ANONYMOUS, ""}, /* behind a file that is not writable */
    {0x7f4000000000, FOREIGN_FILE, "/memfd:x (deleted)"},
    {0x7ffd10020000, FOREIGN_STACK, ""},
    {0x7ffd10100000, FOREIGN_FILE, "[vdso]"},
    {0x7ffd10102000, FOREIGN_UNMAPPED, ""},
    {UINTPTR_MAX, FOREIGN_UNMAPPED, ""},
};

static void fixed_list(size_t step) {
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        foreign_scan_t scan;
        hk_mappings_reader_t reader;
        foreign_scan_init(&scan, (void *)answers[i].address, (void *)(uintptr_t)0x7f1000010000u);
        hk_mappings_reader_init(&reader, foreign_visit, &scan);
        size_t at = 0;
        bool more = true;
        while (more && at < sizeof MAPS - 1) {
            size_t length = step < sizeof MAPS - 1 - at ? step : sizeof MAPS - 1 - at;
            more = hk_mappings_reader_feed(&reader, MAPS + at, length);
            at += length;
        }
        CHECK_EQ(scan.found.kind, answers[i].kind);
        CHECK_STR(scan.found.path, answers[i].path);
    }
}

static void scan_line(foreign_scan_t *scan, uintptr_t address, const char *line) {
    hk_mappings_reader_t reader;
    foreign_scan_init(scan, (void *)address, NULL);
    hk_mappings_reader_init(&reader, foreign_visit, scan);
    CHECK(!hk_mappings_reader_feed(&reader, line, strlen(line)));
}

static void long_path(void) {
    char line[2000] = "1000-2000 r--p 00000000 08:02 9 /";
    memset(line + strlen(line), 'd', 1500);
    strcat(line, "\n2000-3000 r--p 00000000 08:02 9 /next\n");
    foreign_scan_t scan;
    scan_line(&scan, 0x1000, line);
    CHECK_EQ(strlen(scan.found.path), FOREIGN_PATH_MAX - 1);
    scan_line(&scan, 0x2000, line);
    CHECK_STR(scan.found.path, "/next");
}

static int variable = 1;
static int variables_zero[100000];
static char self[FOREIGN_PATH_MAX];

static const char *describe(const void *address) {
    static _Thread_local char text[FOREIGN_TEXT_MAX];
    foreign_describe(address, text);
    return text;
}

static void *in_thread(void *of_first_thread) {
    int local = 0;
    CHECK_STR(describe(&local), "stack");
    CHECK_STR(describe(of_first_thread), "stack");
    return NULL;
}

static void real_addresses(void) {
    char file[FOREIGN_TEXT_MAX + 16];
    int local = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0);
    snprintf(file, sizeof file, "mapped file %s", self);
    CHECK_STR(describe(&local), "stack");
    CHECK_STR(describe(&variable), file);
    CHECK_STR(describe(&variables_zero[99999]), file);
    CHECK_STR(describe((void *)(uintptr_t)&real_addresses), file);
    CHECK_STR(describe(NULL), "not mapped");
    CHECK_STR(describe((void *)16), "not mapped");
    char *pages = mmap(NULL, 3 * 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    CHECK_EQ(munmap(pages + 65536, 65536), 0);
    CHECK_STR(describe(pages + 2 * 65536 + 5), "anonymous memory not from hakmem");
    CHECK_STR(describe(pages + 65536), "not mapped");
    foreign_t found;
    foreign_classify(sbrk(0), &found);
    CHECK(found.kind != FOREIGN_UNKNOWN);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, in_thread, &local), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

int main(void) {
    for (size_t step = 1; step < sizeof MAPS; step++)
        fixed_list(step);
    long_path();
    real_addresses();
    return CHECK_PASS;
}
