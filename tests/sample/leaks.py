#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""HAKMEM_LEAKS: what nothing points to is reported by stacks, with status 23 after all output; clean programs are silent.
Where HAKMEM_PROFILE writes at exit.

    leaks.py LIBRARY LEAKS-PROGRAM
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

LIBRARY, PROGRAM = sys.argv[1:3]
FRAME = r"hakmem:   from 0x[0-9a-f]+ \(\S+\+0x[0-9a-f]+\)\n"


def run(command, seconds=300, stdin=None, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")}
    environment.update({"LD_PRELOAD": LIBRARY}, **options)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, stdin=stdin)


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
done = run([PROGRAM, "heap"], HAKMEM_LEAKS="fail")
check("what a large block of a heap of the program's points to: clean", done.returncode == 3 and done.stderr == "", done)
UNKNOWN = "hakmem: leaks cannot be looked for: /proc/self/maps cannot be read, or memory is out\n"
for what in ("confined", "files"):
    for choice, status in (("report", 3), ("fail", 23)):
        done = run([PROGRAM, what], HAKMEM_LEAKS=choice)
        check(f"{what}: {choice}, what cannot be looked for is said", done.returncode == status
              and done.stdout == "output\n" and done.stderr == UNKNOWN, done)
done = run([PROGRAM, "reserve"], 30, HAKMEM_LEAKS="fail")
check("a reservation of 256 GiB is not read", done.returncode in (3, 77) and done.stderr == "", done)


def reader(seconds, **options):
    """A thread waits for standard input and has its lock. Whether the program ended, and what it said."""
    with subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE) as silent:
        try:
            return True, run([PROGRAM, "reader"], seconds, silent.stdout, **options)
        except subprocess.TimeoutExpired as late:
            said = [(text or b"").decode() for text in (late.stdout, late.stderr)]
            return False, subprocess.CompletedProcess(late.cmd, 23, *said)
        finally:
            silent.kill()


# The exit of glibc 2.41 and of musl waits for that lock with any malloc; the report comes before. Others end after a second.
ends, _ = reader(10, LD_PRELOAD="")
ended, done = reader(30 if ends else 10, HAKMEM_LEAKS="fail")
check("another thread waits for input, and time passes", ended == ends and done.returncode == 23
      and done.stdout == "output\n"
      and re.search("leak: 5000 bytes in 5 blocks, allocated [1-9] to [1-9] s ago", done.stderr), done)

with tempfile.TemporaryDirectory() as folder:
    file, link = os.path.join(folder, "file"), os.path.join(folder, "link")
    os.symlink(file, link)
    for name in (file, link):
        done = run([PROGRAM, "keep"], HAKMEM_PROFILE=f"1,out={name}")
        with open(file, "rb") as written:
            check(f"a profile by the name of a {os.path.basename(name)}", done.returncode == 3
                  and written.read(14) == b"hakmem-profile", done)
        os.remove(file)
    check("a link stays one", os.path.islink(link), done)
    # The profile is written by a passing name, which somebody else may have guessed.
    done = run(["bash", "-c", 'mkfifo "$1.$$" && exec "$0" keep', PROGRAM, file], 60, HAKMEM_PROFILE=f"1,out={file}")
    with open(file, "rb") as written:
        check("a profile whose passing name was a pipe", done.returncode == 3 and written.read(14) == b"hakmem-profile", done)
    check("no passing name is left", sorted(os.listdir(folder)) == ["file", "link"], done)

# Python as it is: with PYTHONMALLOC=malloc 3.13 leaves its interned strings, and other checkers say so too.
for command in (["python3", "-c", "import json; print(json.dumps({1: 2}))"], ["git", "--version"], ["bash", "-c", "echo $((1 + 2))"]):
    if shutil.which(command[0]) is None:
        continue
    done = run(command, HAKMEM_LEAKS="fail")
    check(f"{command[0]}: clean", done.returncode == 0 and done.stderr == "" and done.stdout != "", done)
