/* SPDX-License-Identifier: MIT
 *
 * place.h: the address of an instruction as text that outlives the process. Programs and libraries are loaded at
 * addresses that change with every run; so behind the address stands the file that it lies in and the address by which
 * that file knows it, which is what `addr2line -e FILE ADDRESS`, `objdump` and `gdb FILE` take:
 *
 *   0x55d0c1a2b1a6 (/usr/bin/program+0x11a6)
 *
 * For a program that is linked to a fixed address the two are the same.
 */
#pragma once

#include "core/mappings.h"

enum { HK_PLACE_TEXT_MAX = HK_MAPPING_NAME_MAX + 48 };

/* The address alone when it is in no program or library, or when the list of mappings cannot be read. */
void hk_place_describe(const void *address, char text[HK_PLACE_TEXT_MAX]);

/* --- Without an environment (for its test) ------------------------------------------------------------------------ */

typedef struct hk_place {
    uintptr_t address;
    bool found;     /* `address` is in the file of which `path`, `base` and `base_end` tell */
    uintptr_t base; /* where the last beginning of a file that was seen is mapped; 0: none yet */
    uintptr_t base_end;
    char path[HK_MAPPING_NAME_MAX];
} hk_place_t;

/* An hk_mapping_visit_t; `place` is an hk_place_t with nothing but its address set. */
bool hk_place_visit(const hk_mapping_t *mapping, void *place);
