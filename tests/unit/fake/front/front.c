/* SPDX-License-Identifier: MIT */
#include "front/front.h"

HK_EXPORT fake_front_t fake_front;
