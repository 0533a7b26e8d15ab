/* SPDX-License-Identifier: MIT
 *
 * memory.h: mapping, giving back, and asking the kernel about memory.
 */
#pragma once

#include "base/base.h"

size_t sys_page_size(void);

/* Maps `size` readable and writable, zeroed bytes at exactly `address`. EEXIST when something is mapped there.
 * `sys_map_none_at` maps without access, `sys_map_zeros_at` what can only be read: neither counts as memory that the
 * process may need. */
int sys_map_at(void *address, size_t size);
int sys_map_none_at(void *address, size_t size);
int sys_map_zeros_at(void *address, size_t size);

/* As sys_map_at and sys_map_over, of memory for blocks: with tags, where they are on (sys/tags.h). */
int sys_map_blocks_at(void *address, size_t size);
int sys_map_blocks_over(void *address, size_t size);

/* Maps `size` bytes wherever the kernel likes; NULL on failure. `sys_map_none` maps without access (a hole finder). */
void *sys_map(size_t size);
void *sys_map_none(size_t size);

/* Replaces what is mapped at `address` by fresh zeroed memory. */
int sys_map_over(void *address, size_t size);

/* What /proc/PID/maps calls memory that was just mapped: `[anon:NAME]`, with a kernel that has such names
 * (PR_SET_VMA_ANON_NAME, Linux 5.17). The kernel makes one mapping of neighbours only when their names are equal: what
 * lies side by side is to have one name. Without names in confined processes, and in those that were started under a
 * filter, which need not know the call. */
void sys_name(const void *address, size_t size, const char *name);

/* False at the limit of mappings, when one would become two. */
bool sys_unmap(void *address, size_t size);

/* A touch of what was mapped here faults from now on; the memory goes back to the kernel. Returns 0 or an errno. */
int sys_shut(void *address, size_t size);

/* A touch of these pages of a mapping of ours faults until sys_unfence; what they held is gone. The kernel keeps it in
 * its page tables (MADV_GUARD_INSTALL, Linux 6.13), or else in mappings of their own, of which there are at most
 * SYS_FENCES_MAX. False: nothing is fenced, as in a confined process. */
enum { SYS_FENCES_MAX = 1024 };
bool sys_fence(void *address, size_t size);

/* Whether sys_fence takes no mapping now. */
bool sys_fences_by_mark(void);

/* Exactly what was fenced by one call reads as zeros. False: it is to be mapped anew, as what has a mapping of its own
 * always is, and marks in a confined process. Once that is done, and not where the kernel refuses it, the caller says
 * so by the second: from then on the fence is none of those at most. */
bool sys_unfence(void *address, size_t size);
void sys_fence_is_mapped_over(void);

/* Grows, shrinks or moves a mapping of its own (mremap); NULL on failure. */
void *sys_remap(void *address, size_t old_size, size_t new_size);

/* Grows or shrinks it where it is; false when that is not possible. */
bool sys_resize(void *address, size_t old_size, size_t new_size);

/* Moves the pages of [from, from + from_size), one mapping, to `to`, where they replace what is mapped and are followed
 * by fresh memory up to to_size. `from` is unmapped then. On failure `from` is as it was, but nothing may be mapped at
 * `to`. */
int sys_move_grow(void *from, size_t from_size, void *to, size_t to_size);

/* Gives pages back at once (MADV_DONTNEED). The range reads as zeros afterwards, whatever the kernel says: what it does
 * not take (locked pages) is zeroed by hand. */
void sys_purge(void *address, size_t size);

typedef struct sys_range {
    void *address;
    size_t size;
} sys_range_t;

/* Purges many ranges, in one system call where the kernel can (process_madvise). Returns the calls made. */
size_t sys_purge_many(const sys_range_t *ranges, size_t count);

/* True for a second after the kernel refused to take pages back: they are locked, and purging is not worth it. They may
 * be locked no longer after that. */
bool sys_purge_refused(void);

int sys_advise_huge(void *address, size_t size);
int sys_advise_no_huge(void *address, size_t size);

/* Advises against huge pages for a range of which some is resident, and takes the huge page at its start apart. What
 * that holds stays. The kernel otherwise keeps all of a huge page of which a part goes back, and charges the control
 * group for it, until memory is out. The advice comes first, so that khugepaged does not fill the holes again. Source:
 * madvise(2), MADV_COLD (Linux 5.4): a page that is said to be cold leaves its huge page. */
void sys_break_huge(void *address, size_t size);

int sys_populate(void *address, size_t size);

/* Whether all of it is mapped: by advice that asks for what is so already (madvise(2): ENOMEM where nothing is
 * mapped). */
bool sys_is_mapped(void *address, size_t size);

/* Whether the byte at `address`, and so the page that it is in, can be read now: the kernel reads it, and nothing comes
 * of that. */
bool sys_is_readable(uintptr_t address);

/* Copies words of this process, which other threads may unmap meanwhile: without a fault, where the kernel lets a
 * process read itself (process_vm_readv). Returns the bytes in front of the first page that cannot be read. Takes
 * multiples of a word. */
size_t sys_copy(void *to, uintptr_t from, size_t size);

/* Which of the pages of private memory hold anything: bit 0 of one byte a page. Returns 0 or an errno value. */
int sys_touched(uintptr_t address, size_t size, unsigned char *pages);

/* Which of the pages are resident: bit 0 of one byte a page (mincore, or pagemap under a filter). EPERM in a confined
 * process. */
int sys_resident(const void *address, size_t size, unsigned char *pages);
