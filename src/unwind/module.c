/* SPDX-License-Identifier: MIT */
#include "unwind/module.h"

#include "base/bits.h"
#include "core/place.h"
#include "sys/libc_doors.h"
#include "sys/symbols.h"
#include "sys/sys.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>

enum {
    PAGE_LEAST = 4096,
    MODULES_MAX = 256,
    LIST_AGAIN_MS =
        1000, /* after a list that did not have what was looked for, as it never has what is made at run time */
    LEB_BYTES_MAX = 10,
};

/* --- Reading ------------------------------------------------------------------------------------------------------ */

/* MODULE-1, MODULE-2. A page that was asked for counts until the next one is. */
static bool may_read(unwind_module_t *m, uintptr_t at, size_t size) {
    if (hk_likely(at >= m->safe_start && at <= m->safe_end && size <= m->safe_end - at))
        return true;
    if (at < m->start || at > m->end || size > m->end - at)
        return false;
    const uintptr_t first = hk_align_down(at, PAGE_LEAST), last = hk_align_down(at + size - 1, PAGE_LEAST);
    if (!sys_is_readable(first) || (last != first && !sys_is_readable(last)))
        return false;
    m->safe_start = hk_max(first, m->start);
    m->safe_end = hk_min(last + PAGE_LEAST, m->end);
    return true;
}

uint64_t unwind_read(unwind_bytes_t *from, unsigned size) {
    uint64_t value = 0;
    if (from->bad || from->at > from->end || size > from->end - from->at || !may_read(from->module, from->at, size)) {
        from->bad = true;
        return 0;
    }
    memcpy(&value, (const void *)from->at, size);
    from->at += size;
    return value;
}

static uint64_t read_leb(unwind_bytes_t *from, bool is_signed) {
    uint64_t value = 0, byte;
    unsigned shift = 0;
    do {
        byte = unwind_read(from, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
    } while ((byte & 0x80) != 0 && shift < 7 * LEB_BYTES_MAX);
    if (is_signed && (byte & 0x40) != 0 && shift < 64)
        value |= ~UINT64_C(0) << shift;
    return value;
}

uint64_t unwind_read_uleb(unwind_bytes_t *from) { return read_leb(from, false); }
int64_t unwind_read_sleb(unwind_bytes_t *from) { return (int64_t)read_leb(from, true); }

/* Source: Linux Standard Base, "DWARF Exception Header Encoding". */
uintptr_t unwind_read_encoded(unwind_bytes_t *from, unsigned encoding, bool form_only) {
    enum { RELATIVE_TO_ITSELF = 0x10, RELATIVE_TO_TABLES = 0x30, RELATIVE = 0xf0 };
    const uintptr_t base = (encoding & RELATIVE) == RELATIVE_TO_ITSELF   ? from->at
                           : (encoding & RELATIVE) == RELATIVE_TO_TABLES ? from->module->tables
                                                                         : 0;
    uint64_t value = 0;
    switch (encoding & 0x0f) {
    case 0x00: /* absptr */
    case 0x04: /* udata8 */
    case 0x0c: /* sdata8 */
        value = unwind_read(from, 8);
        break;
    case 0x01:
        value = unwind_read_uleb(from);
        break;
    case 0x02:
        value = unwind_read(from, 2);
        break;
    case 0x03:
        value = unwind_read(from, 4);
        break;
    case 0x09:
        value = (uint64_t)unwind_read_sleb(from);
        break;
    case 0x0a:
        value = (uint64_t)(int64_t)(int16_t)unwind_read(from, 2);
        break;
    case 0x0b:
        value = (uint64_t)(int64_t)(int32_t)unwind_read(from, 4);
        break;
    default:
        from->bad = true;
    }
    if (form_only)
        return value;
    if ((encoding & RELATIVE) != 0 && base == 0)
        from->bad = true; /* relative to what we do not know, or to be looked up */
    return base + value;
}

/* --- Headers ------------------------------------------------------------------------------------------------------ */

/* Linkers put the program headers behind the ELF header; where they are further away (patchelf), nothing is said of
 * them. */
bool unwind_module_read(uintptr_t base, unwind_module_t *module) {
    elf_image_t h;
    if (base == 0 || !sys_is_readable(base) || !elf_image_read(&h, base, PAGE_LEAST))
        return false;
    unwind_module_t m = {.start = base};
    for (unsigned i = 0; i < h.count; i++) {
        const ElfW(Phdr) *segment = &h.headers[i];
        if (segment->p_type == PT_LOAD)
            m.end = hk_max(m.end, h.bias + segment->p_vaddr + segment->p_memsz);
        if (segment->p_type == PT_GNU_EH_FRAME)
            m.tables = h.bias + segment->p_vaddr;
    }
    for (unsigned i = 0; i < h.count; i++) {
        const ElfW(Phdr) *segment = &h.headers[i];
        const uintptr_t start = h.bias + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_R) == 0 || m.tables < start)
            continue;
        if (m.tables - start < segment->p_filesz) {
            m.safe_start = start;
            m.safe_end = start + segment->p_filesz;
        }
    }
    *module = m;
    return m.end > m.start;
}

/* --- The two that stay -------------------------------------------------------------------------------------------- */

/* The program, and the C library where that is a module of its own. The first thread that needs them writes them,
 * perhaps several at once with the same values; they are read once `staying_known` is set. */
enum { THE_PROGRAM, THE_LIBC, STAYING };
static struct { _Atomic uintptr_t start, end, tables, safe_start, safe_end; } staying[STAYING];
static _Atomic bool staying_known;

#define GET(which, field)     atomic_load_explicit(&staying[which].field, memory_order_relaxed)
#define PUT(which, field, to) atomic_store_explicit(&staying[which].field, (to), memory_order_relaxed)

static void staying_put(unsigned which, const unwind_module_t *m) {
    PUT(which, start, m->start), PUT(which, end, m->end), PUT(which, tables, m->tables);
    PUT(which, safe_start, m->safe_start), PUT(which, safe_end, m->safe_end);
}

static bool find_loaded(uintptr_t pc, unwind_module_t *m) {
    *m = (unwind_module_t){0};
    const libc_found_t found = libc_find_code(pc, &m->start, &m->end, &m->tables);
    return found == LIBC_FOUND || (found == LIBC_UNKNOWN && unwind_module_listed(pc, m));
}

static void staying_learn(void) {
    unwind_module_t program = {0}, libc;
    const uintptr_t headers = getauxval(AT_PHDR), in_libc = (uintptr_t)&getauxval;
    if (headers > sizeof(ElfW(Ehdr)))
        (void)unwind_module_read(headers - sizeof(ElfW(Ehdr)), &program);
    staying_put(THE_PROGRAM, &program);
    if (in_libc - program.start >= program.end - program.start && find_loaded(in_libc, &libc))
        staying_put(THE_LIBC, &libc);
    /* Release: pairs with the acquire in is_in_staying. */
    atomic_store_explicit(&staying_known, true, memory_order_release);
}

static bool is_in_staying(uintptr_t pc, unwind_module_t *m) {
    if (hk_unlikely(!atomic_load_explicit(&staying_known, memory_order_acquire)))
        staying_learn();
    for (unsigned i = 0; i < STAYING; i++) {
        if (pc < GET(i, start) || pc >= GET(i, end))
            continue;
        *m = (unwind_module_t){.start = GET(i, start),
                               .end = GET(i, end),
                               .tables = GET(i, tables),
                               .safe_start = GET(i, safe_start),
                               .safe_end = GET(i, safe_end),
                               .stays = true};
        return true;
    }
    return false;
}

/* --- The table of those that the list of mappings names ----------------------------------------------------------- */

/* Places are taken by adding to `listed_count`, in turn once there are none left, and hold something while `end` is
 * set. Two threads may enter the same module. Who reads a place that is written anew may get a mixture of two:
 * unwind_module_open finds that no such module is there. */
static struct { _Atomic uintptr_t start, end, tables; } listed[MODULES_MAX] HK_RARE;
static _Atomic uint32_t listed_count;
static _Atomic uint64_t listed_in_vain_ms; /* 0: not yet */

static bool listed_find(uintptr_t pc, unwind_module_t *m) {
    const size_t count = hk_min(atomic_load_explicit(&listed_count, memory_order_relaxed), MODULES_MAX);
    for (size_t i = count; i-- > 0;) {
        /* Acquire: pairs with the release in listed_enter. */
        const uintptr_t end = atomic_load_explicit(&listed[i].end, memory_order_acquire);
        const uintptr_t start = atomic_load_explicit(&listed[i].start, memory_order_relaxed);
        if (pc >= end || pc < start)
            continue;
        *m = (unwind_module_t){.start = start, .end = end, .place = (uint32_t)i + 1};
        m->tables = atomic_load_explicit(&listed[i].tables, memory_order_relaxed);
        return true;
    }
    return false;
}

static void listed_enter(unwind_module_t *m) {
    const uint32_t i = atomic_fetch_add_explicit(&listed_count, 1, memory_order_relaxed) % MODULES_MAX;
    m->place = i + 1;
    atomic_store_explicit(&listed[i].end, 0, memory_order_relaxed);
    atomic_store_explicit(&listed[i].start, m->start, memory_order_relaxed);
    atomic_store_explicit(&listed[i].tables, m->tables, memory_order_relaxed);
    /* Release: pairs with the acquire in listed_find. */
    atomic_store_explicit(&listed[i].end, m->end, memory_order_release);
}

bool unwind_module_listed(uintptr_t pc, unwind_module_t *m) {
    if (listed_find(pc, m))
        return true;
    const uint64_t now = sys_now_ms(), before = atomic_load_explicit(&listed_in_vain_ms, memory_order_relaxed);
    if (before != 0 && now - before < LIST_AGAIN_MS)
        return false;
    hk_place_t place = {.address = pc};
    if (hk_mappings_read(hk_place_visit, &place) && place.found && unwind_module_read(place.base, m) && pc < m->end) {
        listed_enter(m);
        return true;
    }
    atomic_store_explicit(&listed_in_vain_ms, now, memory_order_relaxed);
    return false;
}

/* --- All of them -------------------------------------------------------------------------------------------------- */

bool unwind_module_find(uintptr_t pc, unwind_module_t *m) { return is_in_staying(pc, m) || find_loaded(pc, m); }

bool unwind_module_open(unwind_module_t *m) {
    unwind_module_t now;
    if (m->safe_end > m->safe_start)
        return true;
    const bool read = unwind_module_read(m->start, &now);
    const bool same = read && now.tables == m->tables && (m->place == 0 || now.end == m->end);
    if (same) {
        m->safe_start = now.safe_start;
        m->safe_end = now.safe_end;
    } else if (m->place != 0) {
        atomic_store_explicit(&listed[m->place - 1].end, 0, memory_order_relaxed);
    }
    return same || m->place == 0;
}
