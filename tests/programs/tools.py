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

SCRIPT = r"""
set -euo pipefail
declare -A seen
for ((i = 0; i < 20000; i++)); do key="k$((i * 7919 % 1009))"; seen[$key]=$(( ${seen[$key]:-0} + 1 )); done
echo "keys ${#seen[@]}"
text=""; for ((i = 0; i < 5000; i++)); do text+="line $i;"; done; echo "text ${#text}"
f() { local n=$1; if ((n < 2)); then echo "$n"; else echo $(( $(f $((n - 1))) + $(f $((n - 2))) )); fi; }; echo "fib $(f 9)"
sort -t, -k2,2n -S 20M --parallel=2 data.csv | sha256sum | cut -c1-64
awk -F, '{ s[$3] += $2 } END { n = 0; for (k in s) n += s[k]; printf "%.0f\n", n }' data.csv
cut -d, -f3 data.csv | sort | uniq -c | wc -l
grep -c ',7[0-9]*,' data.csv
sed -e 's/,/;/g' data.csv | tr -d '\n' | wc -c
find tree -type f | xargs -n 20 cat | wc -c
diff -r tree tree2 && echo "trees are equal"
dd if=data.csv bs=1M status=none | md5sum | cut -c1-32
"""


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

    fields = job.run([tools["bash"], "-c", SCRIPT]).stdout.decode().split("\n")
    ordered = sorted(rows, key=lambda r: (r[1], ("%d,%d,%s" % r).encode()))
    expected = ["keys 1009", "text %d" % sum(len("line %d;" % i) for i in range(5000)), "fib 34",
                hashlib.sha256("".join("%d,%d,%s\n" % r for r in ordered).encode()).hexdigest(),
                str(sum(r[1] for r in rows)), "97", str(sum(1 for r in rows if str(r[1]).startswith("7"))),
                str(len(data) - len(rows)), str(size), "trees are equal", hashlib.md5(data).hexdigest(), ""]
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
    job.run([openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=hakmem", "-keyout", "key.pem", "-out", "cert.pem"])
    subject = job.run([openssl, "x509", "-in", "cert.pem", "-noout", "-subject"]).stdout
    job.check(b"hakmem" in subject, "openssl wrote another certificate")

    os.chdir(job.dir)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = "http://127.0.0.1:%d" % server.server_port
    job.run([tools["curl"], "-sf", "--noproxy", "*", "-Z", base + "/data.csv", "-o", "got.csv"] +
            sum([[base + "/tree/d%d/f%d" % (i % 10, i), "-o", "got.%d" % i] for i in range(100, 140)], []))
    server.shutdown()
    job.check(open(job.path("got.csv"), "rb").read() == data, "curl fetched other data")
    job.check(open(job.path("got.139")).read() == "text 139\n" * 139, "curl fetched other data")

    count = job.prove([tools["bash"], "-c", "for ((i = 0; i < 5000; i++)); do a[i]=$i; done"], 5000)
    job.prove([tools["sort"], "data.csv"], 10)
    job.prove([xz, "-k", "-c", "-1", "data.csv"], 5)
    job.prove([openssl, "dgst", "data.csv"], 1000)
    return "bash, sort, awk, tar, gzip, xz, openssl, curl and 10 more; %d allocations in bash" % count


program(work)
