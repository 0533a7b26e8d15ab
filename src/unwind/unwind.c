/* SPDX-License-Identifier: MIT */
#include "unwind/unwind.h"

#include "base/bits.h"
#include "sys/sys.h"
#include "sys/tags.h"
#include "unwind/rule.h"

#include <stdatomic.h>
#include <string.h>

enum {
    RULES_SHIFT = 12, /* 4,096 */
    FEW_SHIFT = 8,
    FEW_GONE = 4,
    PAGE_LEAST = 4096,
    PINNED_MAX = 4,
    LOST = 1, /* in place of a frame pointer: no frame is there */
};

/* --- The cache of rules ------------------------------------------------------------------------------------------- */

typedef struct entry {
    _Atomic uint64_t rule, check; /* the rule, and the key XOR the rule: UNWIND-3 */
} entry_t;

/* The first place for rules. Once some had to go for others a large one is mapped, which stays. */
static entry_t few[1 << FEW_SHIFT] HK_RARE;
static entry_t *_Atomic many;
static _Atomic uint32_t gone; /* rules, no more than has to be known */

static entry_t *entry_of(uint64_t key) {
    /* Acquire: pairs with the release in cache_grow; the memory is all zeros then, which is no rule. */
    entry_t *const large = atomic_load_explicit(&many, memory_order_acquire);
    return large != NULL ? &large[key >> (64 - RULES_SHIFT)] : &few[key >> (64 - FEW_SHIFT)];
}

/* A rule goes for another one. Of all threads one comes to the count; where memory is out all goes on with few. */
static void cache_grow(void) {
    if (hk_likely(atomic_load_explicit(&gone, memory_order_relaxed) >= FEW_GONE) ||
        atomic_fetch_add_explicit(&gone, 1, memory_order_relaxed) != FEW_GONE - 1)
        return;
    /* Release: pairs with the acquire in entry_of. */
    atomic_store_explicit(&many, (entry_t *)sys_map(sizeof(entry_t) << RULES_SHIFT), memory_order_release);
}

/* Different for any two addresses of one module. */
static uint64_t key_of(const unwind_module_t *m, uintptr_t pc) {
    const uint64_t module = (m->tables ^ m->end << 20) * UINT64_C(0xbf58476d1ce4e5b9);
    return (pc ^ module) * UINT64_C(0x9e3779b97f4a7c15);
}

/* --- A stack on the way ------------------------------------------------------------------------------------------- */

typedef struct walk {
    sys_registers_t at;
    unwind_module_t module; /* of the last frame that was in one */
    bool is_exact;          /* `at.pc` is the next instruction, not behind a call */
    bool is_certain;        /* nothing was guessed */
    bool is_signal;         /* the frame that was stepped out of last is a signal's */
    uintptr_t readable_end; /* from `at.sp` on all is readable up to here: UNWIND-1 */
    uintptr_t pinned[PINNED_MAX];
    unsigned pinned_count;
} walk_t;

/* A word at or above sp. Instrumented code would call it the inside of somebody's frame, which it is. */
__attribute__((no_sanitize("address", "thread"))) static bool read_word(walk_t *w, uintptr_t at, uintptr_t *word) {
    if (at % sizeof(uintptr_t) != 0 || at < w->at.sp || at - w->at.sp >= UNWIND_FRAME_MAX)
        return false;
    for (; at >= w->readable_end; w->readable_end += PAGE_LEAST)
        if (!sys_is_readable(w->readable_end))
            return false;
    uint64_t checks = tags_pause(); /* a stack may lie in a block, or reach beyond one */
    *word = *(const volatile uintptr_t *)at;
    tags_resume(checks);
    return true;
}

/* UNWIND-2. */
static bool may_open(walk_t *w, const unwind_module_t *m) {
    for (unsigned i = 0; i < w->pinned_count; i++)
        if (w->pinned[i] == m->start)
            return true;
    if (w->is_certain && w->pinned_count < PINNED_MAX)
        w->pinned[w->pinned_count++] = m->start;
    return w->is_certain || m->stays;
}

/* Most frames are in the module of the frame before. */
static bool module_find(walk_t *w, uintptr_t pc) {
    if (pc - w->module.start < w->module.end - w->module.start)
        return true;
    if (unwind_module_find(pc, &w->module))
        return true;
    w->module = (unwind_module_t){.start = 0};
    return false;
}

static unwind_rule_t rule_find(walk_t *w, uintptr_t pc) {
    unwind_module_t *const m = &w->module;
    uint64_t word;
    unwind_rule_t rule = {.kind = UNWIND_RULE_NOT_COVERED};
    if (!module_find(w, pc))
        return rule;
    const bool pinned = may_open(w, m);
    const uint64_t key = key_of(m, pc);
    entry_t *entry = entry_of(key);
    word = atomic_load_explicit(&entry->rule, memory_order_relaxed);
    memcpy(&rule, &word, sizeof rule);
    const bool had_one = rule.kind != UNWIND_RULE_NONE;
    if (had_one && (atomic_load_explicit(&entry->check, memory_order_relaxed) ^ word) == key)
        return rule;
    if (!pinned || !unwind_module_open(m))
        return (unwind_rule_t){.kind = UNWIND_RULE_UNSUPPORTED};
    rule = unwind_rule_of(m, pc);
    memcpy(&word, &rule, sizeof word);
    atomic_store_explicit(&entry->rule, word, memory_order_relaxed);
    atomic_store_explicit(&entry->check, key ^ word, memory_order_relaxed);
    if (had_one)
        cache_grow();
    return rule;
}

/* What the caller has in a register. */
static bool read_saved(walk_t *w, unsigned place, uint64_t words, uintptr_t cfa, uintptr_t kept, uintptr_t *value) {
    const uintptr_t offset = (words - UNWIND_WORDS_LEAST) * sizeof(uintptr_t);
    switch (place) {
    case UNWIND_IN_REGISTER:
        *value = kept;
        return true;
    case UNWIND_AT_CFA:
        return read_word(w, cfa + offset, value);
    case UNWIND_AT_SP:
        return read_word(w, w->at.sp + offset, value);
    case UNWIND_AT_FP:
        return read_word(w, w->at.fp + offset, value);
    default:
        *value = LOST;
        return true;
    }
}

/* True when there is a frame to go on with; else `*why` is set. */
static bool move_to(walk_t *w, uintptr_t pc, uintptr_t sp, uintptr_t fp, unwind_end_t *why) {
    const bool leaf = w->is_exact && !HK_X86_64; /* may have nothing on the stack */
    const uintptr_t code = sys_code_address(pc);
    *why = code == 0 ? UNWIND_COMPLETE : UNWIND_OUT_OF_BOUNDS;
    if (code == 0 || sp % sizeof(uintptr_t) != 0 || sp - w->at.sp > UNWIND_FRAME_MAX || (sp == w->at.sp && !leaf))
        return false;
    w->at = (sys_registers_t){.pc = code, .sp = sp, .fp = fp, .lr = 0};
    return true;
}

static bool step_by_rule(walk_t *w, unwind_rule_t rule, unwind_end_t *why) {
    uintptr_t cfa = (rule.cfa_on_fp ? w->at.fp : w->at.sp) + rule.cfa_offset - UNWIND_CFA_LEAST, ret, fp;
    *why = UNWIND_OUT_OF_BOUNDS;
    w->is_signal = rule.is_signal; /* also where the interrupted stack is another one */
    if (rule.cfa_in_word && !read_word(w, cfa, &cfa))
        return false;
    if (rule.return_place == UNWIND_IN_REGISTER && w->at.lr == 0) {
        *why = UNWIND_UNSUPPORTED;
        return false;
    }
    if (!read_saved(w, rule.fp_place, rule.fp_words, cfa, w->at.fp, &fp) ||
        !read_saved(w, rule.return_place, rule.return_words, cfa, w->at.lr, &ret) || !move_to(w, ret, cfa, fp, why))
        return false;
    w->is_exact = rule.is_signal;
    return true;
}

/* By the frame record that fp leads to. */
static bool step_by_record(walk_t *w, unwind_end_t *why) {
    const uintptr_t record = w->at.fp;
    uintptr_t fp, ret;
    *why = record == 0 ? UNWIND_COMPLETE : UNWIND_NO_RULE;
    if (record == 0 || !read_word(w, record, &fp) || !read_word(w, record + sizeof fp, &ret))
        return false;
    w->is_certain = w->is_exact = false;
    return move_to(w, ret, record + 2 * sizeof fp, fp, why);
}

/* Who jumps to where nothing can be read, by a null pointer to a function, came there by a call. */
static bool is_wild_call(const walk_t *w) { return w->is_exact && w->is_certain && !sys_is_readable(w->at.pc); }

static bool step_back_from_call(walk_t *w, unwind_end_t *why) {
    uintptr_t ret = w->at.lr;
    *why = UNWIND_OUT_OF_BOUNDS;
    if (HK_X86_64 && !read_word(w, w->at.sp, &ret))
        return false;
    if (!move_to(w, ret, w->at.sp + (HK_X86_64 ? sizeof ret : 0), w->at.fp, why))
        return false;
    w->is_exact = false;
    return true;
}

static bool step(walk_t *w, unwind_end_t *why) {
    unwind_rule_t rule = {.kind = UNWIND_RULE_NOT_COVERED};
    if (w->is_certain || SYS_RECORD_TELLS_SP)
        rule = rule_find(w, w->at.pc - !w->is_exact);
    switch (rule.kind) {
    case UNWIND_RULE_FRAME:
        return step_by_rule(w, rule, why);
    case UNWIND_RULE_NOT_COVERED:
        return is_wild_call(w) ? step_back_from_call(w, why) : step_by_record(w, why);
    case UNWIND_RULE_OUTERMOST:
        *why = UNWIND_COMPLETE;
        return false;
    default:
        *why = UNWIND_UNSUPPORTED;
        return false;
    }
}

/* --- The stack ---------------------------------------------------------------------------------------------------- */

HK_INLINE walk_t walk_from(const sys_registers_t *at) {
    walk_t w = {.at = *at, .is_exact = true, .is_certain = true, .readable_end = hk_align_down(at->sp, PAGE_LEAST)};
    if (w.readable_end == hk_align_down((uintptr_t)&w, PAGE_LEAST)) /* this function's own stack is on it */
        w.readable_end += PAGE_LEAST;
    return w;
}

unwind_end_t unwind_follow(void) {
    const sys_registers_t here = sys_registers_here();
    walk_t w = walk_from(&here);
    unwind_end_t why = UNWIND_SIGNAL;
    while (!w.is_signal && step(&w, &why))
        ;
    return w.is_signal ? UNWIND_SIGNAL : why;
}

unsigned unwind_capture(const unwind_start_t *start, uintptr_t *pcs, unsigned capacity, unwind_end_t *why) {
    walk_t w = walk_from(&start->at);
    bool wanted = start->caller == 0;
    unsigned count = 0;
    for (;;) {
        if (!wanted && w.at.pc == start->caller) {
            wanted = true;
            count = 0;
        }
        if (count == capacity) {
            *why = UNWIND_FULL;
            return count;
        }
        pcs[count++] = w.at.pc;
        if (!step(&w, why))
            return count;
    }
}

const char *unwind_end_text(unwind_end_t why) {
    static const char *const texts[] = {
        [UNWIND_COMPLETE] = "complete",
        [UNWIND_FULL] = "more frames follow",
        [UNWIND_NO_RULE] = "code without unwind tables or frame pointers",
        [UNWIND_UNSUPPORTED] = "unwind tables of a kind that is not supported",
        [UNWIND_OUT_OF_BOUNDS] = "the next frame is not on the stack",
    };
    return texts[why];
}
