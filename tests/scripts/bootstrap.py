#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs scripts/bootstrap on a made-up machine that has next to nothing, and looks at what it would have root do.

    bootstrap.py SOURCE_DIRECTORY

Programs are looked for in a folder of fakes first: `id` says that nobody is root, `sudo` notes what it is asked for and does
nothing. The package list has more to say after the line that bootstrap looks for, so that whoever stops reading there is noticed.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FAKES = {
    "id": "echo 1000",
    "sudo": 'echo "$*" >>"$LOG"; while read -r _; do :; done',
    "cargo": "echo 'cargo 1.63.0 (old)'",
    "apt-get": "exit 9",
    "apt-cache": """
        [ "$1" = depends ] && { echo '  Depends: python3.99'; exit; }
        printf '%s:\\n  Installed: (none)\\n' "$2"
        [ "$2" = cargo-web ] && echo "  Candidate: $WEB" || echo '  Candidate: (none)'
        for i in {1..20000}; do echo '     the version table goes on and on and on' || exit 1; done""",
}
REAL = ["bash", "sh", "sed", "dirname", "env", "cat", "grep", "rm", "chmod", "tee"]


def machine(directory):
    for name, text in FAKES.items():
        fake = directory / name
        fake.write_text("#!/bin/bash\n" + text + "\n")
        fake.chmod(0o755)
    for name in REAL:
        (directory / name).symlink_to(shutil.which(name))


def run(source, directory, web):
    log = directory / "log"
    log.write_text("")
    environment = {"PATH": str(directory), "LOG": str(log), "WEB": web, "HOME": str(directory)}
    done = subprocess.run(
        ["bash", os.path.join(source, "scripts/bootstrap"), "test"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return done, log.read_text().splitlines()


def problems_of(done, log, cargo):
    installing = [i for i, line in enumerate(log) if "apt-get install" in line]
    if done.returncode != 0 or len(installing) != 1:
        return ["exit status %d\n%s%s%s" % (done.returncode, done.stdout, done.stderr, log)]
    packages = log[installing[0]].split()
    found = [] if cargo in packages else ["it does not install %s" % cargo]
    servers = [name for name in ("nginx", "postgresql", "redis-server") if name in packages]
    if "redis-server" not in servers:
        found.append("it does not install redis-server")
    said_before = done.stdout.split("bootstrap: apt-get")[0]
    for server in servers:
        if not any(line.endswith("update-rc.d %s disable" % server) for line in log[installing[0] :]):
            found.append("%s is not disabled after the installation" % server)
        if not re.search(r"%s.* will not be started, neither now nor at boot" % server, said_before):
            found.append("it does not say before what becomes of %s" % server)
    disabled = {line.split()[-2] for line in log if "update-rc.d" in line}
    return found + ["it disables %s, which was there" % name for name in sorted(disabled - set(servers))]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        machine(pathlib.Path(directory))
        for web, cargo in (("1.85.0", "cargo-web"), ("(none)", "cargo")):
            problems = problems_of(*run(sys.argv[1], pathlib.Path(directory), web), cargo)
            failed += len(problems)
            print("\n".join(["candidate of cargo-web %s: %d problems" % (web, len(problems))] + problems))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
