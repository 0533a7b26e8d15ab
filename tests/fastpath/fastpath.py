#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the built library to what is claimed of its fast path.

    fastpath.py LIBRARY TRACE-PROGRAM

The instructions that malloc and free execute on a warm heap, as trace.c saw them step by step, are looked up in the
disassembly. Of nine calls the most frequent path counts: the others may be where the countdown ran out. On that path: at most
so many instructions, in at most so many windows of 64 bytes (what a line of a processor's cache of decoded instructions holds: one
more cost pairs of 4 KiB and more 5 %), no call, no frame (push, pop, or arithmetic on the stack pointer), nothing executed twice.
What the library imports and its thread-local storage: scripts/check-exports.
"""

import collections
import re
import subprocess
import sys

TINY_MAX = 1024
LIMITS = {"tiny malloc": 23, "mid malloc": 30, "free": 36}
WINDOW = 64
WINDOWS = {"tiny malloc": 2, "mid malloc": 3, "free": 3}

FRAME = re.compile(
    r"^(push|pop|leave|enter|call|stp\s.*\[sp, #-|ldp\s.*\[sp\], #|(sub|add)\s+(\$\S+,%rsp|sp, sp)|and\s+\S+,%rsp|bl[r]?\s)"
)
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(.*)$")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def disassemble(library):
    """Offset in the library -> text of the instruction."""
    lines = output("objdump", "-d", "--no-show-raw-insn", library).splitlines()
    found = (INSTRUCTION.match(line) for line in lines)
    return {int(m[1], 16): m[2].split("#")[0].split("//")[0].strip() for m in found if m}


def traced_paths(library, trace):
    """(function, size) -> the path that most of its calls took, as offsets."""
    name = library.rsplit("/", 1)[-1].split(".so")[0]
    done = subprocess.run(
        [trace, name], env={"LD_PRELOAD": library}, capture_output=True, text=True, timeout=1200, check=False
    )
    if done.returncode == 77:
        return None
    if done.returncode != 0:
        sys.exit(f"trace: status {done.returncode}: {done.stderr}")
    calls = collections.defaultdict(collections.Counter)
    for line in done.stdout.splitlines():
        call, offsets = line.split(":")
        function, size = call.split()
        calls[function, int(size)][tuple(int(x, 16) for x in offsets.split())] += 1
    return {call: paths.most_common(1)[0][0] for call, paths in calls.items()}


def windows(path):
    return len({offset // WINDOW for offset in path})


def path_problems(code, path, kind):
    if not path or any(offset not in code for offset in path):
        return ["the trace does not match the disassembly"]
    text = [code[offset] for offset in path]
    problems = []
    if len(path) > LIMITS[kind]:
        problems.append(f"{len(path)} instructions, at most {LIMITS[kind]} allowed")
    if windows(path) > WINDOWS[kind]:
        problems.append(f"{windows(path)} windows of {WINDOW} bytes, at most {WINDOWS[kind]} allowed")
    problems += [f"not straight: {t}" for t in text if FRAME.match(t)]
    problems += [f"loops: {code[offset]}" for offset, times in collections.Counter(path).items() if times > 1]
    if not text[-1].startswith("ret"):
        problems.append(f"ends in {text[-1]}")
    return problems


def check_paths(library, trace):
    paths = traced_paths(library, trace)
    if paths is None:
        print("skip: instructions cannot be traced here (ptrace)")
        return 0
    code = disassemble(library)
    failures = 0
    for (function, size), path in sorted(paths.items()):
        kind = "free" if function == "free" else "tiny malloc" if size <= TINY_MAX else "mid malloc"
        problems = path_problems(code, path, kind)
        failures += bool(problems)
        print(f"{'FAIL' if problems else 'ok':4}  {function}({size}): {len(path)} of {LIMITS[kind]} instructions, "
              f"{windows(path)} of {WINDOWS[kind]} windows")
        for problem in problems[:8]:
            print(f"        {problem}")
        if problems and len(path) < 100:
            print("\n".join(f"          {offset:6x}  {code.get(offset, '?')}" for offset in path))
    return failures


def main():
    library, trace = sys.argv[1:3]
    return 1 if check_paths(library, trace) else 0


if __name__ == "__main__":
    sys.exit(main())
