#!/bin/sh
# SPDX-License-Identifier: MIT
# nginx: 2 workers pack pages of many sizes for 8 clients through a socket, then a rest.
. "$(dirname "$0")/common.sh"
socket=$scratch/nginx.sock
rm -f "$socket"
mkdir -p "$scratch/www"
for size in 1 4 16 64 256; do
    seq $((size * 100)) | head -c $((size * 1024)) >"$scratch/www/$size.txt"
done
user=
[ "$(id -u)" -ne 0 ] || user="user root;"
cat >"$scratch/nginx.conf" <<END
$user daemon off; worker_processes 2; pid $scratch/nginx.pid; error_log stderr warn;
events { worker_connections 256; }
http {
    access_log off; client_body_temp_path $scratch/t1; proxy_temp_path $scratch/t2; fastcgi_temp_path $scratch/t3;
    uwsgi_temp_path $scratch/t4; scgi_temp_path $scratch/t5;
    server { listen unix:$socket; root $scratch/www; gzip on; gzip_min_length 100; gzip_types text/plain; }
}
END
serve nginx -p "$scratch" -e stderr -c "$scratch/nginx.conf"
until_ready test -S "$socket"
fetch_all() {
    clients=
    for client in 1 2 3 4 5 6 7 8; do
        curl -sS --fail --compressed --unix-socket "$socket" -o /dev/null \
            "http://localhost/{1,4,16,64,256}.txt?client=$client&n=[1-40]" &
        clients="$clients $!"
    done
    for client in $clients; do
        wait "$client" || return 1
    done
}
under_load fetch_all
rest
stop
