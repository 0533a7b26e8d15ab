/* SPDX-License-Identifier: MIT */
#include "sample/sampler.h"

#include "base/bits.h"
#include "base/relaxed.h"
#include "core/panic.h"
#include "hakmem.h"
#include "map/map.h"
#include "sample/blocks.h"
#include "sample/ended.h"
#include "sample/sites.h"
#include "sample/stack.h"
#include "sample/timeline.h"
#include "sys/probe.h"
#include "sys/sys.h"

#include <elf.h>
#include <string.h>

enum {
    TABLE_BYTES_MIN = 8 << 20,
    TABLE_SHARE = 256,   /* of what is live */
    BYTES_A_SAMPLE = 64, /* with its buckets; half of the tables. The other half: */
    BYTES_A_STACK = 24,
    BYTES_A_SITE = 264,
    NAME_EACH = 64,   /* samples of a thread, after which its name is asked for again */
    TRACED_LOG2 = 19, /* the interval where nobody but a tracer has asked: 512 KiB */
};

static uint64_t started_us;   /* of the clock */
static uint64_t random_state; /* for chances that are no thread's */
static sample_draw_t unowned; /* of threads without a heap */
static bool has_begun, has_tables;

/* --- Tracers: the contract of OpenTelemetry's profiler, provider otel_memory -------------------------------------- */

SYS_DEFINE_PROBE("otel_memory", "alloc", "hk_trace_alloc", 3);
SYS_DEFINE_PROBE("otel_memory", "free", "hk_trace_free", 1);

extern void hk_trace_alloc(uint64_t block, uint64_t size, uint64_t weight) HK_HIDDEN;
extern void hk_trace_free(uint64_t block) HK_HIDDEN;
extern const volatile uint16_t hk_trace_alloc_semaphore HK_HIDDEN, hk_trace_free_semaphore HK_HIDDEN;

static bool is_traced(void) { return SYS_PROBE_IS_WANTED(hk_trace_alloc) || SYS_PROBE_IS_WANTED(hk_trace_free); }

static _Atomic bool is_for_tracer; /* sampled because of one alone; written under hk_sample_lock */
static bool is_asked;              /* ... because a tool outside has asked for it; guarded by hk_sample_lock */

/* 0 before it: another thread may have started or reset the profile meanwhile. */
static uint64_t since_start_us(uint64_t clock_us) { return clock_us > started_us ? clock_us - started_us : 0; }

uint64_t sample_now_us(void) { return since_start_us(sys_now_us()); }

/* Time in which nobody samples does not count, but for that between two times in which somebody does. */
static void note_time_locked(uint64_t now_us) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    if (sample_is_active())
        hk_write(hk_profile.header.elapsed_us, hk_max(hk_profile.header.elapsed_us, now_us));
}

bool sample_is_due_unowned(uint64_t size) {
    if (hk_likely(!sample_is_active()))
        return false;
    hk_lock(&hk_sample_lock);
    bool due = sample_is_due(&unowned, size, size);
    hk_unlock(&hk_sample_lock);
    return due;
}

/* --- Records ------------------------------------------------------------------------------------------------------ */

/* The program has it no longer, or the record has to go. Its live bit stays as it is. `end` is NULL when nothing is
 * known of the end. */
static void forget_locked(uint32_t at, const site_end_t *end) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    hk_assert(at != 0 && block_at(at)->address != 0);
    const profile_sample_t *block = block_at(at);
    site_count_free(block->site, block_weight(block), end);
    ended_note_locked(block);
    block_remove(at);
}

/* The block goes on without a record, and counts no more. */
static void let_go_locked(uint32_t at) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    hk_assert(at != 0 && block_at(at)->address != 0);
    const profile_sample_t *block = block_at(at);
    if ((block->flags & PROFILE_SAMPLE_HAS_BIT) != 0)
        map_set_live_shared(map_granule((const void *)(uintptr_t)block->address));
    block_remove(at);
}

static bool stays(const profile_sample_t *block, uint64_t size, unsigned log2) {
    uint64_t old = chance_of(hk_max(block->size, 1), block->interval_log2), now = chance_of(hk_max(size, 1), log2);
    return now >= old || chance_stays(&random_state, old, now);
}

/* SAMPLE-3. */
static void thin_block_locked(uint32_t at, unsigned log2) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    profile_sample_t *block = block_at(at);
    if (block->address == 0 || block->interval_log2 >= log2)
        return;
    const bool goes_on = stays(block, block->size, log2);
    site_subtract_live(block->site, block_weight(block));
    if (!goes_on) {
        let_go_locked(at);
        return;
    }
    hk_write(block->interval_log2, (uint8_t)log2);
    site_add_live(block->site, block_weight(block));
    sites_note_peak();
}

static void set_interval_locked(uint32_t log2) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    draw_set_interval(log2);
    hk_write(hk_profile.header.interval_log2, log2);
}

static void thin_locked(void) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    hk_assert(draw_interval_log2() < CHANCE_LOG2_MAX);
    const uint32_t log2 = draw_interval_log2() + 1;
    set_interval_locked(log2);
    hk_add(hk_profile.header.thinnings, 1);
    for (uint32_t at = 1; at < table_count(PROFILE_SAMPLES); at++)
        thin_block_locked(at, log2);
}

static size_t table_bytes(void) {
    return hk_max(TABLE_BYTES_MIN, (hk_profile.header.live_bytes >> PROFILE_BYTES_SHIFT) / TABLE_SHARE);
}

/* Stacks and sites share their half, as one program has few sites and deep stacks, and another the reverse. */
static uint32_t most_beside(size_t others_bytes, size_t entry_bytes) {
    const size_t half = table_bytes() / 2;
    return (uint32_t)hk_min((half > others_bytes ? half - others_bytes : 0) / entry_bytes, UINT32_MAX);
}

static uint32_t most_stacks(void) {
    return most_beside((size_t)table_count(PROFILE_SITES) * BYTES_A_SITE, BYTES_A_STACK);
}

static uint32_t most_sites(void) {
    return most_beside((size_t)table_count(PROFILE_STACKS) * BYTES_A_STACK, BYTES_A_SITE);
}

static bool has_room_locked(void) {
    return blocks_count() < hk_min(table_bytes() / 2 / BYTES_A_SAMPLE, table_most(PROFILE_SAMPLES) - 1);
}

/* With the first sample: most programs that are started with an option for all of them end before it. */
static bool tables_begin_locked(void) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    return has_tables || (has_tables = table_begin(PROFILE_SAMPLES) && sites_begin() && timeline_begin());
}

/* As if it had been drawn for the interval of now. False when it then is no sample. */
static bool catch_up_locked(profile_sample_t *sample) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    const uint32_t log2 = draw_interval_log2();
    if (sample->interval_log2 < log2 && !stays(sample, sample->size, log2))
        return false;
    sample->interval_log2 = (uint8_t)hk_max(sample->interval_log2, log2);
    return true;
}

/* One of a thread with a longer interval stands for many that come and go, as a rule: it is in the peak when it is
 * still there at the next sample. One that stands for itself alone is at once. */
static void count_alloc_locked(const profile_sample_t *sample) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    const bool is_for_many = sample->interval_log2 > draw_interval_log2() && sample->size >> sample->interval_log2 == 0;
    if (is_for_many)
        sites_note_peak();
    site_count_alloc(sample->site, block_weight(sample));
    if (!is_for_many)
        sites_note_peak();
}

static bool lose_locked(void) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    hk_add(hk_profile.header.lost, 1);
    return false;
}

/* Whether the block has a record now. */
static bool record_locked(profile_sample_t *sample, const sample_stack_t *stack) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    hk_assert(sample->address != 0 && sample->interval_log2 <= CHANCE_LOG2_MAX);
    const uint32_t old = block_find((const void *)(uintptr_t)sample->address);
    if (old != 0) /* SAMPLE-1 */
        forget_locked(old, NULL);
    while (!has_room_locked() && draw_interval_log2() < CHANCE_LOG2_MAX)
        thin_locked();
    if (!catch_up_locked(sample))
        return false;
    hk_add(hk_profile.header.samples, 1);
    if (!tables_begin_locked())
        return lose_locked();
    sample->site = site_of(stack->pcs, stack->count, stack->mark, most_stacks(), most_sites());
    if (!has_room_locked() || !block_add(sample))
        return lose_locked();
    if ((sample->flags & PROFILE_SAMPLE_HAS_BIT) != 0)
        (void)map_clear_live_shared(map_granule((const void *)(uintptr_t)sample->address));
    count_alloc_locked(sample);
    return true;
}

/* A sample has been taken, since `begin_ns`. */
static void keep_pace_locked(sample_draw_t *draw, uint64_t begin_ns) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    const uint64_t now_ns = sys_now_ns();
    const pace_profile_t profile = {.interval_log2 = draw_interval_log2(), .samples = hk_profile.header.samples};
    pace_sampled(&draw->pace, profile, draw->due_after, (uint32_t)(now_ns / 1000), now_ns - begin_ns);
    const uint32_t longest = profile.interval_log2 + draw->pace.longer_log2;
    if (draw->pace.longer_log2 > 0 && longest > hk_profile.header.longest_log2)
        hk_write(hk_profile.header.longest_log2, longest);
}

void sample_take(const sample_block_t *block, sample_draw_t *draw, const void *caller) {
    hk_assert(block->address != NULL);
    const uint64_t begin_ns = sys_now_ns();
    sample_stack_t stack;
    sample_stack_capture(&stack, caller);
    const bool named = draw != NULL && draw->taken++ % NAME_EACH == 0;
    char name[PROFILE_NAME_BYTES];
    if (named && draw->thread == 0)
        draw->thread = sys_thread_id_unless_confined();
    if (named)
        sample_thread_name(name);
    profile_sample_t sample = {
        .address = (uintptr_t)block->address,
        .size = block->size,
        .slack = (uint32_t)hk_min(block->usable > block->size ? block->usable - block->size : 0, UINT32_MAX),
        .thread = draw != NULL ? draw->thread : 0,
        .heap = block->heap,
        .flags = block->has_bit ? PROFILE_SAMPLE_HAS_BIT : 0,
    };
    uint64_t traced = 0; /* its weight in bytes */
    hk_lock(&hk_sample_lock);
    if (sample_is_active()) {
        sample_draw_t *drawn = draw != NULL ? draw : &unowned;
        sample.interval_log2 = drawn->due_log2;
        sample.time_us = since_start_us(begin_ns / 1000);
        note_time_locked(sample.time_us);
        if (record_locked(&sample, &stack) && SYS_PROBE_IS_WANTED(hk_trace_alloc))
            traced = block_weight(&sample).bytes >> PROFILE_BYTES_SHIFT;
        timeline_note(sample.time_us);
        if (named)
            draw->name = thread_note(draw->name, draw->thread, block->heap, name);
        keep_pace_locked(drawn, begin_ns);
    }
    hk_unlock(&hk_sample_lock);
    if (traced != 0)
        hk_trace_alloc(sample.address, sample.size, traced);
}

static bool has_record(const void *address) {
    if (!blocks_may_have(address))
        return false;
    hk_lock(&hk_sample_lock);
    bool has = block_find(address) != 0;
    hk_unlock(&hk_sample_lock);
    return has;
}

/* The bit after the record: it is set before the record goes (let_go_locked). */
bool sample_has_suspect(const void *address) {
    return sample_was_ever_on() && (has_record(address) || map_is_live(map_granule(address)));
}

bool sample_close(const void *address, const sample_draw_t *draw) {
    if (!sample_was_ever_on() || !blocks_may_have(address))
        return false;
    hk_lock(&hk_sample_lock);
    const uint32_t at = block_find(address);
    if (at != 0) {
        const profile_sample_t *block = block_at(at);
        const uint64_t now = sample_now_us();
        note_time_locked(now);
        const site_end_t end = {.age_us = now > block->time_us ? now - block->time_us : 0,
                                .same_thread = draw != NULL && draw->thread != 0 && draw->thread == block->thread};
        forget_locked(at, &end);
    }
    hk_unlock(&hk_sample_lock);
    if (at != 0 && SYS_PROBE_IS_WANTED(hk_trace_free))
        hk_trace_free((uintptr_t)address);
    return at != 0;
}

void sample_keep_free(const void *address, const sample_draw_t *draw, const void *caller) {
    sample_stack_t stack;
    sample_stack_capture(&stack, caller);
    const uint32_t thread = draw != NULL && draw->thread != 0 ? draw->thread : sys_thread_id_unless_confined();
    hk_lock(&hk_sample_lock);
    if (has_tables)
        ended_note_free_locked(address, sites_stack(stack.pcs, stack.count, stack.mark, most_stacks()), thread);
    hk_unlock(&hk_sample_lock);
}

bool sample_close_suspect(const void *address, const sample_draw_t *draw) {
    return sample_was_ever_on() && (sample_close(address, draw) || map_clear_live_shared(map_granule(address)));
}

bool sample_resize(const void *address, size_t size, size_t usable, bool anew) {
    if (!sample_was_ever_on() || !blocks_may_have(address))
        return false;
    hk_lock(&hk_sample_lock);
    const uint32_t at = block_find(address);
    bool has_record = false;
    if (at != 0) {
        profile_sample_t *block = block_at(at);
        site_count_free(block->site, block_weight(block), NULL);
        has_record = !anew && stays(block, size, block->interval_log2);
        if (has_record) {
            hk_write(block->size, size);
            hk_write(block->slack, (uint32_t)hk_min(usable > size ? usable - size : 0, UINT32_MAX));
            count_alloc_locked(block);
        } else {
            let_go_locked(at);
        }
    }
    hk_unlock(&hk_sample_lock);
    return has_record;
}

bool sample_is_gone(const profile_sample_t *block) {
    return (block->flags & PROFILE_SAMPLE_HAS_BIT) != 0 &&
           map_is_live(map_granule((const void *)(uintptr_t)block->address));
}

bool sample_settle_locked(void) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    if (!has_begun || !tables_begin_locked())
        return false;
    note_time_locked(sample_now_us());
    for (uint32_t at = 1; at < table_count(PROFILE_SAMPLES); at++)
        if (block_at(at)->address != 0 && sample_is_gone(block_at(at)))
            forget_locked(at, NULL);
    return true;
}

/* --- The profile -------------------------------------------------------------------------------------------------- */

static void begin_locked(void) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    if (has_begun)
        return;
    has_begun = true;
    sys_random(&random_state, sizeof random_state);
    random_state |= 1;
    started_us = sys_now_us();
    profile_header_t *header = &hk_profile.header;
    header->format = PROFILE_FORMAT;
    header->header_bytes = sizeof *header;
    header->section_count = PROFILE_SECTIONS;
    header->section_stride = sizeof(profile_section_t);
    header->process_id = sys_process_id();
    header->library_version = HAK_VERSION_MAJOR * 10000 + HAK_VERSION_MINOR * 100 + HAK_VERSION_PATCH;
    header->machine = HK_X86_64 ? EM_X86_64 : EM_AARCH64;
    header->start_unix_ns = sys_unix_ns();
    memcpy(header->magic, PROFILE_MAGIC, sizeof PROFILE_MAGIC);
}

static void set_active_locked(bool active) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    const int asked = is_asked ? PROFILE_IS_ASKED : 0;
    hk_write(hk_profile.header.flags, (uint32_t)(PROFILE_IS_LIVE | (active ? PROFILE_IS_ACTIVE | asked : 0)));
    draw_set_active(active);
}

static void start_locked(uint32_t log2, sample_asker_t asker) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    begin_locked();
    atomic_store_explicit(&is_for_tracer, asker == SAMPLE_FOR_TRACER, memory_order_relaxed);
    is_asked = asker == SAMPLE_FOR_TOOL;
    set_interval_locked(log2);
    hk_write(hk_profile.header.first_interval_log2, log2);
    set_active_locked(true);
}

static void stop_locked(void) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    atomic_store_explicit(&is_for_tracer, false, memory_order_relaxed);
    note_time_locked(sample_now_us());
    if (sample_is_active())
        set_active_locked(false);
}

void sample_start(uint64_t interval, sample_asker_t asker) {
    const uint32_t log2 = (uint32_t)hk_min(hk_log2_ceil(hk_max(interval, 1)), CHANCE_LOG2_MAX);
    hk_lock(&hk_sample_lock);
    start_locked(log2, asker);
    hk_unlock(&hk_sample_lock);
}

void sample_stop(void) {
    hk_lock(&hk_sample_lock);
    stop_locked();
    hk_unlock(&hk_sample_lock);
}

/* Relaxed: what is seen too early or too late is seen at the next look, and the lock decides. */
bool sample_tracer_has_changed(void) {
    const bool for_tracer = atomic_load_explicit(&is_for_tracer, memory_order_relaxed);
    return hk_unlikely(is_traced() != for_tracer) && (for_tracer || !sample_is_active());
}

bool sample_follow_tracer(void) {
    bool changed = false;
    hk_lock(&hk_sample_lock);
    if (sample_tracer_has_changed()) {
        changed = is_traced();
        if (changed)
            start_locked(TRACED_LOG2, SAMPLE_FOR_TRACER);
        else
            stop_locked();
    }
    hk_unlock(&hk_sample_lock);
    return changed;
}

static void clear_locked(void) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    for (uint32_t at = 1; at < table_count(PROFILE_SAMPLES); at++)
        if (block_at(at)->address != 0)
            let_go_locked(at);
    blocks_clear();
    ended_clear_locked();
    sites_clear();
    tables_clear();
    has_begun = has_tables = false;
}

void sample_reset(void) {
    hk_lock(&hk_sample_lock);
    if (has_begun) {
        profile_header_t *header = &hk_profile.header, before = *header;
        hk_write_release(header->resets, before.resets + 1);
        clear_locked();
        memset(&header->thinnings, 0, sizeof *header - offsetof(profile_header_t, thinnings));
        begin_locked();
        set_interval_locked(before.first_interval_log2);
        set_active_locked(sample_is_active());
    }
    hk_unlock(&hk_sample_lock);
}

void sample_after_fork(void) {
    if (!sample_was_ever_on())
        return;
    hk_write(hk_profile.header.process_id, sys_process_id());
    if (is_asked) {
        hk_write(hk_profile.header.flags, (uint32_t)PROFILE_IS_LIVE);
        draw_set_active(false);
    } else {
        draw_all_anew();
    }
}
