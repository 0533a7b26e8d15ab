# SPDX-License-Identifier: MIT
"""The shell and its tools: bash, sort, awk, tar, gzip, xz, openssl, curl, find, grep, sed, dd, each checked against
what Python says."""

import gzip
import hashlib
import http.server
import lzma
import os
import tarfile
import threading

from harness import program


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def work(job):
    tools = {name: job.need(name) for name in ("bash", "tar", "gzip", "openssl", "curl", "sort", "awk")}
    xz = job.need("xz", package="xz-utils")
    rows = [(i, (i * 7919) % 100003, "g%d" % (i % 97)) for i in range(150000)]
    data = "".join("%d,%d,%s\n" % row for row in rows).encode()
    job.write("data.csv", data)
    size = 0
    for top in ("tree", "tree2"):
        for i in range(200):
            os.makedirs(job.path(top, "d%d" % (i % 10)), exist_ok=True)
            job.write("%s/d%d/f%d" % (top, i % 10, i), "text %d\n" % i * i)
    size = sum(len("text %d\n" % i) * i for i in range(200))

    fields = job.run([tools["bash"], job.copy("job.sh")]).stdout.decode().split("\n")
    ordered = sorted(rows, key=lambda r: (r[1], ("%d,%d,%s" % r).encode()))
    expected = [
        "keys 1009",
        "text %d" % sum(len("line %d;" % i) for i in range(5000)),
        "fib 34",
        hashlib.sha256("".join("%d,%d,%s\n" % r for r in ordered).encode()).hexdigest(),
        str(sum(r[1] for r in rows)),
        "97",
        str(sum(1 for r in rows if str(r[1]).startswith("7"))),
        str(len(data) - len(rows)),
        str(size),
        "trees are equal",
        hashlib.md5(data).hexdigest(),
        "",
    ]
    job.check(fields == expected, "shell answers %s, expected %s" % (fields, expected))

    job.run([tools["tar"], "-cf", "tree.tar", "tree"])
    job.run([xz, "-k", "-T2", "-3", "tree.tar"])
    job.run([tools["gzip"], "-k", "data.csv"])
    job.check(len(tarfile.open(fileobj=lzma.open(job.path("tree.tar.xz"))).getnames()) == 211, "tar.xz lost a file")
    job.check(gzip.open(job.path("data.csv.gz")).read() == data, "gzip changed the data")
    job.run([tools["tar"], "-xJf", "tree.tar.xz", "--one-top-level=back"])
    job.check(open(job.path("back/tree/d9/f199")).read() == "text 199\n" * 199, "tar unpacked other data")

    openssl = tools["openssl"]
    key = ["-aes-256-cbc", "-pbkdf2", "-pass", "pass:secret"]
    job.run([openssl, "enc"] + key + ["-in", "data.csv", "-out", "data.enc"])
    job.run([openssl, "enc", "-d"] + key + ["-in", "data.enc", "-out", "data.dec"])
    job.check(open(job.path("data.dec"), "rb").read() == data, "openssl decrypted other data")
    job.run(
        [
            openssl,
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=hakmem",
            "-keyout",
            "key.pem",
            "-out",
            "cert.pem",
        ]
    )
    subject = job.run([openssl, "x509", "-in", "cert.pem", "-noout", "-subject"]).stdout
    job.check(b"hakmem" in subject, "openssl wrote another certificate")

    os.chdir(job.dir)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = "http://127.0.0.1:%d" % server.server_port
    job.run(
        [tools["curl"], "-sf", "--noproxy", "*", "-Z", base + "/data.csv", "-o", "got.csv"]
        + sum([[base + "/tree/d%d/f%d" % (i % 10, i), "-o", "got.%d" % i] for i in range(100, 140)], [])
    )
    server.shutdown()
    job.check(open(job.path("got.csv"), "rb").read() == data, "curl fetched other data")
    job.check(open(job.path("got.139")).read() == "text 139\n" * 139, "curl fetched other data")

    count = job.prove([tools["bash"], "-c", "for ((i = 0; i < 5000; i++)); do a[i]=$i; done"], 5000)
    # These close stderr, or leave, before statistics are printed.
    for argv in (
        [tools["sort"], "data.csv"],
        [tools["awk"], "{ n++ } END { print n }", "data.csv"],
        [xz, "-k", "-c", "-1", "data.csv"],
    ):
        job.prove(argv, None)
    job.prove([openssl, "dgst", "data.csv"], 1000)
    return "bash, sort, awk, tar, gzip, xz, openssl, curl and 10 more; %d allocations in bash" % count


program(work)
