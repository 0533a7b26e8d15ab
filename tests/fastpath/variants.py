#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the library with gcc and clang at -O2 and -O3 and runs fastpath.py on each but the build that is there, which
fastpath/this_build looks at.

    variants.py SOURCE_DIRECTORY WORK_DIRECTORY TRACE-PROGRAM COMPILER_ID

COMPILER_ID: CMake's name of the compiler of that build, at -O2. A compiler that is not installed is left out, and the test is a skipped one (77) if the other passes.
"""

import pathlib
import shutil
import subprocess
import sys


NAMES = {"GNU": "gcc", "Clang": "clang"}


def build(source, work, compiler, level):
    directory = work / f"{compiler}{level}"
    configure = ["cmake", "-S", source, "-B", directory, f"-DCMAKE_C_COMPILER={compiler}", "-DHAKMEM_TESTS=OFF"]
    flags = [f"-DCMAKE_C_FLAGS_RELWITHDEBINFO={level} -g", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"]
    subprocess.run(configure + flags, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", directory, "--target", "hakmem_shared"], check=True, stdout=subprocess.DEVNULL)
    return directory / "libhakmem.so"


def main():
    source, work, trace, built = sys.argv[1:5]
    failed, missing = 0, []
    for compiler in ("gcc", "clang"):
        if shutil.which(compiler) is None:
            missing.append(compiler)
            continue
        for level in ("-O3",) if compiler == NAMES.get(built) else ("-O2", "-O3"):
            print(f"--- {compiler} {level}", flush=True)
            try:
                library = build(source, pathlib.Path(work), compiler, level)
            except subprocess.CalledProcessError:
                print("FAIL  does not build")
                failed += 1
                continue
            script = str(pathlib.Path(__file__).with_name("fastpath.py"))
            failed += subprocess.run([sys.executable, script, str(library), trace], check=False).returncode != 0
    for compiler in missing:
        print(f"skipped: {compiler} is not installed")
    return 1 if failed else 77 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
