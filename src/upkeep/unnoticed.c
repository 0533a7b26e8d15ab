/* SPDX-License-Identifier: MIT */
#include "upkeep/unnoticed.h"

#include "sys/confined.h"
#include "sys/sys.h"
#include "upkeep/life.h"

enum { LOOKS_A_START = 4 };

static _Atomic uint32_t noted_count;    /* heaps with a number */
static _Atomic uint32_t looked_at_last; /* heap id: where the next thread that starts goes on; any value will do */

static uint32_t process_of(uint64_t number) { return (uint32_t)(number >> 32); }
static uint32_t thread_of(uint64_t number) { return (uint32_t)number; }

/* The calling thread's; 0 in a confined process, which may not ask. */
static uint64_t own_number(void) {
    uint64_t process = sys_process_id_unless_confined();
    uint32_t thread = sys_thread_id_unless_confined();
    return thread != 0 ? process << 32 | thread : 0;
}

HK_INLINE uint64_t noted(const heap_t *h) { return atomic_load_explicit(&h->thread, memory_order_relaxed); }

static bool is_gone(const heap_t *h) {
    uint64_t number = noted(h);
    return number != 0 && process_of(number) == sys_process_id_unless_confined() &&
           sys_thread_is_gone(thread_of(number));
}

/* The caller has no heap of this kind yet. */
static bool is_namesake(const heap_t *h) { return noted(h) == own_number(); }
static bool was_here(const heap_t *h) { return noted(h) == unnoticed_place(); }

void unnoticed_set(heap_t *h, uint64_t number) {
    uint64_t before = atomic_exchange_explicit(&h->thread, number, memory_order_relaxed);
    hk_assert(before == 0 || number == 0);
    atomic_fetch_add_explicit(&noted_count, (uint32_t)(number != 0) - (before != 0), memory_order_relaxed);
}

static HK_COLD void end_if(heap_t *h, bool (*is_over)(const heap_t *)) {
    if (noted(h) == 0 || !is_over(h) || !heap_claim_gone(h, is_over))
        return;
    unnoticed_set(h, 0);
    heap_retire_gone(h);
}

static HK_COLD void end_each(bool (*is_over)(const heap_t *)) {
    for (uint32_t id = HK_OWNER_FIRST; id < heap_limit(); id++)
        end_if(heap_by_id(id), is_over);
}

HK_COLD void unnoticed_note(heap_t *h) {
    if (atomic_load_explicit(&noted_count, memory_order_relaxed) > 0)
        end_each(is_namesake);
    unnoticed_set(h, own_number());
}

/* What a thread in a hardened process leaves is checked while it is emptied: reports are for threads of the program. */
void unnoticed_end_gone(void) {
    if (atomic_load_explicit(&noted_count, memory_order_relaxed) == 0 || sys_is_confined() || hardened_is_on())
        return;
    end_each(is_gone);
}

/* The main thread rarely ends before the process, and to ask for it takes longer. */
void unnoticed_end_some(void) {
    if (hk_likely(atomic_load_explicit(&noted_count, memory_order_relaxed) == 0) || sys_is_confined())
        return;
    end_each(was_here);
    uint32_t count = heap_limit() - HK_OWNER_FIRST, looks = count < LOOKS_A_START ? count : LOOKS_A_START;
    uint32_t last = atomic_fetch_add_explicit(&looked_at_last, looks, memory_order_relaxed);
    for (uint32_t i = 0; i < looks; i++) {
        heap_t *h = heap_by_id(HK_OWNER_FIRST + (last + i) % count);
        if (thread_of(noted(h)) != process_of(noted(h)))
            end_if(h, is_gone);
    }
}

void unnoticed_after_fork(void) {
    heap_t *own = hk_front != &hk_no_heap ? heap_of_front(hk_front) : NULL;
    bool was_noted = own != NULL && noted(own) != 0;
    for (uint32_t id = HK_OWNER_FIRST; id < heap_limit(); id++)
        if (noted(heap_by_id(id)) != 0) /* a write would copy the record */
            atomic_store_explicit(&heap_by_id(id)->thread, 0, memory_order_relaxed);
    atomic_store_explicit(&noted_count, 0, memory_order_relaxed);
    if (was_noted)
        unnoticed_note(own);
}
