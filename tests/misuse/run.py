#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs every bug of bugs.c and bugs_cxx.cpp under hakmem and checks the exact message and what follows it.

    run.py LIBRARY BUGS BUGS_CXX [NAME...]

Up to four runs each: by default the program dies by SIGABRT after one line on stderr; with HAKMEM_ON_ERROR=report it
prints that line and goes on; with =ignore it goes on in silence; with HAKMEM_SAFE=0 hakmem keeps silent. `{ptr}`,
`{base}` and `{size}` stand for what the program announced about the block; the caller must lie in the program's own
code.
"""

import os
import re
import signal
import subprocess
import sys

BLOCK_FREE = r"{size}-byte block, free"
GONE = r"no live block here, memory was freed"
EITHER = rf"(?:{BLOCK_FREE}|{GONE})"
ANONYMOUS = r"anonymous memory not from hakmem"
NOT_MAPPED = r"not mapped"


def inside(offset, verb="free"):
    return (f"{verb} of interior pointer", rf"{{size}}-byte block at {{base}}, offset {offset}", {})


def misaligned(offset):
    return ("free of misaligned pointer", rf"{{size}}-byte block at {{base}}, offset {offset}", {})


def foreign(detail, verb="free"):
    return (f"{verb} of foreign pointer", detail, {})


def double(detail):
    return ("double free of", detail, {})


VARIED = ("HAKMEM_PROFILE", "HAKMEM_SAFE")  # what the tests give these cases
LEVEL = int(os.environ.get("HAKMEM_SAFE", "1"))


def wrong_size(given, verb="free_sized", level=1):
    return (f"{verb} of wrong size", rf"{{size}}-byte block, size {given} given", {"HAKMEM_SAFE": str(level)})


def written(offset, size=r"\d+"):
    return ("write after free of", rf"{size}-byte block, offset {offset}", {"HAKMEM_SAFE": "2"})


def written_3(offset):
    return ("write after free of", rf"\d+-byte block, offset {offset}", {"HAKMEM_SAFE": "3"})


def overflow(asked, offset):
    return ("overflow of", rf"\d+-byte block, {asked} bytes asked for, offset {offset} overwritten", {"HAKMEM_SAFE": "3"})


def seal_broken(level):
    return ("overflow of", r"\d+-byte block, its last bytes are overwritten", {"HAKMEM_SAFE": str(level)})


def underflow(level):
    return ("underflow of", r"112-byte block, or overflow of the one below it at 0x[0-9a-f]+", {"HAKMEM_SAFE": str(level)})


# What follows the line (src/watch/report.h): the block, its bytes, the stacks down to main, and where to read on.
STACK = r"hakmem:   {who} by thread \d+:\n(?:hakmem:     from 0x[0-9a-f]+ \(\S+\+0x[0-9a-f]+\)\n)+"
WRONG = (
    r"hakmem:   first wrong byte (?:0x[0-9a-f]+, at offset {offset} of the block|among the 8 before the block):\n"
    r"(?:hakmem:     0x[0-9a-f]+:[0-9a-f \[\]]+\n){1,3}"
)
LAST = r"hakmem:   docs/misuse\.md says what this means; to report it, send it with what `hakmem doctor -- {program}` prints\n"


def block_line(start, state):
    """Which block it is, where it ends, and how large it is."""
    return (
        rf"hakmem:   block {start} to 0x[0-9a-f]+, \d+ bytes(?:, in a slab of such blocks|, large|, huge|)(?: of heap \d+)?"
        rf", {state}(?:, (?P<asked>\d+) bytes asked for)?\n"
    )


FREED = ("double free of", "write after free of", "realloc of freed block")

# Blocks without memory; what was freed too long ago; and what never was a block.
FREES_NOT_KEPT = ("double_free_zero", "nothing_3", "double_free_slab_gone", "behind_slab")


def rest_of(what, detail, program, frees_are_kept):
    """What must follow a line that says this."""
    offset = re.search(r"offset (\d+)", detail)
    wrong = WRONG.replace("{offset}", offset[1] if offset else r"\d+")
    block = {
        "double free of": "(?:%s)?" % block_line("{ptr}", "free"),
        "write after free of": block_line("{ptr}", "free") + wrong,
        "overflow of": block_line("{ptr}", "allocated") + wrong,
        "underflow of": block_line("{ptr}", "allocated") + wrong,
    }.get(what)
    if block is None and "of freed block" in what:
        block = "(?:%s)?" % block_line("{ptr}", "free")
    elif block is None and "of wrong size" in what:
        block = block_line("{ptr}", "allocated")
    elif block is None and ("of interior" in what or "of misaligned" in what):
        block = block_line("{base}", "allocated")
    elif block is None:
        block = "(?:%s)?" % block_line("{ptr}", "free") if "double" in what else ""
    known = "HAKMEM_PROFILE" in os.environ and block and "double" not in what and "freed" not in what and "after" not in what
    allocated, freed = (STACK.replace("{who}", who) for who in ("allocated", "freed"))
    last = LAST.replace("{program}", re.escape(program))
    if what in FREED and frees_are_kept:
        return block + STACK.replace("{who}", "called") + allocated + freed + last
    return block + STACK.replace("{who}", "called") + (allocated if known else f"(?:{allocated})?") + last


SEAL_BYTES = 8  # of a block at HAKMEM_SAFE=2 that the program may not use

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

# name: (what, detail as a regular expression, environment)
EXPECTED = {
    "double_free_tiny": double(BLOCK_FREE),
    "double_free_smallest": double(BLOCK_FREE),
    "double_free_zero": double(BLOCK_FREE),
    "double_free_mid": double(BLOCK_FREE),
    "double_free_mid_top": double(EITHER),
    "double_free_large": double(EITHER),
    "double_free_huge": double(EITHER),
    "double_free_overwritten": double(BLOCK_FREE),
    "double_free_after_1": double(BLOCK_FREE),
    "double_free_after_10": double(BLOCK_FREE),
    "double_free_after_1000": double(BLOCK_FREE),
    "double_free_slab_gone": double(EITHER),
    "double_free_large_reused_cache": double(EITHER),
    "double_free_other_thread": double(BLOCK_FREE),
    "double_free_both_remote": double(BLOCK_FREE),
    "double_free_remote_first": double(BLOCK_FREE),
    "double_free_aligned": double(EITHER),
    "realloc_freed": ("realloc of freed block", BLOCK_FREE, {}),
    "realloc_freed_same_size": ("realloc of freed block", BLOCK_FREE, {}),
    "realloc_freed_large": ("realloc of freed block", EITHER, {}),
    "realloc_then_free_old": double(BLOCK_FREE),
    "interior_tiny": inside(16),
    "interior_tiny_far": inside(512),
    "interior_mid": inside(4096),
    "interior_mid_top": inside(64 * KIB),
    "interior_large": inside(4096),
    "interior_large_slot": inside(128 * KIB),
    "interior_huge": inside(4096),
    "interior_huge_far": inside(2 * GIB),
    "behind_slab": double(GONE),
    "interior_remote": inside(16),
    "interior_realloc": inside(16, "realloc"),
    "interior_usable_size": inside(16, "malloc_usable_size"),
    "misaligned_tiny": misaligned(3),
    "misaligned_mid": misaligned(1001),
    "misaligned_large": misaligned(8),
    "foreign_stack": foreign("stack"),
    "foreign_global": foreign(r"mapped file \S*/{program}"),
    "foreign_literal": foreign(r"mapped file \S*/{program}"),
    "foreign_code": foreign(r"mapped file \S*/{program}"),
    "foreign_libc_code": foreign(r"mapped file \S*/libc\S*"),
    "foreign_mmap": foreign(ANONYMOUS),
    "foreign_mmap_inside": foreign(ANONYMOUS),
    "foreign_mapped_file": foreign(r"mapped file \S*/{program}"),
    "foreign_brk": foreign(ANONYMOUS),
    "foreign_unmapped": foreign(NOT_MAPPED),
    "foreign_arena": foreign(ANONYMOUS),
    "wild_deadbeef": foreign(NOT_MAPPED),
    "wild_small": foreign(NOT_MAPPED),
    "wild_negative": foreign(NOT_MAPPED),
    "wild_minus_one": foreign(NOT_MAPPED),
    "wild_top_of_user": foreign(NOT_MAPPED),
    "wild_above_user": foreign(NOT_MAPPED),
    "wild_near_heap": (r"(?:free of foreign pointer|double free of)", rf"(?:{NOT_MAPPED}|{ANONYMOUS}|{GONE})", {}),
    "wild_realloc": foreign(NOT_MAPPED, "realloc"),
    "wild_usable_size": foreign(NOT_MAPPED, "malloc_usable_size"),
    "sized_wrong": wrong_size(128),
    "sized_wrong_smaller": wrong_size(16),
    "sized_wrong_mid": wrong_size(100),
    "sized_wrong_smaller_safe2": wrong_size(16, level=2),
    "sized_wrong_by_one_safe3": wrong_size(65, level=3),
    "sized_wrong_large": wrong_size(64),
    "sized_wrong_small_as_large": wrong_size(MIB),
    "sized_aligned_wrong": wrong_size(1024, "free_aligned_sized"),
    "write_after_free_24": written(24),
    "write_after_free_8": written(8),
    "write_after_free_first": written(0),
    "write_after_free_last": written(63),
    "write_after_free_1000": written(500),
    "write_after_free_border": written(100),
    "write_after_free_border_3": written_3(100),
    "write_after_free_large": written(4 * MIB),
    "overflow_border": overflow(256 * KIB - 5, 256 * KIB - 5),
    "overflow_large": overflow(5000000, 5000000),
    "overflow_huge": overflow(2 * GIB, 2 * GIB + 7),
    "overflow_by_one": overflow(20, 20),
    "overflow_by_four": overflow(100, 103),
    "overflow_full_class": overflow(64, 64),
    "overflow_mid": overflow(5000, 5000),
    "overflow_aligned": overflow(100, 100),
    "overflow_at_realloc": overflow(20, 20),
    "nothing_2": ("double free of", r"0-byte block, free", {"HAKMEM_SAFE": "2"}),
    "misaligned_nothing_2": (*misaligned(1)[:2], {"HAKMEM_SAFE": "2"}),
    "nothing_3": ("double free of", r"0-byte block, free", {"HAKMEM_SAFE": "3"}),
    "overflow_seal_2": seal_broken(2),
    "overflow_seal_mid_2": seal_broken(2),
    "overflow_string_2": seal_broken(2),
    "underflow_1_2": underflow(2),
    "underflow_8_2": underflow(2),
    "underflow_32_2": underflow(2),
    "underflow_1_3": underflow(3),
    "underflow_32_3": underflow(3),
    "write_after_free_middle_3": written_3(2500),
    "sized_delete_wrong": wrong_size(128, "operator delete"),
    "sized_delete_array_wrong": wrong_size(400, r"operator delete\[\]"),
    "sized_delete_aligned_wrong": wrong_size(4096, "operator delete"),
    "sized_delete_smaller_safe2": wrong_size(16, "operator delete", level=2),
    "double_delete": double(BLOCK_FREE),
    "double_delete_sized": double(BLOCK_FREE),
    "delete_interior": inside(16),
    "delete_wild": foreign(NOT_MAPPED),
}



def run(library, program, name, extra):
    environment = {k: v for k, v in os.environ.items() if (not k.startswith("HAKMEM_") or k in VARIED) and k != "LD_PRELOAD"}
    environment.update(extra)
    environment["LD_PRELOAD"] = library
    done = subprocess.run([program, name], env=environment, capture_output=True, text=True, timeout=1200)
    return done.returncode, done.stdout, done.stderr


def expected_line(program, name, announced):
    what, detail, _ = EXPECTED[name]
    ptr, base, size = announced
    if LEVEL == 3:  # a block has its seal behind it
        size = r"\d+"
    sizes = f"(?:{size}|{int(size) + SEAL_BYTES})" if size.isdigit() and int(size) > 0 else size
    detail = detail.replace("{size}", sizes).replace("{base}", base).replace("{program}", os.path.basename(program))
    level = int(EXPECTED[name][2].get("HAKMEM_SAFE", LEVEL))
    frees_are_kept = level == 3 and "HAKMEM_PROFILE" in os.environ and name not in FREES_NOT_KEPT
    rest = rest_of(what, detail, program, frees_are_kept).replace("{ptr}", ptr).replace("{base}", base)
    return re.compile(rf"hakmem: {what} {ptr} \({detail}\), called from (0x[0-9a-f]+) \((\S+)\+(0x[0-9a-f]+)\)\n{rest}")


def wrong_line(program, name, out, err):
    """None when `err` is exactly the report that `out` announces."""
    announced = re.search(r"^ptr (0x[0-9a-f]+|0) base (0x[0-9a-f]+|0) size (\d+)$", out, re.M)
    text = re.search(r"^text (0x[0-9a-f]+) (0x[0-9a-f]+)$", out, re.M)
    if announced is None or text is None:
        return f"the program announced nothing: {out!r} {err!r}"
    pattern = expected_line(program, name, announced.groups())
    match = pattern.fullmatch(err)
    if match is None:
        return f"expected {pattern.pattern!r}\n      got      {err!r}"
    caller, start = int(match[1], 16), int(text[1], 16)
    if not start <= caller <= int(text[2], 16):
        return f"caller {match[1]} is not in the program ({text[1]} to {text[2]})"
    if match[2] != os.path.realpath(program) or int(match[3], 16) not in (caller - start, caller):
        return f"{match[2]}+{match[3]} is not {match[1]} in {program}, loaded at {text[1]}"
    return None


def check_default(library, program, name, level):
    status, out, err = run(library, program, name, level)
    if status == 77:
        return "skipped"
    if status != -signal.SIGABRT:
        return f"ends with status {status}, not SIGABRT\n      {out!r} {err!r}"
    return wrong_line(program, name, out, err)


def check_report(library, program, name, level):
    status, out, err = run(library, program, name, {**level, "HAKMEM_ON_ERROR": "report"})
    if status != 0 or not out.endswith("survived\n"):
        return f"report: ends with status {status}: {out!r} {err!r}"
    errors = re.search(r"^errors (\d+)$", out, re.M)
    written_too = name == "double_free_overwritten" and LEVEL >= 2  # and that is found as well
    if errors is not None and errors[1] != "1" and not written_too:
        return f"report: counted {errors[1]} errors, not 1: {err!r}"
    return None if written_too else wrong_line(program, name, out, err)


def check_ignore(library, program, name, level):
    status, out, err = run(library, program, name, {**level, "HAKMEM_ON_ERROR": "ignore"})
    if status != 0 or not out.endswith("survived\n") or err != "":
        return f"ignore: ends with status {status}: {out!r} {err!r}"
    return None


def check_silent(library, program, name, level):
    """Level 0 keeps silent about what level 1 reports. What comes of the bug is not known: a block may serve twice."""
    if level or LEVEL != 1:
        return None
    status, out, err = run(library, program, name, {"HAKMEM_SAFE": "0"})
    if status == -signal.SIGABRT or "hakmem:" in err:
        return f"level 0: ends with status {status}: {out!r} {err!r}"
    return None


def check_odd_name(library, program):
    """A name that would begin a line of its own, or make a terminal do something, is not shown."""
    environment = {**os.environ, "LD_PRELOAD": library}
    done = subprocess.run(["\x1b[2J\nroot", names_of(program, library)[0]], executable=program, env=environment, capture_output=True, text=True)
    shown = "hakmem doctor -- PROGRAM" in done.stderr and "\x1b" not in done.stderr
    return None if shown else f"name of the program: {done.stderr!r}"


def names_of(program, library):
    environment = {**os.environ, "LD_PRELOAD": library}
    return subprocess.run([program], env=environment, capture_output=True, text=True, check=True).stdout.split()


def main():
    library, *programs = sys.argv[1:4]
    wanted = sys.argv[4:]
    failures = tried = 0
    for program in programs:
        for name in names_of(program, library):
            if wanted and not any(name.startswith(w) for w in wanted):
                continue
            tried += 1
            level = EXPECTED[name][2] if name in EXPECTED else {}
            problem = "no expectation for this bug" if name not in EXPECTED else None
            for check in (check_default, check_report, check_ignore, check_silent):
                problem = problem or check(library, program, name, level)
            if problem == "skipped":
                print(f"skip  {name}")
            elif problem:
                failures += 1
                print(f"FAIL  {name}\n      {problem}")
            else:
                print(f"ok    {name}")
    odd = check_odd_name(library, programs[0])
    if odd:
        failures += 1
        print(f"FAIL  {odd}")
    print(f"{tried} bugs, {failures} failures")
    return 1 if failures or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
