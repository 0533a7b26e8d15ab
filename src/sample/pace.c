/* SPDX-License-Identifier: MIT */
#include "sample/pace.h"

#include "base/bits.h"
#include "core/panic.h"
#include "sample/chance.h"

static void regain(pace_t *pace, uint32_t elapsed_us) {
    pace->spent_us -= (uint32_t)hk_min(pace->spent_us, elapsed_us / PACE_REGAIN);
}

/* What `longer_log2` is at this speed. */
static uint32_t wanted_log2(unsigned interval_log2, uint64_t bytes, uint32_t elapsed_us) {
    hk_assert(interval_log2 <= CHANCE_LOG2_MAX);
    const uint64_t most = UINT64_C(1) << CHANCE_LOG2_MAX;
    const uint64_t wanted = hk_min(bytes, most) * PACE_US / hk_max(elapsed_us, PACE_SEEN_US);
    const uint64_t least = UINT64_C(1) << interval_log2;
    return (uint32_t)hk_log2_ceil(hk_max(hk_min(wanted, most), least)) - interval_log2;
}

void pace_sampled(pace_t *pace, unsigned interval_log2, uint64_t bytes, uint32_t now_us) {
    const uint32_t elapsed_us = now_us - pace->since_us;
    const uint32_t wanted = wanted_log2(interval_log2, bytes, elapsed_us);
    pace->since_us = now_us;
    regain(pace, elapsed_us);
    if (interval_log2 < PACE_LOG2_MIN)
        pace->longer_log2 = 0;
    else if (elapsed_us >= PACE_REST_US)
        pace->longer_log2 = (uint32_t)hk_min(pace->longer_log2, wanted);
    else if (elapsed_us < PACE_HASTE_US && pace->spent_us >= PACE_BURST * PACE_HASTE_US)
        pace->longer_log2 = (uint32_t)hk_max(pace->longer_log2, wanted);
    else if (elapsed_us < PACE_HASTE_US)
        pace->spent_us += PACE_HASTE_US;
}

bool pace_can_rest(const pace_t *pace, uint32_t now_us) {
    return pace->longer_log2 > 0 && now_us - pace->since_us >= PACE_REST_US;
}

bool pace_rest(pace_t *pace, unsigned interval_log2, uint64_t bytes, uint32_t now_us) {
    const uint32_t elapsed_us = now_us - pace->since_us;
    const uint32_t wanted = wanted_log2(interval_log2, bytes, elapsed_us);
    if (!pace_can_rest(pace, now_us) || wanted >= pace->longer_log2)
        return false;
    regain(pace, elapsed_us);
    pace->longer_log2 = wanted;
    pace->since_us = now_us;
    return true;
}
