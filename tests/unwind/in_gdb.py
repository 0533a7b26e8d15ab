# SPDX-License-Identifier: MIT
"""Read by gdb (oracle.py): at each sample compares the stack that hakmem captures with gdb's.

Writes a line: stacks, frames of gdb's, frames of them that are the same, stacks that hakmem marks as cut. The library that it
looks at is $ORACLE_LIBRARY; it stops after $ORACLE_STACKS.
"""

import os
import struct

import gdb

ARGUMENT = {"x86_64": "rdi", "aarch64": "x0"}[os.uname().machine]
SHOWN_MAX = 5


def frames():
    """Return addresses of the stopped thread, the innermost first."""
    found, frame = [], gdb.newest_frame()
    while frame is not None:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            found.append(frame.pc())
        frame = frame.older()
    return found


def ranges(which):
    """Where files whose name passes the test are mapped."""
    with open("/proc/%d/maps" % gdb.selected_inferior().pid) as maps:
        lines = [line.split(None, 5) for line in maps]
    named = [line for line in lines if which(line[5].strip() if len(line) > 5 else "")]
    return [tuple(int(end, 16) for end in line[0].split("-")) for line in named]


def lies_in(address, places):
    return any(start <= address < end for start, end in places)


def captured():
    """Finishes sample_stack_capture in this thread alone, and reads what it has written."""
    place = int(gdb.newest_frame().read_register(ARGUMENT))
    gdb.execute("set scheduler-locking on")
    gdb.execute("finish", to_string=True)
    gdb.execute("set scheduler-locking off")
    memory = gdb.selected_inferior()
    count, mark, pcs = struct.unpack("<IIQ", memory.read_memory(place, 16).tobytes())
    return mark, list(struct.unpack("<%dQ" % count, memory.read_memory(pcs, 8 * count).tobytes()))


def main():
    library = os.path.realpath(os.environ["ORACLE_LIBRARY"])
    for line in ("set pagination off", "set confirm off", "set backtrace past-main on", "set backtrace limit 1000", "set breakpoint pending on",
                 "handle all nostop noprint pass", "set debuginfod enabled off", "break sample_stack_capture"):
        gdb.execute(line, to_string=True)
    stacks = total = same = cut = shown = 0
    gdb.execute("run", to_string=True)
    while stacks < int(os.environ["ORACLE_STACKS"]) and gdb.selected_inferior().pid != 0:
        own = ranges(lambda name: name == library)
        files = ranges(lambda name: name.startswith("/"))
        theirs = [pc for pc in frames() if not lies_in(pc, own)]
        mark, ours = captured()
        # Of code made at run time gdb has no tables, and guesses otherwise than by frame pointers.
        known = next((at for at, pc in enumerate(theirs) if not lies_in(pc, files)), len(theirs))
        theirs = theirs[:known]
        alike = sum(1 for mine, other in zip(ours, theirs) if mine == other)
        if alike != len(theirs) and shown < SHOWN_MAX:
            shown += 1
            print("differs:", [hex(pc) for pc in ours], [hex(pc) for pc in theirs], "mark", mark)
        stacks, total, same, cut = stacks + 1, total + len(theirs), same + alike, cut + (mark != 0)
        gdb.execute("continue", to_string=True)
    print("oracle: %d %d %d %d" % (stacks, total, same, cut))


main()
