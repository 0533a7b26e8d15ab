#!/bin/sh
# SPDX-License-Identifier: MIT
# MariaDB: tables, an index, joins, sorts and groups by 2 clients through a socket, then a rest.
. "$(dirname "$0")/common.sh"
data=$scratch/mariadb
socket=$scratch/mariadb.sock
user=
[ "$(id -u)" -ne 0 ] || user=--user=root
rm -f "$socket"
if [ ! -f "$data.ready" ]; then
    rm -rf "$data"
    mariadb-install-db --no-defaults $user --datadir="$data" --auth-root-authentication-method=normal >&2
    : >"$data.ready"
fi
serve mariadbd --no-defaults $user --datadir="$data" --socket="$socket" --skip-networking \
    --innodb-buffer-pool-size=32M --innodb-log-file-size=16M --innodb-flush-log-at-trx-commit=0 \
    --pid-file="$scratch/mariadb.pid" --tmpdir="$scratch"
client() { mariadb --no-defaults --socket="$socket" -u root "$@"; }
until_ready client -e 'SELECT 1'
query() {
    client test >/dev/null <<END
SET SESSION group_concat_max_len = 1000000, sort_buffer_size = 16777216, tmp_table_size = 33554432;
CREATE TEMPORARY TABLE t ENGINE = MEMORY AS SELECT seq AS id, md5(seq * $1) AS name, seq % 1009 AS part FROM seq_1_to_60000;
ALTER TABLE t ADD INDEX (name);
SELECT part, group_concat(name ORDER BY name) FROM t GROUP BY part;
SELECT count(DISTINCT substr(name, 1, 4)) FROM t;
SELECT name, row_number() OVER (PARTITION BY part ORDER BY name) AS place FROM t ORDER BY place DESC, name LIMIT 10;
DROP TABLE t;
END
}
both() {
    query 7 &
    query 11 && wait $!
}
client -e 'CREATE DATABASE IF NOT EXISTS test'
under_load both
rest
stop client -e SHUTDOWN
