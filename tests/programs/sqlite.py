# SPDX-License-Identifier: MIT
"""sqlite3: import, index, query and check a table of 500,000 rows."""

from textwrap import dedent

from harness import program

ROWS = 500000


def value(i):
    return (i * 2654435761) % 1000003


def work(job):
    sqlite = job.need("sqlite3")
    with open(job.path("rows.csv"), "w") as file:
        for i in range(ROWS):
            file.write("%d,name-%06d,%d,%s\n" % (i, value(i) % 50000, value(i), "x" * (i % 40)))
    total = sum(value(i) for i in range(ROWS))
    names = len({value(i) % 50000 for i in range(ROWS)})
    text = sum(i % 40 for i in range(ROWS))
    small = sum(1 for i in range(ROWS) if value(i) < 1000)

    script = dedent("""\
        CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, value INTEGER, filler TEXT);
        .mode csv
        .import rows.csv t
        CREATE INDEX by_name ON t(name);
        CREATE INDEX by_value ON t(value, filler);
        SELECT count(*), sum(value), sum(length(filler)), count(DISTINCT name) FROM t;
        SELECT count(*) FROM t WHERE value < 1000;
        SELECT count(*) FROM (SELECT name, count(*) n, max(value) m FROM t GROUP BY name ORDER BY m DESC, n);
        SELECT count(*) FROM t a JOIN t b ON b.id = a.value WHERE a.id < 100000;
        SELECT length(group_concat(name, '')) FROM t;
        WITH RECURSIVE r(n, s) AS (SELECT 0, '' UNION ALL SELECT n + 1, s || n FROM r WHERE n < 2000)
            SELECT sum(length(s)) FROM r;
        PRAGMA integrity_check;
    """)
    lengths = [0]
    for n in range(2000):
        lengths.append(lengths[-1] + len(str(n)))
    joined = sum(1 for i in range(100000) if value(i) < ROWS)
    expected = [
        "%d,%d,%d,%d" % (ROWS, total, text, names),
        str(small),
        str(names),
        str(joined),
        str(ROWS * len("name-000000")),
        str(sum(lengths)),
        "ok",
    ]
    answer = job.run([sqlite, "t.db"], input=script).stdout.decode().split()
    job.check(answer == expected, "answers %s, expected %s" % (answer, expected))
    count = job.prove(
        [sqlite, "t.db", "SELECT name, count(*) FROM t WHERE id < 50000 GROUP BY name ORDER BY 2, 1"], 500
    )
    return "%d rows imported, indexed and queried; %d allocations in the last query" % (ROWS, count)


program(work)
