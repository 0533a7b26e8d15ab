# SPDX-License-Identifier: MIT
"""python -m hakmem run [--stats] [--verbose] [--set NAME=VALUE]... -- PROGRAM [ARGUMENT]...   starts PROGRAM on hakmem
python -m hakmem path                                                                    prints where the library is"""

import argparse
import os
import re
import shutil
import struct
import sys

from . import path


def words(argv):
    parser = argparse.ArgumentParser(prog="python -m hakmem")
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="start a program on hakmem")
    run.add_argument("--stats", action="store_true", help="print statistics at exit")
    run.add_argument("--verbose", action="store_true", help="print version and options at start")
    run.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option, such as PURGE_DELAY=100")
    run.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM")
    verbs.add_parser("path", help="print where the library is")
    return parser.parse_args(argv)


# What is read of an ELF header (place and sizes of the program headers) and of a program header (type, place, size).
ELF_64, ELF_32 = ("32xQ14xHH", "IxxxxQ16xQ"), ("28xI10xHH", "II8xI")
PT_INTERP = 3


def program_headers(file):
    start = file.read(64)
    order = "<" if start[5] == 1 else ">"
    header, entry = (order + fields for fields in (ELF_64 if start[4] == 2 else ELF_32))
    place, size, count = struct.unpack_from(header, start)
    for number in range(count):
        file.seek(place + number * size)
        yield struct.unpack(entry, file.read(struct.calcsize(entry)))


def interpreter_of(file):
    """The dynamic linker that an ELF file asks for; None for a static program; '' for what is no ELF file."""
    if file.read(4) != b"\x7fELF":
        return ""
    file.seek(0)
    try:
        for kind, place, size in program_headers(file):
            if kind == PT_INTERP:
                file.seek(place)
                return file.read(size).rstrip(b"\0").decode(errors="replace")
    except (struct.error, IndexError):  # the file is cut off
        return ""
    return None


def libc_of(path):
    """'musl', 'glibc', 'static', or '' where it cannot be told, as of scripts."""
    with open(path, "rb") as file:
        linker = interpreter_of(file)
    if linker is None:
        return "static"
    return "" if not linker else "musl" if "musl" in linker else "glibc"


def needs_musl(library):
    with open(library, "rb") as opened:
        return re.search(rb"libc\.musl-|ld-musl-", opened.read()) is not None or b"libc.so.6" not in open(library, "rb").read()


def refusal(program):
    """Why `program` cannot run on this library, or None."""
    file = shutil.which(program)
    if file is None:
        return "%s: not found" % program
    if re.search("[ :]", path()):
        return "%s: the dynamic linker takes spaces and colons for the end of a name; install the package in another place" % path()
    kind, ours = libc_of(file), "musl" if needs_musl(path()) else "glibc"
    if kind == "static":
        return "%s is a static program: no library can be preloaded" % file
    if kind and kind != ours:
        return "%s needs %s, and this library is for %s" % (file, kind, ours)
    return None


def environment(arguments):
    found = dict(os.environ)
    others = [word for word in re.split("[ :]", found.get("LD_PRELOAD", "")) if word and word != path()]
    found["LD_PRELOAD"] = ":".join([path()] + others)
    if arguments.stats:
        found.setdefault("HAKMEM_STATS", "text")
    if arguments.verbose:
        found["HAKMEM_VERBOSE"] = "1"
    for setting in arguments.set:
        name, _, value = setting.partition("=")
        found["HAKMEM_" + name.upper()] = value
    return found


def main(argv=None):
    arguments = words(sys.argv[1:] if argv is None else argv)
    if arguments.verb == "path":
        print(path())
        return 0
    program = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    problem = refusal(program[0]) if program else "no program given"
    if problem:
        print("hakmem: " + problem, file=sys.stderr)
        return 2
    os.execvpe(program[0], program, environment(arguments))


if __name__ == "__main__":
    sys.exit(main())
