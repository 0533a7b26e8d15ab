-- SPDX-License-Identifier: MIT
-- A SQLite job of the benchmark suite: rows in, an index, joins, grouping, updates and deletions, all in memory.
CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, score REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
INSERT INTO t SELECT i, 'name' || (i * 7919 % 100003), (i * 104729 % 10007) / 7.0 FROM n;
CREATE INDEX by_name ON t (name);
SELECT count(*), sum(length(a.name)) FROM t a JOIN t b ON a.name = b.name AND a.id < b.id;
SELECT substr(name, 1, 6) AS head, count(*), group_concat(id) AS ids FROM t GROUP BY head ORDER BY length(ids) DESC LIMIT 3;
UPDATE t SET name = name || '-' || score WHERE id % 3 = 0;
DELETE FROM t WHERE id % 5 = 0;
SELECT count(DISTINCT name) FROM t;
