#!/bin/sh
# SPDX-License-Identifier: MIT
# A Redis job of the benchmark suite: set, get and lpush against a server that runs under the allocator of
# HAKMEM_BENCH_PRELOAD, through a socket in HAKMEM_BENCH_SCRATCH. Reports requests per second, the server's peak, and its
# resident memory 1.5 s after everything was deleted.
set -u
socket=$HAKMEM_BENCH_SCRATCH/redis.sock
rm -f "$socket"

LD_PRELOAD=$HAKMEM_BENCH_PRELOAD redis-server --port 0 --unixsocket "$socket" --save '' --appendonly no \
    --dir "$HAKMEM_BENCH_SCRATCH" --loglevel warning >&2 &
server=$!
trap 'kill $server 2>/dev/null' EXIT

tries=0
until [ -S "$socket" ]; do
    tries=$((tries + 1))
    if [ $tries -gt 100 ] || ! kill -0 $server 2>/dev/null; then
        echo "redis-server did not start" >&2
        exit 1
    fi
    sleep 0.05
done

kib_in() { sed -n "s/^$2:[[:space:]]*\([0-9]*\) kB/\1/p" "/proc/$server/$1"; }

unset HAKMEM_BENCH_PROOF
rates=$(redis-benchmark -s "$socket" -t set,get,lpush -n 100000 -r 100000 -d 200 -P 16 -c 20 --csv 2>/dev/null |
    tr -d '"' | awk -F, '$2 + 0 > 0 { sum += 1 / $2; n++ } END { if (n == 3) printf "%.0f", n / sum }')
[ -n "$rates" ] || { echo "redis-benchmark failed" >&2; exit 1; }
peak=$(kib_in status VmHWM)
redis-cli -s "$socket" flushall >/dev/null
sleep 1.5
after=$(kib_in smaps_rollup Rss)
smaps="end_rss_kib=$after end_pss_kib=$(kib_in smaps_rollup Pss) end_lazyfree_kib=$(kib_in smaps_rollup LazyFree)"
redis-cli -s "$socket" shutdown nosave >/dev/null 2>&1
wait $server 2>/dev/null
echo "result: ops_per_s=$rates server_peak_kib=$peak server_rss_after_kib=$after $smaps"
