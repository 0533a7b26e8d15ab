/* SPDX-License-Identifier: MIT
 *
 * image.h: the profile as a file (docs/profile-format.md). The tables are copied under hk_sample_lock, so an image is
 * of one moment, and written without it.
 */
#ifndef HK_SAMPLE_IMAGE_H
#define HK_SAMPLE_IMAGE_H

#include "base/base.h"

/* To an open file or pipe. Returns 0 or an errno value, ENOENT when there never was a profile. Holds no lock of an
 * allocation. */
int image_write(int fd);

/* To a new file at `path`, which comes there whole or not at all; or to the device, pipe or link that is there. */
int image_write_file(const char *path);

#endif
