/* SPDX-License-Identifier: MIT
 *
 * A program that names no function of malloc's: only its library allocates. Linked with hakmem it runs on hakmem all
 * the same, which HAKMEM_VERBOSE=1 shows.
 */
#include <stdio.h>

int main(void) {
    FILE *file = fopen("/dev/null", "r");
    return file == NULL || fclose(file) != 0;
}
