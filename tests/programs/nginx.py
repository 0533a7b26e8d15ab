# SPDX-License-Identifier: MIT
"""nginx on a loopback port: files, gzip, a proxy to itself, concurrent clients, a reload and a graceful end."""

import concurrent.futures
import gzip
import http.client
import os
import signal
import time

from harness import program

CONFIG = """
%(user)s
daemon off; worker_processes 2; pid %(dir)s/nginx.pid; error_log stderr warn;
events { worker_connections 256; }
http {
    access_log off; keepalive_requests 100;
    client_body_temp_path %(dir)s/t1; proxy_temp_path %(dir)s/t2; fastcgi_temp_path %(dir)s/t3;
    uwsgi_temp_path %(dir)s/t4; scgi_temp_path %(dir)s/t5;
    proxy_cache_path %(dir)s/cache keys_zone=z:1m;
    server {
        listen 127.0.0.1:%(port)d; root %(dir)s/www; gzip on; gzip_min_length 100; gzip_types text/plain;
        location / { }
        location /proxy/ { proxy_pass http://127.0.0.1:%(port)d/; }
        location /cached/ { proxy_pass http://127.0.0.1:%(port)d/; proxy_cache z; proxy_cache_valid 200 1m; }
        location /number/ { return 200 "$request_uri"; }
    }
}
"""


def text(i):
    return ("page %d line\n" % i * (i * 3)).encode()


def work(job):
    nginx = job.need("nginx")
    port = job.free_port()
    os.makedirs(job.path("www"))
    for i in range(300):
        job.write("www/%d.txt" % i, text(i))
    user = "user root;" if os.getuid() == 0 else ""
    config = job.write("nginx.conf", CONFIG % {"dir": job.dir, "port": port, "user": user})
    argv = [nginx, "-p", job.dir, "-e", "stderr", "-c", config]

    def fetch_all(prefix, client):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        for i in range(client, 300, 4):
            connection.request("GET", "%s/%d.txt" % (prefix, i), headers={"Accept-Encoding": "gzip"} if i % 2 else {})
            response = connection.getresponse()
            body = response.read()
            if response.getheader("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            job.check(response.status == 200 and body == text(i), "%s/%d.txt: another page came back" % (prefix, i))
            if response.getheader("Connection") == "close":
                connection.close()
            connection.request("GET", "/number/%d?x=%s" % (i, "y" * i))
            job.check(connection.getresponse().read() == b"/number/%d?x=" % i + b"y" * i, "another answer came back")
        connection.close()
        return 600 // 4

    def drive(rounds):
        requests = 0
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            jobs = [
                pool.submit(fetch_all, prefix, client)
                for _ in range(rounds)
                for prefix in ("", "/proxy", "/cached")
                for client in range(4)
            ]
            for result in jobs:
                requests += result.result()
        return requests

    def start(env=()):
        process = job.start(argv, env)
        job.wait_until(process, lambda: job.answers(port))
        job.all_active(process.pid, 3)
        return process

    process = start()
    requests = drive(2)
    before = job.descendants(process.pid)
    process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 200
    while set(before[1:]) & set(job.descendants(process.pid)) and time.monotonic() < end:
        time.sleep(0.1)
    job.check(not set(before[1:]) & set(job.descendants(process.pid)), "old workers did not end after a reload")
    requests += drive(1)
    job.stop(process, signal.SIGQUIT)

    traces = job.path("bindings")
    process = start(job.PROOF if job.is_hakmem else {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": traces})
    drive(1)
    log = job.stop(process, signal.SIGQUIT, silent=False)
    count = job.proven(log, 500) if job.is_hakmem else job.bound(traces)
    return "%d requests answered rightly, over a reload; %d allocations in a worker" % (requests, count)


program(work)
