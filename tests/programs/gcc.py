# SPDX-License-Identifier: MIT
"""gcc: compiles hakmem itself; every object file is the same as the one that gcc makes on the system's malloc."""

import glob
import os

from harness import program

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
FLAGS = [
    "-std=gnu17",
    "-O2",
    "-g",
    "-fPIC",
    "-fvisibility=hidden",
    "-D_GNU_SOURCE",
    '-DHK_BUILD_TYPE="test"',
    "-Isrc",
    "-Iinclude",
]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def work(job):
    gcc = job.need("gcc")
    rooms = "[ah]*" if job.brief else "*"
    sources = sorted(os.path.relpath(path, ROOT) for path in glob.glob("%s/src/%s/*.c" % (ROOT, rooms)))
    job.check(sources, "no sources")
    # The same name both times: the command line is part of what -g records.
    result = job.path("object.o")
    objects = []
    for number, source in enumerate(sources):
        command = [gcc] + FLAGS + ["-c", source, "-o", result]
        job.plain(command, cwd=ROOT)
        expected = read(result)
        os.unlink(result)
        job.run(command, cwd=ROOT)
        job.check(read(result) == expected, "%s compiles to another object than on the system's malloc" % source)
        # What only libhakmem.a contains is compiled, but not linked.
        if not source.endswith("_static.c"):
            objects.append(job.path("object.%d.o" % number))
            os.rename(result, objects[-1])
    library = job.path("linked.so")
    job.run([gcc, "-r" if job.brief else "-shared", "-o", library] + objects)
    job.check(b"hak_version" in read(library), "the linked library lacks hak_version")
    # Driver and compiler prove themselves one after the other; the compiler's count is the larger.
    count = job.prove([gcc] + FLAGS + ["-S", sources[0], "-o", job.path("assembly.s")], 5000, cwd=ROOT)
    return "%d files compiled to the same objects, then linked; %d allocations in one compilation" % (
        len(sources),
        count,
    )


program(work)
