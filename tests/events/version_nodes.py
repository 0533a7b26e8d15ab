#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A preloaded library stands in for the names that programs ask for with a version, such as malloc@GLIBC_2.2.5 (cmake/hakmem.map).

    version_nodes.py COMPILER LIBRARY [RUNNER...]
    version_nodes.py --musl SOURCE_DIRECTORY WORK_DIRECTORY

asked      the program's references have the C library's versions (glibc: at least that of malloc; musl has none)
plain      without the library the names are the C library's
preloaded  with it each is the library's, asked by address and by call
passed by  a library that gives malloc a version of its own is not used (glibc): so this test can fail

The second form builds the library with musl-gcc first, and skips (77) where that is not installed.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

NAMES = "malloc calloc realloc free posix_memalign aligned_alloc memalign malloc_usable_size".split()
BASE = {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17"}

PROGRAM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

static const char *file_of(void *function) {
    Dl_info info;
    return dladdr(function, &info) ? info.dli_fname : "nothing";
}

int main(void) {
    /* By call: a block of the library that stands in is one that its own malloc_usable_size knows. */
    void *volatile block = malloc(1000);
    if (block == NULL || malloc_usable_size(block) < 1000)
        return 1;
%s
    free(block);
    return 0;
}
"""

OTHER = "void *malloc(unsigned long size); void *malloc(unsigned long size) { return (void *)(size - size); }\n"


def call(*argv):
    return subprocess.run([str(word) for word in argv], stdout=subprocess.PIPE, text=True, check=True).stdout


def references(program):
    """name: version, "" for none, of what the program asks for."""
    found = re.findall(r" UND (\w+)(?:@(\w[\w.]*))?", call("readelf", "--dyn-syms", "--wide", program))
    return {name: version for name, version in found if name in NAMES}


def files(runner, program, *settings):
    """name: the file that it is taken from."""
    said = call(*runner, *settings, program)
    return {name: os.path.basename(file) for name, file in (line.split() for line in said.splitlines())}


def build(compiler, work):
    shows = "\n".join(f'    printf("{name} %s\\n", file_of((void *)&{name}));' for name in NAMES)
    (work / "program.c").write_text(PROGRAM % shows)
    call(compiler, "-O1", "-fno-builtin", "-fPIE", "-pie", work / "program.c", "-o", work / "program", "-ldl")
    (work / "other.c").write_text(OTHER)
    (work / "other.map").write_text("OTHER_1.0 { global: malloc; };\n")
    call(compiler, "-fno-builtin", "-fPIC", "-shared", f"-Wl,--version-script={work / 'other.map'}", work / "other.c", "-o", work / "other.so")


def check(compiler, library, runner):
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        build(compiler, work)
        asked = references(work / "program")
        assert sorted(asked) == sorted(NAMES), f"the program asks for {sorted(asked)}"
        machine = call(compiler, "-dumpmachine").split("-")[0]
        versioned = any(asked.values())
        if versioned:
            assert all(asked.values()) and asked["malloc"] == BASE[machine], f"the program asks for {asked}"
        plain = files(runner, work / "program")
        assert all(re.match(r"libc\.|ld-musl", file) for file in plain.values()), f"without the library: {plain}"
        preloaded = files(runner, work / "program", f"LD_PRELOAD={library}")
        assert set(preloaded.values()) == {os.path.basename(library)}, f"preloaded: {preloaded}"
        if versioned:
            other = files(runner, work / "program", f"LD_PRELOAD={work / 'other.so'}")
            assert other == plain, f"a malloc of another version is used: {other}"
    print(f"malloc@{asked['malloc'] or '(no version)'} and {len(NAMES) - 1} others are {os.path.basename(library)}'s")


def build_for_musl(source, work):
    call("cmake", "-S", source, "-B", work, "-DCMAKE_C_COMPILER=musl-gcc", "-DHAKMEM_TESTS=OFF")
    call("cmake", "--build", work, "--target", "hakmem_shared")
    return work / "libhakmem.so.0"


def main():
    if sys.argv[1] == "--musl":
        if shutil.which("musl-gcc") is None:
            print("skipped: musl-gcc is not installed")
            return 77
        check("musl-gcc", build_for_musl(*map(pathlib.Path, sys.argv[2:4])), ["env"])
    else:
        check(sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:] or ["env"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
