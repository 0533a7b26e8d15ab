# SPDX-License-Identifier: MIT
"""What every program test needs: run a real program under LD_PRELOAD, check its result, prove that the library served
it, check that the library printed nothing unasked, and leave nothing behind.

A test is a script `NAME.py LIBRARY [--brief] [HAKMEM_NAME=VALUE ...]` that calls `program(work)`; the options are those
that every preloaded process runs with. It exits 0 (passed), 1 (failed) or 77 (skipped). The
last line on stdout says what was done, or why not.

`work(job)` uses:
  job.need(NAME, ...)     path of a program, or skip the test by naming it
  job.run(ARGV, ...)      run it preloaded to the end: exit status, silence
  job.plain(ARGV, ...)    the same on the system's malloc, to compare with
  job.start(ARGV, ...)    run a server preloaded; job.active(pid) proves it, job.stop(process) ends it
  job.prove(ARGV, N)      run it with statistics on: N allocations at least came from the library (None: it is there)
  job.check(CONDITION, TEXT)
  job.brief               less work is wanted: the same kinds of it
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77
TIMEOUT_SECONDS = 300
PATIENCE = 10  # so many times as long may anything take on a machine with other work
NOISE = re.compile(rb"^(hakmem: |ERROR: ld\.so: ).*", re.MULTILINE)


class Unfit(Exception):
    """The program is there, and cannot run on any malloc but its own."""


class Skip(Exception):
    pass


class Failure(Exception):
    pass


def output_tail(data, lines=30):
    return "\n".join("    " + line for line in data.decode("utf-8", "replace").splitlines()[-lines:])


class Job:
    def __init__(self, library, options, brief):
        self.options = options
        self.brief = brief
        self.library = os.path.realpath(library)
        self.is_hakmem = "hakmem" in os.path.basename(self.library)
        self.dir = tempfile.mkdtemp(prefix="hakmem-program-")
        # A server that gives up root must still be able to read the library.
        os.chmod(self.dir, 0o755)
        self.preload = os.path.join(self.dir, os.path.basename(self.library))
        shutil.copyfile(self.library, self.preload)
        os.chmod(self.preload, 0o755)
        self.processes = []
        self.children = 0

    # --- Environment --------------------------------------------------------------------------------------------

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def write(self, name, text):
        path = self.path(name)
        with open(path, "wb" if isinstance(text, bytes) else "w") as file:
            file.write(text)
        return path

    def copy(self, name):
        """A program from jobs/, in the test's own directory."""
        shutil.copyfile(os.path.join(HERE, "jobs", name), self.path(name))
        return self.path(name)

    def need(self, *names, package=None):
        """The first of `names` that is there. A name with a slash is a path; a `*` in it matches the newest."""
        import glob

        for name in names:
            found = sorted(glob.glob(name))[-1:] if "/" in name else [shutil.which(name, path=self.search_path())]
            if found and found[0]:
                return found[0]
        raise Skip("%s is not installed (package %s)" % (names[0], package or names[0]))

    @staticmethod
    def search_path():
        return os.pathsep.join(
            [os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/usr/local/bin", "/usr/bin", "/bin"]
        )

    def environment(self, preloaded=True, **extra):
        env = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("HAKMEM_", "LD_", "MALLOC_", "GIT_", "PG", "PYTHON"))
        }
        env.update(LC_ALL="C.UTF-8", HOME=self.dir, TMPDIR=self.dir, PATH=self.search_path())
        if preloaded:
            env["LD_PRELOAD"] = self.preload
            env.update(self.options)
        env.update(extra)
        return env

    # --- Running ------------------------------------------------------------------------------------------------

    def launch(self, argv, env, user=None, **options):
        def child():
            os.setsid()
            if user is not None:
                os.setgroups([])
                os.setgid(user.pw_gid)
                os.setuid(user.pw_uid)

        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("cwd", self.dir)
        process = subprocess.Popen(argv, env=env, preexec_fn=child, **options)
        self.processes.append(process)
        return process

    def finish(self, argv, env, input=None, status=0, silent=True, user=None, cwd=None):
        self.children += 1
        out_path, err_path = self.path("out.%d" % self.children), self.path("err.%d" % self.children)
        options = {"cwd": cwd or self.dir}
        if input is not None:
            options["stdin"] = open(self.write("in.%d" % self.children, input), "rb")
        with open(out_path, "wb") as out, open(err_path, "wb") as err:
            process = self.launch(argv, env, user, stdout=out, stderr=err, **options)
            code = process.wait()
        self.processes.remove(process)
        result = subprocess.CompletedProcess(argv, code, open(out_path, "rb").read(), open(err_path, "rb").read())
        os.unlink(out_path)
        os.unlink(err_path)
        if status is not None and code != status:
            raise Failure(
                "%s: %s\n  stdout:\n%s\n  stderr:\n%s"
                % (" ".join(argv)[:400], how_it_ended(code), output_tail(result.stdout), output_tail(result.stderr))
            )
        if silent:
            self.check_silent(argv[0], result.stdout + b"\n" + result.stderr)
        return result

    def run(self, argv, env=(), **options):
        return self.finish(argv, self.environment(**dict(env)), **options)

    def plain(self, argv, env=(), **options):
        return self.finish(argv, self.environment(preloaded=False, **dict(env)), **options)

    def same(self, argv, env=(), **options):
        """Runs it on the system's malloc and on the library: the same output. Returns it."""
        expected = self.plain(argv, env, **options).stdout
        got = self.run(argv, env, **options).stdout
        self.check(len(expected) > 0, "%s printed nothing" % argv[0])
        self.check(
            got == expected,
            "%s: other output than on the system's malloc:\n%s\n  instead of\n%s"
            % (" ".join(argv)[:200], output_tail(got), output_tail(expected)),
        )
        return got.decode("utf-8", "replace")

    def start(self, argv, env=(), user=None, log="server.log", **options):
        """A server; its stdout and stderr go to the file `log`, which stop() reads again."""
        with open(self.path(log), "wb") as out:
            process = self.launch(
                argv, self.environment(**dict(env)), user, stdout=out, stderr=subprocess.STDOUT, **options
            )
        process.log = self.path(log)
        process.name = argv[0]
        return process

    def stop(self, process, how=signal.SIGTERM, seconds=60, silent=True):
        """Ends a server, checks its exit status and returns what it printed."""
        if how is not None and process.poll() is None:
            process.send_signal(how)
        try:
            code = process.wait(seconds * PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure("%s did not end within %d s\n%s" % (process.name, seconds * PATIENCE, self.log_tail(process)))
        self.processes.remove(process)
        log = self.log(process)
        if code not in (0, -signal.SIGTERM):
            raise Failure("%s: %s\n%s" % (process.name, how_it_ended(code), output_tail(log)))
        if silent:
            self.check_silent(process.name, log)
        return log

    @staticmethod
    def log(process):
        """What the server has printed so far."""
        with open(process.log, "rb") as file:
            return file.read()

    def log_tail(self, process):
        return output_tail(self.log(process))

    def wait_until(self, process, ready, seconds=60):
        """Polls `ready()` until it is true; fails at once when the server has died."""
        end = time.monotonic() + seconds * PATIENCE
        while time.monotonic() < end:
            if process.poll() is not None:
                raise Failure(
                    "%s: %s at start\n%s" % (process.name, how_it_ended(process.returncode), self.log_tail(process))
                )
            if ready():
                return
            time.sleep(0.05)
        raise Failure("%s was not ready within %d s\n%s" % (process.name, seconds * PATIENCE, self.log_tail(process)))

    @staticmethod
    def free_port():
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            return sock.getsockname()[1]

    @staticmethod
    def answers(port):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            return False

    # --- Checking -----------------------------------------------------------------------------------------------

    @staticmethod
    def check(condition, text):
        if not condition:
            raise Failure(text)

    @staticmethod
    def check_silent(name, output):
        noise = NOISE.search(output)
        if noise:
            raise Failure("%s: the library printed unasked: %s" % (name, noise.group(0).decode("utf-8", "replace")))

    def active(self, pid):
        """The running process has the library mapped. ProcessLookupError when it has ended."""

        def maps():
            with open("/proc/%d/maps" % pid) as file:
                text = file.read()
            if not text:
                raise ProcessLookupError("process %d has ended" % pid)
            return text

        # What is read while a process ends breaks off somewhere; read again, it is empty.
        if self.preload not in maps():
            self.check(self.preload in maps(), "process %d has not mapped %s" % (pid, self.preload))

    def all_active(self, pid, minimum, seconds=20):
        """So have its children: `minimum` processes at least within `seconds`, not counting those that end meanwhile."""
        end = time.monotonic() + seconds * PATIENCE
        while True:
            found = 0
            for process in self.descendants(pid):
                try:
                    self.active(process)
                    found += 1
                except (FileNotFoundError, ProcessLookupError):
                    pass
            if found >= minimum:
                return
            self.check(time.monotonic() < end, "%d processes under %d, expected %d" % (found, pid, minimum))
            time.sleep(0.1)

    @staticmethod
    def descendants(pid):
        """`pid` and all its children's children that run now."""
        found = [pid]
        for parent in found:
            try:
                for thread in os.listdir("/proc/%d/task" % parent):
                    with open("/proc/%d/task/%s/children" % (parent, thread)) as file:
                        found += [int(child) for child in file.read().split()]
            except (FileNotFoundError, ProcessLookupError):
                continue
        return found

    PROOF = {"HAKMEM_VERBOSE": "1", "HAKMEM_STATS": "json"}

    def prove(self, argv, minimum, env=(), **options):
        """Runs `argv` with statistics on: it must have made `minimum` allocations from the library. Returns how many."""
        if self.is_hakmem:
            result = self.run(argv, dict(env, **self.PROOF), silent=False, **options)
            return self.proven(result.stderr, minimum)
        traces = self.path("bindings")
        self.run(argv, dict(env, LD_DEBUG="bindings", LD_DEBUG_OUTPUT=traces), **options)
        return self.bound(traces)

    def proven(self, output, minimum):
        """The same for output that is there already: of a process that ran with env=job.PROOF."""
        self.check(NOISE.search(output), "HAKMEM_VERBOSE=1 printed nothing:\n" + output_tail(output))
        if minimum is None:
            return None
        count = max([allocations(stats) for stats in statistics(output)], default=None)
        self.check(count is not None, "HAKMEM_STATS=json printed no statistics:\n" + output_tail(output))
        self.check(count >= minimum, "%d allocations came from the library, expected at least %d" % (count, minimum))
        return count

    def bound(self, traces):
        """For another library than hakmem: the dynamic linker bound malloc to it."""
        import glob

        wanted = re.compile(
            re.escape(self.preload.encode()) + rb" \[0\]: normal symbol `(malloc|calloc|realloc|_Znwm)'"
        )
        for name in glob.glob(traces + ".*"):
            with open(name, "rb") as file:
                if wanted.search(file.read()):
                    return 0
        raise Failure("malloc is not bound to %s" % self.preload)

    # --- End ----------------------------------------------------------------------------------------------------

    def close(self):
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def how_it_ended(code):
    if code < 0:
        return "killed by %s" % signal.Signals(-code).name
    return "exit status %d" % code


def statistics(output):
    """The JSON objects in `output` that are hakmem's statistics."""
    text = output.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    found = []
    for match in re.finditer(r"^\{", text, re.MULTILINE):
        try:
            value = decoder.raw_decode(text, match.start())[0]
        except ValueError:
            continue
        if isinstance(value, dict) and "classes" in value:
            found.append(value)
    return found


def allocations(stats):
    return sum(c["alloc_count"] for c in stats["classes"]) + stats["large_allocs"] + stats["huge_allocs"]


def program(work, timeout=TIMEOUT_SECONDS):
    if len(sys.argv) < 2 or not os.path.isfile(sys.argv[1]):
        sys.exit("usage: %s LIBRARY [--brief] [HAKMEM_NAME=VALUE ...]" % sys.argv[0])

    def stop(number, frame):
        raise Failure("no end within %d s" % (timeout * PATIENCE) if number == signal.SIGALRM else "stopped by a signal")

    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    signal.alarm(timeout * PATIENCE)

    brief, options = "--brief" in sys.argv[2:], [a for a in sys.argv[2:] if a != "--brief"]
    job = Job(sys.argv[1], dict(option.split("=", 1) for option in options), brief)
    code = 1
    try:
        print(work(job))
        code = 0
    except Skip as reason:
        print("skipped: %s" % reason)
        code = SKIPPED
    except Unfit as reason:
        print("unfit: %s" % reason)
        code = SKIPPED
    except Failure as reason:
        print("FAILED: %s" % reason)
    except Exception:
        print("FAILED: %s" % traceback.format_exc())
    finally:
        signal.alarm(0)
        job.close()
    sys.stdout.flush()
    sys.exit(code)
