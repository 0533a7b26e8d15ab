#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The memory floor: what a program that allocates little may cost, compared with the C library's malloc.

    floor.py LIBRARY FLOOR_PROGRAM

Each figure is the smallest of seven runs: what is resident by chance (pages of files that a neighbour has just read)
only ever adds.
"""

import os
import subprocess
import sys

RUNS = 7
ONE_MORE_KIB = 300 * 1000 // 1024
SIZES_KIB = 2000 * 1000 // 1024
THREADS_KIB = 9000 * 1000 // 1024


def measure(program, what, library):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_") and k != "LD_PRELOAD"}
    if library:
        environment["LD_PRELOAD"] = library
    runs = [subprocess.run([program, what], env=environment, capture_output=True, check=True) for _ in range(RUNS)]
    return min(int(run.stdout) for run in runs)


def main():
    library, program = sys.argv[1:3]
    failed = False
    for what, title in (
        ("one", "one allocation"),
        ("sizes", "32 blocks of 32 sizes"),
        ("threads", "32 threads with 100 blocks"),
    ):
        libc, ours = measure(program, what, None), measure(program, what, library)
        limit = {"one": libc + ONE_MORE_KIB, "sizes": SIZES_KIB, "threads": THREADS_KIB}[what]
        verdict = "ok" if ours <= limit else "TOO MUCH"
        failed |= ours > limit
        print(f"{title:28} libc {libc:6} KiB  hakmem {ours:6} KiB  limit {limit:6} KiB  {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
