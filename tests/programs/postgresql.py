# SPDX-License-Identifier: MIT
"""PostgreSQL: initdb, a server on loopback as an ordinary user, pgbench; its balances must agree, before
and after a crash recovery."""

import os
import pwd
import signal
import subprocess

from harness import Skip, program

CLIENTS = 4
RECOVERY, READY = b"all server processes terminated; reinitializing", b"database system is ready to accept connections"


def ordinary_user():
    """The server refuses to run as root."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    raise Skip("running as root, and there is no ordinary user")


def work(job):
    tool = {
        name: job.need("/usr/lib/postgresql/*/bin/" + name, name, package="postgresql")
        for name in ("initdb", "postgres", "psql", "pgbench")
    }
    user = ordinary_user()
    home = job.path("home")
    os.makedirs(home)
    if user:
        os.chown(home, user.pw_uid, user.pw_gid)
    data, port = os.path.join(home, "data"), job.free_port()
    env = {
        "HOME": home,
        "TMPDIR": home,
        "PGHOST": "127.0.0.1",
        "PGPORT": str(port),
        "PGUSER": "hakmem",
        "PGDATABASE": "postgres",
    }

    def run(name, *argv, **options):
        return job.run([tool[name]] + list(argv), env, user=user, cwd=home, **options).stdout.decode().strip()

    def start(extra=()):
        process = job.start(
            [
                tool["postgres"],
                "-D",
                data,
                "-h",
                "127.0.0.1",
                "-p",
                str(port),
                "-k",
                home,
                "-c",
                "shared_buffers=64MB",
                "-c",
                "fsync=off",
                "-c",
                "max_parallel_workers=2",
            ],
            dict(env, **dict(extra)),
            user=user,
            cwd=home,
        )
        job.wait_until(
            process,
            lambda: job.finish(
                [tool["psql"], "-c", "SELECT 1"], job.environment(**env), status=None, user=user, cwd=home, silent=False
            ).returncode
            == 0,
        )
        job.all_active(process.pid, 4)
        return process

    run("initdb", "-D", data, "-U", "hakmem", "-A", "trust", "-N", "--no-instructions")
    process = start()
    run("pgbench", "-i", "-q", "-s", "4")
    out = run("pgbench", "-c", str(CLIENTS), "-j", "2", "-T", "2" if job.brief else "6")
    job.check("number of failed transactions: 0" in out or "failed" not in out, "pgbench says\n" + out)
    rate = next(line.split()[2] for line in out.splitlines() if line.startswith("tps"))
    run("pgbench", "-n", "-S", "-M", "prepared", "-c", "2", "-T", "2")

    def query(sql):
        return run("psql", "-At", "-c", sql)

    balances = (
        "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches), "
        "(SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(delta) FROM pgbench_history)"
    )
    before = query(balances)
    job.check(len(set(before.split("|"))) == 1, "balances disagree: " + before)
    answer = query(
        "SELECT count(*), sum(length(s)), count(DISTINCT h) FROM "
        "(SELECT repeat(md5(i::text), i % 50) s, hashtext(i::text) % 1000 h "
        "FROM generate_series(1, 200000) i ORDER BY md5(i::text)) t"
    )
    job.check(answer == "200000|%d|1999" % sum(32 * (i % 50) for i in range(1, 200001)), "a query answers " + answer)
    answer = query(
        "SET work_mem = '64MB'; SET max_parallel_workers_per_gather = 2; "
        "SELECT count(*), count(DISTINCT a.filler) FROM pgbench_accounts a "
        "JOIN pgbench_accounts b ON b.aid = a.aid + 1"
    ).splitlines()[-1]
    job.check(answer == "399999|1", "a join answers " + answer)
    answer = query(
        "SELECT jsonb_array_length(jsonb_agg(jsonb_build_object('a', i, 'b', repeat('x', i % 100)))) "
        "FROM generate_series(1, 50000) i"
    )
    job.check(answer == "50000", "jsonb answers " + answer)

    # A backend that is killed makes the server recover: everything it held is dropped and allocated again.
    victim = job.launch(
        [tool["psql"], "-c", "SELECT pg_sleep(100)"],
        job.environment(**env),
        user,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=home,
    )
    job.wait_until(
        process, lambda: query("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'") == "1"
    )
    os.kill(int(query("SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'")), signal.SIGKILL)
    victim.wait()
    job.processes.remove(victim)
    # The server may answer once more before it learns of the death: it is its log that tells of the recovery.
    job.wait_until(process, lambda: READY in job.log(process).partition(RECOVERY)[2])
    job.check(query(balances) == before, "balances changed by a recovery")
    job.stop(process, signal.SIGINT)

    count = 0
    if job.is_hakmem:
        process = start(job.PROOF)
        query("SELECT count(*) FROM pgbench_accounts")
        count = job.proven(job.stop(process, signal.SIGINT, silent=False), 1000)
    else:
        traces = os.path.join(home, "bindings")
        job.stop(start({"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": traces}), signal.SIGINT)
        job.bound(traces)
    return "pgbench with %d clients at %s transactions/s, balances agree; recovery; %d allocations in one process" % (
        CLIENTS,
        rate,
        count,
    )


program(work)
