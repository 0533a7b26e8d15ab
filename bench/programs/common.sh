# SPDX-License-Identifier: MIT
# For the jobs of servers, which read it with `.`: a server that runs under the allocator of HAKMEM_BENCH_PRELOAD, and
# what a job has to say about it. The job itself and the clients run on the C library.
set -eu
scratch=$HAKMEM_BENCH_SCRATCH
export LC_ALL=C

fail() {
    echo "$*" >&2
    exit 1
}

# In front of a server that refuses to run as root.
as_somebody=
[ "$(id -u)" -ne 0 ] || as_somebody="unshare --user --map-user=1000 --map-group=1000"

# serve COMMAND...: starts the server.
serve() {
    LD_PRELOAD=$HAKMEM_BENCH_PRELOAD "$@" >&2 &
    server=$!
    trap 'kill $server 2>/dev/null || true' EXIT
    unset HAKMEM_BENCH_PROOF
}

# until_ready COMMAND...: waits for the server.
until_ready() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ $tries -gt 300 ] || ! kill -0 "$server" 2>/dev/null; then
            fail "the server did not start"
        fi
        sleep 0.03
    done
}

# under_load COMMAND...: the load, which is what counts for time.
under_load() {
    begin=$(date +%s%N)
    "$@" >&2 || fail "the load failed: $1"
    load_ms=$((($(date +%s%N) - begin) / 1000000))
}

# Nothing asks for anything; the bench tool looks at the memory meanwhile.
rest() {
    [ -z "${HAKMEM_BENCH_REST:-}" ] || { : >"$HAKMEM_BENCH_REST" && sleep 2.2; }
}

# stop [COMMAND...]: ends the server, and says how long the load took.
stop() {
    [ $# -eq 0 ] || "$@" >&2 || true
    [ $# -ne 0 ] || kill "$server"
    wait "$server" || true
    trap - EXIT
    echo "result: load_ms=$load_ms"
}
