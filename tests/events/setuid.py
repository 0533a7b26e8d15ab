#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A set-uid program ignores the environment: neither options nor HAKMEM_VERBOSE have any effect, and nothing is printed.

    setuid.py PROBE

Needs root, to give a copy of the probe to another user with the set-uid bit; skips (77) otherwise, or where the
directory for temporary files forbids set-uid.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

NOBODY = 65534


def run(program):
    environment = {"HAKMEM_SAFE": "3", "HAKMEM_VERBOSE": "1", "HAKMEM_STATS": "1", "HAKMEM_NONSENSE": "1"}
    return subprocess.run([str(program)], env=environment, capture_output=True, text=True, timeout=300)


def main():
    if os.geteuid() != 0:
        print("skipped: needs root")
        return 77
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        program = pathlib.Path(directory) / "probe"
        shutil.copy(sys.argv[1], program)
        program.chmod(0o755)
        plain = run(program)
        if plain.stdout != "secure 0 safe 3 verbose on\n" or "HAKMEM_NONSENSE" not in plain.stderr:
            print(f"without the bit the environment should count: {plain}")
            return 1
        os.chown(program, NOBODY, NOBODY)
        program.chmod(0o4755)
        secure = run(program)
    if secure.stdout.startswith("secure 0"):
        print("skipped: set-uid has no effect here")
        return 77
    if secure.returncode != 0 or secure.stdout != "secure 1 safe 1 verbose off\n" or secure.stderr:
        print(f"the environment had an effect on a set-uid program: {secure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
