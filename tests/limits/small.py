#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a program gets under a few MiB of RLIMIT_AS, against what the C library's malloc gets there.

    small.py LIBRARY SMALL_PROGRAM

The limit counts the library itself too, some 400 KiB of it, so the room is measured by the C library: the limits are so much above what
its malloc needs to give nothing.
"""

import os
import subprocess
import sys

# What the C library gives, about, and the share of it that must be had.
SIZES = (200, 1000, 5000, 40000)
ROOMS = ((1000, 50), (1700, 50), (2700, 75), (4700, 75), (8000, 75))
STEP_KIB = 64
# Above this size the last slab is one of 64 KiB that does not fit any more; and 32 KiB for code to come.
SMALL_MAX, LOST_KIB = 1000, 64 + 32


def measure(program, limit, size, library):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_") and k != "LD_PRELOAD"}
    if library:
        environment["LD_PRELOAD"] = library
    run = subprocess.run([program, str(limit), str(size)], env=environment, capture_output=True, check=False)
    return [int(word) for word in run.stdout.split()] if run.returncode == 0 else [0, 0]


def check(program, library, size):
    right_all = True
    limit = 1024
    for room, share in ROOMS:
        while (libc := measure(program, limit, size, None)[0]) < room:
            limit += STEP_KIB
        first, second = measure(program, limit, size, library)
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
