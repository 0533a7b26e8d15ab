#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""HAKMEM_LEAKS: what nothing points to is reported by stacks, with status 23 after all output; clean programs are silent.

    leaks.py LIBRARY LEAKS-PROGRAM
"""

import os
import re
import shutil
import subprocess
import sys

LIBRARY, PROGRAM = sys.argv[1:3]
FRAME = r"hakmem:   from 0x[0-9a-f]+ \(\S+\+0x[0-9a-f]+\)\n"


def run(command, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")}
    environment.update({"LD_PRELOAD": LIBRARY}, **options)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def check(what, holds, done):
    if not holds:
        sys.exit(f"{what}: status {done.returncode}\n{done.stdout}{done.stderr}")
    print("ok   ", what)


for level in ("1", "2", "3"):
    done = run([PROGRAM, "lose"], HAKMEM_LEAKS="fail", HAKMEM_SAFE=level)
    lost = [rf"hakmem: leak: {bytes} bytes in {blocks} blocks, allocated \d+ to \d+ s ago\n(?:{FRAME})+"
            for bytes, blocks in ((5000, 5), (48, 1), (48, 1))]
    check(f"lost blocks, a lost cycle, level {level}", done.returncode == 23 and done.stdout == "output\n"
          and re.fullmatch("".join(lost), done.stderr), done)
done = run([PROGRAM, "lose"], HAKMEM_LEAKS="report")
check("reported only", done.returncode == 3 and "leak: 5000 bytes" in done.stderr, done)
done = run([PROGRAM, "keep"], HAKMEM_LEAKS="fail")
check("a list, a buffer of stdio, thread-local storage: clean", done.returncode == 3 and done.stderr == "", done)
done = run([PROGRAM, "keep"], HAKMEM_LEAKS="fail", HAKMEM_PROFILE="256")
check("clean by sampling", done.returncode == 3 and done.stderr == "", done)
# Python as it is: with PYTHONMALLOC=malloc 3.13 leaves its interned strings, and other checkers say so too.
for command in (["python3", "-c", "import json; print(json.dumps({1: 2}))"], ["git", "--version"], ["bash", "-c", "echo $((1 + 2))"]):
    if shutil.which(command[0]) is None:
        continue
    done = run(command, HAKMEM_LEAKS="fail")
    check(f"{command[0]}: clean", done.returncode == 0 and done.stderr == "" and done.stdout != "", done)
