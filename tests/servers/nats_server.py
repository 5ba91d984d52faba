"""NATS with JetStream. What was stored is there after `again`.

Users, each with the password NAME-secret: "app" may do all in an account with JetStream, "narrow" is of the same account
and may not publish below "forbidden", "mute" may subscribe to nothing, "tiny" is of another account, with hardly any
room, and "bare" of one without JetStream.
"""

import socket

from certificates import make as make_certificates
from common import Server, fields_of, free_port, give_away, make_home, program, spawn

MAX_PAYLOAD = 1 << 20

CONFIG = """
listen: "127.0.0.1:{port}"
max_payload: {max_payload}
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
                    f'ca_file: "{certs}/ca.pem", verify: {verify} }}\n')
    return home, process, f"{conninfo} certs={certs}"


def greets(conninfo):
    """The greeting comes before TLS."""
    fields = fields_of(conninfo)
    try:
        with socket.create_connection((fields["host"], int(fields["port"])), timeout=5) as connection:
            return connection.recv(4096).startswith(b"INFO ")
    except OSError:
        return False


TLS = Server("nats-server", ("nats-server", "openssl"), start_tls, greets, again)
SERVERS = {
    "nats": Server("nats-server", ("nats-server",), start_nats, answers, again),
    "nats_tls": TLS,
    "nats_stranger": TLS,
    "nats_mutual": TLS,
}
