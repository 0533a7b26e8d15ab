#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""vm.overcommit_memory=2: reserved address space must not be charged, refusals are ENOMEM.

    overcommit.py LIBRARY OOM_PROGRAM MODEL_PROGRAM

Needs a writable /proc/sys/vm/overcommit_memory and room under the commit limit; skips (77) otherwise. The setting is put
back whatever happens.
"""

import os
import re
import signal
import subprocess
import sys
import time

SETTING = "/proc/sys/vm/overcommit_memory"


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def write(value):
    with open(SETTING, "w", encoding="ascii") as file:
        file.write(value)


def room_kib():
    text = read("/proc/meminfo")
    limit, used = (int(re.search(rf"{name}:\s+(\d+)", text)[1]) for name in ("CommitLimit", "Committed_AS"))
    return limit - used


def charged_kib(pid):
    """What the mappings of a process count against the commit limit: those that the kernel marks accountable."""
    total = size = 0
    for line in read(f"/proc/{pid}/smaps").splitlines():
        if line.startswith("Size:"):
            size = int(line.split()[1])
        elif line.startswith("VmFlags:") and "ac" in line.split():
            total += size
    return total


def sleeps_on(library, pid):
    """It has started, and waits."""
    state = read(f"/proc/{pid}/stat").rpartition(")")[2].split()[0]
    return state == "S" and os.path.realpath(library) in read(f"/proc/{pid}/maps")


def main():
    library, oom, model = sys.argv[1:4]
    before = read(SETTING)
    if room_kib() < 4 << 20:
        print("skipped: not enough room under the commit limit")
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    environment = {**os.environ, "LD_PRELOAD": library}
    try:
        write("2")
    except OSError:
        print("skipped: the setting cannot be changed")
        return 77
    failed = False
    try:
        for command in ([oom, "none", "150000"], [model, "--seconds", "1", "--max-live", "50000000"]):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200)
            if done.returncode != 0:
                failed = True
                print(f"{command}: status {done.returncode}: {done.stdout}{done.stderr}")
        # A process that only starts must not be charged for what it reserves.
        idle = subprocess.Popen(["sleep", "3600"], env=environment)
        while not sleeps_on(library, idle.pid):
            time.sleep(0.05)
        charged = charged_kib(idle.pid)
        idle.kill()
        idle.wait()
        print(f"an idle process is charged {charged} KiB")
        if charged > 16384:
            failed = True
    finally:
        write(before)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
