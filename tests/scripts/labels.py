#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each label selects the tests that the beginning of tests/CMakeLists.txt says.

    labels.py SOURCE_DIRECTORY BUILD_DIRECTORY
"""

import json
import pathlib
import re
import subprocess
import sys

SPEEDS = {"fast", "slow", "soak"}
FOLDERS = {"jemalloc-names": "jemalloc", "fastpath": "instructions", "stress": "soak"}  # the others have their own names


def ctest(build, *arguments):
    return subprocess.run(["ctest", "--test-dir", build, *arguments], stdout=subprocess.PIPE, check=True).stdout.decode()


def labels_of(build):
    """The labels of each test, by its name."""
    tests = json.loads(ctest(build, "--show-only=json-v1"))["tests"]
    properties = {test["name"]: test.get("properties", []) for test in tests}
    return {name: next((set(p["value"]) for p in of if p["name"] == "LABELS"), set()) for name, of in properties.items()}


def documented(source):
    """The first word of each line of the table of labels."""
    text = (source / "tests/CMakeLists.txt").read_text()
    table = re.search(r"^# Labels [\s\S]*?\n#\n((?:#   .*\n)+)", text, re.MULTILINE).group(1)
    return set(re.findall(r"^#   (\w+)  ", table, re.MULTILINE))


def problems(source, build):
    labels, known = labels_of(build), documented(source)
    for name, own in sorted(labels.items()):
        folder = name.partition("/")[0]
        if len(own & SPEEDS) != 1:
            yield f"{name} has not one of {sorted(SPEEDS)} but {sorted(own)}"
        if "/" in name and FOLDERS.get(folder, folder) not in own:
            yield f"{name} has not the label of its folder but {sorted(own)}"
        if folder == "unit" and "fast" not in own:
            yield f"{name} is a unit test and not fast"
    used = set().union(*labels.values())
    if used | SPEEDS != known | SPEEDS:
        yield f"documented and used differ: {sorted((used | SPEEDS) ^ (known | SPEEDS))}"
    for label in sorted(known):
        selected = set(re.findall(r"^ *Test +#\d+: (\S+)", ctest(build, "-N", "-L", label), re.MULTILINE))
        wanted = {name for name, own in labels.items() if label in own}
        if selected != wanted:
            yield f"ctest -L {label}: {sorted(selected ^ wanted)} should not differ"


def main():
    found = list(problems(pathlib.Path(sys.argv[1]), sys.argv[2]))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
