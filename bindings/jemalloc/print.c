/* SPDX-License-Identifier: MIT
 *
 * print.c: hakmem's statistics where jemalloc's would be written: its text, or its JSON with a J in the options.
 */
#include "names.h"

#include <string.h>
#include <unistd.h>

NAMES_EXPORT void (*malloc_message)(void *context, const char *text);

static void to_stderr(void *context, const char *text) {
    (void)context;
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

NAMES_EXPORT void malloc_stats_print(void (*write_text)(void *context, const char *text), void *context,
                                     const char *options) {
    enum { ROOM = 4096 }; /* for what is counted meanwhile */
    hak_format_t format = options != NULL && strchr(options, 'J') != NULL ? HAK_FORMAT_JSON : HAK_FORMAT_TEXT;
    if (write_text == NULL)
        write_text = malloc_message != NULL ? malloc_message : to_stderr;
    size_t size = hak_stats_format(NULL, 0, format) + ROOM;
    char *text = hak_malloc(size);
    if (text == NULL)
        return;
    (void)hak_stats_format(text, size, format);
    write_text(context, text);
    hak_free(text);
}
