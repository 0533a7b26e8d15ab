/* SPDX-License-Identifier: MIT
 *
 * What malloc answers is hakmem's. */
#include <hakmem.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    char *block = malloc(100);
    const bool is_ours = hak_owns(block);
    printf("%s: malloc is %s\n", hak_build_info(), is_ours ? "hakmem's" : "another's");
    free(block);
    return is_ours ? 0 : 1;
}
