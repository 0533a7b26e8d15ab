/* SPDX-License-Identifier: MIT
 *
 * A plug-in that is opened with RTLD_DEEPBIND: its malloc is the C library's, whatever the program runs on.
 */
#include <stdlib.h>
#include <string.h>

char *plugin_duplicate(const char *text);
void *plugin_malloc(size_t size);
void *plugin_aligned(size_t alignment, size_t size);

char *plugin_duplicate(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    return copy == NULL ? NULL : strcpy(copy, text);
}

void *plugin_malloc(size_t size) { return malloc(size); }

void *plugin_aligned(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }
