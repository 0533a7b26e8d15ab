/* SPDX-License-Identifier: MIT
 *
 * hakmem.h: the public interface of hakmem, a memory allocator for Linux.
 *
 * A program needs none of this: preload or link libhakmem and its malloc, free and operator new are hakmem's.
 * Use this header to ask the allocator what it does, to steer it at run time, or to call it by its own names.
 *
 * Every function is thread-safe. None is async-signal-safe. Sizes are in bytes, times in milliseconds.
 *
 * Records begin with struct_size, which the caller sets to sizeof the record. A later version of the library, whose
 * records have more at their end, reads and writes that much alone. Any multiple of 8 up to the library's own size is
 * valid; others are refused with EINVAL.
 *
 * C89 has no bool: __extension__ stands where it is used, so that a compiler which insists on C89 has nothing to say.
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

/* calloc and realloc of blocks at a multiple of `alignment`, which is rounded up to a power of two; errno is EINVAL
 * when there is none as large. Where a plain block grows without being copied, or is zero without being written, these
 * do. `ptr` may be any block, wherever it lies. */
void *hak_aligned_calloc(size_t alignment, size_t count, size_t size);
void *hak_aligned_realloc(void *ptr, size_t alignment, size_t size);

/* malloc that also tells how much there is: `*actual` becomes the usable size, at least `size`, all of which may be
 * used. hak_free_sized accepts any size from `size` to it. At HAKMEM_SAFE=3 it is `size`. On failure NULL, errno is
 * ENOMEM and `*actual` 0. `actual` may be NULL. */
void *hak_malloc_at_least(size_t size, size_t *actual);

/* The usable size that a malloc of `size` has at the least; some are larger. 0 when `size` is beyond what addresses
 * allow. Allocates nothing. */
size_t hak_good_size(size_t size);

/* Grows or shrinks the block where it is, so that `size` bytes are usable and few are wasted. Returns the usable size
 * then, and hak_free_sized accepts any size from `size` to it; 0 when the block cannot stay where it is: it is then as
 * it was. 0 for NULL. What is no live block is reported as by hak_realloc. errno is not set. */
size_t hak_expand(void *ptr, size_t size);

/* Up to `count` blocks of `size` bytes, written to out[0], out[1], ... Returns how many: fewer than `count` when memory
 * is out, and then errno is ENOMEM. Each may be freed alone. */
size_t hak_malloc_batch(size_t size, size_t count, void **out);

/* Frees `count` blocks of any sizes and heaps; NULLs are skipped. */
void hak_free_batch(void **blocks, size_t count);

/* True when `ptr` is the start of, or lies inside, a block that hakmem handed out and that is not known to be free.
 * Reads nothing that `ptr` points to. */
__extension__ bool hak_owns(const void *ptr);

/* --- Heaps of the program's own ----------------------------------------------------------------------------------- */

/* A heap whose blocks can go all at once. Every call may come from any thread at any time, and a heap outlives the
 * thread that made it; in the child of a fork all heaps are there. A block of a heap is one like any other: hak_free,
 * free, realloc and the rest take it, from any thread. The only duty is that nobody uses the heap or its blocks during
 * hak_heap_reset and hak_heap_destroy, nor the heap after hak_heap_destroy and hak_heap_release. A later free of a
 * block that went with its heap is reported as a double free, unless another block lies there by then. A call with
 * NULL or a heap that has ended is reported too, and fails as if there were no memory. docs/heaps.md has examples. */
typedef struct hak_heap hak_heap_t;

#define HAK_HEAP_NAME_MAX 32

typedef struct hak_heap_options {
    uint32_t struct_size; /* set by the caller to sizeof(hak_heap_options_t) */
    const char
        *name; /* for statistics, of up to HAK_HEAP_NAME_MAX - 1 characters, longer ones are cut; NULL: none. Copied */
    size_t limit; /* bytes that the heap may take from the system, in steps of 64 KiB and more; 0: no limit */
} hak_heap_options_t;

/* A heap, empty; NULL for `options` are the defaults. Takes no memory for blocks yet. NULL with errno ENOMEM, EAGAIN
 * (there are too many heaps: two million, fewer where address space is short) or EINVAL (struct_size). */
hak_heap_t *hak_heap_new(const hak_heap_options_t *options);

/* As malloc, calloc and aligned_alloc (`alignment` is rounded up to a power of two), from the heap. NULL with errno
 * ENOMEM when there is no memory, or the heap's limit would be passed. */
void *hak_heap_malloc(hak_heap_t *heap, size_t size);
void *hak_heap_calloc(hak_heap_t *heap, size_t count, size_t size);
void *hak_heap_aligned_alloc(hak_heap_t *heap, size_t alignment, size_t size);

/* realloc, and what comes back is a block of the heap; `ptr` may be one of another heap or an ordinary one. (realloc
 * keeps a block in the heap that it is of.) */
void *hak_heap_realloc(hak_heap_t *heap, void *ptr, size_t size);

/* Frees every block, in time proportional to the memory, not to the number of blocks; at HAKMEM_SAFE=2 and 3 it looks
 * at each block first, as free does. The heap stays. Returns the usable bytes of the blocks. */
size_t hak_heap_reset(hak_heap_t *heap);

/* Frees every block and the heap. NULL is allowed. */
void hak_heap_destroy(hak_heap_t *heap);

/* Frees the heap alone: its blocks become ordinary ones. Other threads may free blocks of it meanwhile. NULL is
 * allowed. */
void hak_heap_release(hak_heap_t *heap);

/* The heap of the live block that begins at `block`; NULL for an ordinary block and for what is no block. */
hak_heap_t *hak_heap_of(const void *block);

typedef struct hak_heap_stats {
    uint32_t struct_size; /* set by the caller to sizeof(hak_heap_stats_t) */
    char name[HAK_HEAP_NAME_MAX];
    uint64_t live;        /* usable bytes of its blocks */
    uint64_t live_blocks; /* and how many they are */
    uint64_t allocs;      /* blocks ever */
    uint64_t taken;       /* bytes that it has taken from the system */
    uint64_t peak_taken;
    uint64_t limit; /* 0: none */
} hak_heap_stats_t;

/* Returns 0 or EINVAL. As with the other calls, a heap that is NULL or has ended is reported first, so that by default
 * the program aborts. */
int hak_heap_stats_get(hak_heap_t *heap, hak_heap_stats_t *stats);

/* Calls `visit` for each live block, with its usable size and `context`, until it returns false. It may call anything
 * but hak_heap_reset and hak_heap_destroy; what is allocated or freed meanwhile may be visited or not. Returns 0,
 * ECANCELED after a false, ENOMEM or EINVAL. */
__extension__ int hak_heap_visit(hak_heap_t *heap, bool (*visit)(void *block, size_t size, void *context),
                                 void *context);

/* --- Memory ------------------------------------------------------------------------------------------------------- */

/* Empties the magazines of the calling thread and the caches of large blocks of all threads, and collects the frees
 * that wait for a thread which is not inside the allocator right now. Magazines of other threads stay. Then gives free
 * pages back to the system at once. What HAKMEM_WARMUP keeps resident stays until a hard limit is reached. Returns the
 * number of bytes given back. */
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

/* A program, or a library, that defines it starts with other defaults:
 *
 *   const char hak_default_options[] = "PURGE_DELAY=100 LIMIT=1G:2G";
 *
 * names and values as in the environment, which overrides them, between spaces. Read once, before the first allocation;
 * also by set-uid programs, which ignore the environment. What is unknown or malformed is named on stderr. For programs
 * that link hakmem: one that it is preloaded into need not show its own names. In a static library, it must lie in an
 * object that is linked (docs/options.md). */
extern const char hak_default_options[];

/* Options are those of the environment (`HAKMEM_SAFE` is "SAFE" here, in any case). All return 0 or an errno value:
 * ENOENT no such option, EINVAL the value is not valid for it, EPERM it can be set at start only, ERANGE the buffer
 * is too small. */
int hak_option_set(const char *name, const char *value);
int hak_option_get(const char *name, char *value, size_t value_size);

/* Prints every option, the value in force and where it came from (default, compiled in, environment, program) to
 * `fd`. */
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
    uint64_t cached;          /* free blocks in magazines, slots a thread keeps; large ones in quarantine */
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

/* Fills `stats` with a snapshot. `stats->struct_size` must be set. Returns 0, EINVAL, ENOMEM, or EAGAIN in the child of
 * a fork that has no statistics: then all figures are 0. */
int hak_stats_get(hak_stats_t *stats);

typedef enum hak_format { HAK_FORMAT_TEXT, HAK_FORMAT_JSON } hak_format_t;

/* One field of hak_stats_t by its name ("live", "mapped", "remote_frees"), or one of hak_heap_stats_t of the heap of a
 * name ("heap/NAME/live"), or how many usable bytes the calling thread has allocated or freed ("thread/allocated",
 * "thread/freed": differences count, as the first figure is not 0 in a thread that has the heap of an ended one;
 * blocks above 1 GiB and those of heaps of the program's own are left out). Takes a walk over the heaps; only for
 * `resident`, `untouched`, `cached`, `fragmented`, `retained`, `metadata` and `huge_page_waste` the kernel is asked
 * about every page, as hak_stats_get does. Returns 0, ENOENT no such field, EINVAL a NULL, ENOMEM, or EAGAIN in the
 * child of a fork that has no statistics. */
int hak_stat_read(const char *name, uint64_t *value);

/* Prints a snapshot to `fd`. */
void hak_stats_print(int fd, hak_format_t format);

/* Writes a snapshot as a NUL-terminated string; returns the length it needs without the NUL, like snprintf. */
size_t hak_stats_format(char *buffer, size_t buffer_size, hak_format_t format);

/* --- Heap profiles ------------------------------------------------------------------------------------------------ */

/* What is allocated, by the stacks that allocated it: by sampling, so estimates are right on average. At an interval of
 * 512 KiB and above a thread spends at most a 2,000th of its time on samples. `hakmem heap` shows profiles;
 * docs/profile-format.md is for who reads them otherwise. Any thread may call these, at any time. */

/* From now on a block is sampled about each `interval` bytes that are allocated (rounded up to a power of two, at most
 * 2^40; 512 KiB is a good one: from there on a thread that allocates very fast is sampled less often, and its samples
 * count for more). 1 samples every block: for tests and small programs, and slower. Blocks that are live
 * already are not known. Called again, it changes the interval. Returns 0 or ENOMEM. */
int hak_profile_start(size_t interval);

/* No further blocks are sampled. Those that were stay known, and their frees are still noted. The profile's time ends
 * here; started again, it goes on, and what lay between counts as well: hak_profile_reset begins a new one. */
void hak_profile_stop(void);

/* Forgets all that was sampled, and goes on sampling if it did. */
void hak_profile_reset(void);

/* Writes the profile to `fd`, a file or a pipe, which is not closed. Returns 0, ENOENT when there never was a profile,
 * ENOMEM, or the errno value of write(2). */
int hak_profile_write(int fd);

#ifdef __cplusplus
}
#endif

#endif
