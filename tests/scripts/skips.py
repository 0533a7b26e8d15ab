#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs scripts/run-tests over a made-up repository: what it says of tests that are skipped, and when that is a failure.

    skips.py SOURCE_DIRECTORY
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CMAKE = """cmake_minimum_required(VERSION 3.21)
project(made_up LANGUAGES NONE)
enable_testing()
foreach(test "good:exit 0" "rooted:echo 'skipped: needs root'; exit 77" "lacking:echo 'skipped: spin is not installed'; exit 77")
    string(REGEX MATCH "^[a-z]+" name "${test}")
    string(REGEX REPLACE "^[a-z]+:" "" what "${test}")
    add_test(NAME ${name} COMMAND sh -c "${what}")
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
endforeach()
"""
PRESETS = """{"version": 3,
  "configurePresets": [{"name": "release", "binaryDir": "${sourceDir}/build/release", "generator": "Unix Makefiles"}],
  "buildPresets": [{"name": "release", "configurePreset": "release"}],
  "testPresets": [{"name": "release", "configurePreset": "release"}]}
"""
PROGRAMS = """print("  one          passed      0.1 s  fine")
print("  two          skipped     0.1 s  skipped: no kernel for it")
print("1 passed, 0 failed, 1 skipped")
"""
CARGO = """[ "$1" = --version ] && { echo "cargo $VERSION (made up)"; exit; }
echo "test works ... ok"
echo "test network ... ignored, needs a network"
echo "skipped: Yama: the kernel has none"
echo "test yama ... ok"
[ "$LACKING" = 0 ] || echo "test go ... skipped: go tool pprof: go is not installed"
echo "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured"
"""
COMMANDS = "import os, sys; sys.exit(sys.argv[2:] != ['--tool'] or int(os.environ['DOCUMENTS_FAIL']))"
FAILED, SKIPPED = "What failed, once more:\n", "What was skipped, and why:\n"


def run(root, suite, version):
    environment = {**os.environ, "PATH": "%s:%s" % (root / "bin", os.environ["PATH"]), "VERSION": version}
    environment.update(DOCUMENTS_FAIL=str(int(version == "1.85.2")), LACKING=str(int(version == "1.85.3")))
    environment.pop("CI", None)
    command = [sys.executable, str(root / "scripts/run-tests"), "--jobs", "1", "--only", suite]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stdout


def make(root, source):
    files = {"CMakeLists.txt": CMAKE, "CMakePresets.json": PRESETS, "Cargo.toml": "", "tests/programs/run": PROGRAMS, "tests/docs/commands.py": COMMANDS}
    files["bin/cargo"] = "#!/bin/sh\n" + CARGO
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "bin/cargo").chmod(0o755)
    (root / "scripts").mkdir()
    shutil.copy(os.path.join(source, "scripts/run-tests"), root / "scripts/run-tests")


def part(text, title):
    return re.split(r"\n\n", text.split(title)[1])[0] if title in text else ""


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        make(root, sys.argv[1])
        for suite, version, code, counts, lacking, skipped in (
            ("release", "", 1, "1 passed, 1 failed, 1 skipped", "release | lacking: spin is not installed", "release | rooted: needs root"),
            ("selftest", "", 0, "1 passed, 0 failed, 1 skipped", "", "selftest | two: no kernel for it"),
            ("cargo", "1.85.1", 0, "3 passed, 0 failed, 2 skipped", "", "cargo | network: needs a network"),
            ("cargo", "1.85.1", 0, "3 passed, 0 failed, 2 skipped", "", "cargo | Yama: the kernel has none"),
            ("cargo", "1.85.2", 1, "2 passed, 1 failed, 2 skipped", "commands of the documents", "cargo | network: needs a network"),
            ("cargo", "1.85.3", 1, "2 passed, 1 failed, 2 skipped", "cargo | go tool pprof: go is not installed", "cargo | Yama"),
            ("cargo", "1.63.0", 1, "0 passed, 1 failed, 0 skipped", "cargo | FAILED: the tools need cargo 1.85", ""),
        ):
            # `selftest` stands for the suites that count for themselves; it needs no build.
            if suite == "selftest":
                shutil.copy(root / "tests/programs/run", root / "tests/programs/selftest")
            got, text = run(root, suite, version)
            good = got == code and text.splitlines()[-1] == counts
            good = good and lacking in part(text, FAILED) and skipped in part(text, SKIPPED)
            good = good and bool(part(text, FAILED)) == bool(lacking) and bool(part(text, SKIPPED)) == bool(skipped)
            failed += not good
            print("%-8s %-7s %s" % (suite, version, "as wanted" if good else "WRONG: exit status %d\n%s" % (got, text)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
