/* SPDX-License-Identifier: MIT */
#include "core/place.h"

#include "core/print.h"

#include <link.h>
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

/* The address that the first byte of a loaded ELF file has in its own headers: 0 for shared objects and
 * position-independent programs, elsewhere the one it is linked to. False when it is no such file. Source: elf(5). */
static bool linked_base(const hk_place_t *place, uintptr_t *linked) {
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)place->base;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return false;
    size_t mapped = place->base_end - place->base, table_bytes = header->e_phnum * sizeof(ElfW(Phdr));
    if (header->e_phoff > mapped || table_bytes > mapped - header->e_phoff)
        return false;
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(place->base + header->e_phoff);
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type != PT_LOAD)
            continue;
        *linked = segments[i].p_vaddr - segments[i].p_offset;
        return true;
    }
    return false;
}

void hk_place_describe(const void *address, char text[HK_PLACE_TEXT_MAX]) {
    hk_place_t place = {.address = (uintptr_t)address};
    uintptr_t linked;
    hk_out_t out;
    hk_out_to_memory(&out, text, HK_PLACE_TEXT_MAX);
    hk_print(&out, "%p", address);
    if (hk_mappings_read(hk_place_visit, &place) && place.found && linked_base(&place, &linked))
        hk_print(&out, " (%s+0x%zx)", place.path, place.address - place.base + linked);
}
