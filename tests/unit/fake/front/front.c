/* SPDX-License-Identifier: MIT */
#include "front/front.h"

HK_EXPORT fake_front_t *fake_front_get(void) {
    static fake_front_t state;
    return &state;
}
