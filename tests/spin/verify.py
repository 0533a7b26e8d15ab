#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Verifies a model with Spin, and that each mistake seeded in it is found.

    verify.py [--full] MODEL WORK_DIRECTORY

--full: with the larger numbers that the model has under FULL, for `make proof`. The mistakes are those that the model names: #ifdef BUG_...; its other variants, #ifdef of any other name, must hold.

Skips (77) where Spin or a C compiler is missing.
"""

import pathlib
import re
import shutil
import subprocess
import sys


def variants(model):
    """(definitions, whether an error is to be found) of the protocol and of each variant."""
    names = sorted(set(re.findall(r"^#ifn?def (\w+)", model.read_text(), re.MULTILINE)) - {"FULL"})
    return [([], False)] + [([name], name.startswith("BUG_")) for name in names]


def verify(model, work, definitions, full, wrong=False):
    """Explores every interleaving, or those before the first error where one is expected, which takes less time than an
    optimizing compiler does; returns (errors, states, truncated)."""
    directory = work / ("_".join(definitions) or "protocol")
    directory.mkdir(parents=True, exist_ok=True)
    flags = [f"-D{d}" for d in definitions + ["FULL"] * full]
    subprocess.run(["spin", "-a", *flags, model], cwd=directory, check=True, stdout=subprocess.DEVNULL)
    compiler = shutil.which("cc") or shutil.which("gcc")
    options = ["-O0" if wrong else "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=512", "-DMEMLIM=4000"]
    subprocess.run([compiler, *options, "-o", "pan", "pan.c"], cwd=directory, check=True)
    text = subprocess.run(
        ["./pan", "-m1000000", "-w22"], cwd=directory, capture_output=True, text=True, check=False, timeout=4000
    ).stdout
    errors = re.search(r"errors: (\d+)", text)
    states = re.search(r"(\d+) states, stored", text)
    if errors is None or states is None:
        sys.exit(f"{definitions}: the verifier said {text!r}")
    return int(errors[1]), int(states[1]), "Search not completed" in text and errors[1] == "0" or "too small" in text


def main():
    full = "--full" in sys.argv
    model, work = (pathlib.Path(path).resolve() for path in sys.argv[1:] if path != "--full")
    if shutil.which("spin") is None or not (shutil.which("cc") or shutil.which("gcc")):
        print("skipped: spin or a C compiler is not installed")
        return 77
    failed = False
    for definitions, wrong in variants(model):
        errors, states, truncated = verify(model, work, definitions, full, wrong)
        good = (errors > 0) == wrong and not truncated
        failed |= not good
        name = " ".join(definitions) or "the protocol"
        said = "an error is found" if errors else "no error in any interleaving"
        print(f"{'ok' if good else 'FAIL':4}  {name}: {said} ({states} states){' INCOMPLETE' if truncated else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
