# SPDX-License-Identifier: MIT
"""A C++ program: containers, strings, over-aligned new, memory resources, exceptions and threads that hand blocks to
each other; the same answers as on the system's malloc."""

from harness import program


def work(job):
    compiler = job.need("g++")
    source = job.copy("job.cpp")
    for option, name in (("-pie", "job"), ("-static", "job-static"))[: 1 if job.brief else 2]:
        job.run([compiler, "-std=c++17", "-O2", "-fPIE", option, "-pthread", "-o", job.path(name), source])
    answer = job.same([job.path("job")])
    job.check("caught 100\nnothrow null" in answer, "answers " + answer)
    # A static program is out of a preload's reach and must not be disturbed by it.
    if not job.brief:
        job.check(job.run([job.path("job-static")]).stdout.decode() == answer, "the static program answers otherwise")
    count = job.prove([job.path("job")], 500000)
    return "containers, exceptions and threads as on the system's malloc; %d allocations" % count


program(work)
