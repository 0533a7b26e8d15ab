#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a program gets under a few MiB of RLIMIT_AS, against what the C library's malloc gets there.

    small.py LIBRARY SMALL_PROGRAM

The limit counts the library itself too, some 400 KiB of it, so the room is measured by the C library: the limits are so
much above what its malloc needs to give nothing. It takes memory by 132 KiB, hakmem by slots of 64 KiB, and what is
left over below that depends on the size of the system's libraries: a figure is the mean of four limits, 32 KiB apart.
"""

import os
import statistics
import subprocess
import sys

# What the C library gives, about, and the share of it that must be had.
SIZES = (200, 1000, 5000, 40000)
ROOMS = ((1000, 50), (1700, 50), (2700, 75), (4700, 75), (8000, 75))
STEP_KIB, APART_KIB, LIMITS = 64, 32, 4
# Above this size half of a slab of 64 KiB is left over in the mean; and 32 KiB for code to come.
SMALL_MAX, LOST_KIB = 1000, 32 + 32


def measure(program, limit, size, library):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_") and k != "LD_PRELOAD"}
    if library:
        environment["LD_PRELOAD"] = library
    run = subprocess.run([program, str(limit), str(size)], env=environment, capture_output=True, check=False)
    return [int(word) for word in run.stdout.split()] if run.returncode == 0 else [0, 0]


def mean(program, limit, size, library):
    figures = [measure(program, limit + i * APART_KIB, size, library) for i in range(LIMITS)]
    return [round(statistics.mean(column)) for column in zip(*figures)]


def check(program, library, size):
    right_all = True
    limit = 1024
    for room, share in ROOMS:
        while measure(program, limit, size, None)[0] < room:
            limit += STEP_KIB
        libc = mean(program, limit, size, None)[0]
        first, second = mean(program, limit, size, library)
        least = libc * share // 100 - (LOST_KIB if size > SMALL_MAX else 0)
        right = first >= least and second * 10 >= first * 9
        right_all &= right
        verdict = "ok" if right else "TOO LITTLE"
        print(f"{limit:6} KiB in blocks of {size}: libc {libc:6} KiB, hakmem {first:6} KiB, then {second:6} KiB, "
              f"at least {least} KiB: {verdict}")
    return right_all


def main():
    library, program = sys.argv[1:3]
    return 0 if all([check(program, library, size) for size in SIZES]) else 1


if __name__ == "__main__":
    sys.exit(main())
