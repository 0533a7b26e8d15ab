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
ROOMS = ((1000, 50), (1700, 50), (2700, 75), (4700, 75), (8000, 75))
STEP_KIB = 64


def measure(program, limit, library):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_") and k != "LD_PRELOAD"}
    if library:
        environment["LD_PRELOAD"] = library
    run = subprocess.run([program, str(limit)], env=environment, capture_output=True, check=False)
    return [int(word) for word in run.stdout.split()] if run.returncode == 0 else [0, 0]


def main():
    library, program = sys.argv[1:3]
    failed = False
    limit = 1024
    for room, share in ROOMS:
        while (libc := measure(program, limit, None)[0]) < room:
            limit += STEP_KIB
        first, second = measure(program, limit, library)
        right = first * 100 >= libc * share and second * 10 >= first * 9
        failed |= not right
        verdict = "ok" if right else "TOO LITTLE"
        print(f"{limit:6} KiB: libc {libc:6} KiB, hakmem {first:6} KiB, then {second:6} KiB, at least {share} %: {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
