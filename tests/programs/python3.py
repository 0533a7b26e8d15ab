# SPDX-License-Identifier: MIT
"""python3 with PYTHONMALLOC=malloc, so that every object comes from the library: modules of Python's own test suite."""

import sys

from harness import Skip, program

MODULES = ["test_list", "test_dict", "test_json", "test_threading"]
LONG_MODULES = ["test_subprocess"]
MALLOC = {"PYTHONMALLOC": "malloc"}


def has_suite(job, python, modules):
    imports = "import " + ", ".join("test." + m for m in modules)
    return job.plain([python, "-c", imports], status=None).returncode == 0


def work(job):
    modules = MODULES + LONG_MODULES * (not job.brief)
    pythons = [sys.executable, job.need("python3"), "/usr/bin/python3"]
    python = next((p for p in pythons if has_suite(job, p, modules)), None)
    if python is None:
        raise Skip("no python3 with its test suite (package libpython3.x-testsuite)")
    # An environment of its own: what is installed beside this python3 stays out of the test.
    job.plain([python, "-m", "venv", "--without-pip", job.path("venv")])
    python = job.path("venv/bin/python3")
    answer = job.same([python, job.copy("job.py")], MALLOC)
    job.check(len(answer.splitlines()) == 4, "answers " + answer)
    suite = job.run([python, "-m", "test", "--timeout", "2400"] + modules, MALLOC)
    job.check(
        b"All %d tests OK." % len(modules) in suite.stdout, "the test suite says\n" + suite.stdout.decode()[-2000:]
    )
    count = job.prove([python, "-c", "x = [{i: str(i)} for i in range(50000)]"], 100000, MALLOC)
    return "%s of its own suite, and 4 threads of JSON; %d allocations for 50,000 dicts" % (", ".join(modules), count)


program(work, timeout=600)
