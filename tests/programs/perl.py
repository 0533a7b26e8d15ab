# SPDX-License-Identifier: MIT
"""perl: hashes, strings, regular expressions, sorting, fork; the same answers as on the system's malloc."""

from harness import program


def work(job):
    perl = job.need("perl")
    script = job.copy("job.pl")
    answer = job.same([perl, script]).splitlines()
    job.check(answer[-4:] == ["child %d: %d" % (i, i) for i in range(1, 5)], "children answered %s" % answer[-4:])
    count = job.prove([perl, "-e", "my %h = map { $_ => [1 .. 3] } 1 .. 20000; print scalar keys %h"], 20000)
    return "hashes, regular expressions, sorting and forks as on the system's malloc; %d allocations" % count


program(work)
