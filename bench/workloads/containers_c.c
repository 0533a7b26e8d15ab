// SPDX-License-Identifier: MIT
// containers_c ROUNDS SEED: the containers that C programs write for themselves: growing vectors, a linked list of
// strings, a chained hash map that grows, and a queue. Each is filled, thinned out and freed. One operation is one
// element inserted.
#include "common.h"

enum { ELEMENTS = 2000, VECTORS = 64, FIRST_BUCKETS = 16 };

typedef struct node {
    struct node *next;
    uint32_t key;
    char *text;
} node;

static void *must(void *block) {
    if (!block)
        bench_fail("out of memory");
    return block;
}

static node *make_node(node *next, uint32_t key, size_t length) {
    node *made = must(malloc(sizeof *made));
    *made = (node){next, key, must(malloc(length + 1))};
    memset(made->text, 't', length);
    made->text[length] = 0;
    return made;
}

static node *free_node(node *old) {
    node *next = old->next;
    free(old->text);
    free(old);
    return next;
}

static void churn_vectors(bench_rng *rng) {
    struct {
        uint32_t *item;
        size_t count, capacity;
    } vector[VECTORS] = {0};
    for (size_t i = 0; i < ELEMENTS; i++) {
        size_t at = bench_rng_below(rng, VECTORS);
        if (vector[at].count == vector[at].capacity) {
            vector[at].capacity = vector[at].capacity ? vector[at].capacity * 2 : 1;
            vector[at].item = must(realloc(vector[at].item, vector[at].capacity * sizeof(uint32_t)));
        }
        vector[at].item[vector[at].count++] = bench_rng_next(rng);
    }
    for (size_t i = 0; i < VECTORS; i++)
        free(vector[i].item);
}

static void churn_list(bench_rng *rng) {
    node *head = NULL;
    for (size_t i = 0; i < ELEMENTS; i++)
        head = make_node(head, (uint32_t)i, bench_rng_range(rng, 1, 48));
    for (node **at = &head; *at;) {
        if ((*at)->key % 2)
            *at = free_node(*at);
        else
            at = &(*at)->next;
    }
    while (head)
        head = free_node(head);
}

static void grow_map(node ***buckets, size_t *count) {
    node **grown = must(calloc(*count * 2, sizeof *grown));
    for (size_t i = 0; i < *count; i++) {
        for (node *each = (*buckets)[i], *next; each; each = next) {
            next = each->next;
            each->next = grown[each->key % (*count * 2)];
            grown[each->key % (*count * 2)] = each;
        }
    }
    free(*buckets);
    *buckets = grown;
    *count *= 2;
}

static void churn_map(bench_rng *rng) {
    size_t count = FIRST_BUCKETS;
    node **buckets = must(calloc(count, sizeof *buckets));
    for (size_t i = 0; i < ELEMENTS; i++) {
        if (i == count)
            grow_map(&buckets, &count);
        uint32_t key = bench_rng_next(rng);
        buckets[key % count] = make_node(buckets[key % count], key, key % 200);
    }
    for (size_t i = 0; i < count; i++)
        while (buckets[i])
            buckets[i] = free_node(buckets[i]);
    free(buckets);
}

static void churn_queue(bench_rng *rng) {
    node *first = NULL, **last = &first;
    for (size_t i = 0; i < ELEMENTS; i++) {
        *last = make_node(NULL, (uint32_t)i, bench_rng_range(rng, 1, 64));
        last = &(*last)->next;
        if (i % 3 == 2)
            first = free_node(first);
    }
    while (first)
        first = free_node(first);
}

int main(int argc, char **argv) {
    size_t rounds = bench_arg(argc, argv, 1, 500);
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 2, 42));
    bench_begin();
    uint64_t begin = bench_now_ns();
    for (size_t r = 0; r < rounds; r++) {
        churn_vectors(&rng);
        churn_list(&rng);
        churn_map(&rng);
        churn_queue(&rng);
    }
    bench_result((double)(rounds * 4 * ELEMENTS), bench_now_ns() - begin);
    return 0;
}
