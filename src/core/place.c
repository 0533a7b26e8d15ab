/* SPDX-License-Identifier: MIT */
#include "core/place.h"

#include "core/print.h"
#include "sys/symbols.h"

#include <string.h>

/* A file is loaded from its beginning on, which holds its headers; so the mapping of `address` and the last one before
 * it with offset 0 belong together when they have one name. */
bool hk_place_visit(const hk_mapping_t *mapping, void *place) {
    hk_place_t *p = place;
    if (mapping->start > p->address) /* the list is in order: nothing is there */
        return false;
    if (mapping->offset == 0 && mapping->readable && mapping->name[0] == '/') {
        p->base = mapping->start;
        p->base_end = mapping->end;
        hk_mapping_name_copy(p->path, mapping->name);
    }
    if (p->address >= mapping->end)
        return true;
    p->found = p->base != 0 && strncmp(p->path, mapping->name, sizeof p->path - 1) == 0;
    return false;
}

void hk_place_describe(const void *address, char text[HK_PLACE_TEXT_MAX]) {
    hk_place_t place = {.address = (uintptr_t)address};
    elf_image_t image; /* its own addresses are those in memory where a program is linked to a fixed address */
    hk_out_t out;
    hk_out_to_memory(&out, text, HK_PLACE_TEXT_MAX);
    hk_print(&out, "%p", address);
    if (hk_mappings_read(hk_place_visit, &place) && place.found &&
        elf_image_read(&image, place.base, place.base_end - place.base))
        hk_print(&out, " (%s+0x%zx)", place.path, place.address - image.bias);
}
