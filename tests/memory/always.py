# SPDX-License-Identifier: MIT
"""Runs a program while the kernel gives huge pages to everybody, and switches that off again.

  always.py LIBRARY PROGRAM

Skipped (77) where the switch may not be changed.
"""

import os
import re
import signal
import subprocess
import sys

SWITCH = "/sys/kernel/mm/transparent_hugepage/enabled"


def set_switch(value):
    with open(SWITCH, "w", encoding="ascii") as file:
        file.write(value)


def main():
    library, program = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the switch is put back then, too
    try:
        with open(SWITCH, encoding="ascii") as file:
            before = re.search(r"\[(\w+)\]", file.read()).group(1)
        set_switch("always")
    except OSError as error:
        print(f"skipped: {error}")
        return 77
    try:
        return subprocess.run([program], env={**os.environ, "LD_PRELOAD": library}, check=False).returncode
    finally:
        set_switch(before)


if __name__ == "__main__":
    sys.exit(main())
