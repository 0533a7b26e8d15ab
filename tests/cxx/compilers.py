#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles and runs a program of hakmem.hpp with every compiler, standard library and standard at hand.

    compilers.py SOURCE_DIRECTORY LIBRARY PROGRAM.cpp

Names what is left out, and why. Fails when a compiler that is there refuses the program, warns, or the program fails.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

COMPILERS = ["g++", "clang++"] + [f"{name}-{n}" for name in ("g++", "clang++") for n in range(13, 23)]
STANDARDS = ["c++17", "c++20", "c++2b"] # the last is 23 under the name that older compilers know too
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wundef", "-Werror", "-Wno-deprecated-declarations"]


def compilers():
    """Those that are here, each once."""
    found = {}
    for name in filter(shutil.which, COMPILERS):
        found.setdefault(pathlib.Path(shutil.which(name)).resolve(), name)
    return found.values()


def works(compiler, flags, directory):
    """Whether it compiles, links and runs anything at all so."""
    source, program = directory / "any.cpp", directory / "any"
    source.write_text("#include <map>\nint main() { return (int)std::map<int, int>().size(); }\n")
    made = subprocess.run([compiler, *flags, source, "-o", program], capture_output=True, check=False)
    return made.returncode == 0 and subprocess.run([program], check=False).returncode == 0


def attempt(compiler, flags, root, library, source, directory):
    program = directory / "program"
    command = [compiler, *flags, *WARNINGS, "-O1", f"-I{root}/tests", f"-I{root}/include", source, "-o", program, library]
    command += [f"-Wl,-rpath,{library.parent}", "-pthread", "-ldl"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        return built.stderr
    ran = subprocess.run([program], capture_output=True, text=True, check=False, timeout=600)
    if ran.stdout.strip():
        print(f"    {ran.stdout.strip()}")
    return None if ran.returncode == 0 else f"ended with {ran.returncode}: {ran.stderr}"


def main():
    root, library, source = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    passed = failed = 0
    with_libcxx = False
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        for compiler in compilers():
            for more in ([], ["-stdlib=libc++"]):
                if more and "clang" not in compiler:
                    continue
                for standard in STANDARDS:
                    flags = [f"-std={standard}", *more]
                    if not works(compiler, flags, directory):
                        continue
                    print(compiler, *flags, flush=True)
                    with_libcxx |= bool(more)
                    problem = attempt(compiler, flags, root, library, source, directory)
                    passed += problem is None
                    failed += problem is not None
                    if problem is not None:
                        print(problem)
    if not with_libcxx:
        print("left out: libc++, which no clang++ here can use (Debian: libc++-dev libc++abi-dev)")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
