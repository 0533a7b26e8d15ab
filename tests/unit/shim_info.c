/* SPDX-License-Identifier: MIT
 *
 * The mallinfo family: fields that add up as glibc's do, the answers of mallopt, well-formed malloc_info.
 */
#include "check.h"
#include "unit/fake_heap.h"

#include <errno.h>
#include <malloc.h>

static char text[65536];

static void info_numbers(void) {
    struct mallinfo2 info = mallinfo2();
    CHECK_EQ(info.uordblks, 12 << 20);
    CHECK_EQ(info.fordblks, FAKE_UNTOUCHED * 7 << 20); /* the kernel is not asked */
    CHECK_EQ(info.arena, info.uordblks + info.fordblks);
    CHECK_EQ(info.ordblks, FAKE_UNTOUCHED * (4 << 20) / FAKE_SLOT);
    CHECK_EQ(info.smblks, 50);
    CHECK_EQ(info.hblks, 3);
    CHECK_EQ(info.hblkhd, 0);
    CHECK_EQ(info.usmblks, 0);
    CHECK_EQ(info.fsmblks, FAKE_UNTOUCHED << 20);
    CHECK_EQ(info.keepcost, FAKE_UNTOUCHED * 4 << 20);
}

static void options(void) {
    CHECK_EQ(mallopt(M_TRIM_THRESHOLD, 1 << 20), 1);
    CHECK_EQ(mallopt(M_TOP_PAD, 0), 1);
    CHECK_EQ(mallopt(M_MMAP_MAX, 0), 1);
    CHECK_EQ(mallopt(M_ARENA_MAX, 2), 1);
    CHECK_EQ(mallopt(M_MMAP_THRESHOLD, 1 << 20), 1);
    CHECK_EQ(mallopt(M_MMAP_THRESHOLD, 1 << 30), 1); /* as glibc 2.35 and later */
    CHECK_EQ(mallopt(M_MMAP_THRESHOLD, -1), 1);
    CHECK_EQ(mallopt(M_MXFAST, 64), 1);
    CHECK_EQ(mallopt(M_MXFAST, 10000), 0);
    CHECK_EQ(mallopt(M_PERTURB, 0), 1);
    CHECK_EQ(mallopt(M_PERTURB, 0x5a), 0);
}

static void trim(void) {
    CHECK_EQ(malloc_trim(0), 1);
    fake_trim_bytes = 0;
    CHECK_EQ(malloc_trim(0), 0);
}

static void xml(void) {
    CHECK_EQ(malloc_info(1, stdout), EINVAL);
    FILE *stream = fmemopen(text, sizeof text, "w");
    CHECK(stream != NULL);
    CHECK_EQ(malloc_info(0, stream), 0);
    CHECK_EQ(fclose(stream), 0);
    CHECK(strncmp(text, "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n", 43) == 0);
    CHECK_HAS(text, "  <size from=\"1\" to=\"16\" total=\"320\" count=\"20\"/>\n");
    CHECK_HAS(text, "  <size from=\"33\" to=\"48\" total=\"1440\" count=\"30\"/>\n");
    CHECK_HAS(text, "<total type=\"fast\" count=\"50\" size=\"1048576\"/>\n");
    CHECK_HAS(text, "</heap>\n");
    CHECK_STR(text + strlen(text) - 10, "</malloc>\n");
}

static void print_stats(void) { malloc_stats(); }

int main(void) {
    info_numbers();
    options();
    trim();
    xml();
    CHECK_EQ(check_child(print_stats, 2, text, sizeof text), 0);
    CHECK_HAS(text, "Arena 0:\nsystem bytes     =   27262976\nin use bytes     =   12582912\nTotal (incl. mmap):\n");
    return CHECK_PASS;
}
