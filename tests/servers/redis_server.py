"""Redis. Every write is on the disk before it is answered, and `again` finds it there. redis_tls also listens with TLS,
on tls_port, with a certificate for 127.0.0.1 and not for 127.0.0.2, where it listens, too.

Users, besides the one without a name that needs no password: "full" (password "full-secret") may do all, "narrow"
(password "narrow-secret") only reach keys that begin with "allowed".
"""

import socket

from certificates import make as make_certificates
from common import Server, fields_of, free_port, give_away, make_home, program, spawn

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


def answers(conninfo):
    try:
        with socket.create_connection(("127.0.0.1", int(fields_of(conninfo)["port"])), timeout=5) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
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


def start_tls(state, name):
    del state
    home, port, tls_port = make_home(name), free_port(), free_port()
    certs = make_certificates(home / "certs")
    settings = ["bind 127.0.0.1 127.0.0.2" if line.startswith("bind") else line for line in SETTINGS]
    write_settings(home, settings, f"port {port}", f"tls-port {tls_port}", f"tls-ca-cert-file {certs}/ca.pem",
                   f"tls-cert-file {certs}/server.pem", f"tls-key-file {certs}/server.key", "tls-auth-clients optional")
    return home, again(home), f"host=127.0.0.1 port={port} tls_port={tls_port} certs={certs}"


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
    "redis_tls": Server("redis-server", (*PROGRAMS, "openssl"), start_tls, answers, again),
    "redis_cluster": Server("redis-server", PROGRAMS, start_cluster, answers, again),
}
