#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the static library with musl-gcc and with it static_program.c, and runs the result.

    musl.py SOURCE_DIRECTORY WORK_DIRECTORY

Skips (77) where musl-gcc is not installed.
"""

import pathlib
import shutil
import subprocess
import sys

FLAGS = ["-std=gnu17", "-O2", "-fno-builtin", "-ftls-model=initial-exec", "-D_GNU_SOURCE", "-DTEST_STATIC"]


def kernel_headers(work):
    """A directory with the kernel's headers alone: musl-gcc comes without, and libc's beside them are not musl's."""
    triplet = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True, check=True).stdout.strip()
    directory = work / "kernel"
    directory.mkdir(exist_ok=True)
    usr = pathlib.Path("/usr/include")
    for name, places in (("linux", [usr]), ("asm-generic", [usr]), ("asm", [usr / triplet, usr])):
        for place in places:
            if (place / name).is_dir() and not (directory / name).exists():
                (directory / name).symlink_to(place / name)
    return directory


def main():
    source, work = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    compiler = shutil.which("musl-gcc")
    if compiler is None:
        print("skipped: musl-gcc is not installed")
        return 77
    work.mkdir(parents=True, exist_ok=True)
    includes = [f"-I{source / d}" for d in ("src", "include", "tests")]
    includes += ["-idirafter", str(kernel_headers(work))]
    archive, program = work / "libhakmem.a", work / "static_program_musl"
    archive.unlink(missing_ok=True)
    # What only the shared library contains is named so; a static program takes from the archive what it needs.
    sources = [file for file in sorted(source.glob("src/*/*.c")) if not file.stem.endswith("_shared")]
    for file in sources:
        target = work / (str(file.relative_to(source)).replace("/", "_") + ".o")
        subprocess.run([compiler, *FLAGS, *includes, "-c", str(file), "-o", str(target)], check=True)
        subprocess.run(["ar", "rcs", str(archive), str(target)], check=True)
    test = source / "tests/events/static_program.c"
    link = ["-static", "-pthread", "-Wl,--undefined=malloc"]
    subprocess.run([compiler, *FLAGS, *includes, *link, str(test), str(archive), "-o", str(program)], check=True)
    return subprocess.run([str(program)], timeout=1200).returncode


if __name__ == "__main__":
    sys.exit(main())
