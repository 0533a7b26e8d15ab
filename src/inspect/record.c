/* SPDX-License-Identifier: MIT */
#include "inspect/record.h"

#include "base/build.h"
#include "core/counters.h"
#include "core/lock.h"
#include "core/message.h"
#include "core/options.h"
#include "core/panic.h"
#include "core/request.h"
#include "heap/heap.h"
#include "heap/lane.h"
#include "large/huge.h"
#include "limit/limit.h"
#include "region/region.h"
#include "sample/tables.h"
#include "superslab/superslab.h"
#include "sys/note.h"

static const char option_list[] =
#define HK_OPTION(id, name, kind, initial, min, max, choices, when, help) name "\t" #kind "\t" choices "\n"
#include "core/options.def"
#undef HK_OPTION
    ;

static const char counter_list[] =
#define HK_COUNTER(name) #name "\n"
    HK_COUNTERS(HK_COUNTER)
#undef HK_COUNTER
    ;

SYS_NOTE("hakmem", 7, 1, hk_inspect);
_Static_assert(INSPECT_LAYOUT == 1, "the note says so too");

/* Referred to by the note alone, which the compiler does not read. */
__attribute__((used)) const inspect_record_t hk_inspect = {
    .magic = "hakmem",
    .struct_size = sizeof(inspect_record_t),
    .layout = INSPECT_LAYOUT,
    .words =
        {
#define HK_ADDRESS(name, object) [INSPECT_##name] = {.address = &(object)},
#define HK_NUMBER(name, value)   [INSPECT_##name] = {.number = (value)},
#define HK_FIELD(name, type, field)                                                                                    \
    [INSPECT_##name] = {.number = offsetof(type, field) | sizeof(((type *)0)->field) << 32},
#include "inspect/record.def"
#undef HK_FIELD
#undef HK_NUMBER
#undef HK_ADDRESS
        },
};
