#!/bin/sh
# SPDX-License-Identifier: MIT
# PostgreSQL: tables, an index, joins, sorts and hashes by 2 clients through a socket, then a rest.
. "$(dirname "$0")/common.sh"
PATH=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1):$PATH
data=$scratch/postgresql
export PGHOST="$scratch" PGUSER=hakmem PGDATABASE=postgres
if [ ! -f "$data.ready" ]; then
    rm -rf "$data"
    $as_somebody initdb -D "$data" -U hakmem -A trust --no-sync >&2
    : >"$data.ready"
fi
serve $as_somebody postgres -D "$data" -h '' -k "$scratch" -c shared_buffers=32MB -c work_mem=32MB -c fsync=off \
    -c max_parallel_workers_per_gather=0
until_ready psql -c 'SELECT 1'
query() {
    psql -q -v ON_ERROR_STOP=1 >/dev/null <<END
CREATE TEMP TABLE t AS SELECT i AS id, md5((i * $1)::text) AS name, i % 1009 AS part FROM generate_series(1, 120000) i;
CREATE INDEX ON t (name);
SELECT count(*) FROM t a JOIN t b ON a.name = b.name AND a.id < b.id;
SELECT part, string_agg(name, ',' ORDER BY name) FROM t GROUP BY part;
SELECT count(DISTINCT substr(name, 1, 4)) FROM t;
SELECT name, row_number() OVER (PARTITION BY part ORDER BY name) FROM t ORDER BY name DESC LIMIT 10;
$2
END
}
pause=
[ -z "${HAKMEM_BENCH_REST:-}" ] || pause="\\! : >'$HAKMEM_BENCH_REST'
SELECT pg_sleep(2.2);"
both() {
    query 7 '' &
    query 11 "$1" && wait $!
}
under_load both "$pause"
stop
