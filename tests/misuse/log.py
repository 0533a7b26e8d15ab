#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""HAKMEM_LOG: what hakmem says goes to the end of a file, one for each process where its name has %p.

    log.py LIBRARY BUGS GUARD
"""

import os
import re
import signal
import subprocess
import sys
import tempfile

REPORT = re.compile(r"hakmem: double free of .*\nhakmem:   block (?:.*\n)+hakmem:   docs/misuse\.md .*\n")
TOUCH = re.compile(r"hakmem: overflow to .*\nhakmem:   block (?:.*\n)+hakmem:   docs/misuse\.md .*\n")
CRASH = re.compile(r"hakmem: crash: SIGSEGV at .*\nhakmem: crash: .* is not hakmem's: mapped file .*\n(?:hakmem: crash:  .*\n)+hakmem: crash: hakmem .*\n")
TWICE_ELSEWHERE = (
    "import ctypes, os; os.chdir('/'); c = ctypes.CDLL(None); c.malloc.restype = ctypes.c_void_p;"
    "p = ctypes.c_void_p(c.malloc(100)); c.free(p); c.free(p)"
)


class Runs:
    """Programs in one folder, and what is not as it should be."""

    def __init__(self, library, folder):
        self.library, self.folder, self.problems = library, folder, []

    def run(self, argv, **options):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")}
        environment.update(options, LD_PRELOAD=self.library)
        process = subprocess.Popen(argv, env=environment, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        _, err = process.communicate(timeout=120)
        return process.pid, process.returncode, err

    def text(self, name):
        path = os.path.join(self.folder, name)
        return open(path).read() if os.path.exists(path) else ""

    def check(self, holds, what):
        if not holds:
            self.problems.append(what)


def main():
    library, bugs, guard = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(library, folder)
        twice = [bugs, "double_free_tiny"]

        pid, status, err = runs.run(twice, HAKMEM_LOG=folder + "/log.%p")
        text = runs.text(f"log.{pid}")
        runs.check(status == -signal.SIGABRT and err == "" and REPORT.fullmatch(text), f"%p: {status} {err!r} {text!r}")

        for _ in range(2):
            runs.run(twice, HAKMEM_LOG="relative")
        text = runs.text("relative")
        runs.check(text.count("hakmem: double free of") == 2, f"it is not appended: {text!r}")

        _, _, err = runs.run([sys.executable, "-c", TWICE_ELSEWHERE], HAKMEM_LOG="elsewhere")
        text = runs.text("elsewhere")
        runs.check(err == "" and REPORT.fullmatch(text), f"another directory: {err!r} {text!r}")

        _, status, err = runs.run(twice, HAKMEM_LOG="/nowhere/log")
        wanted = "hakmem: HAKMEM_LOG: cannot write to /nowhere/log: no such file or folder; messages go to standard error\n"
        runs.check(status == -signal.SIGABRT and err.startswith(wanted) and REPORT.fullmatch(err[len(wanted):]), f"bad file: {err!r}")
        _, status, err = runs.run(["/bin/true"], HAKMEM_LOG="/nowhere/log")
        runs.check(status == 0 and err == wanted, f"bad file, nothing to say: {err!r}")
        _, status, err = runs.run(["/bin/true"], HAKMEM_LOG=folder)
        runs.check(err.startswith(f"hakmem: HAKMEM_LOG: cannot write to {folder}: it is a folder; "), f"a folder: {err!r}")

        _, status, err = runs.run(twice, HAKMEM_LOG="/dev/full")
        wanted = "hakmem: HAKMEM_LOG: cannot write to /dev/full: no space left on the device; messages go to standard error\n"
        runs.check(status == -signal.SIGABRT and err.startswith(wanted) and REPORT.fullmatch(err[len(wanted):]), f"a full disk: {err!r}")

        _, status, err = runs.run(["/bin/true"], HAKMEM_LOG="silent")
        runs.check(err == "" and not os.path.exists(folder + "/silent"), f"a file of nothing: {err!r}")

        _, _, err = runs.run(["/bin/true"], HAKMEM_SAFE="7", HAKMEM_VERBOSE="1", HAKMEM_LOG="said")
        text = runs.text("said")
        runs.check(err == "" and text.startswith("hakmem: HAKMEM_SAFE=7: not valid") and "HAKMEM_LOG" in text, f"options: {err!r} {text!r}")

        _, _, err = runs.run(["/bin/true"], HAKMEM_LOG="yes")
        wanted = "hakmem: HAKMEM_LOG=yes: not valid, expected one of off, or a file such as /tmp/hakmem.%p; using off\n"
        runs.check(err == wanted, f"yes: {err!r}")

        pid, _, err = runs.run([guard, "in_child"], HAKMEM_GUARD="1", HAKMEM_LOG="touch.%p")
        files = [name for name in os.listdir(folder) if name.startswith("touch.")]
        text = runs.text(files[0]) if len(files) == 1 else ""
        runs.check(err == "" and files != [f"touch.{pid}"] and "hakmem:   touched by thread " in text, f"child: {files} {err!r} {text!r}")

        pid, status, err = runs.run([guard, "on_small_stack"], HAKMEM_GUARD="1", HAKMEM_LOG="small.%p")
        text = runs.text(f"small.{pid}")
        runs.check(status == -signal.SIGSEGV and err == "" and TOUCH.fullmatch(text), f"8 KiB of stack: {status} {err!r} {text!r}")
        _, _, err = runs.run([guard, "on_small_stack"], HAKMEM_GUARD="1", HAKMEM_LOG="/nowhere/log")
        runs.check(TOUCH.fullmatch(err[err.index("\n") + 1 :]), f"bad file, 8 KiB of stack: {err!r}")

        _, _, plain = runs.run([guard, "crash_on_small_stack"], HAKMEM_CRASH_REPORT="1")
        pid, _, err = runs.run([guard, "crash_on_small_stack"], HAKMEM_CRASH_REPORT="1", HAKMEM_LOG="crash.%p")
        text = runs.text(f"crash.{pid}")
        runs.check(err == "" and CRASH.fullmatch(text) and CRASH.fullmatch(plain), f"crash, 8 KiB of stack: {err!r} {text!r} {plain!r}")

        _, _, err = runs.run(["/bin/true"], HAKMEM_STATS="text", HAKMEM_LOG="figures")
        runs.check("statistics of process" in err and runs.text("figures") == "", f"statistics: {err!r}")
        print("\n".join(runs.problems + [f"{len(runs.problems)} problems"]))
        return 1 if runs.problems else 0


sys.exit(main())
