"""Clients of a server, for recordings of it: memcached or redis, by their text protocols.

usage: load.py memcached|redis PORT [CLIENTS] [COMMANDS]

Waits until the server listens on PORT of this host. Then CLIENTS threads (8) send COMMANDS (200) each,
in turn a write and a read of one of 64 keys. At the end the server is told to shut down (memcached
allows that with -A).
"""

from __future__ import annotations

import socket
import sys
import threading
import time

PATIENCE_SECONDS = 120
KEYS = 64
VALUE = b"x" * 100


def memcached(number: int) -> tuple[bytes, bytes]:
    """A command, and the end of its answer."""
    key = b"key%d" % (number // 2 % KEYS)
    if number % 2 == 0:
        return b"set %s 0 0 %d\r\n%s\r\n" % (key, len(VALUE), VALUE), b"STORED\r\n"
    return b"get %s\r\n" % key, b"END\r\n"


def redis(number: int) -> tuple[bytes, bytes]:
    """A command, and the end of its answer."""
    key = b"key%d" % (number // 2 % KEYS)
    if number % 2 == 0:
        return b"SET %s %s\r\n" % (key, VALUE), b"+OK\r\n"
    return b"GET %s\r\n" % key, VALUE + b"\r\n"


COMMANDS = {"memcached": memcached, "redis": redis}
SHUTDOWN = {"memcached": b"shutdown\r\n", "redis": b"SHUTDOWN NOSAVE\r\n"}


def connect(port: int) -> socket.socket:
    """A connection to the server, which may still be starting."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def client(server: str, port: int, first: int, count: int) -> None:
    """Sends `count` commands, each after the answer to the one before."""
    with connect(port) as connection:
        for number in range(first, first + count):
            command, end = COMMANDS[server](number)
            connection.sendall(command)
            answer = b""
            while not answer.endswith(end):
                part = connection.recv(65536)
                if not part:
                    sys.exit(f"load.py: {server} closed a connection, after {answer!r}")
                answer += part


def main() -> None:
    server, port = sys.argv[1], int(sys.argv[2])
    clients = int(sys.argv[3]) if len(sys.argv) > 3 else 8
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 200
    connect(port).close()
    threads = [threading.Thread(target=client, args=(server, port, n * 8, count)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with connect(port) as connection:
        connection.sendall(SHUTDOWN[server])
        connection.recv(1)
    print(f"{clients} clients, {count} commands each")


if len(sys.argv) < 3 or sys.argv[1] not in COMMANDS:
    sys.exit(__doc__)
main()
