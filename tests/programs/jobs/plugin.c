/* SPDX-License-Identifier: MIT
 *
 * A library that brings libhakmem.a along, and (with HOST) a program that opens it: what one side allocates the other
 * frees.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 20000, LARGEST = 5000 };

#ifndef HOST

void *plugin_make(size_t size, int with);
void plugin_drop(void *block);

void *plugin_make(size_t size, int with) { return memset(malloc(size), with, size); }
void plugin_drop(void *block) { free(block); }

#else

int main(int count, char **arguments) {
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    void *(*make)(size_t, int);
    void (*drop)(void *);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&make = dlsym(library, "plugin_make");
    *(void **)&drop = dlsym(library, "plugin_drop");
    unsigned long sum = 0;
    for (unsigned i = 1; i <= ROUNDS; i++) {
        size_t size = 1 + i * 7919u % LARGEST;
        unsigned char *theirs = make(size, (int)(i % 250)), *ours = memset(malloc(size), (int)(i % 240), size);
        theirs = realloc(theirs, 2 * size);
        sum += theirs[size - 1] + ours[size - 1];
        free(theirs);
        drop(ours);
    }
    printf("sum %lu\n", sum);
    return 0;
}

#endif
