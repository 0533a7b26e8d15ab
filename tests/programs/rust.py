# SPDX-License-Identifier: MIT
"""rust: rustc compiles a program of collections, threads and channels; it gives the same answers as on
the system's malloc."""

import os

from harness import program


def work(job):
    rustc = job.need("rustc")
    # rustc may be a front that picks a toolchain by what it finds in the home directory.
    home = {"HOME": os.environ.get("HOME", job.dir)}
    job.run([rustc, "-O", "-o", job.path("job"), job.copy("job.rs")], home)
    answer = job.same([job.path("job")])
    job.check(answer.splitlines()[-1] == "800", "answers " + answer)
    count = job.prove([job.path("job")], 500000)
    return "compiled and run; collections, threads and channels as on the system's malloc; %d allocations" % count


program(work)
