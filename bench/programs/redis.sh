#!/bin/sh
# SPDX-License-Identifier: MIT
# Redis: set, get and lpush through a socket, everything deleted, a rest.
. "$(dirname "$0")/common.sh"
socket=$scratch/redis.sock
rm -f "$socket"
serve redis-server --port 0 --unixsocket "$socket" --save '' --appendonly no --dir "$scratch" --loglevel warning
until_ready test -S "$socket"
under_load redis-benchmark -s "$socket" -t set,get,lpush -n 100000 -r 100000 -d 200 -P 16 -c 20 --csv
redis-cli -s "$socket" flushall >&2
rest
stop redis-cli -s "$socket" shutdown nosave
