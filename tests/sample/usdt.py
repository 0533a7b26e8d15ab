#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Traces a program's sampled allocations by the probes otel_memory:alloc and :free of the library; and what the allocator does, by those of
the provider hakmem.

    usdt.py LIBRARY PROGRAM

`readelf -n` has to show both probes with their arguments. Then the kernel traces them (tracefs, as root): the semaphore goes from
0 to 1 and back, each block that is freed was allocated before, and the weights add up to what the program allocated.
Without readelf, root or tracefs it says so and is skipped (77).
"""

import contextlib
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

REGISTERS = {"x86_64": ("%di", "%si", "%dx"), "aarch64": ("%x0", "%x1", "%x2")}
ARGUMENTS = {"x86_64": "8@%rdi 8@%rsi 8@%rdx", "aarch64": "8@x0 8@x1 8@x2"}
FIELDS = {
    "otel_memory": {"alloc": ["user", "size", "weight"], "free": ["user"]},
    "hakmem": {"map": ["bytes"], "purge": ["bytes", "kind"], "limit": ["kind", "bytes"], "misuse": ["address"]},
}
MACHINE = os.uname().machine
GROUP = "hakmem_%d" % os.getpid()
ROUND_MIB = 8  # 16 samples on average, of which a thread has so many as take PACE_BURST_NS (src/sample/pace.h)
REST = 0.05  # seconds, in which it regains more than that
CALM_ROUNDS = 32
HASTE_MIB = 128000
HASTE_ROUNDS = 20  # at most: a thread samples for a share of its time, and a sample takes long where the machine has other work
HASTE_EVENTS = 100  # which are enough


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def probes(library, provider):
    """Name: (place, semaphore), addresses in the file as it is linked."""
    shown = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
    found = {}
    pattern = r"Provider: %s\s+Name: (\w+)\s+Location: (0x\w+), Base: 0x\w+, Semaphore: (0x\w+)\s+Arguments: (.*)"
    for name, place, semaphore, arguments in re.findall(pattern % provider, shown):
        expected = " ".join(ARGUMENTS[MACHINE].split()[: len(FIELDS[provider][name])])
        assert arguments.strip() == expected, "%s has the arguments %r, not %r" % (name, arguments, expected)
        found[name] = int(place, 16), int(semaphore, 16)
    assert sorted(found) == sorted(FIELDS[provider]), "readelf -n shows %s in\n%s" % (sorted(found), shown)
    return found


def in_file(library, address):
    """The place in the file of what is loaded to `address`."""
    with open(library, "rb") as file:
        head = file.read(64)
        start, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
        for number in range(count):
            file.seek(start + number * size)
            kind, _, offset, virtual, _, bytes_in_file = struct.unpack_from("<IIQQQQ", file.read(size))
            if kind == 1 and virtual <= address < virtual + bytes_in_file:
                return address - virtual + offset
    raise AssertionError("%#x is in no segment of the file" % address)


@contextlib.contextmanager
def mounted():
    """tracefs, at a place of this test's."""
    folder = tempfile.mkdtemp(prefix="hakmem-tracefs-")
    done = subprocess.run(["mount", "-t", "tracefs", "none", folder], capture_output=True, text=True)
    try:
        if done.returncode != 0:
            skip("tracefs cannot be mounted: " + done.stderr.strip())
        if not os.path.exists(folder + "/uprobe_events"):
            skip("the kernel has no uprobe events")
        yield folder
    finally:
        subprocess.run(["umount", folder], capture_output=True)
        os.rmdir(folder)


def write(path, text):
    """Appends: what is opened for writing alone loses the events of others."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, text.encode() + b"\n")
    finally:
        os.close(file)


class Trace:
    def __init__(self, folder, library, provider, found):
        self.folder, self.instance = folder, "%s/instances/%s" % (folder, GROUP)
        self.made = []
        os.mkdir(self.instance)
        for name, (place, semaphore) in found.items():
            fields = " ".join("%s=%s:u64" % field for field in zip(FIELDS[provider][name], REGISTERS[MACHINE]))
            where = "%s:%#x(%#x)" % (library, in_file(library, place), in_file(library, semaphore))
            try:
                write(folder + "/uprobe_events", "p:%s/%s %s %s" % (GROUP, name, where, fields))
            except OSError as error:
                self.end()
                skip("the kernel takes no uprobe with a semaphore: %s" % error)
            self.made.append(name)

    def enable(self, on):
        write("%s/events/%s/enable" % (self.instance, GROUP), "1" if on else "0")

    def named(self):
        """A name and its fields each."""
        with open(self.instance + "/trace") as file:
            text = file.read()
        events = re.findall(r" (\w+): \(0x\w+\)((?: \w+=\d+)+)", text)
        return [(name, {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", fields)}) for name, fields in events]

    def events(self):
        return [(name, of["user"], of.get("size", 0), of.get("weight", 0)) for name, of in self.named()]

    def end(self):
        if self.made:
            self.enable(False)
        os.rmdir(self.instance)
        for name in self.made:
            write(self.folder + "/uprobe_events", "-:%s/%s" % (GROUP, name))


class Program:
    def __init__(self, path, library):
        self.child = subprocess.Popen(
            [path], env={**os.environ, "LD_PRELOAD": library}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.library = library

    def calm_round(self):
        """Most of its samples are seen."""
        time.sleep(REST)
        return self.round(ROUND_MIB)

    def round(self, mib):
        self.child.stdin.write("%d\n" % mib)
        self.child.stdin.flush()
        return int(self.child.stdout.readline())

    def hasty_rounds(self, trace):
        """What it allocated, and the events of that."""
        before, allocated = len(trace.events()), 0
        for _ in range(HASTE_ROUNDS):
            allocated += self.round(HASTE_MIB)
            events = trace.events()[before:]
            if len(events) >= HASTE_EVENTS:
                break
        return allocated, events

    def semaphore(self, address):
        with open("/proc/%d/maps" % self.child.pid) as maps:
            start = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(self.library))
        with open("/proc/%d/mem" % self.child.pid, "rb") as memory:
            memory.seek(start + address)
            return struct.unpack("<H", memory.read(2))[0]


def tolerance_of(events, allocated):
    """A thread has fewer events with larger weights where it is in haste and where samples take long, and they add up all the same.
    Where nothing is wrong, the variance of their sum is what was allocated times the weight of the sample that a byte meets on
    average. Four and a half standard errors."""
    weights = [weight for name, _, _, weight in events if name == "alloc"]
    return 4.5 * math.sqrt(sum(weight**2 for weight in weights) / sum(weights) / allocated)


def check_events(events, allocated):
    live, weights, freed = set(), 0, 0
    for name, user, size, weight in events:
        if name == "alloc":
            assert 100 <= size <= 20000 and weight >= size, "a block of %d bytes with the weight %d" % (size, weight)
            live.add(user)
            weights += weight
        else:
            assert user in live, "%#x was freed, and not allocated before" % user
            live.remove(user)
            freed += 1
    assert not live, "%d sampled blocks were freed without an event" % len(live)
    assert freed > 20, "there were %d events" % freed
    assert abs(weights / allocated - 1) < tolerance_of(events, allocated), "%d bytes allocated, weights of %d" % (allocated, weights)
    print("%d blocks, weights %.2f of what was allocated" % (freed, weights / allocated))


def main():
    source, path = sys.argv[1:3]
    if shutil.which("readelf") is None:
        skip("readelf is not installed")
    found, own_found = probes(source, "otel_memory"), probes(source, "hakmem")
    if os.geteuid() != 0:
        skip("only root traces by tracefs; readelf shows the probes")
    with mounted() as folder, tempfile.TemporaryDirectory() as own:
        library = shutil.copy(os.path.realpath(source), own + "/libhakmem.so.0")  # no other process has this file
        program = Program(path, library)
        program.round(64)
        semaphores = [found[name][1] for name in ("alloc", "free")]
        seen = lambda: [program.semaphore(address) for address in semaphores]
        assert seen() == [0, 0], "the semaphores are %s before" % seen()
        trace = Trace(folder, library, "otel_memory", found)
        try:
            trace.enable(True)
            assert seen() == [1, 1], "the semaphores are %s while it is traced" % seen()
            program.round(64)  # sampling begins somewhere in here
            program.calm_round()  # whose first sample may have a weight of the haste before
            before = len(trace.events())
            allocated = sum(program.calm_round() for _ in range(CALM_ROUNDS))
            events = trace.events()
            in_haste, hasty_events = program.hasty_rounds(trace)
            trace.enable(False)
            assert seen() == [0, 0], "the semaphores are %s after" % seen()
            assert before > 0, "sampling has not begun within 64 MiB"
            check_events(events[before:], allocated)
            check_events(hasty_events, in_haste)
        finally:
            trace.end()
        program.child.communicate()
        check_own(folder, library, path, own_found)


def check_own(folder, library, path, found):
    """A program that takes memory, is refused some by its limit, frees a block twice and has all given back."""
    trace = Trace(folder, library, "hakmem", found)
    try:
        trace.enable(True)
        environment = {**os.environ, "LD_PRELOAD": library, "HAKMEM_LIMIT": "1G:2G", "HAKMEM_ON_ERROR": "ignore", "HAKMEM_PURGE_DELAY": "0"}
        done = subprocess.run([path, "events"], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done
        events = trace.named()
        trace.enable(False)
    finally:
        trace.end()
    sums = {name: sum(of.get("bytes", 0) for event, of in events if event == name) for name in ("map", "purge")}
    assert all(64 << 20 <= sums[name] < 1 << 30 for name in sums), sums
    assert ("limit", {"kind": 1, "bytes": 3 << 30}) in [(name, {**of, "bytes": of["bytes"] >> 30 << 30}) for name, of in events if name == "limit"], events
    assert [of["address"] for name, of in events if name == "misuse"] == [int(done.stdout, 16)], (done.stdout, events[-5:])
    print("%d events of hakmem's own, %d MiB taken and %d given back" % (len(events), sums["map"] >> 20, sums["purge"] >> 20))


if __name__ == "__main__":
    main()
