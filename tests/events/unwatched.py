#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Nothing is left in a process that nobody looks at: which system calls the library makes, and what else a process has by it.

    unwatched.py LIBRARY PROGRAM

Calls are counted by strace, in `true` and in PROGRAM, which has two threads. Those of a run without the library are taken away, and those
by which the loader brings the library into memory. What remains must be STARTED, exactly. The library needs each of these to allocate; who
adds one for the sake of those who look on pays it in every process. Descriptors and threads are those of a run without the library.
"""

import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

LINE = re.compile(r"^(\d+) +(\w+)\((.*?)(?:\) += (\S+).*| <unfinished \.\.\.>)$")
# Threads meet in futex, or happen not to; the C library's own malloc makes the others, and is not there with the library.
FUTEX, OF_MALLOC = "futex", ("brk", "getrandom 8")
# The start of the library. A second thread makes no call of its own.
STARTED = {
    "getpid": 2,  # whose helper and whose fork handlers these are
    "prlimit64": 2,  # RLIMIT_AS and RLIMIT_DATA: how much address space may be taken
    "mmap": 10,  # the page before the first block's place, and nine tables
    "prctl PR_GET_SECCOMP": 1,  # a filter might kill for PR_SET_VMA
}
WITH_BLOCKS = {**STARTED, "mmap": 11, "madvise": 1}  # the first superslab, without huge pages
# What chance decides: addresses for the tables are thrown by dice, as often as two are too near.
BY_CHANCE = {"getrandom 96": (1, 6)}
# What the kernel decides: with names of memory each mapping gets one, without them the first call learns that.
BY_KERNEL = {"prctl PR_SET_VMA": (0, 16)}


class Skipped(Exception):
    pass


def environment(library):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HAKMEM", "LD_", "MALLOC", "MEMORY_PRESSURE", "GLIBC_"))}
    kept["GLIBC_TUNABLES"] = "glibc.malloc.arena_max=1"  # all of glibc's malloc by brk
    return {**kept, **({"LD_PRELOAD": library} if library else {})}


def calls(command, library):
    """[(name, arguments)] of a run, without those by which the loader brings `library` into memory."""
    with tempfile.TemporaryDirectory() as directory:
        log = os.path.join(directory, "log")
        # The loader of the traced program alone has the library: strace would make its own start of it.
        env = [f"-E{name}={value}" for name, value in environment(library).items() if name in ("LD_PRELOAD", "GLIBC_TUNABLES")]
        run = subprocess.run(["strace", "-f", "-y", "-s", "0", "-o", log, *env, *command], env=environment(None), stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=120)
        text = pathlib.Path(log).read_text(errors="replace") if os.path.exists(log) else ""
    if run.returncode != 0 and re.search("not permitted|PTRACE|ptrace", run.stderr):
        raise Skipped("ptrace is not permitted here")
    if run.returncode != 0:
        raise AssertionError(f"{command} under strace: {run.returncode} {run.stderr}")
    found, place = [], range(0)
    for line in text.splitlines():
        match = LINE.match(line)
        if not match:
            continue
        name, arguments, answer = match.group(2), match.group(3), match.group(4)
        if library and library in arguments and name != "execve":
            if name == "mmap" and not place:
                place = range(int(answer, 16), int(answer, 16) + int(arguments.split(", ")[1]))
        elif not (name in ("mmap", "mprotect") and re.match("0x", arguments) and int(arguments.split(",")[0], 16) in place):
            found.append((name, arguments))
    return found


def counted(found):
    """How often each; prctl by what it asks, getrandom by the bytes that it wants."""
    which = {"prctl": 0, "getrandom": 1}
    names = (f"{name} {arguments.split(', ')[which[name]]}" if name in which else name for name, arguments in found)
    return collections.Counter(name for name in names if name != FUTEX)


def compare(command, library, started):
    with_it, without = calls(command, library), calls(command, None)
    own = counted(with_it)
    own.subtract(counted(without))
    own = {name: count for name, count in own.items() if count > 0 or (count < 0 and name not in OF_MALLOC)}
    for name, (least, most) in {**{name: (count, count) for name, count in started.items()}, **BY_CHANCE, **BY_KERNEL}.items():
        if not least <= own.pop(name, 0) <= most:
            yield f"{command}: {name}: {counted(with_it)[name]} calls, {counted(without)[name]} without the library, {least} - {most} more expected"
    for name, count in own.items():
        yield f"{command}: {name}: {count:+d} calls, which nothing accounts for: {[a for n, a in with_it if n == name]}"


def lasting(program, library):
    """What a process with two threads has that waits for input: its descriptors by what they are, its threads by their names."""
    with subprocess.Popen([program, "stay"], env=environment(library), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        if process.stdout.readline() != b"ready\n":
            raise AssertionError(f"{program} stay: it is not ready")
        proc = pathlib.Path(f"/proc/{process.pid}")
        descriptors = sorted((fd.name, re.sub(r"\d+", "N", os.readlink(fd))) for fd in (proc / "fd").iterdir())
        threads = sorted((task / "comm").read_text().strip() for task in (proc / "task").iterdir())
        process.stdin.close()
    return descriptors, threads


def main():
    library, program = os.path.realpath(sys.argv[1]), sys.argv[2]
    if lasting(program, library) != lasting(program, None):
        print(f"with the library {lasting(program, library)}, without {lasting(program, None)}")
        return 1
    if not shutil.which("strace"):
        print("skipped: strace is not installed")
        return 77
    try:
        problems = [*compare(["true"], library, STARTED), *compare([program, "run"], library, WITH_BLOCKS)]
    except Skipped as why:
        print(f"skipped: {why}")
        return 77
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
