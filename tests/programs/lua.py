# SPDX-License-Identifier: MIT
"""lua5.4: tables, strings, closures, coroutines and the garbage collector; the same answers as on
the system's malloc."""

from harness import program


def work(job):
    lua = job.need("lua5.4")
    answer = job.same([lua, job.copy("job.lua")])
    job.check("65535 " * 6 in answer and answer.split()[-1] == "true", "answers " + answer)
    count = job.prove([lua, "-e", "local t = {} for i = 1, 20000 do t[i] = {i} end"], 20000)
    return "strings, tables, trees and coroutines as on the system's malloc; %d allocations" % count


program(work)
