/* SPDX-License-Identifier: MIT
 *
 * image.h: the profile as a file (docs/profile-format.md). The tables are copied under hk_sample_lock, so an image is
 * of one moment, and written without it.
 */
#pragma once

#include "base/base.h"

/* Text of the section PROFILE_FIGURES, at most `size` characters of which the last is a NUL. Returns how many there are
 * before that; 0: nothing is known. */
typedef size_t image_figures_t(char *text, size_t size);

/* To an open file or pipe. Returns 0 or an errno value, ENOENT when there never was a profile. Holds no lock of an
 * allocation. */
int image_write(int fd, image_figures_t *figures);

/* To a new file at `path`, which comes there whole or not at all; or to the device, pipe or link that is there. */
int image_write_file(const char *path, image_figures_t *figures);
