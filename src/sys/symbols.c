/* SPDX-License-Identifier: MIT */
#include "sys/symbols.h"

#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

enum {
    HIDDEN_VERSION = 0x8000, /* of DT_VERSYM: kept for programs that were linked long ago */
    CHAIN_END = 1,           /* of the hashes of DT_GNU_HASH: the last of its chain */
    WORD_BITS = sizeof(uintptr_t) * 8,
};
_Static_assert(sizeof(ElfW(Addr)) == sizeof(uintptr_t), "the words of the filter in DT_GNU_HASH are addresses");
_Static_assert(sizeof(ElfW(Versym)) == sizeof(uint16_t), "an entry of DT_VERSYM");

/* Its bias is that of the first segment. Source: elf(5). */
bool elf_image_read(elf_image_t *image, uintptr_t base, size_t size) {
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)base;
    const size_t bytes = head->e_phnum * sizeof(ElfW(Phdr));
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_phoff > size || bytes > size - head->e_phoff)
        return false;
    *image = (elf_image_t){.headers = (const ElfW(Phdr) *)(base + head->e_phoff), .count = head->e_phnum};
    for (unsigned i = 0; i < image->count; i++)
        if (image->headers[i].p_type == PT_LOAD) {
            image->bias = base - (image->headers[i].p_vaddr - image->headers[i].p_offset);
            return true;
        }
    return false;
}

/* What a library's dynamic section says of its symbols. Either hash may be missing. */
typedef struct tables {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint16_t *versions;
    const uint32_t *gnu_hash;
    const uint32_t *hash;
    uintptr_t soname; /* where in `strings`; 0: none */
} tables_t;

/* glibc writes addresses over the offsets of the file, but not where it may not write; musl never does. */
static const void *placed(uintptr_t base, uintptr_t value) {
    return (const void *)(value < base ? base + value : value);
}

static bool tables_read(tables_t *t, uintptr_t base, const ElfW(Phdr) * headers, unsigned count) {
    const ElfW(Dyn) *dynamic = NULL;
    for (unsigned i = 0; i < count; i++)
        if (headers[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(base + headers[i].p_vaddr);
    *t = (tables_t){.base = base};
    for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++) {
        const void *at = placed(base, dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_SYMTAB)
            t->symbols = at;
        else if (dynamic->d_tag == DT_STRTAB)
            t->strings = at;
        else if (dynamic->d_tag == DT_VERSYM)
            t->versions = at;
        else if (dynamic->d_tag == DT_GNU_HASH)
            t->gnu_hash = at;
        else if (dynamic->d_tag == DT_HASH)
            t->hash = at;
        else if (dynamic->d_tag == DT_SONAME)
            t->soname = dynamic->d_un.d_val;
    }
    return t->symbols != NULL && t->strings != NULL;
}

/* Whether the symbol is a definition of this name which others may see: a function or data. */
static bool is_symbol(const tables_t *t, uint32_t index, const char *name) {
    const ElfW(Sym) *symbol = &t->symbols[index];
    unsigned type = symbol->st_info & 0xf, binding = symbol->st_info >> 4;
    return symbol->st_shndx != SHN_UNDEF && (binding == STB_GLOBAL || binding == STB_WEAK) &&
           (type == STT_FUNC || type == STT_OBJECT || type == STT_NOTYPE) &&
           (t->versions == NULL || (t->versions[index] & HIDDEN_VERSION) == 0) &&
           strcmp(t->strings + symbol->st_name, name) == 0;
}

static void *address_of(const tables_t *t, uint32_t index) { return (void *)(t->base + t->symbols[index].st_value); }

static uint32_t gnu_hash_of(const char *name) {
    uint32_t hash = 5381;
    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/* Four words (buckets, the first symbol with a hash, words of the filter, a shift); then filter, buckets, hashes. */
static void *find_by_gnu_hash(const tables_t *t, const char *name) {
    const uint32_t hash = gnu_hash_of(name), *head = t->gnu_hash;
    const uint32_t bucket_count = head[0], first = head[1], filter_words = head[2], shift = head[3];
    const uintptr_t *filter = (const uintptr_t *)(const void *)(head + 4);
    const uint32_t *buckets = (const uint32_t *)(const void *)(filter + filter_words), *hashes = buckets + bucket_count;
    uintptr_t word = filter[hash / WORD_BITS % filter_words];
    if ((word >> hash % WORD_BITS & word >> (hash >> shift) % WORD_BITS & 1) == 0 || bucket_count == 0)
        return NULL;
    uint32_t index = buckets[hash % bucket_count];
    if (index < first)
        return NULL;
    for (;; index++) {
        uint32_t at = hashes[index - first];
        if ((at | CHAIN_END) == (hash | CHAIN_END) && is_symbol(t, index, name))
            return address_of(t, index);
        if ((at & CHAIN_END) != 0)
            return NULL;
    }
}

static void *find(const tables_t *t, const char *name) {
    if (t->gnu_hash != NULL)
        return find_by_gnu_hash(t, name);
    /* The second word of DT_HASH is the number of symbols. What has nothing else is small. */
    for (uint32_t index = 1; t->hash != NULL && index < t->hash[1]; index++)
        if (is_symbol(t, index, name))
            return address_of(t, index);
    return NULL;
}

/* --- All that is loaded ------------------------------------------------------------------------------------------- */

typedef struct search {
    const char *library; /* NULL: any */
    const char *name;
    bool is_behind; /* from here on; false: ours is still to come */
    void *found;
} search_t;

static bool has_address(const struct dl_phdr_info *image, uintptr_t address) {
    for (unsigned i = 0; i < image->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &image->dlpi_phdr[i];
        if (header->p_type == PT_LOAD && address - image->dlpi_addr - header->p_vaddr < header->p_memsz)
            return true;
    }
    return false;
}

static int search_image(struct dl_phdr_info *image, size_t size, void *data) {
    (void)size;
    search_t *search = data;
    if (!search->is_behind) {
        search->is_behind = has_address(image, (uintptr_t)&search_image);
        return 0;
    }
    tables_t t;
    if (!tables_read(&t, image->dlpi_addr, image->dlpi_phdr, image->dlpi_phnum))
        return 0;
    if (search->library != NULL && (t.soname == 0 || strcmp(t.strings + t.soname, search->library) != 0))
        return 0;
    search->found = find(&t, search->name);
    return search->found != NULL;
}

/* Weak: a static program may be without. */
extern __typeof__(dl_iterate_phdr) dl_iterate_phdr __attribute__((weak));

static void *search_all(search_t search) {
    if (dl_iterate_phdr != NULL)
        (void)dl_iterate_phdr(search_image, &search);
    return search.found;
}

void *symbol_in(const char *library, const char *name) { return search_all((search_t){library, name, true, NULL}); }

void *symbol_anywhere(const char *name) { return search_all((search_t){NULL, name, true, NULL}); }

void *symbol_behind_us(const char *name) { return search_all((search_t){NULL, name, false, NULL}); }

void *symbol_of_kernel(const char *name) {
    const uintptr_t base = getauxval(AT_SYSINFO_EHDR);
    elf_image_t image;
    tables_t t; /* its addresses count from 0, or, as QEMU makes it from 8.2 on, are those in memory */
    const bool whole =
        base != 0 && elf_image_read(&image, base, SIZE_MAX) && tables_read(&t, image.bias, image.headers, image.count);
    return whole ? find(&t, name) : NULL;
}
