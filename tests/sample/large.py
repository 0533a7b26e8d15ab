#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A large heap with many live samples is looked into while its program allocates.

    large.py SOURCE LIBRARY PROGRAM MIB INTERVAL SIZES

`hakmem heap` may take a second, and a thread of the program may be kept waiting for 10 ms meanwhile. What it waits is by the clock,
less what it ran and what it waited for a processor; so is the second time of a processor. A busy machine changes neither by much, and
the least of some looks counts: what a look has to take, each takes. Tables stay within their bound, and the estimate is right.
"""

import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import time

LOOKS = 5
WAITED_MAX_MS = 10
COPY_MAX_S = 1
DEBUG_TIMES = 20  # a tool without optimisation may take longer
TABLES_MIN = 8 << 20
TABLES_SHARE = 0.005  # of what is resident
LIVE_OFF = 0.03  # with a quarter of a hundred thousand samples, more than 4.5 standard errors


def tool_of(source):
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", source / "target"))
    return next((folder / kind / "hakmem" for kind in ("release", "debug") if (folder / kind / "hakmem").exists()), None)


class Program:
    def __init__(self, library, words):
        environment = {**os.environ, "LD_PRELOAD": library}
        self.child = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def says(self, question):
        self.child.stdin.write(question)
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if line.startswith("skipped") or not line:
            print(line or "the program has ended")
            sys.exit(77 if line else 1)
        words = line.split()
        return dict(zip(words[::2], map(int, words[1::2])))


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def look(tool, program):
    """Seconds of a processor, milliseconds that the program's thread was kept waiting, the profile."""
    command = [tool, "heap", "--no-symbols", "--json", str(program.child.pid)]
    program.says("w")
    begin, used = time.monotonic(), processor_seconds()
    shown = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    clock, processor = time.monotonic() - begin, processor_seconds() - used
    since = program.says("w")
    waited = since["waited"] / 1000
    print("%.3f s, %.3f s of a processor; kept waiting for %.2f ms in %d allocations" % (clock, processor, waited, since["allocations"]))
    return processor, waited, json.loads(shown.stdout)


def problems_of(tool, program):
    looks = [look(tool, program) for _ in range(LOOKS)]
    has = program.says("p")
    print("%d MiB resident, %d samples, tables of %.1f MiB" % (has["resident"] >> 20, has["samples"], has["tables"] / 2**20))
    seconds, waited = min(each[0] for each in looks), min(each[1] for each in looks)
    live = looks[-1][2]["in_use"]["bytes"]
    if seconds > COPY_MAX_S * (DEBUG_TIMES if tool.parent.name == "debug" else 1):
        yield "a look takes %.3f s" % seconds
    if waited > WAITED_MAX_MS:
        yield "a look keeps the program waiting for %.2f ms" % waited
    if has["tables"] > TABLES_MIN + TABLES_SHARE * has["resident"]:
        yield "the tables have %d bytes" % has["tables"]
    least, most = has["allocated"] * (1 - LIVE_OFF), (has["allocated"] + has["held"]) * (1 + LIVE_OFF)
    if not least <= live <= most:
        yield "%d to %d bytes in use, by the profile %d" % (has["allocated"], has["allocated"] + has["held"], live)
    if has["samples"] < 25000:
        yield "%d samples are few" % has["samples"]


def main():
    source, library, *words = sys.argv[1:]
    tool = tool_of(pathlib.Path(source))
    if tool is None:
        print("skipped: the tool is not built (cargo build --release)")
        return 77
    available = int(re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) >> 10
    if available < 1.2 * int(words[1]):
        print("skipped: of memory %d MiB are available, too little for %s MiB" % (available, words[1]))
        return 77
    program = Program(library, words)
    try:
        problems = list(problems_of(tool, program))
    finally:
        program.child.kill()
        program.child.wait()
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
