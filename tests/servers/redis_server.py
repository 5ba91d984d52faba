"""Redis, plain and with TLS. Every write is on the disk before it is answered, and `again` finds it there.

Users, besides the one without a name that needs no password: "full" (password "full-secret") may do all, "narrow"
(password "narrow-secret") only reach keys that begin with "allowed".
"""

import socket
import ssl

from common import Server, free_port, give_away, make_home, program, spawn

SETTINGS = (
    "bind 127.0.0.1",
    "set-proc-title no",  # so that the command line still names the folder
    "appendonly yes",
    "appendfsync always",
    'save ""',
    "databases 10000",
    "enable-debug-command yes",
    "repl-diskless-sync-delay 0",
    "user full on >full-secret ~* &* +@all",
    "user narrow on >narrow-secret ~allowed* &* +@all -@dangerous -@admin",
)


def talks(connection):
    connection.sendall(b"PING\r\n")
    return connection.recv(64).startswith(b"+PONG")


def answers(conninfo):
    fields = dict(field.split("=", 1) for field in conninfo.split())
    try:
        with socket.create_connection(("127.0.0.1", int(fields["port"])), timeout=5) as connection:
            if "ca" not in fields:
                return talks(connection)
            context = ssl.create_default_context(cafile=fields["ca"])
            with context.wrap_socket(connection, server_hostname="localhost") as encrypted:
                return talks(encrypted)
    except OSError:
        return False


def again(home):
    return spawn([program("redis-server"), str(home / "redis.conf")], home)


def write_settings(home, settings, *more):
    (home / "redis.conf").write_text("\n".join((*settings, f"dir {home}", *more)) + "\n", encoding="utf-8")
    give_away(home / "redis.conf")


def start_redis(state, name):
    del state
    home, port = make_home(name), free_port()
    write_settings(home, SETTINGS, f"port {port}")
    return home, again(home), f"host=127.0.0.1 port={port}"


def start_cluster(state, name):
    """One server of a cluster, without the others."""
    del state
    home, port = make_home(name), free_port()
    settings = [line for line in SETTINGS if not line.startswith("databases")]
    write_settings(home, settings, f"port {port}", "cluster-enabled yes", f"cluster-port {free_port()}")
    return home, again(home), f"host=127.0.0.1 port={port}"


PROGRAMS = ("redis-server", "redis-cli")
SERVERS = {
    "redis": Server("redis-server", PROGRAMS, start_redis, answers, again),
    "redis_cluster": Server("redis-server", PROGRAMS, start_cluster, answers, again),
}
