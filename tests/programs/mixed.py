# SPDX-License-Identifier: MIT
"""mixed: programs with an allocator of their own. PHP has pools on malloc, Go its own memory beside C's malloc, a C++ program
brings jemalloc along in place of malloc, and a library brings libhakmem.a: each gives the same answers as without a preload.
Where the command `hakmem` is built, its doctor names what each has."""

import os
import subprocess
import time

from harness import HERE, program

ROOT = os.path.realpath(os.path.join(HERE, "../.."))


def doctor(job, argv, words, **extra):
    """What doctor says of the program while it runs preloaded. None where there is no command."""
    tools = [os.path.join(ROOT, "target", kind, "hakmem") for kind in ("release", "debug")]
    tool = next((path for path in tools if os.path.exists(path)), None)
    if tool is None:
        return 0
    process = subprocess.Popen(argv, env=job.environment(**extra), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=job.dir)
    try:
        for _ in range(600):
            said = subprocess.run([tool, "doctor", str(process.pid)], env=job.environment(preloaded=False), stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if all(word in said.stdout for word in words):
                return 1
            time.sleep(0.1)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
    job.check(False, "doctor says nothing of %s:\n%s%s" % (words, said.stdout, said.stderr))


def php(job):
    tool, script = job.need("php", package="php-cli"), job.copy("job.php")
    for extra in ({}, {"USE_ZEND_ALLOC": "0"}):
        job.check("collected" in job.same([tool, "-n", script], extra), "PHP's collector")
    job.prove([tool, "-n", script], 1000)


def go(job):
    tool = job.need("go", "/usr/local/go/bin/go", package="golang-go")
    home = {"GOCACHE": job.path("go-cache"), "GOPATH": job.path("go"), "GO111MODULE": "off", "CGO_ENABLED": "1", "GOTOOLCHAIN": "local"}
    job.plain([tool, "build", "-o", job.path("cgo"), job.copy("cgo.go")], home)
    job.check(job.same([job.path("cgo")]).startswith("["), "the Go program's answers")
    job.prove([job.path("cgo")], None)  # Go ends without what C programs do at exit


def with_jemalloc(job):
    """As fd and others: jemalloc is linked into the program and takes the place of malloc for all, also for its libraries."""
    archive = job.need("/usr/lib/*/libjemalloc.a", package="libjemalloc-dev")
    command = [job.need("g++"), "-std=c++17", "-O2", "-pthread", job.copy("job.cpp"), archive, "-ldl", "-lm", "-o", job.path("own")]
    job.plain(command)
    job.check("caught 100" in job.same([job.path("own")]), "the answers of a program with jemalloc")
    source = job.write("wait.c", "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { void *p = malloc(10); getchar(); free(p); }\n")
    job.plain([job.need("gcc"), source, "-fno-builtin", archive, "-ldl", "-lm", "-pthread", "-lstdc++", "-o", job.path("wait")])
    return doctor(job, [job.path("wait")], ["jemalloc"])


def with_archive(job):
    """A library with libhakmem.a in it, under the shared library: what one side allocates the other frees."""
    archive = os.path.join(os.path.dirname(job.library), "libhakmem.a")
    job.check(os.path.exists(archive), "%s is not there" % archive)
    gcc, source = job.need("gcc"), job.copy("plugin.c")
    job.plain([gcc, "-O1", "-fPIC", "-fno-builtin", "-shared", source, archive, "-pthread", "-ldl", "-o", job.path("plugin.so")])
    job.plain([gcc, "-O1", "-fno-builtin", "-DHOST", source, "-ldl", "-o", job.path("host")])
    # Without a preload the program's malloc comes first too: the library's calls go there.
    return job.same([job.path("host"), job.path("plugin.so")])


def finders(job):
    """Rust programs that search the file system from many threads."""
    rg, fd = job.need("rg", package="ripgrep"), job.need("fdfind", "fd", package="fd-find")
    found = job.same([rg, "--sort", "path", "-n", "hak_heap_\\w+", os.path.join(ROOT, "include"), os.path.join(ROOT, "src")])
    job.check("hak_heap_new" in found, "ripgrep found nothing")
    listed = sorted(job.run([fd, "--no-ignore", "\\.c$", os.path.join(ROOT, "src")]).stdout.split())
    job.check(listed == sorted(job.plain([fd, "--no-ignore", "\\.c$", os.path.join(ROOT, "src")]).stdout.split()), "fd lists others")
    job.prove([rg, "-c", "the", os.path.join(ROOT, "src")], 1000)


def work(job):
    php(job)
    go(job)
    finders(job)
    told = with_jemalloc(job)
    with_archive(job)
    return "PHP, Go with C, ripgrep, fd, a program with jemalloc in it, a library with libhakmem.a in it: as without hakmem%s" % (
        "; doctor names jemalloc" if told else "")


program(work)
