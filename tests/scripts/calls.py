#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""scripts/check-calls finds a call upward, a circle and a missing header, seeded into a copy of src/, and nothing without them.

    calls.py SOURCE_DIRECTORY
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile


def check(source, root, *arguments):
    command = [source / "scripts/check-calls", "--root", root, *arguments]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return run.returncode, run.stdout


def append(path, text):
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


def call_upward(src):
    append(src / "slab/slab.c", "\nvoid fork_return(void);\nvoid seeded(void);\nvoid seeded(void) { fork_return(); }\n")


def circle(src):
    append(src / "map/meta.c", "\nvoid map_seeded(void);\nvoid meta_seeded(void);\nvoid meta_seeded(void) { map_seeded(); }\n")
    append(src / "map/map.c", "\nvoid map_seeded(void);\nvoid meta_seeded(void);\nvoid map_seeded(void) { meta_seeded(); }\n")


def no_header(src):
    (src / "slab/seeded.c").write_text("int seeded_apart;\n")
    append(src / "slab/slab.c", "\nextern int seeded_apart;\nint *slab_seeded(void);\nint *slab_seeded(void) { return &seeded_apart; }\n")


SEEDS = [
    (call_upward, "uses fork_return, of start/, which is above"),
    (circle, "in a circle of 2 files"),
    (no_header, "src/slab/seeded.c:1: has no header of its own"),
]


def main():
    source = pathlib.Path(sys.argv[1])
    problems = []
    code, text = check(source, source)
    if code != 0:
        problems.append("as it is: " + text)
    if check(source, source, "--attic")[0] != 2:
        problems.append("an option that does not exist is not refused")
    with tempfile.TemporaryDirectory() as copy:
        for name in ("src", "include"):
            shutil.copytree(source / name, pathlib.Path(copy) / name)
        for seed, _ in SEEDS:
            seed(pathlib.Path(copy) / "src")
        code, text = check(source, copy)
        for seed, expected in SEEDS:
            if code != 1 or expected not in text:
                problems.append("%s: not found in: %s" % (seed.__name__, text))
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
