# SPDX-License-Identifier: MIT
# For the jobs in Python: a rest after the work, in the runs in which the bench tool looks at memory.
import os
import time


def rest():
    path = os.environ.get("HAKMEM_BENCH_REST")
    if path:
        open(path, "w").close()
        time.sleep(2.2)
