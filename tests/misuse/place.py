#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the double free of place.c and of its library, and has addr2line find it by what the report says.

    place.py LIBRARY BUG_LIBRARY PROGRAM...

A confined program, which reads no files, gets the address alone. Skips (77) where addr2line is not installed.
"""

import os
import re
import shutil
import subprocess
import sys

# A first block of a class may be one of the next class; how long the path of the library is decides which class is new.
REPORT = r"hakmem: double free of 0x[0-9a-f]+ \((?:64|80)-byte block, free\), called from 0x[0-9a-f]+"
WITH_PLACE = re.compile(
    REPORT + r" \((/\S+)\+(0x[0-9a-f]+)\)\nhakmem:   block .*\nhakmem:   called by thread \d+:\n(?P<stack>(?:hakmem:     from .*\n)+)"
    r"hakmem:   docs/misuse\.md .*\n"
)
FRAME = re.compile(r"hakmem: +from 0x[0-9a-f]+ \((/\S+)\+(0x[0-9a-f]+)\)")
ALONE = re.compile(
    REPORT + r"\nhakmem:   block .*\nhakmem:   called by thread \d+:\n(?:hakmem:     from 0x[0-9a-f]+\n)+hakmem:   docs/misuse\.md .*\n"
)


def report(library, program, where, **settings):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")}
    environment.update(settings, LD_PRELOAD=library)
    done = subprocess.run([program, where], env=environment, capture_output=True, text=True, timeout=600)
    return done.stderr


def problem_of(text, file, function):
    match = WITH_PLACE.fullmatch(text)
    if match is None:
        return f"no place in {text!r}"
    if match[1] != os.path.realpath(file):
        return f"{match[1]} is not {file}"
    command = ["addr2line", "-f", "-e", match[1], match[2]]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    name, source = found.split("\n")[:2]
    if name != function or not re.search(r"/place(_library)?\.c:\d+|^\?\?:", source):
        return f"{' '.join(command)} says {found!r}, not {function}"
    names = stack_of(match["stack"])
    wanted = [function, "free_twice_in", "main"] if function == "free_twice_in_library" else [function, "main"]
    return None if names[: len(wanted)] == wanted else f"the stack is {names}, not {wanted}: {text!r}"


def stack_of(lines):
    """The functions that the lines below a report lead to."""
    names = []
    for file, address in FRAME.findall(lines):
        command = ["addr2line", "-f", "-e", file, address]
        names.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[0])
    return names


def main():
    library, bug_library, *programs = sys.argv[1:]
    if shutil.which("addr2line") is None:
        print("skipped: addr2line is not installed")
        return 77
    problems = []
    for program in programs:
        problems.append(problem_of(report(library, program, "program"), program, "free_twice_in_program"))
        problems.append(problem_of(report(library, program, bug_library), bug_library, "free_twice_in_library"))
        confined = report(library, program, "confined")
        problems.append(None if ALONE.fullmatch(confined) else f"confined: {confined!r}")
        crash = report(library, program, "program", HAKMEM_CRASH_REPORT="1").splitlines(keepends=True)
        own = [line for line in crash if not line.startswith("hakmem: crash:")]
        problems.append(problem_of("".join(own), program, "free_twice_in_program"))
        told = "".join(crash[len(own) :])
        problems.append(None if "crash: SIGABRT, sent by process" in told else f"no crash report: {crash}")
        found = stack_of(told.replace("hakmem: crash:  from", "hakmem:   from"))
        problems.append(None if "free_twice_in_program" in found and "main" in found else f"crash: {found}: {crash}")
    problems = [problem for problem in problems if problem]
    print("\n".join(problems + [f"{len(programs)} programs, {len(problems)} problems"]))
    return 1 if problems or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
