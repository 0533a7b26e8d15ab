#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The memory floor: what a program that allocates little costs more than with the C library's malloc.

    floor.py LIBRARY FLOOR_PROGRAM

What is counted is exact (floor.c): no page of a file that is mapped because a neighbour has just read it. Stack and
records lie at random places, so that they take one page or two: the least of some runs counts.
"""

import os
import subprocess
import sys

# Code and constants, which processes share: 304 KiB with gcc 12, a page more with gcc 14.
LIBRARY_KIB = 308
RUNS = 15
# What a process has of its own.
ONE_KIB = 81
# A size that was never asked for before takes a page of a slab and one of what is known about it.
SIZES_KIB = ONE_KIB + 32 * 8
# A thread's 100 blocks are of 37 classes, each with pages of its own: 53, where libc puts the 101 KiB side by side. And
# a heap.
THREADS_KIB = ONE_KIB + 32 * (53 * 4 - 101 + 12)


def measure(program, what, library):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_") and k != "LD_PRELOAD"}
    if library:
        environment["LD_PRELOAD"] = library
    runs = (subprocess.run([program, what], env=environment, capture_output=True, check=True) for _ in range(RUNS))
    return min([int(word) for word in run.stdout.split()] for run in runs)


def main():
    library, program = sys.argv[1:3]
    failed = False
    for what, title, limit in (
        ("one", "one allocation", ONE_KIB),
        ("sizes", "32 blocks of 32 sizes", SIZES_KIB),
        ("threads", "32 threads with 100 blocks", THREADS_KIB),
    ):
        (libc, _), (ours, shared) = measure(program, what, None), measure(program, what, library)
        too_much = ours - libc > limit or not 0 < shared <= LIBRARY_KIB
        failed |= too_much
        print(f"{title:28} libc {libc:6} KiB  hakmem {ours:6} KiB  at most {limit:6} KiB more, "
              f"library {shared} KiB of {LIBRARY_KIB}: {'TOO MUCH' if too_much else 'ok'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
