#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs programs that call jemalloc by its own names.

    names.py LIBRARY NAMES_LIBRARY LOOKS_FOR_JEMALLOC [LINKED_WITH_JEMALLOC]

The last prints the same on jemalloc and on hakmem with its names preloaded, and says NO nowhere; the other finds jemalloc only where the
names are. The names without hakmem's malloc are refused.
"""

import difflib
import os
import subprocess
import sys

LIBRARY, NAMES, LOOKS = (os.path.abspath(path) for path in sys.argv[1:4])
BOTH = f"{LIBRARY} {NAMES}"
problems = []


def expect(what, holds):
    if not holds:
        problems.append(what)


def run(program, preload=None, **variables):
    environment = dict(os.environ, **variables)
    environment.pop("LD_PRELOAD", None)
    if preload:
        environment["LD_PRELOAD"] = preload
    return subprocess.run([program], env=environment, capture_output=True, text=True, timeout=600, check=False)


def looking():
    for preload, found in ((None, "no jemalloc\n"), (LIBRARY, "no jemalloc\n"), (BOTH, "jemalloc\n"), (f"{NAMES} {LIBRARY}", "jemalloc\n")):
        got = run(LOOKS, preload)
        expect(f"under {preload}: {got}", got.returncode == 0 and got.stdout == found and got.stderr == "")
    alone = run(LOOKS, NAMES)
    expect(f"without hakmem's malloc: {alone}", alone.returncode == 127 and "needs libhakmem.so in front of it" in alone.stderr)


def linked(program):
    theirs = run(program)
    expect(f"on jemalloc: {theirs}", theirs.returncode == 0 and "NO" not in theirs.stdout)
    for level in "1", "2", "3":
        ours = run(program, BOTH, HAKMEM_SAFE=level)
        expect(f"level {level}: {ours.returncode} {ours.stderr}", ours.returncode == 0 and ours.stderr == "")
        expect("\n".join(difflib.unified_diff(theirs.stdout.splitlines(), ours.stdout.splitlines(), "jemalloc", f"hakmem at level {level}", lineterm="")),
               theirs.stdout == ours.stdout)
    told = run(program, BOTH, HAKMEM_VERBOSE="1").stderr
    expect(f"what is unknown is named once: {told}", told.count("hakmem: mallctl: no ") == 1 and "hakmem 0." in told)
    print(f"{len(theirs.stdout.splitlines())} lines are the same on jemalloc and on hakmem")


def main():
    looking()
    if len(sys.argv) > 4:
        linked(os.path.abspath(sys.argv[4]))
    print("\n".join(problems + [f"{len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
