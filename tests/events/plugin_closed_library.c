/* SPDX-License-Identifier: MIT
 *
 * A plug-in with an allocator of its own: libhakmem.a.
 */
#include "hakmem.h"

#include <stddef.h>
#include <string.h>

void plugin_work(void);

/* Enough for a helper thread: most of it is given back half a second later. */
void plugin_work(void) {
    enum { BLOCKS = 200 };
    static const size_t size = 100000;
    void *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = hak_malloc(size);
        if (blocks[i] == NULL)
            return;
        memset(blocks[i], 1, size);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
}
