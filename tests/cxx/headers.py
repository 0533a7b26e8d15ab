#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What compilers say of hakmem.h and hakmem.hpp in old and in bare dialects.

    headers.py SOURCE_DIRECTORY LIBRARY

hakmem.h    in C89 to C17 no warning, not even a pedantic one
hakmem.hpp  below C++17 one error, which names what is needed; without exceptions it compiles, and what has no memory
            aborts
"""

import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

C_DIALECTS = [["-std=%s" % standard, "-pedantic"] for standard in ("c89", "c99", "c11", "c17")]
OLD_CXX = ["c++11", "c++14"]


def compiled(compiler, flags, source, root):
    command = [compiler, source, f"-I{root}/include", "-Wall", "-Wextra", "-Werror", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def c_problems(compiler, root, directory):
    source = directory / "any.c"
    source.write_text("#include <hakmem.h>\nint main(void) { return hak_owns(0); }\n")
    for dialect in C_DIALECTS:
        built = compiled(compiler, [*dialect, "-fsyntax-only"], source, root)
        if built.returncode != 0:
            yield "%s %s: %s" % (compiler, " ".join(dialect), built.stderr)


def cxx_problems(compiler, root, library, directory):
    source, program = directory / "any.cpp", directory / "any"
    source.write_text("#include <hakmem.hpp>\nint main() {}\n")
    for standard in OLD_CXX:
        said = compiled(compiler, [f"-std={standard}", "-fsyntax-only"], source, root).stderr
        if said.count("error:") != 1 or "needs C++17" not in said:
            yield "%s -std=%s: %s" % (compiler, standard, said)
    source = root / "tests/cxx/no_exceptions.cpp"
    flags = ["-std=c++17", "-fno-exceptions", "-o", program, library, f"-Wl,-rpath,{library.parent}"]
    built = compiled(compiler, flags, source, root)
    if built.returncode != 0:
        yield "%s -fno-exceptions: %s" % (compiler, built.stderr)
        return
    for arguments, wanted in ([], 0), (["too much"], -signal.SIGABRT):
        status = subprocess.run([program, *arguments], check=False).returncode
        if status != wanted:
            yield "%s -fno-exceptions: ended with %d, not %d" % (compiler, status, wanted)


def main():
    root, library = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    problems = []
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        c, cxx = filter(shutil.which, ("gcc", "clang")), filter(shutil.which, ("g++", "clang++"))
        for compiler in c:
            problems += c_problems(compiler, root, directory)
        for compiler in cxx:
            problems += cxx_problems(compiler, root, library, directory)
    print("\n".join(problems + ["%d problems" % len(problems)]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
