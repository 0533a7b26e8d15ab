#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs every command of the documents, as they have it, in a copy of the source.

    commands.py SOURCE_DIRECTORY [--tool | --list]

--tool runs those of the command `hakmem`, and the documents that need it (WITH_TOOL), with what cargo has built; the others are run
without it. --list shows all commands and runs none. The documents are all there are (documents_of).

A command is a line of a block ```sh, a line `$ ...` of a block ```console or of the man page, and what stands between backquotes
and begins with one of the programs in INLINE. It has failed when its exit status is not 0, and

  in a block ```console   when it does not print what follows it there, where `...` stands for anything;
  with LD_PRELOAD         when no program ran on hakmem (HAKMEM_VERBOSE=1 must print the version);
  with HAKMEM_STATS=text  when there are no statistics;
  with another tool       when it prints nothing, but for those in SILENT.

What cannot be run here is marked in the document, where its reader does not see it, with `*` for anything:
`<!-- not run (COMMAND): WHY -->`, or `<!-- not run: WHY -->` right before a block. A mark that marks nothing is a failure. A block with
more behind its language than that is a recipe, and scripts/check-recipes runs it.

What the documents take for granted is made up: `your-program` and `program`, a process PID on hakmem that allocates, a `sudo` that
installs into a folder of its own, a home directory. The library is the one that README.md and docs/install.md build and install. Skips (77) where a tool is missing.
"""

import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FIRST = ["README.md", "docs/install.md"]  # they build and install what the others use
INLINE = {"make", "sudo", "cmake", "addr2line", "apk", "apt-get", "cargo", "hakmem"}
SILENT = {"cc", "mkdir", "ln", "sudo", "kill", "sleep"}
TOOLS = ["cc", "cmake", "make", "pkg-config", "jq", "musl-gcc", "bash"]
LEFT_OUT = shutil.ignore_patterns(".git", "build", "target", "results", "__pycache__")
PROGRAM = '#include <stdlib.h>\n#include <stdio.h>\nint main(void) { void *p = malloc(1000); printf("ran\\n"); free(p); return 0; }\n'
WORKING = """#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    alarm(3000);
    for (unsigned i = 0;; i++, usleep(100)) {
        char *p = memset(malloc(5000), 1, 5000);
        if (i % 100)
            free(p);
    }
}
"""
SUDO = """#!/bin/sh
export DESTDIR="$ROOT"
exec "$@"
"""
HAKMEM = """#!/bin/sh
verb=$1
shift
[ "$verb" != run ] || set -- --library '{library}' "$@"
exec '{tool}' "$verb" "$@"
"""
LDCONFIG = """#!/bin/sh
test -e "$ROOT/usr/local/lib/libhakmem.so.0"
"""
LIMIT_SECONDS = 600
WITH_TOOL = {"docs/tutorials.md", "docs/python-leak.md", "docs/peak.md", "docs/rss.md"}
NOT_PASSED_ON = ("HAKMEM_", "LD_", "MAKE", "MFLAGS", "CMAKE", "PREFIX", "DESTDIR", "ROUNDS")


class Command:
    def __init__(self, text, place, shown=None, why=None):
        self.text, self.place, self.shown, self.why = text, place, shown, why


def documents_of(source):
    """All documents but the records of decisions, of measurements and of changes."""
    found = [path for pattern in ("*.md", "docs/*.md", "docs/*.7", "bench/*.md", "bindings/**/*.md") for path in source.glob(pattern)]
    names = (str(path.relative_to(source)) for path in found if not {"build", "target"} & set(path.parts) and path.name != "CHANGELOG.md")
    return sorted(names, key=lambda name: (name not in FIRST, name))


def uses_tool(command):
    return command.place in WITH_TOOL or command.text.split()[0] == "hakmem"


def without_comment(line):
    return re.sub(r"\s+# .*$", "", line).strip()


def block_commands(kind, lines, place, why):
    """`lines` of a block; in one of a console, what follows a command is what it prints."""
    if kind == "sh":
        return [Command(without_comment(line), place, None, why) for line in lines if without_comment(line)]
    commands = []
    for line in lines:
        if line.startswith("$ "):
            commands.append(Command(line[2:], place, [], why))
        elif commands:
            commands[-1].shown.append(line)
    return commands


def markdown_commands(text, name):
    commands, why = [], None
    text = re.sub(r"<!-- (?!not run).*?-->", "", text, flags=re.DOTALL)
    for part in re.split(r"^(```[^\n`]*\n.*?^```)$", text, flags=re.DOTALL | re.MULTILINE):
        if part.startswith("```"):
            kind, *lines = part.rstrip("`").rstrip("\n").split("\n")
            if kind[3:] in ("sh", "console"):
                commands += block_commands(kind[3:], lines, name, why)
        else:
            mark = re.search(r"<!-- not run: (.*?) -->\s*$", part)
            why = mark and mark[1]
            prose = re.sub(r"<!--.*?-->", "", part, flags=re.DOTALL)
            spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
            commands += [Command(span, name) for span in spans if span.split()[0] in INLINE and (" " in span or span == "make") and not re.search(r"\.\w+$|^hakmem(?! bench)", span)]
    return commands


def man_commands(text, name):
    lines = re.findall(r'^\.RB \$ "\s*(.*)"$', text, re.MULTILINE)
    return [Command(line.replace("\\-", "-"), name, None) for line in lines]


def commands_of(name, text):
    """The commands of a document, each with the reason why it is not run, if there is one; and what is wrong with the marks."""
    broken = [line for line in text.split("\n") if "```" in line and not re.fullmatch(r"```[^`]*", line)]
    if broken:
        return [], ["%s: a fence stands alone on its line: %s" % (name, line) for line in broken]
    commands = (man_commands if name.endswith(".7") else markdown_commands)(text, name)
    problems = []
    for pattern, why in re.findall(r"not run \((.+?)\): (.*?)(?: -->|$)", text, re.MULTILINE):
        marked = [command for command in commands if fnmatch.fnmatchcase(command.text, pattern)]
        for command in marked:
            command.why = why
        if not marked:
            problems.append("%s: nothing is `%s`, which is marked as not run" % (name, pattern))
    return commands, problems


def built_tool(source):
    """The one that cargo has built last, if any."""
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", source / "target"))
    tools = [folder / kind / "hakmem" for kind in ("release", "debug")]
    return max(filter(pathlib.Path.exists, tools), key=lambda tool: tool.stat().st_mtime, default=None)


class Sandbox:
    def __init__(self, source, work, tool):
        self.process = None
        self.tree, self.root = work / "hakmem", work / "root"
        shutil.copytree(source, self.tree, ignore=LEFT_OUT, symlinks=True)
        programs = work / "bin"
        programs.mkdir()
        (work / "home").mkdir()
        for name, text in (("sudo", SUDO), ("ldconfig", LDCONFIG)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.preloaded = source / "build/release/libhakmem.so.0"
        if tool is not None:
            (programs / "hakmem").write_text(HAKMEM.format(library=self.preloaded, tool=tool))
            (programs / "hakmem").chmod(0o755)
        (self.tree / "your-program.c").write_text(PROGRAM)
        subprocess.run(["cc", "your-program.c", "-o", programs / "your-program"], cwd=self.tree, check=True)
        shutil.copy(programs / "your-program", programs / "program")
        library = self.root / "usr/local/lib"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(NOT_PASSED_ON)}
        self.environment.update(
            PATH="%s:%s" % (programs, os.environ["PATH"]),
            HOME=str(work / "home"),
            ROOT=str(self.root),
            LD_LIBRARY_PATH=str(library),
            PKG_CONFIG_PATH=str(library / "pkgconfig"),
        )

    def working_process(self):
        """The number of a process on hakmem that allocates."""
        if self.process is None:
            (self.tree / "working.c").write_text(WORKING)
            subprocess.run(["cc", "-g", "working.c", "-o", self.root.parent / "bin/working"], cwd=self.tree, check=True)
            self.process = subprocess.Popen(["working"], env={**self.environment, "LD_PRELOAD": str(self.preloaded)})
        return str(self.process.pid)

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def run(self, text, **more):
        if re.search(r"\bPID\b", text):
            text = re.sub(r"\bPID\b", self.working_process(), text)
        return subprocess.run(
            ["bash", "-c", text],
            cwd=self.tree,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT_SECONDS,
        )


def prints_as_shown(shown, output):
    pattern = r"\s*".join(re.escape(line).replace(r"\.\.\.", ".*") for line in shown)
    return re.fullmatch(pattern + r"\s*", output, re.DOTALL) is not None


def problem_of(command, sandbox):
    if "LD_PRELOAD=" in command.text:
        verbose = sandbox.run(re.sub(r" 2>\S+|\bHAKMEM_LOG=\S+ ", "", command.text), HAKMEM_VERBOSE="1")
        if "hakmem: hakmem " not in verbose.stdout:
            return "no program ran on hakmem; it prints\n" + verbose.stdout
    done = sandbox.run(command.text)
    if done.returncode != 0:
        return "exit status %d\n%s" % (done.returncode, done.stdout)
    if command.shown and not prints_as_shown(command.shown, done.stdout):
        return "prints\n%snot\n%s" % (done.stdout, "\n".join(command.shown))
    if re.search(r"HAKMEM_STATS=(1|text)", command.text) and "statistics of process" not in done.stdout:
        return "no statistics; it prints\n" + done.stdout
    if not done.stdout.strip() and command.text.split()[0] not in SILENT and ">" not in command.text:
        return "prints nothing"
    if (sandbox.tree / "a.out").exists():
        program = sandbox.run("./a.out; code=$?; rm a.out; exit $code", HAKMEM_VERBOSE="1")
        if program.returncode != 0 or "hakmem: " not in program.stdout:
            return "what it makes does not run on hakmem: " + program.stdout
    return None


def cmake_versions(source):
    """The least version of CMake, which three files tell."""
    read = lambda name, pattern: re.search(pattern, (source / name).read_text())[1]
    presets = r'"major": (\d+, "minor": \d+)'
    return {
        "docs/install.md": read("docs/install.md", r"CMake (\d+\.\d+)"),
        "CMakeLists.txt": read("CMakeLists.txt", r"cmake_minimum_required\(VERSION (\d+\.\d+)\)"),
        "CMakePresets.json": read("CMakePresets.json", presets).replace(', "minor": ', "."),
    }


def run_all(commands, source, tool):
    """What is wrong with them."""
    problems = []
    with tempfile.TemporaryDirectory() as work:
        sandbox = Sandbox(source, pathlib.Path(work), tool)
        try:
            for command in commands:
                problem = None if command.why else problem_of(command, sandbox)
                state = "not run: " + command.why if command.why else "FAILED: " + problem if problem else "ok"
                problems += ["%s: %s: %s" % (command.place, command.text, problem)] if problem else []
                print("%-22s %s\n%22s %s" % (command.place, command.text, "", state), flush=True)
        finally:
            sandbox.end()
    return problems


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    only_list, with_tool = sys.argv[2:] == ["--list"], sys.argv[2:] == ["--tool"]
    versions = cmake_versions(source)
    problems = [] if len(set(versions.values())) == 1 else ["the least version of CMake: %s" % versions]
    commands = []
    for name in documents_of(source):
        found, wrong = commands_of(name, (source / name).read_text())
        commands, problems = commands + found, problems + wrong
    if only_list:
        print("\n".join(problems + ["%-22s %s%s" % (c.place, c.text, "   (not run: %s)" % c.why if c.why else "") for c in commands]))
        return 1 if problems else 0
    commands = [command for command in commands if uses_tool(command) == with_tool]
    tool = built_tool(source) if with_tool else None
    if with_tool and not (tool and (source / "build/release/libhakmem.so.0").exists()):
        problems.append("the tool or the library is not built")
    lacking = [program for program in TOOLS if shutil.which(program) is None]
    if not lacking and not problems:
        problems = run_all(commands, source, tool)
    ran = sum(not command.why for command in commands)
    print("\n".join(problems + ["%d commands, %d to run, %d problems" % (len(commands), ran, len(problems))]))
    if problems:
        return 1
    if lacking:
        print("skipped: %s is not installed" % " and ".join(lacking))
        return 77
    return 0 if ran else 1


if __name__ == "__main__":
    sys.exit(main())
