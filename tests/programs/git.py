# SPDX-License-Identifier: MIT
"""git: import a generated history, clone it, repack, check, search, compare; object ids as on the system's malloc."""

from harness import program

FILES = 400


def history(commits):
    """A git fast-import stream: commits that each change a few of FILES files."""
    parts = []
    for commit in range(commits):
        message = "Commit %d" % commit
        parts.append(
            "commit refs/heads/master\ncommitter A U Thor <author@example.org> %d +0000\ndata %d\n%s\n"
            % (1600000000 + commit * 60, len(message), message)
        )
        for k in range(4):
            number = (commit * 31 + k * 97) % FILES
            text = "".join(
                "file %d line %d of commit %d\n" % (number, line, commit if line % 7 == k else 0) for line in range(60)
            )
            parts.append("M 100644 inline d%d/f%d.txt\ndata %d\n%s\n" % (number % 20, number, len(text), text))
    return "".join(parts)


def work(job):
    git = job.need("git")
    env = {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
        "GIT_AUTHOR_DATE": "1700000000 +0000",
        "GIT_COMMITTER_DATE": "1700000000 +0000",
    }

    def run(*argv, **options):
        return job.run([git] + list(argv), env, **options).stdout.decode()

    commits = 400 if job.brief else 1500
    stream = history(commits)
    run("init", "-q", "-b", "master", "origin")
    run("-C", "origin", "fast-import", "--quiet", input=stream)
    job.plain([git, "init", "-q", "-b", "master", "reference"], env)
    job.plain([git, "-C", "reference", "fast-import", "--quiet"], env, input=stream)
    head = job.plain([git, "-C", "reference", "rev-parse", "master"], env).stdout.decode()
    job.check(run("-C", "origin", "rev-parse", "master") == head, "another commit id than on the system's malloc")

    run("clone", "-q", "--no-local", "origin", "copy")
    run("-C", "copy", "-c", "pack.threads=2", "gc", "-q", "--aggressive", "--prune=now")
    run("-C", "copy", "fsck", "--full", "--strict")
    job.check(run("-C", "copy", "rev-list", "--count", "HEAD").strip() == str(commits), "commits were lost")
    for command in (
        ["log", "--stat", "-300"],
        ["log", "-p", "-100", "--word-diff"],
        ["grep", "-c", "line 5[0-9]"],
        ["blame", "d1/f1.txt"],
        ["shortlog", "-s", "HEAD"],
        ["diff", "HEAD~200", "HEAD"],
    ):
        job.plain([git, "-C", "reference", "checkout", "-q", "-f", "master"], env)
        expected = job.plain([git, "-C", "reference"] + command, env).stdout.decode()
        job.check(run("-C", "copy", *command) == expected and expected, "git %s answers otherwise" % command[0])
    job.write("copy/d1/new.txt", "new\n" * 1000)
    run("-C", "copy", "checkout", "-q", "-b", "side", "HEAD~50")
    run("-C", "copy", "add", "-A")
    run("-C", "copy", "commit", "-q", "-m", "side")
    run("-C", "copy", "merge", "-q", "-m", "merge", "master")
    run("-C", "copy", "fsck", "--full")
    count = job.prove([git, "-C", "copy", "log", "-p", "-50"], 1000, env)
    return "%d commits imported, cloned, repacked, verified and merged; %d allocations in a log" % (commits, count)


program(work)
