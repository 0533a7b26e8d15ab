/* SPDX-License-Identifier: MIT
 *
 * A plug-in that the program opens with RTLD_DEEPBIND. Its malloc is the program's all the same, and what it opens
 * itself is looked for where its own search path says (plugin_needed.c, which lies in no other).
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

char *plugin_duplicate(const char *text);
void plugin_free(void *block);
void *plugin_malloc(size_t size);
void *plugin_open(const char *name);

char *plugin_duplicate(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    return copy == NULL ? NULL : strcpy(copy, text);
}

void plugin_free(void *block) { free(block); }

void *plugin_malloc(size_t size) { return malloc(size); }

/* Not by a jump: the loader goes by where it was called from. */
void *plugin_open(const char *name) {
    void *volatile library = dlopen(name, RTLD_NOW | RTLD_DEEPBIND);
    return library;
}
