# SPDX-License-Identifier: MIT
# The load of memcached.sh: 30,000 values set and half of them read, by four connections in turn.
import random
import socket
import sys

CONNECTIONS, VALUES, BATCH = 4, 30000, 100


def receive(connection, lines, end):
    """Reads until so many lines of the answers end the way they must."""
    seen = b""
    while seen.count(end) < lines:
        part = connection.recv(1 << 20)
        if not part:
            sys.exit("memcached closed the connection")
        seen += part


def connect(path):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


def main():
    rng = random.Random(42)
    connections = [connect(sys.argv[1]) for _ in range(CONNECTIONS)]
    for first in range(0, VALUES, BATCH):
        connection = connections[first // BATCH % CONNECTIONS]
        sets = []
        for key in range(first, first + BATCH):
            size = int(rng.paretovariate(1.1) * 100) % 20000
            sets.append(b"set key%d 0 0 %d\r\n%s\r\n" % (key, size, b"x" * size))
        connection.sendall(b"".join(sets))
        receive(connection, BATCH, b"STORED\r\n")
        gets = [b"get key%d\r\n" % rng.randrange(first + BATCH) for _ in range(BATCH // 2)]
        connection.sendall(b"".join(gets))
        receive(connection, BATCH // 2, b"END\r\n")
    connections[0].sendall(b"flush_all\r\n")
    receive(connections[0], 1, b"OK\r\n")


main()
