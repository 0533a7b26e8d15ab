/* SPDX-License-Identifier: MIT
 *
 * A long block that grows by little gets room for more; where there is none, it grows all the same.
 */
#include "testing.h"

enum { SIZE = 9216, NEXT = 10240, MOST = 1 << 20 };

static void *all[MOST];

int main(void) {
    char *blocks[64];
    for (unsigned i = 0; i < 64; i++)
        CHECK((blocks[i] = malloc(SIZE)) != NULL);
    memset(blocks[40], 1, SIZE);
    unsigned count = 0;
    while (count < MOST && (all[count] = test_opaque(malloc(NEXT))) != NULL)
        count++;
    CHECK(count > 1000 && count < MOST);
    free(all[--count]);
    free(all[count / 2]);
    char *grown = realloc(blocks[40], SIZE + 1);
    CHECK(grown != NULL && grown[0] == 1 && grown[SIZE - 1] == 1);
    return 0;
}
