/* SPDX-License-Identifier: MIT
 *
 * options.h: run-time policy. One list (options.def), values that the program was compiled with (hak_default_options of
 * hakmem.h), from the environment (`HAKMEM_*`), which overrides them, or from the program.
 *
 * Values are written by hk_options_init (once, before the first allocation, single-threaded) and by hk_option_set; they
 * are read anywhere off the fast path. Each is one relaxed atomic word: no order is implied between options.
 */
#pragma once

#include "base/base.h"
#include "core/print.h"

#include <stdatomic.h>

typedef enum hk_option {
#define HK_OPTION(id, ...) HK_OPT_##id,
#include "core/options.def"
#undef HK_OPTION
    HK_OPT_COUNT
} hk_option_t;

/* What the value of an option is, and when it can be set. */
typedef enum hk_option_kind {
    HK_OPTION_NUMBER,
    HK_OPTION_SIZE,
    HK_OPTION_LIMIT,
    HK_OPTION_CHOICE,
    HK_OPTION_OUTPUT,
    HK_OPTION_PROFILE,
    HK_OPTION_PATH,
    HK_OPTION_FILE
} hk_option_kind_t;
typedef enum hk_option_when { HK_OPTION_AT_START, HK_OPTION_AT_ANY } hk_option_when_t;

enum { HK_ON_ERROR_ABORT, HK_ON_ERROR_REPORT, HK_ON_ERROR_IGNORE };
enum { HK_HUGE_AUTO, HK_HUGE_OFF, HK_HUGE_FORCE };
enum { HK_PREFAULT_AUTO, HK_PREFAULT_OFF, HK_PREFAULT_POPULATE, HK_PREFAULT_TOUCH };
enum { HK_STATS_OFF, HK_STATS_TEXT, HK_STATS_JSON };
enum { HK_LEAKS_OFF, HK_LEAKS_REPORT, HK_LEAKS_FAIL };

extern _Atomic int64_t hk_option_values[HK_OPT_COUNT];
extern _Atomic uint8_t
    hk_option_origins[HK_OPT_COUNT]; /* 0 default, 1 environment, 2 program, 3 compiled in; also read from outside */

HK_INLINE int64_t hk_option(hk_option_t option) {
    return atomic_load_explicit(&hk_option_values[option], memory_order_relaxed);
}

/* Reads what is compiled in, then `environment` (a NULL-terminated array of "NAME=value", or NULL for none). Unknown or
 * malformed HAKMEM_* entries are named on stderr with what would be valid, and ignored. */
void hk_options_init(char *const *environment);

/* As hak_option_set and hak_option_get of hakmem.h. */
int hk_option_set(const char *name, const char *value);
int hk_option_get(const char *name, char *value, size_t value_size);
const char *hk_option_name(hk_option_t option);
void hk_options_print(hk_out_t *out);

/* What to write and where, in one option value: a choice, and the address of a file's name, which stays as it is from
 * then on; NULL is stderr. */
enum { HK_OUTPUT_CHOICE_BITS = 2 };

HK_INLINE unsigned hk_output_choice(int64_t value) { return (unsigned)value & ((1u << HK_OUTPUT_CHOICE_BITS) - 1); }

HK_INLINE const char *hk_output_file(int64_t value) {
    return (const char *)((uintptr_t)value >> HK_OUTPUT_CHOICE_BITS);
}

/* An interval, as its logarithm, and the address of a file's name, NULL for none; 0 is off. */
enum { HK_PROFILE_LOG2_BITS = 6, HK_PROFILE_LOG2_ON = 19, HK_PROFILE_LOG2_MAX = 40 };

HK_INLINE bool hk_profile_is_on(int64_t value) { return value != 0; }

HK_INLINE unsigned hk_profile_log2(int64_t value) { return ((unsigned)value & ((1u << HK_PROFILE_LOG2_BITS) - 1)) - 1; }

HK_INLINE const char *hk_profile_file(int64_t value) {
    return (const char *)((uintptr_t)value >> HK_PROFILE_LOG2_BITS);
}

/* Two limits in one option value, in units of 64 KiB, rounded up; -1 when one does not fit. 0 is no limit. HK_LIMIT_OFF
 * has none either, and says that those of the control group do not count. */
enum { HK_LIMIT_UNIT_SHIFT = 16, HK_LIMIT_BITS = 31 };
#define HK_LIMIT_OFF (INT64_C(1) << 2 * HK_LIMIT_BITS)

HK_INLINE int64_t hk_limit_pack(uint64_t soft, uint64_t hard) {
    uint64_t round = (UINT64_C(1) << HK_LIMIT_UNIT_SHIFT) - 1, most = (UINT64_C(1) << HK_LIMIT_BITS) - 1;
    soft = (soft >> HK_LIMIT_UNIT_SHIFT) + ((soft & round) != 0);
    hard = (hard >> HK_LIMIT_UNIT_SHIFT) + ((hard & round) != 0);
    return soft > most || hard > most ? -1 : (int64_t)(soft | hard << HK_LIMIT_BITS);
}

HK_INLINE uint64_t hk_limit_soft(int64_t value) {
    return ((uint64_t)value & ((UINT64_C(1) << HK_LIMIT_BITS) - 1)) << HK_LIMIT_UNIT_SHIFT;
}

HK_INLINE uint64_t hk_limit_hard(int64_t value) { return hk_limit_soft((int64_t)((uint64_t)value >> HK_LIMIT_BITS)); }

/* As hak_limit_set. */
int hk_limit_set(uint64_t soft, uint64_t hard);
