#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the built library to what is claimed of its fast path and of its surroundings.

    fastpath.py LIBRARY TRACE-PROGRAM

1. The instructions that malloc and free execute on a warm heap, as trace.c saw them step by step, are looked up in the
   disassembly. Of nine calls the most frequent path counts: the others may be where the countdown ran out. On that path:
   at most so many instructions, no call, no frame (push, pop, or arithmetic on the stack pointer), nothing executed twice.
2. Thread-local storage: at most 64 bytes, reached without __tls_get_addr or descriptors.
3. Nothing the library imports may allocate, take stdio's or a mutex's path into libc, or need a C++ runtime. One
   exception: fputs, for malloc_info has no other way to write to the stream that it is given.
"""

import collections
import re
import subprocess
import sys

TINY_MAX = 1024
LIMITS = {"tiny malloc": 22, "mid malloc": 30, "free": 40}
TLS_BYTES_MAX = 64

# fputs is not among them: malloc_info(3) writes its finished text to the caller's stream.
FORBIDDEN = re.compile(
    r"""^(
    v?(f|d|s|sn|as|sw|fw|w)?printf | __v?(f|d|s|sn|as)?printf_chk | v?(f|s)?scanf | __isoc99_.*scanf
  | puts | fputc | putc | putchar | fwrite | fread | fopen(64)? | fdopen | freopen | fclose | fflush | fgets
  | getline | getdelim | fseek | setvbuf | open_memstream | fmemopen | perror | stdin | stdout | stderr
  | pthread_mutex_.* | pthread_rwlock_.* | pthread_cond_.* | pthread_spin_.* | pthread_create | sem_.*
  | dlerror | dladdr | backtrace.* | abort_message
  | strdup | strndup | strerror(_r|_l)? | strsignal | setlocale | newlocale | uselocale | localeconv
  | getenv_s | setenv | putenv | qsort | tmpfile | opendir | readdir | realpath | getcwd | sysconf | get_nprocs.*
  | syslog | openlog | getpwnam.* | regcomp | wordexp | glob
  | (__libc_)?(malloc|calloc|realloc|free|memalign|valloc|pvalloc) | posix_memalign | aligned_alloc | reallocarray
  | malloc_usable_size | mallinfo2? | mallopt
  | __tls_get_addr | __gxx_personality_v0 | _Z.* | __cxa_(throw|allocate_exception|begin_catch|end_catch|rethrow|guard_.*)
  )$""",
    re.X,
)
NEEDED = re.compile(r"^(libc|ld-linux[-\w]*|libdl|libpthread|libc\.musl[-\w]*)\.so(\.\d+)?$")

FRAME = re.compile(
    r"^(push|pop|leave|enter|call|stp\s.*\[sp, #-|ldp\s.*\[sp\], #|(sub|add)\s+(\$\S+,%rsp|sp, sp)|and\s+\S+,%rsp|bl[r]?\s)"
)
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(.*)$")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def disassemble(library):
    """Offset in the library -> text of the instruction."""
    lines = output("objdump", "-d", "--no-show-raw-insn", library).splitlines()
    found = (INSTRUCTION.match(line) for line in lines)
    return {int(m[1], 16): m[2].split("#")[0].split("//")[0].strip() for m in found if m}


def traced_paths(library, trace):
    """(function, size) -> the path that most of its calls took, as offsets."""
    name = library.rsplit("/", 1)[-1].split(".so")[0]
    done = subprocess.run(
        [trace, name], env={"LD_PRELOAD": library}, capture_output=True, text=True, timeout=1200, check=False
    )
    if done.returncode == 77:
        return None
    if done.returncode != 0:
        sys.exit(f"trace: status {done.returncode}: {done.stderr}")
    calls = collections.defaultdict(collections.Counter)
    for line in done.stdout.splitlines():
        call, offsets = line.split(":")
        function, size = call.split()
        calls[function, int(size)][tuple(int(x, 16) for x in offsets.split())] += 1
    return {call: paths.most_common(1)[0][0] for call, paths in calls.items()}


def path_problems(code, path, limit):
    if not path or any(offset not in code for offset in path):
        return ["the trace does not match the disassembly"]
    text = [code[offset] for offset in path]
    problems = []
    if len(path) > limit:
        problems.append(f"{len(path)} instructions, at most {limit} allowed")
    problems += [f"not straight: {t}" for t in text if FRAME.match(t)]
    problems += [f"loops: {code[offset]}" for offset, times in collections.Counter(path).items() if times > 1]
    if not text[-1].startswith("ret"):
        problems.append(f"ends in {text[-1]}")
    return problems


def check_paths(library, trace):
    paths = traced_paths(library, trace)
    if paths is None:
        print("skip: instructions cannot be traced here (ptrace)")
        return 0
    code = disassemble(library)
    failures = 0
    for (function, size), path in sorted(paths.items()):
        kind = "free" if function == "free" else "tiny malloc" if size <= TINY_MAX else "mid malloc"
        problems = path_problems(code, path, LIMITS[kind])
        failures += bool(problems)
        print(f"{'FAIL' if problems else 'ok':4}  {function}({size}): {len(path)} of {LIMITS[kind]} instructions")
        for problem in problems[:8]:
            print(f"        {problem}")
        if problems and len(path) < 100:
            print("\n".join(f"          {offset:6x}  {code.get(offset, '?')}" for offset in path))
    return failures


def check_tls(library):
    sizes = [int(line.split()[5], 16) for line in output("readelf", "-lW", library).splitlines() if " TLS " in line]
    total = sum(sizes)
    relocations = output("readelf", "-rW", library)
    dynamic = [word for word in ("DTPMOD", "DTPOFF", "TLSDESC") if word in relocations]
    good = total <= TLS_BYTES_MAX and not dynamic
    print(f"{'ok' if good else 'FAIL':4}  static TLS {total} of {TLS_BYTES_MAX} bytes {' '.join(dynamic)}")
    return 0 if good else 1


def check_imports(library):
    symbols = output("nm", "-D", "--undefined-only", library).splitlines()
    strong = {line.split()[-1].split("@")[0] for line in symbols if line.split()[-2] == "U"}
    bad = sorted(name for name in strong if FORBIDDEN.match(name))
    print(f"{'FAIL' if bad else 'ok':4}  {len(strong)} imported functions, forbidden: {', '.join(bad) or 'none'}")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", library))
    strange = [name for name in needed if not NEEDED.match(name)]
    print(f"{'FAIL' if strange else 'ok':4}  needs {', '.join(needed)}")
    return bool(bad) + bool(strange)


def main():
    library, trace = sys.argv[1:3]
    failures = check_tls(library) + check_imports(library) + check_paths(library, trace)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
