/* SPDX-License-Identifier: MIT */
#include "sample/image.h"

#include "base/bits.h"
#include "core/options.h"
#include "core/panic.h"
#include "core/print.h"
#include "sample/sampler.h"
#include "sample/tables.h"
#include "sys/sys.h"

#include <limits.h>
#include <string.h>

enum {
    SECTIONS = PROFILE_SECTIONS + 3, /* with the texts */
    OPTIONS_TEXT_MAX = 16384,
    OPTION_TEXT_MAX = 4096,
    MAPS_TEXT_MIN = 1 << 20,
    FIGURES_TEXT_MAX = 4096,
    COPY_TRIES = 8,
    WAIT_MS = 10000, /* for who reads a pipe */
};

/* --- Memory of an image ------------------------------------------------------------------------------------------- */

typedef struct piece {
    char *memory;
    size_t size, mapped;
} piece_t;

static bool piece_make(piece_t *piece, size_t mapped) {
    *piece = (piece_t){.mapped = hk_align_up(mapped, sys_page_size())};
    piece->memory = sys_map(piece->mapped);
    return piece->memory != NULL;
}

static void piece_drop(piece_t *piece) {
    if (piece->memory != NULL)
        (void)sys_unmap(piece->memory, piece->mapped);
    piece->memory = NULL;
}

/* In the order in which they are written. */
enum { TABLES, OPTIONS, FIGURES, MAPS, PIECE_COUNT };

typedef struct image {
    profile_header_t header;
    profile_section_t sections[SECTIONS];
    piece_t pieces[PIECE_COUNT];
} image_t;

static void add_section(image_t *image, uint32_t kind, uint32_t stride, uint64_t place, uint64_t bytes) {
    if (bytes > 0)
        image->sections[image->header.section_count++] = (profile_section_t){kind, stride, place, bytes};
}

/* --- Tables ------------------------------------------------------------------------------------------------------- */

static size_t tables_size_locked(void) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    size_t sum = 0;
    for (unsigned i = 0; i < PROFILE_SECTIONS; i++)
        sum += hk_align_up(hk_profile.sections[i].bytes, 8);
    return sum;
}

/* Places are from the start of the tables yet. */
static void copy_tables_locked(image_t *image) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    piece_t *tables = &image->pieces[TABLES];
    image->header = hk_profile.header;
    image->header.section_count = 0;
    for (unsigned i = 0; i < PROFILE_SECTIONS; i++) {
        const profile_section_t *from = &hk_profile.sections[i];
        if (from->bytes == 0)
            continue;
        memcpy(tables->memory + tables->size, (const void *)(uintptr_t)from->place, from->bytes);
        add_section(image, from->kind, from->stride, tables->size, from->bytes);
        tables->size += hk_align_up(from->bytes, 8);
    }
}

/* Memory is mapped without the lock, and may be too little by then. */
static int copy_tables(image_t *image) {
    for (unsigned tries = 0; tries < COPY_TRIES; tries++) {
        hk_lock(&hk_sample_lock);
        const size_t size = sample_settle_locked() ? tables_size_locked() : 0;
        hk_unlock(&hk_sample_lock);
        if (size == 0 || !piece_make(&image->pieces[TABLES], size + size / 4))
            return ENOMEM;
        hk_lock(&hk_sample_lock);
        const bool fits = sample_settle_locked() && tables_size_locked() <= image->pieces[TABLES].mapped;
        if (fits)
            copy_tables_locked(image);
        hk_unlock(&hk_sample_lock);
        if (fits)
            return 0;
        piece_drop(&image->pieces[TABLES]);
    }
    return ENOMEM;
}

/* --- Texts -------------------------------------------------------------------------------------------------------- */

static void write_options(piece_t *piece) {
    hk_out_t out;
    if (!piece_make(piece, OPTIONS_TEXT_MAX + OPTION_TEXT_MAX))
        return;
    char *value = piece->memory + OPTIONS_TEXT_MAX;
    hk_out_to_memory(&out, piece->memory, OPTIONS_TEXT_MAX);
    for (hk_option_t i = 0; i < HK_OPT_COUNT; i++)
        if (hk_option_get(hk_option_name(i), value, OPTION_TEXT_MAX) == 0)
            hk_print(&out, "%s=%s\n", hk_option_name(i), value);
    piece->size = hk_min(out.total, OPTIONS_TEXT_MAX - 1);
}

static void write_figures(piece_t *piece, image_figures_t *figures) {
    if (piece_make(piece, FIGURES_TEXT_MAX))
        piece->size = figures(piece->memory, FIGURES_TEXT_MAX);
}

/* False when it did not fit. None where files cannot be read. */
static bool read_maps(piece_t *maps) {
    long fd = sys_open_read("/proc/self/maps"), got = 0;
    if (fd < 0)
        return true;
    do {
        maps->size += (size_t)got;
        got = sys_read(fd, maps->memory + maps->size, maps->mapped - maps->size);
    } while (got > 0 && maps->size + (size_t)got < maps->mapped);
    sys_close_read(fd);
    return got <= 0;
}

static void copy_maps(piece_t *piece) {
    for (size_t size = MAPS_TEXT_MIN; piece_make(piece, size); size *= 4) {
        if (read_maps(piece))
            return;
        piece_drop(piece);
    }
}

/* --- The file ----------------------------------------------------------------------------------------------------- */

static int write_pieces(const image_t *image, int fd) {
    const size_t sections = image->header.section_count * sizeof(profile_section_t);
    int error = sys_write_whole(fd, &image->header, sizeof image->header, WAIT_MS);
    if (error == 0)
        error = sys_write_whole(fd, image->sections, sections, WAIT_MS);
    for (unsigned i = 0; i < PIECE_COUNT && error == 0; i++)
        error = sys_write_whole(fd, image->pieces[i].memory, image->pieces[i].size, WAIT_MS);
    return error;
}

static void lay_out(image_t *image) {
    static const uint32_t kinds[PIECE_COUNT] = {
        [OPTIONS] = PROFILE_OPTIONS, [FIGURES] = PROFILE_FIGURES, [MAPS] = PROFILE_MAPS};
    size_t place = image->pieces[TABLES].size;
    for (unsigned i = OPTIONS; i < PIECE_COUNT; place += image->pieces[i++].size)
        add_section(image, kinds[i], 1, place, image->pieces[i].size);
    const size_t before = sizeof image->header + image->header.section_count * sizeof(profile_section_t);
    for (unsigned i = 0; i < image->header.section_count; i++)
        image->sections[i].place += before;
    image->header.flags &= ~(uint32_t)PROFILE_IS_LIVE;
}

int image_write(int fd, image_figures_t *figures) {
    image_t image = {.header = {.section_count = 0}};
    if (!sample_was_ever_on())
        return ENOENT;
    int error = copy_tables(&image);
    if (error == 0) {
        write_options(&image.pieces[OPTIONS]);
        write_figures(&image.pieces[FIGURES], figures);
        copy_maps(&image.pieces[MAPS]);
        lay_out(&image);
        error = write_pieces(&image, fd);
    }
    for (unsigned i = 0; i < PIECE_COUNT; i++)
        piece_drop(&image.pieces[i]);
    return error;
}

static int write_new_file(const char *path, image_figures_t *figures) {
    char passing[PATH_MAX];
    hk_out_t out;
    hk_out_to_memory(&out, passing, sizeof passing);
    hk_print(&out, "%s.%u", path, sys_process_id_unless_confined());
    long fd = out.total < sizeof passing ? sys_open_new(passing) : -ENAMETOOLONG;
    if (fd < 0)
        return (int)-fd;
    int error = image_write((int)fd, figures);
    sys_close(fd);
    if (error == 0)
        error = sys_rename(passing, path);
    if (error != 0)
        sys_unlink(passing);
    return error;
}

int image_write_file(const char *path, image_figures_t *figures) {
    const long fd = sys_open_special(path);
    if (fd == -ENOENT)
        return write_new_file(path, figures);
    if (fd < 0)
        return (int)-fd;
    const int error = image_write((int)fd, figures);
    sys_close(fd);
    return error;
}
