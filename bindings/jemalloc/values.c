/* SPDX-License-Identifier: MIT */
#include "values.h"

#include "arenas.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OPTION_MAX = 512, LG_SAMPLE_DEFAULT = 19, LG_SAMPLE_MAX = 40 };

/* --- hakmem's statistics ------------------------------------------------------------------------------------------ */

/* Figures of one moment: 10 KiB, on the stack so that they are not among what they count. */
static int snapshot(hak_stats_t *stats) {
    stats->struct_size = sizeof *stats;
    return hak_stats_get(stats);
}

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* Pages of slabs and blocks, as far as jemalloc would have them: touched or not. */
static size_t active_of(const hak_stats_t *stats) {
    size_t bytes = (size_t)(stats->live + stats->cached + stats->fragmented), page = page_size();
    return (bytes + page - 1) / page * page;
}

static size_t figure_of(const hak_stats_t *stats, const char *of) {
    size_t active = active_of(stats), mapped = active + (size_t)stats->retained;
    size_t known = mapped + (size_t)stats->metadata;
    if (strcmp(of, "active") == 0)
        return active;
    if (strcmp(of, "mapped") == 0)
        return mapped;
    if (strcmp(of, "retained") == 0)
        return stats->mapped > known ? (size_t)stats->mapped - known : 0;
    return (size_t)(strcmp(of, "metadata") == 0 ? stats->metadata : stats->resident);
}

static int read_figure(size_t index, const char *of, value_t *value) {
    (void)index;
    hak_stats_t stats;
    int error = snapshot(&stats);
    if (error == 0)
        value->size = figure_of(&stats, of);
    return error;
}

static int read_stat(size_t index, const char *of, value_t *value) {
    (void)index;
    return hak_stat_read(of, &value->u64);
}

/* --- Options ------------------------------------------------------------------------------------------------------ */

/* Of a number that no arena has had yet, and of ordinary memory or an arena that is gone. */
static int no_heap(size_t index) { return index > arenas_count() ? ENOENT : EFAULT; }

/* A decimal number, and where it ends. strtol of a new glibc's headers is a name that an old glibc has not. */
static uint64_t number_of(const char *text, const char **end) {
    uint64_t number = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        number = number * 10 + (uint64_t)(*text - '0');
    *end = text;
    return number;
}

static int option(const char *name, char text[OPTION_MAX]) { return hak_option_get(name, text, OPTION_MAX); }

static int read_option_is_on(size_t index, const char *of, value_t *value) {
    (void)index;
    char text[OPTION_MAX];
    int error = option(of, text);
    value->is_on = error == 0 && strcmp(text, "off") != 0;
    return error;
}

static int set_background(size_t index, const value_t *given) {
    (void)index;
    return given == NULL || hak_option_set("BACKGROUND", given->is_on ? "on" : "off") == 0 ? 0 : EFAULT;
}

/* Of an option, index 0 as arena 0. */
static int read_delay(size_t index, const char *of, value_t *value) {
    char text[OPTION_MAX];
    const char *end;
    int error = arenas_exists(index) ? option(of, text) : no_heap(index);
    if (error == 0)
        value->ssize = *text == '-' ? -(ssize_t)number_of(text + 1, &end) : (ssize_t)number_of(text, &end);
    return error;
}

static int set_delay(size_t index, const value_t *given) {
    (void)index;
    char text[24];
    if (given == NULL)
        return 0;
    snprintf(text, sizeof text, "%zd", given->ssize);
    return hak_option_set("PURGE_DELAY", text) == 0 ? 0 : EFAULT;
}

/* There is one stage of decay; what a program sets for a second one has no effect. */
static int read_second_delay(size_t index, const char *of, value_t *value) {
    (void)of;
    value->ssize = 0;
    return arenas_exists(index) ? 0 : no_heap(index);
}

static int set_second_delay(size_t index, const value_t *given) {
    (void)index;
    return given == NULL || given->ssize >= -1 ? 0 : EFAULT;
}

static int read_has_file(size_t index, const char *of, value_t *value) {
    (void)index;
    char text[OPTION_MAX];
    int error = option(of, text);
    value->is_on = error == 0 && strstr(text, "out=") != NULL;
    return error;
}

/* HAKMEM_HUGE in jemalloc's words. */
static int read_huge(size_t index, const char *of, value_t *value) {
    (void)index;
    char text[OPTION_MAX];
    int error = option("HUGE", text);
    bool metadata = strcmp(of, "metadata") == 0;
    if (strcmp(text, "off") == 0)
        value->text = metadata ? "disabled" : "never";
    else if (strcmp(text, "force") == 0)
        value->text = "always";
    else
        value->text = metadata ? "auto" : "default";
    return error;
}

static int read_junk(size_t index, const char *of, value_t *value) {
    (void)index, (void)of;
    char text[OPTION_MAX];
    int error = option("SAFE", text);
    value->text = error == 0 && text[0] >= '2' ? "free" : "false";
    return error;
}

/* --- What is always so -------------------------------------------------------------------------------------------- */

static int read_text(size_t index, const char *of, value_t *value) {
    (void)index;
    value->text = of;
    return 0;
}

static int read_number(size_t index, const char *of, value_t *value) {
    (void)index;
    const char *end;
    value->u64 = number_of(of, &end); /* as every kind that is no larger, on little-endian machines */
    return 0;
}

static int read_page(size_t index, const char *of, value_t *value) {
    (void)index, (void)of;
    value->size = page_size();
    return 0;
}

/* --- Size classes ------------------------------------------------------------------------------------------------- */

static size_t class_sizes[HAK_STATS_CLASS_MAX];
static unsigned class_count;

static void look_at_classes(void) {
    hak_stats_t stats;
    if (snapshot(&stats) != 0)
        return;
    class_count = stats.class_count;
    for (unsigned i = 0; i < class_count; i++)
        class_sizes[i] = stats.classes[i].block_size;
}

static unsigned known_classes(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (class_count == 0)
        look_at_classes();
    unsigned count = class_count;
    pthread_mutex_unlock(&lock);
    return count;
}

static int read_class_count(size_t index, const char *of, value_t *value) {
    (void)index, (void)of;
    value->u32 = known_classes();
    return 0;
}

static int read_class_size(size_t index, const char *of, value_t *value) {
    (void)of;
    if (index >= known_classes())
        return ENOENT;
    value->size = class_sizes[index];
    return 0;
}

/* --- Statistics of arenas and classes ----------------------------------------------------------------------------- */

/* A program asks for three numbers of each class: they are of one snapshot, the first one that is wanted after an
 * epoch was written. */
static pthread_mutex_t epoch_lock = PTHREAD_MUTEX_INITIALIZER;
static hak_stats_t epoch_stats;
static bool epoch_is_known;

static int begin_epoch(size_t index, const value_t *given) {
    (void)index;
    if (given == NULL)
        return 0;
    pthread_mutex_lock(&epoch_lock);
    epoch_is_known = false;
    pthread_mutex_unlock(&epoch_lock);
    return 0;
}

static uint64_t class_figure(const hak_class_stats_t *class, const char *of) {
    return strcmp(of, "curregs") == 0 ? class->live_blocks : class->live_blocks + class->cached_blocks;
}

static uint64_t process_figure(const hak_stats_t *stats, const char *of) {
    uint64_t small = 0;
    for (unsigned i = 0; i < stats->class_count; i++)
        small += stats->classes[i].live_blocks * stats->classes[i].block_size;
    if (strcmp(of, "small") == 0)
        return small < stats->live ? small : stats->live;
    if (strcmp(of, "large") == 0)
        return small < stats->live ? stats->live - small : 0;
    if (strcmp(of, "resident") == 0)
        return stats->resident;
    return (strcmp(of, "active") == 0 ? active_of(stats) : stats->retained) / page_size();
}

/* Of the whole process: ordinary memory and that of the arenas, as statistics count both. */
static bool is_process(size_t arena) { return arena == 0 || arena == ARENAS_ALL || arena == arenas_count(); }

static int in_epoch(size_t class, const char *of, uint64_t *figure) {
    pthread_mutex_lock(&epoch_lock);
    int error = epoch_is_known ? 0 : snapshot(&epoch_stats);
    epoch_is_known = error == 0;
    if (error == 0 && class == SIZE_MAX)
        *figure = process_figure(&epoch_stats, of);
    else if (error == 0)
        *figure = class_figure(&epoch_stats.classes[class], of);
    pthread_mutex_unlock(&epoch_lock);
    return error;
}

/* What is known of a heap: its blocks, and what it has taken. */
static int read_arena(size_t index, const char *of, value_t *value) {
    if (is_process(index))
        return in_epoch(SIZE_MAX, of, &value->u64);
    hak_heap_t *heap = arenas_heap(index);
    hak_heap_stats_t stats = {.struct_size = sizeof stats};
    if (heap == NULL || hak_heap_stats_get(heap, &stats) != 0)
        return ENOENT;
    if (strcmp(of, "small") == 0)
        value->u64 = stats.live;
    else if (strcmp(of, "active") == 0)
        value->u64 = stats.taken / page_size();
    else
        value->u64 = strcmp(of, "resident") == 0 ? stats.taken : 0;
    return 0;
}

static int read_no_pages(size_t index, const char *of, value_t *value) {
    (void)of;
    value->size = 0;
    return is_process(index) || arenas_exists(index) ? 0 : ENOENT;
}

/* Each block counts as a slab of its own: so (nregs * curslabs - curregs) blocks are free, those in caches. */
static int read_class(size_t index, const char *of, value_t *value) {
    size_t arena = index & (((size_t)1 << INDEX_BITS) - 1), class = index >> INDEX_BITS;
    if (class >= known_classes())
        return ENOENT;
    value->u64 = 0;
    if (is_process(arena))
        return in_epoch(class, of, &value->u64);
    return arenas_exists(arena) ? 0 : ENOENT;
}

static int read_class_blocks(size_t index, const char *of, value_t *value) {
    (void)of;
    value->u32 = 1;
    return index < known_classes() ? 0 : ENOENT;
}

/* --- Caches ------------------------------------------------------------------------------------------------------- */

/* Flags may name a cache, and it has no effect: a number is enough. Numbers come round: flags have room for so many. */
enum { CACHES_MAX = 4094 };
static _Atomic unsigned caches;

static int create_cache(size_t index, const char *of, value_t *value) {
    (void)index, (void)of;
    value->u32 = atomic_fetch_add_explicit(&caches, 1, memory_order_relaxed) % CACHES_MAX;
    return 0;
}

static int end_cache(size_t index, const value_t *given) {
    (void)index;
    return given == NULL ? EINVAL : given->u32 < CACHES_MAX ? 0 : EFAULT;
}

/* --- Arenas ------------------------------------------------------------------------------------------------------- */

static int read_arena_count(size_t index, const char *of, value_t *value) {
    (void)index, (void)of;
    value->u32 = arenas_count();
    return 0;
}

static int create_arena(size_t index, const char *of, value_t *value) {
    (void)index, (void)of;
    value->u32 = arenas_create();
    return value->u32 != 0 ? 0 : EAGAIN;
}

/* What is written must be what holds: a thread is of no arena but 0, and keeps its cache. */
static int set_thread_arena(size_t index, const value_t *given) {
    (void)index;
    return given == NULL || given->u32 == 0 ? 0 : arenas_exists(given->u32) ? EPERM : EFAULT;
}

static int set_thread_cache(size_t index, const value_t *given) {
    (void)index;
    return given == NULL || given->is_on ? 0 : EPERM;
}

/* What is free goes back from everywhere. The number of arenas stands for all of them, as it does in jemalloc. */
static int purge(size_t index, const value_t *given) {
    (void)given;
    if (!is_process(index) && !arenas_exists(index))
        return ENOENT;
    (void)hak_trim();
    return 0;
}

static int flush(size_t index, const value_t *given) {
    (void)index, (void)given;
    (void)hak_trim();
    return 0;
}

static int reset_arena(size_t index, const value_t *given) {
    (void)given;
    hak_heap_t *heap = arenas_heap(index);
    if (heap == NULL)
        return no_heap(index);
    (void)hak_heap_reset(heap);
    return 0;
}

static int destroy_arena(size_t index, const value_t *given) {
    (void)given;
    hak_heap_t *heap = arenas_take(index);
    if (heap == NULL)
        return no_heap(index);
    hak_heap_destroy(heap);
    return 0;
}

/* --- Profiles ----------------------------------------------------------------------------------------------------- */

static _Atomic unsigned lg_sample; /* 0: that of HAKMEM_PROFILE */
static _Atomic int is_active = -1; /* -1: what HAKMEM_PROFILE says */

/* "512K" or "1M,out=FILE"; without a number, the default. */
static unsigned lg_of(const char *text) {
    const char *end;
    uint64_t number = number_of(text, &end);
    unsigned lg = 0;
    const char *unit = *end != 0 ? strchr("KMGT", *end) : NULL;
    if (number == 0)
        return LG_SAMPLE_DEFAULT;
    while (lg < LG_SAMPLE_MAX && (1ul << lg) < number)
        lg++;
    return lg + (unit != NULL ? 10 * (unsigned)(unit - "KMGT" + 1) : 0);
}

static unsigned lg_now(void) {
    char text[OPTION_MAX];
    unsigned set = atomic_load_explicit(&lg_sample, memory_order_relaxed);
    return set != 0 ? set - 1 : option("PROFILE", text) == 0 ? lg_of(text) : LG_SAMPLE_DEFAULT;
}

static int read_lg_sample(size_t index, const char *of, value_t *value) {
    (void)index, (void)of;
    value->size = lg_now();
    return 0;
}

static bool profile_is_active(void) {
    value_t value;
    int set = atomic_load_explicit(&is_active, memory_order_relaxed);
    return set >= 0 ? set != 0 : read_option_is_on(0, "PROFILE", &value) == 0 && value.is_on;
}

static int read_active(size_t index, const char *of, value_t *value) {
    (void)index, (void)of;
    value->is_on = profile_is_active();
    return 0;
}

static int set_active(size_t index, const value_t *given) {
    (void)index;
    if (given == NULL)
        return 0;
    int error = given->is_on ? hak_profile_start((size_t)1 << lg_now()) : 0;
    if (!given->is_on)
        hak_profile_stop();
    if (error == 0)
        atomic_store_explicit(&is_active, given->is_on, memory_order_relaxed);
    return error;
}

static int reset_profile(size_t index, const value_t *given) {
    (void)index;
    if (given != NULL && given->size > LG_SAMPLE_MAX)
        return EINVAL;
    if (given != NULL)
        atomic_store_explicit(&lg_sample, (unsigned)given->size + 1, memory_order_relaxed);
    hak_profile_reset();
    return given != NULL && profile_is_active() ? hak_profile_start((size_t)1 << given->size) : 0;
}

/* To the file of the name, or as jemalloc to one with the number of the process and of the profile. */
static int dump_profile(size_t index, const value_t *given) {
    (void)index;
    static _Atomic unsigned dumps;
    char path[64];
    const char *name = given != NULL ? given->text : NULL;
    if (hak_profile_write(-1) == ENOENT) /* what is in the file stays */
        return ENOENT;
    if (name == NULL) {
        unsigned number = atomic_fetch_add_explicit(&dumps, 1, memory_order_relaxed);
        snprintf(path, sizeof path, "hakmem.%ld.%u.heap", (long)getpid(), number);
        name = path;
    }
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return EFAULT;
    int error = hak_profile_write(fd);
    if (close(fd) != 0 && error == 0)
        error = EFAULT;
    return error == 0 ? 0 : EFAULT;
}

/* --- The table ---------------------------------------------------------------------------------------------------- */

static const row_t rows[] = {
    {"version", KIND_TEXT, read_text, NULL, "5.3.0-0-g0 (hakmem)"},
    {"epoch", KIND_U64, read_number, begin_epoch, "1"},
    {"stats.allocated", KIND_SIZE, read_stat, NULL, "live"},
    {"stats.active", KIND_SIZE, read_figure, NULL, "active"},
    {"stats.resident", KIND_SIZE, read_figure, NULL, "resident"},
    {"stats.mapped", KIND_SIZE, read_figure, NULL, "mapped"},
    {"stats.retained", KIND_SIZE, read_figure, NULL, "retained"},
    {"stats.metadata", KIND_SIZE, read_figure, NULL, "metadata"},
    {"thread.allocated", KIND_U64, read_stat, NULL, "thread/allocated"},
    {"thread.deallocated", KIND_U64, read_stat, NULL, "thread/freed"},
    {"thread.arena", KIND_U32, read_number, set_thread_arena, "0"},
    {"thread.tcache.enabled", KIND_BOOL, read_number, set_thread_cache, "1"},
    {"thread.tcache.flush", KIND_NONE, NULL, flush, NULL},
    {"arenas.narenas", KIND_U32, read_arena_count, NULL, NULL},
    {"arenas.page", KIND_SIZE, read_page, NULL, NULL},
    {"arenas.quantum", KIND_SIZE, read_number, NULL, "16"},
    {"arenas.nbins", KIND_U32, read_class_count, NULL, NULL},
    {"stats.arenas.*.small.allocated", KIND_SIZE, read_arena, NULL, "small"},
    {"stats.arenas.*.large.allocated", KIND_SIZE, read_arena, NULL, "large"},
    {"stats.arenas.*.resident", KIND_SIZE, read_arena, NULL, "resident"},
    {"stats.arenas.*.pactive", KIND_SIZE, read_arena, NULL, "active"},
    {"stats.arenas.*.pdirty", KIND_SIZE, read_arena, NULL, "dirty"},
    {"stats.arenas.*.pmuzzy", KIND_SIZE, read_no_pages, NULL, NULL},
    {"stats.arenas.*.bins.*.curregs", KIND_SIZE, read_class, NULL, "curregs"},
    {"stats.arenas.*.bins.*.curslabs", KIND_SIZE, read_class, NULL, "curslabs"},
    {"tcache.create", KIND_U32, create_cache, NULL, NULL},
    {"tcache.flush", KIND_U32, NULL, end_cache, NULL},
    {"tcache.destroy", KIND_U32, NULL, end_cache, NULL},
    {"arenas.bin.*.nregs", KIND_U32, read_class_blocks, NULL, NULL},
    {"arenas.bin.*.size", KIND_SIZE, read_class_size, NULL, NULL},
    {"arenas.create", KIND_U32, create_arena, NULL, NULL},
    {"arena.*.purge", KIND_NONE, NULL, purge, NULL},
    {"arena.*.decay", KIND_NONE, NULL, purge, NULL},
    {"arena.*.reset", KIND_NONE, NULL, reset_arena, NULL},
    {"arena.*.destroy", KIND_NONE, NULL, destroy_arena, NULL},
    {"arena.*.dirty_decay_ms", KIND_SSIZE, read_delay, set_delay, "PURGE_DELAY"},
    {"arena.*.muzzy_decay_ms", KIND_SSIZE, read_second_delay, set_second_delay, NULL},
    {"arenas.dirty_decay_ms", KIND_SSIZE, read_delay, set_delay, "PURGE_DELAY"},
    {"arenas.muzzy_decay_ms", KIND_SSIZE, read_second_delay, set_second_delay, NULL},
    {"opt.dirty_decay_ms", KIND_SSIZE, read_delay, NULL, "PURGE_DELAY"},
    {"opt.muzzy_decay_ms", KIND_SSIZE, read_number, NULL, "0"},
    {"background_thread", KIND_BOOL, read_option_is_on, set_background, "BACKGROUND"},
    {"opt.background_thread", KIND_BOOL, read_option_is_on, NULL, "BACKGROUND"},
    {"opt.narenas", KIND_U32, read_number, NULL, "1"},
    {"opt.percpu_arena", KIND_TEXT, read_text, NULL, "disabled"},
    {"opt.tcache_max", KIND_SIZE, read_number, NULL, "262144"},
    {"opt.retain", KIND_BOOL, read_number, NULL, "1"},
    {"opt.oversize_threshold", KIND_SIZE, read_number, NULL, "0"},
    {"opt.thp", KIND_TEXT, read_huge, NULL, "blocks"},
    {"opt.metadata_thp", KIND_TEXT, read_huge, NULL, "metadata"},
    {"opt.stats_print", KIND_BOOL, read_option_is_on, NULL, "STATS"},
    {"opt.prof", KIND_BOOL, read_option_is_on, NULL, "PROFILE"},
    {"opt.lg_prof_sample", KIND_SIZE, read_lg_sample, NULL, NULL},
    {"opt.prof_final", KIND_BOOL, read_has_file, NULL, "PROFILE"},
    {"opt.prof_leak", KIND_BOOL, read_option_is_on, NULL, "LEAKS"},
    {"opt.confirm_conf", KIND_BOOL, read_option_is_on, NULL, "VERBOSE"},
    {"opt.abort_conf", KIND_BOOL, read_number, NULL, "0"},
    {"opt.junk", KIND_TEXT, read_junk, NULL, NULL},
    {"prof.active", KIND_BOOL, read_active, set_active, NULL},
    {"prof.dump", KIND_TEXT, NULL, dump_profile, NULL},
    {"prof.lg_sample", KIND_SIZE, read_lg_sample, NULL, NULL},
    {"prof.reset", KIND_SIZE, NULL, reset_profile, NULL},
};

const row_t *values_row(size_t number) { return number < sizeof rows / sizeof rows[0] ? &rows[number] : NULL; }
