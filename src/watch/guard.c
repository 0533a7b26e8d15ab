/* SPDX-License-Identifier: MIT */
#include "watch/guard.h"

#include "base/bits.h"
#include "core/options.h"
#include "core/panic.h"
#include "core/message.h"
#include "core/random.h"
#include "sys/confined.h"
#include "sys/signals.h"
#include "sys/sys.h"
#include "watch/misuse.h"
#include "watch/report.h"

#include <string.h>

enum { GUARD_ALIGNMENT = 16, GUARD_GAP = 0xca };
enum { GUARD_EMPTY, GUARD_BUSY, GUARD_LIVE, GUARD_CLOSED };

typedef struct guard_cell {
    _Atomic uint32_t state;
    char *block;
    size_t size;
    stack_trace_t allocated, freed;
} guard_cell_t;

_Atomic uint64_t hk_guard_interval;

/* Written by guard_init before the interval is, constant afterwards. */
static char *region;
static size_t page, stride; /* of a cell and the closed page behind it */
static guard_cell_t *cells;

/* What was there when the program started, and what our handler was put in front of last: the newest of the two. A
 * program may install its own at any time, and ours comes back in front of it with the next guarded block. Written by
 * who holds hk_guard_installs. */
static struct sigaction first HK_RARE, previous[2] HK_RARE;
static _Atomic uint32_t newest;
_Atomic bool hk_guard_installs;

/* The threads that handed a signal on since our handler was put in front. What was there before may call ours in turn,
 * or install it again, as it found it. Then the signal goes to what was there first: else the two would pass it to each
 * other for ever. Relaxed: a thread looks for its own. */
enum { HANDED_MAX = 16 };
static _Atomic uint32_t handed[HANDED_MAX];

/* The touch that was reported last: who passes it back to us does not make it another one. */
static _Atomic uintptr_t reported;

/* A guarded block takes about 12 us: with an interval of a program that goes on, none comes sooner than this after the
 * last one. */
enum { GUARD_RATED_MIN = 1 << 20, GUARD_PAUSE_US = 5000 };
static _Atomic uint64_t last_us;

static _Atomic uint32_t cursor; /* whose turn it is: a cell that was closed comes back last */

/* --- Slots -------------------------------------------------------------------------------------------------------- */

static size_t region_size(void) { return GUARD_CELLS * stride + page; }

static char *cell_pages(unsigned at) {
    hk_assert(at < GUARD_CELLS && region != NULL);
    return region + page + at * stride;
}

bool guard_holds(const void *address) {
    return guard_interval() != 0 && (uintptr_t)address - (uintptr_t)region < region_size();
}

/* That of the address; of a closed page, the one before it. */
static unsigned cell_at(const void *address) {
    size_t offset = (uintptr_t)address - (uintptr_t)region;
    return offset < page ? 0 : (unsigned)hk_min((offset - page) / stride, GUARD_CELLS - 1);
}

/* Acquire: pairs with the release in leave, so that the record is there. */
HK_INLINE uint32_t state_of(const guard_cell_t *cell) {
    return atomic_load_explicit(&cell->state, memory_order_acquire);
}

static bool enter(guard_cell_t *cell, uint32_t from) {
    return atomic_compare_exchange_strong_explicit(&cell->state, &from, GUARD_BUSY, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Release: pairs with the acquires in state_of and enter. */
static void leave(guard_cell_t *cell, uint32_t to) {
    hk_assert(atomic_load_explicit(&cell->state, memory_order_relaxed) == GUARD_BUSY); /* GUARD-1 */
    atomic_store_explicit(&cell->state, to, memory_order_release);
}

static size_t pages_of(size_t size) { return hk_align_up(hk_max(size, 1), page); }

/* Where the block begins: its end flush with that of its pages, or its beginning. */
static char *place(unsigned at, size_t size, size_t align, bool at_end) {
    char *pages = cell_pages(at);
    size_t span = (size_t)GUARD_CELL_PAGES * page;
    hk_assert(size <= span);
    return at_end ? pages + hk_align_down(span - size, hk_max(align, GUARD_ALIGNMENT)) : pages;
}

/* The pages that are open while the block is live. */
static char *opened(const guard_cell_t *cell, size_t *bytes) {
    char *from = (char *)hk_align_down((uintptr_t)cell->block, page);
    *bytes = pages_of((size_t)(cell->block - from) + cell->size);
    hk_assert(*bytes <= (size_t)GUARD_CELL_PAGES * page);
    return from;
}

/* Bytes between the end of a block and that of its pages. */
static size_t gap_of(const guard_cell_t *cell) {
    size_t bytes;
    char *from = opened(cell, &bytes);
    hk_assert(cell->block + cell->size <= from + bytes);
    return (size_t)(from + bytes - cell->block) - cell->size;
}

/* --- The handler's place ------------------------------------------------------------------------------------------ */

static void handle(int number, siginfo_t *info, void *context);

static bool is_handle(const struct sigaction *action) {
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == handle;
}

/* Release: pairs with the acquire in hand_on. */
static void put_behind(const struct sigaction *action) {
    uint32_t next = 1 - atomic_load_explicit(&newest, memory_order_relaxed);
    previous[next] = *action;
    atomic_store_explicit(&newest, next, memory_order_release);
}

/* In front of what is there now. */
static bool install(void) {
    struct sigaction now, meanwhile;
    sys_signal_ask(SIGSEGV, &now);
    if (is_handle(&now))
        return true;
    put_behind(&now); /* before a signal can come */
    for (size_t i = 0; i < HANDED_MAX; i++)
        atomic_store_explicit(&handed[i], 0, memory_order_relaxed);
    if (sys_signal_catch(SIGSEGV, handle, &meanwhile) != 0)
        return false;
    if (!is_handle(&meanwhile) && meanwhile.sa_sigaction != now.sa_sigaction)
        put_behind(&meanwhile);
    return true;
}

static void install_again(void) {
    if (!sys_passage_begin())
        return;
    if (!atomic_exchange_explicit(&hk_guard_installs, true, memory_order_acquire)) { /* pairs with the release below */
        (void)install();
        atomic_store_explicit(&hk_guard_installs, false, memory_order_release); /* pairs with the exchange above */
    }
    sys_passage_end();
}

/* --- Alloc and free ----------------------------------------------------------------------------------------------- */

int64_t guard_distance(uint64_t *state) {
    if (*state == 0)
        sys_random(state, sizeof *state);
    *state |= 1;
    uint64_t random = hk_xorshift(state) >> 32;
    return 1 + (int64_t)(((unsigned __int128)random * (2 * guard_interval())) >> 32);
}

static void *open_cell(guard_cell_t *cell, unsigned at, size_t size, size_t align, bool at_end, const void *caller) {
    uint32_t before = cell->block == NULL ? GUARD_EMPTY : GUARD_CLOSED;
    size_t bytes;
    cell->size = size;
    cell->block = place(at, size, align, at_end);
    char *from = opened(cell, &bytes);
    if (sys_map_over(from, bytes) != 0) {
        leave(cell, before);
        return NULL;
    }
    memset(cell->block + size, GUARD_GAP, gap_of(cell));
    stack_trace_here(&cell->allocated, caller);
    install_again();
    cell->freed.count = 0;
    leave(cell, GUARD_LIVE);
    return cell->block;
}

/* Relaxed: two threads may both be in time. */
static bool is_too_soon(void) {
    if (guard_interval() < GUARD_RATED_MIN)
        return false;
    uint64_t now = sys_now_us();
    if (now - atomic_load_explicit(&last_us, memory_order_relaxed) < GUARD_PAUSE_US)
        return true;
    atomic_store_explicit(&last_us, now, memory_order_relaxed);
    return false;
}

bool guard_fits(size_t size, size_t align) {
    return size > 0 && size <= (size_t)GUARD_CELL_PAGES * page - GUARD_ALIGNMENT && align <= page;
}

void *guard_alloc(size_t size, size_t align, const void *caller) {
    hk_assert(guard_fits(size, align) && (align & (align - 1)) == 0);
    if (sys_is_confined() || is_too_soon())
        return NULL;
    for (unsigned tries = 0; tries < GUARD_CELLS; tries++) {
        uint32_t turn = atomic_fetch_add_explicit(&cursor, 1, memory_order_relaxed);
        unsigned at = turn % GUARD_CELLS;
        bool at_end = (turn / GUARD_CELLS + turn) % 2 == 0; /* no cell is always of one kind */
        if (enter(&cells[at], GUARD_CLOSED) || enter(&cells[at], GUARD_EMPTY))
            return open_cell(&cells[at], at, size, align, at_end, caller);
    }
    return NULL;
}

static bool has_block(const guard_cell_t *cell) {
    uint32_t state = state_of(cell);
    return state == GUARD_LIVE || state == GUARD_CLOSED;
}

/* The record of the block that begins at the address, or began there last; NULL: none does. */
static guard_cell_t *cell_of(const void *block) {
    guard_cell_t *cell = &cells[cell_at(block)];
    return has_block(cell) && cell->block == block ? cell : NULL;
}

static void report_no_block(const char *verb, const void *address, const void *caller) {
    const guard_cell_t *cell = &cells[cell_at(address)];
    if (cell_of(address) != NULL)
        misuse_double_free(verb, address, cell->size, caller);
    else if (state_of(cell) == GUARD_LIVE && (uintptr_t)address - (uintptr_t)cell->block < cell->size)
        misuse_interior(verb, address, cell->block, cell->size, caller);
    else
        misuse_no_block(verb, address, caller);
}

bool guard_stacks(const void *block, size_t *asked, stack_trace_t *allocated, stack_trace_t *freed) {
    const guard_cell_t *cell = guard_holds(block) ? &cells[cell_at(block)] : NULL;
    if (cell == NULL || cell->block != block)
        return false;
    *asked = cell->size;
    *allocated = cell->allocated;
    *freed = cell->freed;
    return true;
}

bool guard_find(const char *verb, const void *block, size_t *size, const void *caller) {
    const guard_cell_t *cell = cell_of(block);
    if (cell != NULL && state_of(cell) == GUARD_LIVE) {
        *size = cell->size;
        return true;
    }
    report_no_block(verb, block, caller);
    return false;
}

static void check_gap(const guard_cell_t *cell, const void *caller) {
    size_t gap = gap_of(cell);
    for (size_t i = cell->size; i < cell->size + gap; i++)
        if ((unsigned char)cell->block[i] != GUARD_GAP) {
            const hk_misuse_t misuse = {
                .what = "overflow of",
                .address = cell->block,
                .caller = caller,
                .block = cell->block,
                .block_size = cell->size,
                .wrong = cell->block + i,
                .state = HK_MISUSE_ALLOCATED,
            };
            hk_misuse(&misuse, "%zu-byte block, guarded, offset %zu overwritten", cell->size, i);
            return;
        }
}

void guard_free(const void *block, const void *caller) {
    guard_cell_t *cell = cell_of(block);
    if (cell == NULL || !enter(cell, GUARD_LIVE)) {
        report_no_block("free", block, caller);
        return;
    }
    size_t bytes;
    char *from = opened(cell, &bytes);
    check_gap(cell, caller);
    stack_trace_here(&cell->freed, caller);
    if (sys_shut(from, bytes) != 0) /* the kernel has no mapping left: it is open, and what it held is gone */
        sys_purge(from, bytes);
    leave(cell, GUARD_CLOSED);
}

/* --- A touch ------------------------------------------------------------------------------------------------------ */

/* Bytes from the block to the address outside it. */
static size_t distance(const guard_cell_t *cell, const void *address) {
    uintptr_t at = (uintptr_t)address, begin = (uintptr_t)cell->block, end = begin + cell->size;
    return at < begin ? begin - at : at >= end ? at - end : 0;
}

/* The nearer one of the two blocks beside a closed page; NULL: there was never one. */
static const guard_cell_t *touched(const void *address) {
    unsigned at = cell_at(address);
    const guard_cell_t *below = has_block(&cells[at]) ? &cells[at] : NULL;
    const guard_cell_t *above = at + 1 < GUARD_CELLS && has_block(&cells[at + 1]) ? &cells[at + 1] : NULL;
    if (below == NULL || above == NULL)
        return below != NULL ? below : above;
    return distance(below, address) <= distance(above, address) ? below : above;
}

void guard_describe(const void *address, hk_description_t *out) {
    const guard_cell_t *cell = touched(address);
    out->where = HK_WHERE_FREE_SLOT;
    if (cell == NULL || (uintptr_t)address < (uintptr_t)cell->block)
        return;
    out->where = HK_WHERE_APART;
    out->block = cell->block;
    out->block_size = cell->size;
    out->is_free = state_of(cell) != GUARD_LIVE;
}

static void report_touch(const void *address, const sys_registers_t *at) {
    const guard_cell_t *cell = touched(address);
    if (cell == NULL) {
        hk_message("touch of closed page %p (guarded, no block was here)", address);
        report_show(&(hk_misuse_t){.address = address}, at);
        return;
    }
    const char *begin = cell->block, *end = begin + cell->size;
    bool is_inside = (uintptr_t)address - (uintptr_t)begin < cell->size;
    const char *state = state_of(cell) == GUARD_LIVE ? "allocated" : "free";
    if (is_inside)
        hk_message("use after free of %p (%zu-byte block at %p, guarded, offset %zu, %s)", address, cell->size,
                   (const void *)begin, (size_t)((const char *)address - begin), state);
    else if ((const char *)address < begin)
        hk_message("underflow to %p (%zu-byte block at %p, guarded, %zu bytes before it, %s)", address, cell->size,
                   (const void *)begin, distance(cell, address), state);
    else
        hk_message("overflow to %p (%zu-byte block at %p, guarded, %zu bytes behind its end, %s)", address, cell->size,
                   (const void *)begin, (size_t)((const char *)address - end), state);
    const hk_misuse_t touch = {
        .address = address,
        .block = begin,
        .block_size = cell->size,
        .asked = cell->size,
        .state = state_of(cell) == GUARD_LIVE ? HK_MISUSE_ALLOCATED : HK_MISUSE_FREE,
    };
    report_show(&touch, at);
}

/* True the first time that the thread hands on what our handler was put in front of. */
static bool is_handed_first(void) {
    uint32_t thread = sys_thread_id();
    return atomic_exchange_explicit(&handed[thread % HANDED_MAX], thread, memory_order_relaxed) != thread;
}

static void hand_on(int number, siginfo_t *info, void *context) {
    if (is_handed_first())
        sys_signal_hand_back(number, info,
                             &previous[atomic_load_explicit(&newest, memory_order_acquire)]); /* put_behind */
    else if ((first.sa_flags & SA_SIGINFO) != 0)
        first.sa_sigaction(number, info, context);
    else if (first.sa_handler != SIG_DFL && first.sa_handler != SIG_IGN)
        first.sa_handler(number);
    else
        sys_signal_hand_back(number, info, &first);
}

/* The signal comes again when the instruction does, and then to who had it before us. */
static void handle(int number, siginfo_t *info, void *context) {
    const sys_registers_t at = sys_registers_of(context);
    uintptr_t touched_at = (uintptr_t)info->si_addr;
    bool is_ours = info->si_code > 0 && info->si_code != SI_KERNEL && guard_holds(info->si_addr);
    bool is_watched = hk_misuse_is_watched() && hk_option(HK_OPT_ON_ERROR) != HK_ON_ERROR_IGNORE;
    if (is_ours && is_watched && atomic_exchange_explicit(&reported, touched_at, memory_order_relaxed) != touched_at) {
        atomic_fetch_add_explicit(&hk_misuses, 1, memory_order_relaxed);
        report_touch(info->si_addr, &at);
    }
    hand_on(number, info, context);
}

void guard_init(void) {
    uint64_t interval = (uint64_t)hk_option(HK_OPT_GUARD);
    if (interval == 0 || hk_option(HK_OPT_LEAKS) != HK_LEAKS_OFF)
        return;
    page = sys_page_size();
    stride = (GUARD_CELL_PAGES + 1) * page;
    region = sys_map_none(region_size());
    cells = sys_map(hk_align_up(GUARD_CELLS * sizeof *cells, page));
    sys_signal_ask(SIGSEGV, &first);
    if (region == NULL || cells == NULL || !install())
        return;
    atomic_store_explicit(&hk_guard_interval, interval, memory_order_release); /* pairs with guard_interval */
}
