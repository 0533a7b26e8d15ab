/* SPDX-License-Identifier: MIT */
#include "sample/pace.h"

#include "base/bits.h"
#include "core/panic.h"
#include "sample/chance.h"

enum { NS_A_US = 1000 };

static void regain(pace_t *pace, uint32_t elapsed_us) {
    pace->spent_ns -= (uint32_t)hk_min(pace->spent_ns, (uint64_t)elapsed_us * NS_A_US / hk_max(pace->share, 1));
}

static void measured(pace_t *pace, uint64_t cost_ns) {
    const uint32_t before = pace->cost_ns == 0 ? PACE_COST_NS : pace->cost_ns;
    const uint32_t cost = (uint32_t)hk_min(cost_ns, hk_min(PACE_COST_MOST_NS, PACE_COST_JUMP * before));
    pace->cost_ns = before - before / PACE_COST_SHARE + cost / PACE_COST_SHARE;
    pace->spent_ns = (uint32_t)hk_min(pace->spent_ns + cost, 2 * PACE_BURST_NS);
}

/* From a sample to the next one, at a thread's share. */
static uint32_t period_us(const pace_t *pace) {
    return (uint32_t)hk_max(pace->cost_ns * pace->share / NS_A_US, PACE_SEEN_SHARE);
}

/* What `longer_log2` is at this speed. */
static uint32_t wanted_log2(const pace_t *pace, unsigned interval_log2, uint64_t bytes, uint32_t elapsed_us) {
    hk_assert(interval_log2 <= CHANCE_LOG2_MAX);
    const uint64_t most = UINT64_C(1) << CHANCE_LOG2_MAX, least = UINT64_C(1) << interval_log2;
    const uint32_t period = period_us(pace);
    const uint64_t wanted = hk_min(bytes, UINT64_MAX / period) * period / hk_max(elapsed_us, period / PACE_SEEN_SHARE);
    return (uint32_t)hk_log2_ceil(hk_max(hk_min(wanted, most), least)) - interval_log2;
}

void pace_sampled(pace_t *pace, pace_profile_t profile, uint64_t bytes, uint32_t now_us, uint64_t cost_ns) {
    const uint32_t elapsed_us = now_us - pace->since_us;
    pace->since_us = now_us;
    pace->share = profile.samples < PACE_FIRST ? PACE_FIRST_SHARE : PACE_SHARE;
    regain(pace, elapsed_us);
    measured(pace, cost_ns);
    const uint32_t wanted = wanted_log2(pace, profile.interval_log2, bytes, elapsed_us);
    if (profile.interval_log2 < PACE_LOG2_MIN)
        pace->longer_log2 = 0;
    else if (elapsed_us >= 2 * period_us(pace))
        pace->longer_log2 = (uint32_t)hk_min(pace->longer_log2, wanted);
    else if (pace->spent_ns > PACE_BURST_NS)
        pace->longer_log2 = (uint32_t)hk_max(pace->longer_log2, wanted);
}

bool pace_can_rest(const pace_t *pace, uint32_t now_us) {
    return pace->longer_log2 > 0 && now_us - pace->since_us >= 2 * period_us(pace);
}

bool pace_rest(pace_t *pace, unsigned interval_log2, uint64_t bytes, uint32_t now_us) {
    const uint32_t elapsed_us = now_us - pace->since_us;
    const uint32_t wanted = wanted_log2(pace, interval_log2, bytes, elapsed_us);
    if (!pace_can_rest(pace, now_us) || wanted >= pace->longer_log2)
        return false;
    regain(pace, elapsed_us);
    pace->longer_log2 = wanted;
    pace->since_us = now_us;
    return true;
}
