#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs each bug of guard.c with HAKMEM_GUARD=1 and checks the exact report, at every safety level.

    guard.py LIBRARY PROGRAM
"""

import os
import re
import signal
import subprocess
import sys

PLACE = r"0x[0-9a-f]+(?: \(\S+\+0x[0-9a-f]+\))?"
FRAMES = rf"(?:hakmem:     from {PLACE}\n)+(?:hakmem:     \[.*\]\n)?"
TOUCHED = rf"hakmem:   touched by thread \d+:\n{FRAMES}"
ALLOCATED = rf"hakmem:   allocated by thread \d+:\n{FRAMES}"
FREED = rf"hakmem:   freed by thread \d+:\n{FRAMES}"
LAST = r"hakmem:   docs/misuse\.md says what this means; to report it, send it with what `hakmem doctor -- \S+` prints\n"


def whole(state):
    """The line of the block, whose end is that of what was asked for."""
    return rf"hakmem:   block {{base}} to {{end}}, {{size}} bytes, {state}, {{size}} bytes asked for\n"


WRONG = r"hakmem:   first wrong byte {end}, at offset 100 of the block:\n(?:hakmem:     0x[0-9a-f]+:[0-9a-f \[\]]+\n){1,3}"
BLOCK = r"{size}-byte block at {base}, guarded"
CALLED = rf"hakmem:   called by thread \d+:\n{FRAMES}"

SEGV, ABRT = -signal.SIGSEGV, -signal.SIGABRT
OVER = rf"hakmem: overflow to {{end}} \({BLOCK}, 0 bytes behind its end, allocated\)\n{whole('allocated')}{TOUCHED}{ALLOCATED}{LAST}"
ONCE = "size 48\npassed on\n"
BUGS = {  # status, stderr, what stdout ends with
    "overflow": (SEGV, OVER, ""),
    "underflow": (
        SEGV,
        rf"hakmem: underflow to {{before}} \({BLOCK}, 1 bytes before it, allocated\)\n{whole('allocated')}{TOUCHED}{ALLOCATED}{LAST}",
        "",
    ),
    "gap": (
        ABRT,
        rf"hakmem: overflow of {{base}} \({{size}}-byte block, guarded, offset 100 overwritten\), called from {PLACE}\n"
        rf"{whole('allocated')}{WRONG}{CALLED}{ALLOCATED}{LAST}",
        "",
    ),
    "use_after_free": (
        SEGV,
        rf"hakmem: use after free of {{at8}} \({BLOCK}, offset 8, free\)\n{whole('free')}{TOUCHED}{ALLOCATED}{FREED}{LAST}",
        "",
    ),
    "after_realloc": (
        SEGV,
        rf"hakmem: use after free of {{base}} \({BLOCK}, offset 0, free\)\n{whole('free')}{TOUCHED}{ALLOCATED}{FREED}{LAST}",
        "",
    ),
    "double_free": (
        ABRT,
        rf"hakmem: double free of {{base}} \({{size}}-byte block, free\), called from {PLACE}\n"
        rf"{whole('free')}{CALLED}{ALLOCATED}{FREED}{LAST}",
        "",
    ),
    "interior": (
        ABRT,
        rf"hakmem: free of interior pointer {{at16}} \({{size}}-byte block at {{base}}, offset 16\), called from {PLACE}\n"
        rf"{whole('allocated')}{CALLED}{ALLOCATED}{LAST}",
        "",
    ),
    "in_thread": (SEGV, OVER, ""),
    "of_new_thread": (SEGV, OVER, ""),
    "in_child": (SEGV, OVER, ""),
    "own_handler": (3, OVER, "own handler\n"),
    "own_fault": (3, "", "own handler\n"),
    "chained_call": (SEGV, "", ONCE),
    "chained_put": (SEGV, "", ONCE),
    "chained_raise": (SEGV, "", ONCE),
    "chained_touch": (SEGV, OVER, ONCE),
    "on_small_stack": (SEGV, OVER, ""),
    "innocent": (0, "", ""),
}


def run(library, program, bug, extra):
    env = {**os.environ, "LD_PRELOAD": library, "HAKMEM_GUARD": "1", **extra}
    done = subprocess.run([program, bug], env=env, capture_output=True, text=True, timeout=120, check=False)
    status, pattern, tail = BUGS[bug]
    found = re.search(r"base (0x[0-9a-f]+) size (\d+)", done.stdout)
    if found:
        base, size = int(found[1], 16), int(found[2])
        names = {"base": base, "end": base + size, "before": base - 1, "at8": base + 8, "at16": base + 16}
        for name, value in names.items():
            pattern = pattern.replace("{" + name + "}", hex(value))
        pattern = pattern.replace("{size}", str(size))
    problems = []
    if done.returncode != status:
        problems.append(f"ends with status {done.returncode}, not {status}")
    if not re.fullmatch(pattern, done.stderr):
        problems.append(f"says {done.stderr!r}\n      not {pattern!r}")
    if not done.stdout.endswith(tail):
        problems.append(f"stdout is {done.stdout!r}")
    return problems


def crash(library, program, bug, wanted):
    """What HAKMEM_CRASH_REPORT says behind the report."""
    env = {**os.environ, "LD_PRELOAD": library, "HAKMEM_GUARD": "1", "HAKMEM_CRASH_REPORT": "1"}
    done = subprocess.run([program, bug], env=env, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode == SEGV and re.search(wanted, done.stderr):
        return 0
    print(f"FAIL  crash report of {bug}: status {done.returncode}, says {done.stderr!r}")
    return 1


def main():
    library, program = sys.argv[1:]
    failures = 0
    for level in "123":
        for bug in BUGS:
            problems = run(library, program, bug, {"HAKMEM_SAFE": level})
            failures += bool(problems)
            print(f"{'FAIL' if problems else 'ok  '}  {bug} at level {level}", *problems, sep="\n      " if problems else "")
    silent = subprocess.run(
        [program, "overflow"],
        env={**os.environ, "LD_PRELOAD": library, "HAKMEM_GUARD": "1", "HAKMEM_ON_ERROR": "ignore"},
        capture_output=True, text=True, timeout=120, check=False,
    )
    if silent.stderr or silent.returncode != SEGV:
        print(f"FAIL  ON_ERROR=ignore: status {silent.returncode}, says {silent.stderr!r}")
        failures += 1
    failures += crash(library, program, "overflow", "hakmem: crash: .* is 0 bytes past the end of the live 48-byte block at ")
    failures += crash(library, program, "use_after_free", "hakmem: crash: .* is in a free 48-byte block at .*, offset 8, ")
    failures += crash(library, program, "underflow", "hakmem: crash: .* is in memory of hakmem that holds no block now\n")
    sys.exit(failures > 0)


main()
