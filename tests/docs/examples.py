#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles and runs the examples of the documents: each fenced block of C or C++ that has a main must end with 0.

    examples.py SOURCE_DIRECTORY LIBRARY
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```(c|cpp)\n(.*?)^```$", re.M | re.S)
COMPILERS = {"c": [os.environ.get("CC", "cc"), "-std=c17"], "cpp": [os.environ.get("CXX", "c++"), "-std=c++17"]}


def run(root, library, language, text, directory):
    source, program = directory / f"example.{language}", directory / "example"
    source.write_text(text)
    flags = ["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", f"-I{root}/include"]
    place = library.parent
    compiler = COMPILERS[language] + flags + [source, "-o", program, library, f"-Wl,-rpath,{place}", "-pthread"]
    built = subprocess.run(compiler, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        return built.stderr
    ran = subprocess.run([program], capture_output=True, text=True, check=False, timeout=300)
    return None if ran.returncode == 0 else f"ended with {ran.returncode}: {ran.stdout}{ran.stderr}"


def main():
    root, library = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    failed = ran = 0
    with tempfile.TemporaryDirectory() as directory:
        for path in sorted(root.glob("docs/*.md")):
            text = path.read_text()
            for match in FENCE.finditer(text):
                if not re.search(r"\bint main\(", match[2]):
                    continue
                ran += 1
                problem = run(root, library, match[1], match[2], pathlib.Path(directory))
                if problem is not None:
                    failed += 1
                    line = text.count("\n", 0, match.start()) + 1
                    print(f"{path.relative_to(root)}:{line}: {problem}")
    print(f"{ran} examples, {failed} failed")
    return 1 if failed or ran == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
