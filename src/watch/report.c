/* SPDX-License-Identifier: MIT */
#include "watch/report.h"

#include "base/bits.h"
#include "core/message.h"
#include "core/print.h"
#include "sys/libc_doors.h"
#include "sys/sys.h"
#include "sys/tags.h"

enum { ROW = 16, LINE_BYTES = 256, PAGE = 4096 /* bytes of one page can be read when one of them can */ };

/* Written by report_init, constant afterwards. */
static report_sources_t sources;

static void show_called(const hk_misuse_t *misuse) { report_show(misuse, NULL); }

void report_init(const report_sources_t *from) {
    sources = *from;
    hk_misuse_show_by(show_called);
}

/* --- The block ---------------------------------------------------------------------------------------------------- */

/* What is not known of the block yet. An address behind the last block of a slab lies in none. */
static void look_up(hk_misuse_t *misuse, hk_description_t *found) {
    const void *address = misuse->block != NULL ? misuse->block : misuse->address;
    *found = (hk_description_t){.where = HK_WHERE_NOT_OURS};
    if (sources.describe == NULL || !sources.describe(address, found) || found->block == NULL ||
        found->where == HK_WHERE_SLAB_TAIL)
        return;
    if (misuse->block == NULL) {
        misuse->block = found->block;
        misuse->block_size = found->block_size;
    }
    if (misuse->state == HK_MISUSE_UNKNOWN)
        misuse->state = found->is_free ? HK_MISUSE_FREE : HK_MISUSE_ALLOCATED;
}

static void show_block(const hk_misuse_t *misuse, const hk_description_t *found) {
    static const char places[HK_WHERE_COUNT][sizeof ", in a slab of such blocks"] = {
        [HK_WHERE_BLOCK] = ", in a slab of such blocks", [HK_WHERE_LARGE] = ", large", [HK_WHERE_HUGE] = ", huge"};
    static const char states[][sizeof ", allocated"] = {"", ", allocated", ", free"};
    char line[LINE_BYTES];
    hk_out_t out;
    if (misuse->block == NULL)
        return;
    hk_assert(misuse->state <= HK_MISUSE_FREE && misuse->asked <= misuse->block_size);
    hk_out_to_memory(&out, line, sizeof line);
    hk_print(&out, "block %p to %p, %zu bytes%s", misuse->block, (const char *)misuse->block + misuse->block_size,
             misuse->block_size, places[found->where]);
    if (found->owner != 0)
        hk_print(&out, " of heap %u", found->owner);
    hk_print(&out, "%s", states[misuse->state]);
    if (misuse->asked != 0)
        hk_print(&out, ", %zu bytes asked for", misuse->asked);
    hk_message("  %s", line);
}

/* --- Bytes -------------------------------------------------------------------------------------------------------- */

static void show_row(uintptr_t row, uintptr_t from, uintptr_t to, uintptr_t wrong) {
    char line[LINE_BYTES];
    hk_out_t out;
    hk_assert(row % ROW == 0 && hk_align_down(from, PAGE) == hk_align_down(to - 1, PAGE));
    hk_out_to_memory(&out, line, sizeof line);
    for (uintptr_t at = row; at < row + ROW; at++) {
        const char *before = at == wrong ? "[" : at == wrong + 1 && at != row ? "]" : " ";
        if (at < from || at >= to)
            hk_print(&out, "%s  ", before);
        else
            hk_print(&out, "%s%c%c", before, "0123456789abcdef"[*(const volatile unsigned char *)at >> 4],
                     "0123456789abcdef"[*(const volatile unsigned char *)at & 15]);
    }
    hk_message("    %p:%s%s", (const void *)row, line, wrong == row + ROW - 1 ? "]" : "");
}

/* The rows before and behind it, as far as they are the block's. */
static void show_bytes(const hk_misuse_t *misuse) {
    const uintptr_t wrong = (uintptr_t)misuse->wrong, block = (uintptr_t)misuse->block;
    if (wrong == 0 || block == 0)
        return;
    if (wrong < block)
        hk_message("  first wrong byte among the %zu before the block:", (size_t)(block - wrong));
    else
        hk_message("  first wrong byte %p, at offset %zu of the block:", misuse->wrong, (size_t)(wrong - block));
    const uintptr_t page = hk_align_down(wrong, PAGE), row = hk_align_down(wrong, ROW);
    const uintptr_t end = hk_max(block + misuse->block_size, row + ROW); /* a guarded block ends before its page does */
    const uintptr_t from = hk_max(hk_min(block, wrong), hk_max(page, row - ROW));
    const uintptr_t to = hk_min(end, hk_min(page + PAGE, row + (uintptr_t)2 * ROW));
    hk_assert(from <= wrong && wrong < to);
    const uint64_t tags = tags_pause();
    for (uintptr_t at = hk_align_down(from, ROW); at < to; at += ROW)
        show_row(at, from, to, wrong);
    tags_resume(tags);
}

/* --- The whole ---------------------------------------------------------------------------------------------------- */

/* Not those of what was called by the program; nothing where the caller is not on the stack. */
static void show_caller(const void *caller) {
    stack_trace_t here;
    if (caller == NULL)
        return;
    stack_trace_here(&here, caller);
    if (here.pcs[0] != (uintptr_t)caller) {
        here.count = 1;
        here.pcs[0] = (uintptr_t)caller;
    }
    stack_show_trace("called", &here);
}

static void show_touch(const sys_registers_t *at) {
    hk_message("  touched by thread %u:", sys_thread_id());
    stack_show_interrupted(at, "  ");
}

/* Visible ASCII characters alone: a terminal shows them as they are. */
static bool is_word(const char *name) {
    while ((unsigned char)(*name - '!') < '\x7f' - '!')
        name++;
    return *name == '\0';
}

void report_show(const hk_misuse_t *misuse, const sys_registers_t *at) {
    hk_misuse_t known = *misuse;
    hk_description_t found;
    stack_trace_t allocated = {.count = 0}, freed = {.count = 0};
    if (hk_misuse_count() > REPORTS_WHOLE_MAX)
        return;
    look_up(&known, &found);
    if (sources.stacks != NULL) {
        const void *began = known.block != NULL ? known.block : known.address; /* the last may have gone from there */
        size_t asked;
        if (sources.stacks(began, &asked, &allocated, &freed) && known.asked == 0 && known.block != NULL)
            known.asked = asked;
    }
    show_block(&known, &found);
    show_bytes(&known);
    if (at != NULL)
        show_touch(at);
    else
        show_caller(known.caller);
    stack_show_trace("allocated", &allocated);
    if (known.state != HK_MISUSE_ALLOCATED) /* else it is the free that reports, or one of a block before it */
        stack_show_trace("freed", &freed);
    const char *program = libc_program_name();
    hk_message("  docs/misuse.md says what this means; to report it, send it with what `hakmem doctor -- %s` prints",
               program != NULL && is_word(program) ? program : "PROGRAM");
}
