#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library as one source file, as scripts/amalgamate writes it: compiles without a warning by gcc and clang, answers as glibc does, shows
no names but those of the library, and is written alike twice.

    one_file.py SOURCE_DIRECTORY CONFORMANCE_PROGRAM WORK_DIRECTORY LIBRARY
"""

import pathlib
import shutil
import subprocess
import sys

WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def run(*argv):
    done = subprocess.run([str(word) for word in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit("failed: %s\n%s" % (" ".join(map(str, argv)), done.stdout[-6000:]))
    return done.stdout


def exported(library):
    names = (line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", library).splitlines())
    return {name for name in names if not name.startswith("_Z") and "size_returning_new" not in name} - {"dlopen", "HAKMEM_1.0"}


def main():
    source, program, work, library = (pathlib.Path(word) for word in sys.argv[1:5])
    for copy in ("one", "two"):
        run(sys.executable, source / "scripts/amalgamate", work / copy)
    if (work / "one/hakmem.c").read_bytes() != (work / "two/hakmem.c").read_bytes():
        sys.exit("failed: not written alike twice")
    lines = (source / "src/build.txt").read_text().splitlines()
    flags = [line.split(" ", 1)[1] for line in lines if line.startswith("flag ")]
    for compiler in ("gcc", "clang"):
        if shutil.which(compiler) is None:
            print("skipped: %s is not installed" % compiler)
            continue
        made = work / ("libhakmem-one-%s.so" % compiler)
        run(compiler, "-std=gnu17", "-O2", *WARNINGS, *flags, "-fPIC", "-shared", "-Wl,-z,now", work / "one/hakmem.c", "-o", made, "-pthread", "-ldl")
        print(compiler, run(sys.executable, source / "tests/conformance/compare.py", made, program).strip())
        other = exported(made) ^ exported(library)
        if other:
            sys.exit("failed: %s: exported by one alone: %s" % (made, " ".join(sorted(other))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
