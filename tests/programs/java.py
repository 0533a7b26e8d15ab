# SPDX-License-Identifier: MIT
"""java: javac compiles a program that uses threads, direct buffers, zlib and jar files; it gives the same answers as on
the system's malloc."""

from harness import program


def work(job):
    javac, java = job.need("javac", package="default-jdk-headless"), job.need("java", package="default-jdk-headless")
    job.copy("Job.java")
    job.run([javac, "-d", job.path("classes"), "Job.java"])
    answer = job.same([java, "-Xmx512m", "-cp", job.path("classes"), "Job"])
    job.check(len(answer.splitlines()) == 10 and answer.endswith("from a child\n"), "answers " + answer)
    count = job.prove([java, "-Xmx256m", "-cp", job.path("classes"), "Job"], 10000)
    return "compiled and run; threads, direct buffers and zip as on the system's malloc; %d allocations" % count


program(work)
