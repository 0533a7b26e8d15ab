# SPDX-License-Identifier: MIT
# A Python job of the benchmark suite: JSON there and back, sorting of strings, and many small objects with references to
# each other. With PYTHONMALLOC=malloc every object comes from the allocator under test.
# usage: job.py [THREADS SHARE]: so many threads, each with a SHARE-th of the work
import json
import random
import sys
import threading

from rest import rest


class Node:
    def __init__(self, name, parent):
        self.name = name
        self.parent = parent
        self.children = []
        self.tags = {"depth": parent.tags["depth"] + 1 if parent else 0}


def json_round_trip(rng, share):
    records = [{"id": i, "name": f"user{i}", "scores": [rng.random() for _ in range(8)]} for i in range(6000 // share)]
    for _ in range(4):
        records = json.loads(json.dumps(records))
    return len(records)


def sort_strings(rng, share):
    words = ["".join(rng.choices("abcdefgh", k=12)) for _ in range(45000 // share)]
    words.sort()
    return len(set(words))


def grow_tree(rng, share):
    nodes = [Node("root", None)]
    for i in range(75000 // share):
        parent = nodes[rng.randrange(len(nodes))]
        child = Node(f"node{i}", parent)
        parent.children.append(child)
        nodes.append(child)
    return max(node.tags["depth"] for node in nodes)


def work(seed, share):
    rng = random.Random(seed)
    print(json_round_trip(rng, share), sort_strings(rng, share), grow_tree(rng, share))


def main():
    count, share = map(int, sys.argv[1:]) if len(sys.argv) > 1 else (1, 1)
    threads = [threading.Thread(target=work, args=(43 + i, share)) for i in range(count - 1)]
    for thread in threads:
        thread.start()
    work(42, share)
    for thread in threads:
        thread.join()


main()
rest()
