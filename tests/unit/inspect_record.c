/* SPDX-License-Identifier: MIT
 *
 * The record for readers from outside: the note in our own memory leads to it; what it says is where it says; and what
 * is there is what the statistics say.
 */
#include "check.h"
#include "core/counters.h"
#include "core/options.h"
#include "heap/magazine.h"
#include "inspect/record.h"
#include "start/start.h"

#include <elf.h>
#include <link.h>

/* Of the names that layout 1 began with, in their order: none is ever taken out or moved, new ones follow at the end of
 * record.def. */
enum { LAYOUT_1_WORDS = 62 };
#define LAYOUT_1_HASH UINT64_C(0x6611ec782e8ba7d3)

static const char *const names[] = {
#define HK_WORD(name, ...) #name,
#define HK_ADDRESS         HK_WORD
#define HK_NUMBER          HK_WORD
#define HK_FIELD           HK_WORD
#include "inspect/record.def"
};

/* FNV-1a of the first `count` names. */
static uint64_t hash_of_names(size_t count) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++)
        for (const char *c = names[i];; c++) {
            hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
            if (*c == '\0')
                break;
        }
    return hash;
}

static const void *record;

static int see_notes(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size, (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_NOTE)
            continue;
        const char *at = (const char *)info->dlpi_addr + segment->p_vaddr, *end = at + segment->p_memsz;
        while (at + sizeof(ElfW(Nhdr)) < end && record == NULL) {
            ElfW(Nhdr) header;
            memcpy(&header, at, sizeof header);
            const char *name = at + sizeof header, *words = name + (header.n_namesz + 3) / 4 * 4;
            if (header.n_namesz == 7 && strcmp(name, "hakmem") == 0 && header.n_type == 1) {
                int32_t distance;
                uint32_t layout;
                memcpy(&layout, words, sizeof layout);
                memcpy(&distance, words + 4, sizeof distance);
                CHECK_EQ(header.n_descsz, 8);
                CHECK_EQ(layout, INSPECT_LAYOUT);
                record = words + 4 + distance;
            }
            at = words + (header.n_descsz + 3) / 4 * 4;
        }
    }
    return 0;
}

static void the_note_leads_to_the_record(void) {
    (void)dl_iterate_phdr(see_notes, NULL);
    CHECK(record == &hk_inspect);
    CHECK(memcmp(hk_inspect.magic, "hakmem\0", 8) == 0);
    CHECK_EQ(hk_inspect.struct_size, sizeof hk_inspect);
    CHECK_EQ(hk_inspect.layout, INSPECT_LAYOUT);
    CHECK(sizeof hk_inspect <= 4096);
}

static void words_are_only_added(void) {
    CHECK((size_t)INSPECT_WORDS >= (size_t)LAYOUT_1_WORDS);
    CHECK_EQ(hash_of_names(LAYOUT_1_WORDS), LAYOUT_1_HASH);
}

static const char *text_at(unsigned word) { return (const char *)(uintptr_t)hk_inspect.words[word].number; }

static size_t lines(const char *text) {
    size_t count = 0;
    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

static void lists_are_as_long_as_what_they_name(void) {
    CHECK_EQ(lines(text_at(INSPECT_option_list)), HK_OPT_COUNT);
    CHECK_HAS(text_at(INSPECT_option_list), "SAFE\tNUMBER\t\n");
    CHECK_EQ(lines(text_at(INSPECT_counter_list)) * sizeof(uint64_t), sizeof hk_counters);
    CHECK_HAS(text_at(INSPECT_build), "hakmem ");
}

static uint64_t field_at(const void *start, unsigned word) {
    uint64_t offset = hk_inspect.words[word].number & UINT32_MAX, size = hk_inspect.words[word].number >> 32, value = 0;
    memcpy(&value, (const char *)start + offset, size);
    return value;
}

static uint64_t number(unsigned word) { return hk_inspect.words[word].number; }

/* A heap found and read as a reader from outside does it. */
static void a_heap_is_read_by_the_record_alone(void) {
    enum { BLOCKS = 10 };
    heap_t *h = heap_current();
    CHECK(h != NULL);
    unsigned cls = class_of(48);
    for (int i = 0; i < BLOCKS; i++)
        CHECK(magazine_alloc(h, cls) != NULL);
    uintptr_t areas[REGION_AREA_COUNT];
    memcpy(areas, text_at(INSPECT_areas), sizeof areas);
    const char *heap = (const char *)areas[number(INSPECT_area_of_heaps)] + h->front.id * number(INSPECT_heap_stride);
    CHECK(heap == (const char *)h);
    CHECK_EQ(field_at(heap, INSPECT_heap_life), number(INSPECT_heap_is_live));
    const char *magazine = heap + number(INSPECT_magazines) + cls * number(INSPECT_magazine_stride);
    const char *stats = heap + number(INSPECT_stats) + cls * number(INSPECT_stats_stride);
    uint64_t below = field_at(magazine, INSPECT_magazine_below), array = field_at(stats, INSPECT_stats_array);
    uint64_t count = below == 0 ? 0 : (below - array) / number(INSPECT_granule_bytes) + 1;
    CHECK_EQ(count, heap_magazine_count(h, cls));
    uint64_t allocated = field_at(magazine, INSPECT_magazine_pushes) + field_at(stats, INSPECT_stats_refilled) -
                         field_at(stats, INSPECT_stats_flushed) - count;
    CHECK_EQ(allocated, BLOCKS);
    const char *info = text_at(INSPECT_class_info) + cls * number(INSPECT_class_stride);
    CHECK_EQ(field_at(info, INSPECT_class_block_size), 48);
    uint32_t limit;
    memcpy(&limit, text_at(INSPECT_heap_limit), sizeof limit);
    CHECK_EQ(limit, heap_limit());
}

int main(void) {
    the_note_leads_to_the_record();
    words_are_only_added();
    lists_are_as_long_as_what_they_name();
    a_heap_is_read_by_the_record_alone();
    return CHECK_PASS;
}
