#!/bin/sh
# SPDX-License-Identifier: MIT
# memcached: values of many sizes set and read through a socket, everything deleted, a rest.
. "$(dirname "$0")/common.sh"
socket=$scratch/memcached.sock
rm -f "$socket"
user=
[ "$(id -u)" -ne 0 ] || user="-u root"
serve memcached $user -s "$socket" -m 64 -t 2
until_ready test -S "$socket"
under_load python3 "$(dirname "$0")/memcached.py" "$socket"
rest
stop
