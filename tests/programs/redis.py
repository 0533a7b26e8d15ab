# SPDX-License-Identifier: MIT
"""redis-server on a loopback port under redis-benchmark; then its data is checked, saved by a forked child
and loaded again."""

import re
import time

from harness import Unfit, program

REQUESTS = 60000


def work(job):
    server = job.need("redis-server")
    bench, cli = job.need("redis-benchmark", package="redis-tools"), job.need("redis-cli", package="redis-tools")
    with open(server, "rb") as file:
        if b"\0mallocx\0" in file.read():
            raise Unfit("this redis-server calls jemalloc by names of its own (docs/compatibility.md)")
    port = job.free_port()
    argv = [
        server,
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--dir",
        job.dir,
        "--save",
        "",
        "--appendonly",
        "no",
        "--daemonize",
        "no",
    ]

    def ask(*words, input=None):
        return job.run([cli, "-h", "127.0.0.1", "-p", str(port)] + list(words), input=input).stdout.decode().strip()

    def start(env=()):
        process = job.start(argv, env)
        job.wait_until(process, lambda: job.answers(port))
        end = time.monotonic() + 300
        while ask("ping") != "PONG" and time.monotonic() < end:
            time.sleep(0.1)
        job.active(process.pid)
        return process

    process = start()
    out = job.run(
        [
            bench,
            "-h",
            "127.0.0.1",
            "-p",
            str(port),
            "-q",
            "-n",
            str(REQUESTS),
            "-c",
            "20",
            "-P",
            "8",
            "-r",
            "50000",
            "-d",
            "100",
            "-t",
            "set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset",
        ]
    ).stdout.decode()
    rates = re.findall(r"([0-9.]+) requests per second", out)
    job.check(len(rates) >= 14, "redis-benchmark says\n" + out)

    # Values of every length from 0 to 5,000 bytes, some overwritten, some dropped.
    ask(input="".join("SET check:%d %s\n" % (i, "v" * i) for i in range(1, 5001)))
    ask(input="".join("APPEND check:%d end\n" % i for i in range(1, 5001, 3)))
    ask(input="".join("DEL check:%d\n" % i for i in range(2, 5001, 3)))
    lengths = [i + 3 if i % 3 == 1 else i for i in range(1, 5001) if i % 3 != 2]

    def check_data():
        got = ask(input="".join("STRLEN check:%d\n" % i for i in range(1, 5001) if i % 3 != 2)).split()
        job.check([int(n) for n in got] == lengths, "values changed their length")
        job.check(ask("GET", "check:1000") == "v" * 1000 + "end", "a value changed")

    check_data()
    keys = ask("DBSIZE")
    ask("BGSAVE")
    end = time.monotonic() + 600
    while "rdb_bgsave_in_progress:1" in ask("INFO", "persistence") and time.monotonic() < end:
        time.sleep(0.1)
    job.check("rdb_last_bgsave_status:ok" in ask("INFO", "persistence"), "BGSAVE failed")
    ask("SHUTDOWN", "NOSAVE")
    job.stop(process, how=None)

    # The data is back, in a server that tells what it allocated.
    traces = job.path("bindings")
    process = start(job.PROOF if job.is_hakmem else {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": traces})
    job.check(ask("DBSIZE") == keys, "keys were lost by saving and loading")
    check_data()
    ask("SHUTDOWN", "NOSAVE")
    log = job.stop(process, how=None, silent=False)
    count = job.proven(log, 20000) if job.is_hakmem else job.bound(traces)
    return "%d commands, SET %s/s; saved by a fork and loaded again; %d allocations to load" % (
        len(rates) * REQUESTS,
        rates[0],
        count,
    )


program(work)
