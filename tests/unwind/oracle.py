#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The stacks of samples are those that gdb finds, frame by frame: nearly all, in a program as distributions or compilers make them.

    oracle.py LIBRARY NAME

gdb stops the program at each sample (in_gdb.py). NAME is python3, redis-server, node, rust (a release build) or cxx (compiled without frame
pointers). Skips (77) without the program, without gdb, or where nobody may trace.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
JOBS = HERE.parent / "programs" / "jobs"
STACKS = 120
STACKS_MIN = 40  # of a program that starts and ends
SAME_MIN = 0.99
SYSTEM_PATH = "/usr/bin:/bin"  # gdb reads programs, not the scripts that pyenv and its like put before them


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def need(program, path=None):
    found = shutil.which(program, path=path)
    if found is None:
        skip(program + " is not installed")
    return found


def compiled(command, program):
    subprocess.run([*command, "-o", program], check=True)
    return [program]


def command_of(name, folder):
    """What is run, and bytes between samples."""
    program = str(folder / "job")
    if name == "python3":
        return [need("python3", SYSTEM_PATH), str(JOBS / "job.py")], "4K"
    if name == "redis-server":
        return [need("redis-server"), "--port", "0", "--save", ""], "1K"
    if name == "node":
        return [need("node"), "-e", "let a = []; for (let i = 0; i < 3e4; i++) a.push({x: 'k' + i}); JSON.stringify(a)"], "4K"
    if name == "rust":
        return compiled([need("rustc"), "-O", str(JOBS / "job.rs")], program), "4K"
    return compiled([need("c++"), "-O2", "-fomit-frame-pointer", "-pthread", str(JOBS / "job.cpp")], program), "4K"


def main():
    library, name = os.path.realpath(sys.argv[1]), sys.argv[2]
    gdb = need("gdb")
    with tempfile.TemporaryDirectory() as folder:
        command, interval = command_of(name, pathlib.Path(folder))
        environment = {**os.environ, "ORACLE_LIBRARY": library, "ORACLE_STACKS": str(STACKS)}
        before = ["set startup-with-shell off", "set environment LD_PRELOAD " + library, "set environment HAKMEM_PROFILE " + interval]
        settings = [word for line in before for word in ("-ex", line)]
        done = subprocess.run(
            [gdb, "-q", "-nx", "-batch", *settings, "-x", str(HERE / "in_gdb.py"), "--args", *command],
            env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1000,
        )
    said = done.stdout + done.stderr
    if "ptrace: Operation not permitted" in said or "Could not trace the inferior process" in said:
        skip("this machine does not let gdb trace")
    found = re.search(r"^oracle: (\d+) (\d+) (\d+) (\d+)$", said, re.MULTILINE)
    if not found:
        print(said[-4000:])
        return 1
    stacks, frames, same, cut = map(int, found.groups())
    print("\n".join(line for line in said.splitlines() if line.startswith("differs")))
    print(f"{name}: {stacks} stacks, {same} of {frames} frames as gdb's, {cut} stacks marked as cut")
    return 0 if stacks >= STACKS_MIN and frames >= 5 * stacks and same >= SAME_MIN * frames else 1


if __name__ == "__main__":
    sys.exit(main())
