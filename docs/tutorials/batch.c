/* SPDX-License-Identifier: MIT
 *
 * batch.c: the program of docs/peak.md. It loads records, sorts a copy of them, and writes a summary. The copy
 * is gone at the end, and with it what made the peak.
 *
 *   batch          sorts a copy of all records
 *   batch index    sorts an index of them, a thirty-second of the memory
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORDS = 100000 };

typedef struct record {
    unsigned key;
    char text[252];
} record_t;

static record_t **load_records(void) {
    record_t **records = malloc(RECORDS * sizeof *records);
    for (unsigned i = 0; i < RECORDS; i++) {
        records[i] = calloc(1, sizeof **records);
        records[i]->key = i * 2654435761u;
    }
    return records;
}

static int by_key(const void *a, const void *b) {
    const unsigned first = ((const record_t *)a)->key, second = ((const record_t *)b)->key;
    return (first > second) - (first < second);
}

static int by_key_of(const void *a, const void *b) { return by_key(*(record_t *const *)a, *(record_t *const *)b); }

static unsigned sort_copy(record_t **records) {
    record_t *copy = malloc(RECORDS * sizeof *copy);
    for (unsigned i = 0; i < RECORDS; i++)
        copy[i] = *records[i];
    qsort(copy, RECORDS, sizeof *copy, by_key);
    const unsigned median = copy[RECORDS / 2].key;
    free(copy);
    return median;
}

static unsigned sort_index(record_t **records) {
    record_t **index = malloc(RECORDS * sizeof *index);
    memcpy(index, records, RECORDS * sizeof *index);
    qsort(index, RECORDS, sizeof *index, by_key_of);
    const unsigned median = index[RECORDS / 2]->key;
    free(index);
    return median;
}

int main(int count, char **words) {
    record_t **records = load_records();
    (void)words;
    printf("median %u\n", count > 1 ? sort_index(records) : sort_copy(records));
    for (unsigned i = 0; i < RECORDS; i++)
        free(records[i]);
    free(records);
    return 0;
}
