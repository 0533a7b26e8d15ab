#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the static library with musl-gcc and with it the programs, and runs each.

    musl.py SOURCE_DIRECTORY WORK_DIRECTORY PROGRAM.c...

Skips (77) where musl-gcc is not installed.
"""

import pathlib
import shutil
import subprocess
import sys

FLAGS = ["-std=gnu17", "-O2", "-fno-builtin", "-D_GNU_SOURCE", "-DTEST_STATIC"]


def main():
    source, work, programs = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    compiler = shutil.which("musl-gcc")
    if compiler is None:
        print("skipped: musl-gcc is not installed")
        return 77
    work.mkdir(parents=True, exist_ok=True)
    settings = [f"-DCMAKE_C_COMPILER={compiler}", "-DHAKMEM_TESTS=OFF"]
    for command in (["-S", str(source), "-B", str(work), *settings], ["--build", str(work), "--target", "hakmem_static"]):
        subprocess.run(["cmake", *command], stdout=subprocess.DEVNULL, check=True)
    includes = [f"-I{source / d}" for d in ("include", "tests")]
    link = ["-static", "-pthread", "-Wl,--undefined=malloc", str(work / "libhakmem.a")]
    for program in programs:
        target = work / (pathlib.Path(program).stem + "_musl")
        subprocess.run([compiler, *FLAGS, *includes, program, *link, "-o", str(target)], check=True)
        code = subprocess.run([str(target)], timeout=1200).returncode
        if code != 0:
            print(f"failed: {target.name} exited with {code}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
