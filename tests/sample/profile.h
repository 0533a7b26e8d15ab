/* SPDX-License-Identifier: MIT
 *
 * profile.h: a reader of heap profiles (docs/profile-format.md) for tests. Its memory is mapped: nothing here is in the
 * profile.
 */
#ifndef HAKMEM_TEST_PROFILE_H
#define HAKMEM_TEST_PROFILE_H

#include "testing.h"

#include "sample/format.h"

#include <sys/stat.h>

typedef struct profile_image {
    char *bytes;
    size_t size;
} profile_image_t;

/* Of this process, by hak_profile_write. */
static TEST_UNUSED profile_image_t profile_take(void) {
    int fd = memfd_create("profile", 0);
    struct stat status;
    int error = hak_profile_write(fd);
    if (error != 0)
        test_fail("hak_profile_write: error %d", error);
    CHECK_EQ(fstat(fd, &status), 0);
    profile_image_t image = {NULL, (size_t)status.st_size};
    image.bytes = mmap(NULL, image.size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(image.bytes != MAP_FAILED);
    CHECK(memcmp(image.bytes, PROFILE_MAGIC, sizeof PROFILE_MAGIC) == 0);
    close(fd);
    return image;
}

static TEST_UNUSED void profile_drop(profile_image_t *image) { munmap(image->bytes, image->size); }

static TEST_UNUSED const profile_header_t *profile_header(const profile_image_t *image) {
    return (const profile_header_t *)(const void *)image->bytes;
}

static TEST_UNUSED const profile_section_t *profile_section(const profile_image_t *image, unsigned i) {
    const profile_header_t *header = profile_header(image);
    return (const profile_section_t *)(const void *)(image->bytes + header->header_bytes + i * header->section_stride);
}

/* Entry `index` of a table, NULL behind its end. */
static TEST_UNUSED const void *profile_entry(const profile_image_t *image, profile_kind_t kind, uint64_t index) {
    for (unsigned i = 0; i < profile_header(image)->section_count; i++) {
        const profile_section_t *section = profile_section(image, i);
        if (section->kind != (uint32_t)kind)
            continue;
        if (section->place + section->bytes > image->size)
            test_fail("section %u of kind %u is beyond the end", i, section->kind);
        if (index < section->bytes / section->stride)
            return image->bytes + section->place + index * section->stride;
        index -= section->bytes / section->stride;
    }
    return NULL;
}

/* Of a function that is looked for in stacks, and of one that allocates behind it: none begins within 256 bytes of
 * another. */
#define PROFILE_SITE __attribute__((noinline, aligned(256)))

/* Whether a frame of the stack is in the first 256 bytes of a function. */
static TEST_UNUSED bool profile_stack_has(const profile_image_t *image, uint32_t stack, uintptr_t function) {
    while (stack != 0) {
        const profile_stack_t *node = (const profile_stack_t *)profile_entry(image, PROFILE_STACKS, stack);
        if (node == NULL)
            test_fail("stack %u is not in the image", stack);
        if (node->pc - function - 1 < 255)
            return true;
        stack = node->parent;
    }
    return false;
}

typedef struct profile_sums {
    double alloc_bytes, alloc_objects, live_bytes, live_objects, free_objects, peak_bytes;
    unsigned sites;
} profile_sums_t;

/* Of all stacks that the function is in; 0: of all. */
static TEST_UNUSED profile_sums_t profile_sums_of(const profile_image_t *image, uintptr_t function) {
    profile_sums_t sums = {0};
    const profile_site_t *site;
    const uint32_t epoch = profile_header(image)->peak_epoch;
    for (uint64_t i = 1; (site = (const profile_site_t *)profile_entry(image, PROFILE_SITES, i)) != NULL; i++) {
        if (function != 0 && !profile_stack_has(image, site->stack, function))
            continue;
        const double byte = 1 << PROFILE_BYTES_SHIFT, object = 1 << PROFILE_OBJECTS_SHIFT;
        sums.alloc_bytes += (double)site->alloc_bytes / byte;
        sums.alloc_objects += (double)site->alloc_objects / object;
        sums.live_bytes += (double)(int64_t)site->live_bytes / byte;
        sums.live_objects += (double)(int64_t)site->live_objects / object;
        sums.free_objects += (double)site->free_objects / object;
        sums.peak_bytes += (double)(site->peak_epoch == epoch ? site->peak_bytes : site->live_bytes) / byte;
        sums.sites++;
    }
    return sums;
}

/* How many sampled blocks there are. */
static TEST_UNUSED uint64_t profile_live_samples(const profile_image_t *image) {
    uint64_t count = 0;
    const profile_sample_t *sample;
    for (uint64_t i = 1; (sample = (const profile_sample_t *)profile_entry(image, PROFILE_SAMPLES, i)) != NULL; i++)
        count += sample->address != 0;
    return count;
}

#endif
