#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who notices which mistake of found.c: the table of SECURITY.md.

    found.py LIBRARY PROGRAM [--write] [--peers FOLDER] DOCUMENT

Each mistake is made RUNS times, as places are random. It is found when the program ended each time, by a signal or because what it read
was not there any more; sometimes, when it ended a few times. Without --write it is an error when the columns of hakmem in DOCUMENT say
anything else. The columns of other allocators are measured with --peers only, a folder of lib*.so as `hakmem bench` builds; else they
stay as they are.
"""

import argparse
import os
import pathlib
import subprocess
import sys

RUNS = 5
BEGIN, END = "<!-- found:begin (tests/misuse/found.py) -->\n", "<!-- found:end -->\n"
OURS = {"1": {"HAKMEM_SAFE": "1"}, "2": {"HAKMEM_SAFE": "2"}, "3": {"HAKMEM_SAFE": "3"},
        "1 and guard": {"HAKMEM_SAFE": "1", "HAKMEM_GUARD": "1"}}
PEERS = {"glibc": None, "scudo": "libscudo.so", "hardened light": "libhardened_malloc-light.so", "hardened": "libhardened_malloc.so"}
YES, SOMETIMES, NO, NONE = "found", "at times", "-", "n/a"


def ask(program, bug, preload, options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_") and k != "LD_PRELOAD"}
    environment.update(options, **({"LD_PRELOAD": preload} if preload else {}))
    ends = []
    for _ in range(RUNS):
        done = subprocess.run([program, bug], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
        if done.returncode == 77:
            return NONE
        if done.returncode not in (0, 3) and done.returncode > 0:
            sys.exit(f"{bug} with {options}: exit status {done.returncode}")
        ends.append(done.returncode != 0)
    return YES if all(ends) else SOMETIMES if any(ends) else NO


def table_of(columns, bugs):
    """Markdown: a line for each bug, and how many each has found."""
    lines = ["| Mistake | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for bug in bugs:
        lines.append("| %s | " % bug.replace("_", " ") + " | ".join(columns[name].get(bug, "") for name in columns) + " |")
    counts = ["**%d**" % sum(found == YES for found in columns[name].values()) for name in columns]
    lines.append("| **found, of %d** | " % len(bugs) + " | ".join(counts) + " |")
    return "\n".join(lines) + "\n"


def read_columns(text, bugs):
    """The columns of a table that table_of has written."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    names = rows[0][1:] if rows else []
    by_bug = {row[0].replace(" ", "_"): row[1:] for row in rows[2:-1]}
    return {name: {bug: by_bug[bug][at] for bug in bugs if bug in by_bug} for at, name in enumerate(names)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("program")
    parser.add_argument("document", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--peers", type=pathlib.Path)
    options = parser.parse_args()
    bugs = subprocess.run([options.program], capture_output=True, text=True, check=True).stdout.split()
    head, rest = options.document.read_text().split(BEGIN)
    old, tail = rest.split(END)
    known = read_columns(old, bugs)
    columns = {name: {bug: ask(options.program, bug, options.library, env) for bug in bugs} for name, env in OURS.items()}
    for name, library in PEERS.items():
        path = options.peers / library if options.peers and library else None
        if options.peers and (path is None or path.exists()):
            columns[name] = {bug: ask(options.program, bug, str(path) if path else None, {}) for bug in bugs}
        elif name in known:
            columns[name] = known[name]
    new = table_of(columns, bugs)
    print(new)
    if options.write:
        options.document.write_text(head + BEGIN + new + END + tail)
        return 0
    for name in OURS:
        for bug in bugs:
            said = known.get(name, {}).get(bug)
            if said != columns[name][bug] and SOMETIMES not in (said, columns[name][bug]):
                print(f"{options.document}: {bug} at {name} is {columns[name][bug]!r}, not {said!r}")
                return 1
    return 0


sys.exit(main())
