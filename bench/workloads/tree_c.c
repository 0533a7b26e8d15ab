// SPDX-License-Identifier: MIT
// tree_c DEPTH ROUNDS: binary trees. A long-lived tree of DEPTH stays; every round builds, walks and frees a
// short-lived one of DEPTH - 4 and replaces one sub-tree of the long-lived one. One operation is a node made and freed.
#include "common.h"

typedef struct node {
    struct node *left, *right;
    size_t value;
} node;

static node *build(size_t depth) {
    node *n = bench_malloc(sizeof *n);
    n->value = depth;
    n->left = depth ? build(depth - 1) : NULL;
    n->right = depth ? build(depth - 1) : NULL;
    return n;
}

static size_t walk(const node *n) { return n ? n->value + walk(n->left) + walk(n->right) : 0; }

static void drop(node *n) {
    if (!n)
        return;
    drop(n->left);
    drop(n->right);
    free(n);
}

static void replace_subtree(node *root, size_t depth, size_t path) {
    node *n = root;
    for (size_t level = 0; level < 3; level++)
        n = (path >> level) & 1 ? n->left : n->right;
    drop(n->left);
    n->left = build(depth - 4);
}

int main(int argc, char **argv) {
    size_t depth = bench_arg(argc, argv, 1, 18);
    size_t rounds = bench_arg(argc, argv, 2, 100);
    bench_begin();
    uint64_t begin = bench_now_ns();
    node *root = build(depth);
    size_t sum = 0;
    for (size_t r = 0; r < rounds; r++) {
        node *brief = build(depth - 4);
        sum += walk(brief);
        drop(brief);
        replace_subtree(root, depth, r);
    }
    drop(root);
    uint64_t elapsed = bench_now_ns() - begin;
    bench_keep(&sum);
    double nodes = (double)((size_t)2 << depth) + (double)rounds * 2 * (double)((size_t)2 << (depth - 4));
    bench_result(nodes, elapsed);
    return 0;
}
