# SPDX-License-Identifier: MIT
# A Python job of the benchmark suite: JSON there and back, sorting of strings, and many small objects with references to
# each other. Run with PYTHONMALLOC=malloc, so that every object comes from the allocator under test.
import json
import random


class Node:
    def __init__(self, name, parent):
        self.name = name
        self.parent = parent
        self.children = []
        self.tags = {"depth": parent.tags["depth"] + 1 if parent else 0}


def json_round_trip(rng):
    records = [{"id": i, "name": f"user{i}", "scores": [rng.random() for _ in range(8)]} for i in range(6000)]
    for _ in range(4):
        records = json.loads(json.dumps(records))
    return len(records)


def sort_strings(rng):
    words = ["".join(rng.choices("abcdefgh", k=12)) for _ in range(45000)]
    words.sort()
    return len(set(words))


def grow_tree(rng):
    nodes = [Node("root", None)]
    for i in range(75000):
        parent = nodes[rng.randrange(len(nodes))]
        child = Node(f"node{i}", parent)
        parent.children.append(child)
        nodes.append(child)
    return max(node.tags["depth"] for node in nodes)


def main():
    rng = random.Random(42)
    print(json_round_trip(rng), sort_strings(rng), grow_tree(rng))


main()
