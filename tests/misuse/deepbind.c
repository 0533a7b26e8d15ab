/* SPDX-License-Identifier: MIT
 *
 * Blocks cross over between a program and a plug-in (plugin.c, argument 1) that was opened with RTLD_DEEPBIND, as PHP
 * opens its extensions: both have the same malloc. A library that the plug-in opens (argument 2, a name without a
 * slash) is found by the plug-in's search path.
 */
#include "testing.h"

static void find(void *plugin, const char *name, void *function) {
    void *address = dlsym(plugin, name);
    CHECK_SAY(address != NULL, "%s", name);
    memcpy(function, &address, sizeof address);
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(60);
    CHECK(argc == 3);
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
    if (plugin == NULL)
        test_fail("failed: %s\n", dlerror());
    void (*plugin_free)(void *);
    void *(*plugin_malloc)(size_t);
    char *(*plugin_duplicate)(const char *);
    void *(*plugin_open)(const char *);
    find(plugin, "plugin_free", &plugin_free);
    find(plugin, "plugin_malloc", &plugin_malloc);
    find(plugin, "plugin_duplicate", &plugin_duplicate);
    find(plugin, "plugin_open", &plugin_open);
    for (size_t size = 1; size < 16 * TEST_MIB; size += 1 + size / 3) {
        plugin_free(test_opaque(malloc(size)));
        void *block = plugin_malloc(size);
        CHECK(malloc_usable_size(block) >= size);
        free(realloc(block, 2 * size));
    }
    free(plugin_duplicate("text"));
    CHECK(dlopen(argv[2], RTLD_NOW) == NULL);
    void *needed = plugin_open(argv[2]);
    if (needed == NULL)
        test_fail("failed: %s\n", dlerror());
    CHECK(dlsym(needed, "plugin_needed") != NULL);
    hak_stats_t *stats = (hak_stats_t *)test_pages(sizeof *stats);
    if (test_stats(stats) == 0)
        CHECK_SAY(stats->foreign_forwards == 0, "%llu forwards", (unsigned long long)stats->foreign_forwards);
    CHECK_HEAP();
    return TEST_PASS;
}
