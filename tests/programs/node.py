# SPDX-License-Identifier: MIT
"""node: objects, JSON, zlib, crypto, typed arrays and worker threads; the same answers as on the system's malloc."""

from harness import program


def work(job):
    node = job.need("node", "nodejs", package="nodejs")
    answer = job.same([node, job.copy("job.js")]).splitlines()
    job.check(len(answer) == 5 and all(" true " in line for line in answer), "answers %s" % answer)
    count = job.prove(
        [node, "-e", "const z = require('zlib'); for (let i = 0; i < 300; i++) z.deflateSync('a'.repeat(i * 99))"], 5000
    )
    return "JSON, zlib, crypto and 4 worker threads as on the system's malloc; %d allocations" % count


program(work)
