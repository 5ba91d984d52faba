"""NATS with JetStream. What was stored is there after `again`.

Users, each with the password NAME-secret: "app" may do all in an account with JetStream, "narrow" is of the same account
and may not publish below "forbidden", "mute" may subscribe to nothing, "tiny" is of another account, with hardly any
room, and "bare" of one without JetStream.
"""

import os
import pathlib
import signal
import socket

from certificates import make as make_certificates
from common import Server, fields_of, free_port, give_away, make_home, program, spawn

MAX_PAYLOAD = 1 << 20

CONFIG = """
listen: "127.0.0.1:{port}"
max_payload: {max_payload}
authorization {{ timeout: 60 }}
jetstream {{ store_dir: "{home}/store", max_memory_store: 256MB, max_file_store: 4GB }}
accounts {{
  APP: {{
    jetstream: enabled
    users: [
      {{ user: "app", password: "app-secret" }}
      {{ user: "narrow", password: "narrow-secret",
         permissions: {{ publish: {{ deny: ["forbidden.>"] }}, subscribe: ">" }} }}
      {{ user: "mute", password: "mute-secret", permissions: {{ publish: ">", subscribe: {{ deny: [">"] }} }} }}
    ]
  }}
  TINY: {{ jetstream: {{ max_file: 10000 }}, users: [ {{ user: "tiny", password: "tiny-secret" }} ] }}
  BARE: {{ users: [ {{ user: "bare", password: "bare-secret" }} ] }}
}}
"""


def answers(conninfo):
    fields = fields_of(conninfo)
    try:
        with socket.create_connection((fields["host"], int(fields["port"])), timeout=5) as connection:
            if not connection.recv(4096).startswith(b"INFO "):
                return False
            connection.sendall(b'CONNECT {"verbose":false,"user":"app","pass":"app-secret"}\r\nPING\r\n')
            return connection.recv(4096).startswith(b"PONG")
    except OSError:
        return False


def again(home):
    return spawn([program("nats-server"), "-c", str(home / "nats.conf")], home)


def configured(home, port, more=""):
    (home / "nats.conf").write_text(CONFIG.format(port=port, max_payload=MAX_PAYLOAD, home=home) + more, encoding="utf-8")
    give_away(home / "nats.conf")
    return home, again(home), f"host=127.0.0.1 port={port} user=app password=app-secret max_payload={MAX_PAYLOAD}"


def start_nats(state, name):
    del state
    return configured(make_home(name), free_port())


def start_tls(state, name):
    """As "nats", but with TLS: nats_tls is who it should be, nats_stranger has another's certificate, and nats_mutual
    wants one of its clients, too."""
    del state
    home, port = make_home(name), free_port()
    certs = make_certificates(home / "certs")
    who = "stranger" if name == "nats_stranger" else "server"
    verify = "true" if name == "nats_mutual" else "false"
    home, process, conninfo = configured(
        home, port, f'tls {{ cert_file: "{certs}/{who}.pem", key_file: "{certs}/{who}.key", '
                    f'ca_file: "{certs}/ca.pem", verify: {verify}, timeout: 60 }}\n')
    return home, process, f"{conninfo} certs={certs}"


def greets(conninfo):
    """The greeting comes before TLS."""
    fields = fields_of(conninfo)
    try:
        with socket.create_connection((fields["host"], int(fields["port"])), timeout=5) as connection:
            return connection.recv(4096).startswith(b"INFO ")
    except OSError:
        return False


def start_token(state, name):
    """Without users: everyone with the token may do everything."""
    del state
    home, port = make_home(name), free_port()
    (home / "nats.conf").write_text(f'listen: "127.0.0.1:{port}"\nauthorization {{ token: "the-token", timeout: 60 }}\n', encoding="utf-8")
    give_away(home / "nats.conf")
    return home, again(home), f"host=127.0.0.1 port={port} token=the-token"


def one_of_cluster(home, number):
    return spawn([program("nats-server"), "-c", str(home / f"nats{number}.conf")], home)


def start_cluster(state, name):
    """Three servers; the first can be killed and started again."""
    del state
    home = make_home(name)
    ports, routes = [free_port() for _ in range(3)], [free_port() for _ in range(3)]
    others = ", ".join(f'"nats://127.0.0.1:{route}"' for route in routes)
    for number in range(3):
        (home / f"nats{number}.conf").write_text(
            f'server_name: "n{number}"\nlisten: "127.0.0.1:{ports[number]}"\n'
            f'jetstream {{ store_dir: "{home}/store{number}" }}\n'
            f'cluster {{ name: "test", listen: "127.0.0.1:{routes[number]}", routes: [{others}] }}\n', encoding="utf-8")
        give_away(home / f"nats{number}.conf")
    (home / "others").write_text(" ".join(str(one_of_cluster(home, number).pid) for number in (1, 2)), encoding="utf-8")
    return home, one_of_cluster(home, 0), f"host=127.0.0.1 port={ports[0]} ports={ports[0]},{ports[1]},{ports[2]}"


def end_others(home):
    for pid in (home / "others").read_text(encoding="utf-8").split():
        try:
            if str(home).encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass


def has_leader(conninfo):
    """JetStream answers as soon as the servers have agreed on a leader, and this one knows it."""
    fields = fields_of(conninfo)
    try:
        with socket.create_connection((fields["host"], int(fields["port"])), timeout=5) as connection:
            connection.recv(4096)
            connection.sendall(b'CONNECT {"verbose":false,"headers":true}\r\nSUB r 1\r\nPUB $JS.API.STREAM.NAMES r 0\r\n\r\n')
            connection.settimeout(2)
            answer = b""
            while b"streams" not in answer and b"error" not in answer:
                answer += connection.recv(4096)
            return b"error" not in answer
    except OSError:
        return False


TLS = Server("nats-server", ("nats-server", "openssl"), start_tls, greets, again)
SERVERS = {
    "nats": Server("nats-server", ("nats-server",), start_nats, answers, again),
    "nats_tls": TLS,
    "nats_stranger": TLS,
    "nats_mutual": TLS,
    "nats_token": Server("nats-server", ("nats-server",), start_token, greets, again),
    "nats_cluster": Server("nats-server", ("nats-server",), start_cluster, has_leader,
                           lambda home: one_of_cluster(home, 0), after=end_others),
}
