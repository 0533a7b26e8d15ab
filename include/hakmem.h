/* SPDX-License-Identifier: MIT
 *
 * hakmem.h: the public interface of hakmem, a memory allocator for Linux.
 *
 * A program needs none of this: preload or link libhakmem and its malloc, free and operator new are hakmem's.
 * Use this header to ask the allocator what it does, to steer it at run time, or to call it by its own names.
 *
 * Every function is thread-safe. None is async-signal-safe. Sizes are in bytes, times in milliseconds.
 */
#ifndef HAKMEM_H
#define HAKMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HAK_VERSION_MAJOR 0
#define HAK_VERSION_MINOR 1
#define HAK_VERSION_PATCH 0

/* --- Version and build -------------------------------------------------------------------------------------------- */

/* Version of the library that is running, as MAJOR * 10000 + MINOR * 100 + PATCH. */
int hak_version(void);

/* One line: version, compiler, target, build type. Static storage. */
const char *hak_build_info(void);

/* --- Allocation (same contracts as the C names; see malloc(3)) ---------------------------------------------------- */

void *hak_malloc(size_t size);
void *hak_calloc(size_t count, size_t size);
void *hak_realloc(void *ptr, size_t size);
void *hak_reallocarray(void *ptr, size_t count, size_t size);
void hak_free(void *ptr);
void hak_free_sized(void *ptr, size_t size);
void hak_free_aligned_sized(void *ptr, size_t alignment, size_t size);
void *hak_aligned_alloc(size_t alignment, size_t size);
void *hak_memalign(size_t alignment, size_t size);
int hak_posix_memalign(void **out, size_t alignment, size_t size);
size_t hak_malloc_usable_size(const void *ptr);

/* True when `ptr` is the start of, or lies inside, a block that hakmem handed out and that is not known to be free.
 * Reads nothing that `ptr` points to. */
bool hak_owns(const void *ptr);

/* --- Memory ------------------------------------------------------------------------------------------------------- */

/* Empties the caches of the calling thread and of every thread that is not allocating right now, and gives free pages
 * back to the system at once. What HAKMEM_WARMUP keeps resident stays until a hard limit is reached. Returns the number
 * of bytes given back. */
size_t hak_trim(void);

/* Sets the limits of HAKMEM_LIMIT, each rounded up to a multiple of 64 KiB; 0 is none. Near `soft` caches shrink and
 * memory is given back at once; a request that would go beyond `hard` fails with ENOMEM. The limits of the process's
 * cgroup count besides. Returns 0 or EINVAL. */
int hak_limit_set(size_t soft, size_t hard);

/* --- Checking ----------------------------------------------------------------------------------------------------- */

/* Walks the whole heap and verifies every invariant of its metadata. Returns the number of violations found, 0 when
 * the heap is whole; each violation is one line on stderr. Other threads may go on allocating meanwhile. */
size_t hak_check(void);

/* --- Options ------------------------------------------------------------------------------------------------------ */

/* Options are those of the environment (`HAKMEM_SAFE` is "SAFE" here, in any case). All return 0 or an errno value:
 * ENOENT no such option, EINVAL the value is not valid for it, EPERM it can be set at start only, ERANGE the buffer
 * is too small. */
int hak_option_set(const char *name, const char *value);
int hak_option_get(const char *name, char *value, size_t value_size);

/* Prints every option, the value in force and where it came from (default, environment, program) to `fd`. */
void hak_options_print(int fd);

/* --- Statistics --------------------------------------------------------------------------------------------------- */

#define HAK_STATS_CLASS_MAX 128

typedef struct hak_class_stats {
    size_t block_size;      /* usable bytes of a block */
    uint64_t alloc_count;   /* blocks handed to the program */
    uint64_t free_local;    /* blocks freed by the thread that owns their slab */
    uint64_t free_remote;   /* blocks freed by another thread */
    uint64_t refill_count;  /* times a magazine was filled */
    uint64_t flush_count;   /* times a magazine was emptied in part */
    uint64_t live_blocks;   /* held by the program now */
    uint64_t cached_blocks; /* free, in magazines */
    uint64_t slab_count;    /* slabs of this class now */
} hak_class_stats_t;

typedef struct hak_stats {
    uint32_t struct_size; /* set by the caller to sizeof(hak_stats_t) */
    uint32_t class_count; /* entries used in `classes` */

    /* Memory, in bytes, by what the kernel has resident: resident = live - untouched + cached + fragmented + retained +
     * metadata, whatever other threads do meanwhile. */
    uint64_t mapped;          /* address space taken from the kernel */
    uint64_t resident;        /* pages backed by memory */
    uint64_t live;            /* usable bytes of blocks held by the program */
    uint64_t untouched;       /* of live: not resident */
    uint64_t cached;          /* free blocks in magazines and cached runs */
    uint64_t fragmented;      /* free blocks inside slabs that hold live ones, and tails */
    uint64_t retained;        /* free slots not yet given back */
    uint64_t metadata;        /* hakmem's own records */
    uint64_t huge_page_waste; /* of fragmented and retained: resident only as part of a huge page */
    uint64_t peak_mapped;

    /* Events since start. */
    uint64_t slabs_new;         /* opened on slots fresh from a superslab */
    uint64_t slabs_reused;      /* opened on slots that the thread or the slot pool kept warm */
    uint64_t slabs_adopted;     /* taken over from a dead or idle thread */
    uint64_t slabs_retired;     /* emptied, slots returned */
    uint64_t superslabs_new;    /* taken from the region */
    uint64_t superslabs_reused; /* taken from the superslab cache */
    uint64_t superslabs_freed;  /* emptied and returned to the region */
    uint64_t superslabs_now;
    uint64_t remote_frees;   /* blocks freed by a thread that does not own them */
    uint64_t remote_batches; /* groups of up to 64 neighbours in which they were passed on */
    uint64_t remote_drains;  /* messages from which they were collected */
    uint64_t large_allocs;
    uint64_t large_frees;
    uint64_t large_cache_hits;
    uint64_t huge_allocs;
    uint64_t huge_frees;
    uint64_t purge_calls; /* system calls that gave pages back */
    uint64_t purged_bytes;
    uint64_t sparse_bytes; /* of those, pages inside slabs that were in use */
    uint64_t map_calls;    /* system calls that took address space */
    uint64_t lock_waits;   /* times a thread had to sleep or spin for a lock of ours */
    uint64_t lock_takes;
    uint64_t magazine_grows;   /* adaptation: capacity of a magazine doubled */
    uint64_t magazine_shrinks; /* adaptation: capacity of a magazine halved */
    uint64_t heaps_now;        /* heaps with a live thread */
    uint64_t heaps_total;      /* heaps ever started */
    uint64_t errors;           /* misuses of the interface reported */
    uint64_t foreign_forwards; /* pointers of another allocator handed to it */
    uint64_t limit_soft;       /* bytes in force, of HAKMEM_LIMIT or the cgroup; 0: none */
    uint64_t limit_hard;
    uint64_t limit_nears;     /* times use came near the soft limit */
    uint64_t limit_refusals;  /* requests refused because of the hard limit */
    uint64_t pressure_events; /* notices of memory pressure followed */
    uint64_t huge_page_bytes; /* address space advised to use huge pages */
    uint64_t prefault_bytes;  /* pages populated ahead of use */

    hak_class_stats_t classes[HAK_STATS_CLASS_MAX];
} hak_stats_t;

/* Fills `stats` with a snapshot. `stats->struct_size` must be set. Returns 0 or EINVAL. */
int hak_stats_get(hak_stats_t *stats);

typedef enum hak_format { HAK_FORMAT_TEXT, HAK_FORMAT_JSON } hak_format_t;

/* Prints a snapshot to `fd`. */
void hak_stats_print(int fd, hak_format_t format);

/* Writes a snapshot as a NUL-terminated string; returns the length it needs without the NUL, like snprintf. */
size_t hak_stats_format(char *buffer, size_t buffer_size, hak_format_t format);

#ifdef __cplusplus
}
#endif

#endif
