#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a conformance program on the C library's malloc and on hakmem and compares the answers line by line.

    compare.py LIBRARY PROGRAM

Lines that begin with `~` may differ in what they say, but must be there in the same number and order.
"""

import difflib
import os
import subprocess
import sys


def answers(program, library):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_") and k != "LD_PRELOAD"}
    if library:
        environment["LD_PRELOAD"] = library
    done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=1200)
    where = "hakmem" if library else "the C library's malloc"
    if done.returncode == 77:
        print(done.stdout, end="")
        sys.exit(77)
    if done.returncode != 0 or done.stderr:
        print(f"on {where}: status {done.returncode}, stderr {done.stderr[-2000:]!r}, last answers:")
        print(done.stdout[-500:])
        sys.exit(1)
    return ["~" if line.startswith("~") else line for line in done.stdout.splitlines()]


def main():
    library, program = sys.argv[1:3]
    theirs, ours = answers(program, None), answers(program, library)
    wrong = [line for line in difflib.unified_diff(theirs, ours, "libc", "hakmem", lineterm="", n=0) if line[0] != "@"]
    print("\n".join(wrong[:80]))
    print(f"{len(theirs)} answers, {len(wrong)} lines of difference")
    return 1 if wrong or len(theirs) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
