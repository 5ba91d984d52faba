"""Where the roads of cost.py end: a topic, queue, stream or path of its own at each receiver. Each is a context manager that
yields the keys of the store."""

import base64
import contextlib
import http.server
import json
import os
import pathlib
import socket
import sys
import threading
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/servers"), str(ROOT / "tests/cli")]
import kafka_topics  # noqa: E402
from common import fields_of  # noqa: E402

PATIENCE_S = 60
TOPIC = "cost"


@contextlib.contextmanager
def kafka(conninfo_of):
    port = int(fields_of(conninfo_of("kafka"))["port"])
    prefix = f"{os.getpid()}-{os.urandom(4).hex()}-"
    kafka_topics.create(port, prefix + TOPIC)
    yield f'url = "kafka://127.0.0.1:{port}"\nsettings = {{ topic_prefix = "{prefix}" }}'


@contextlib.contextmanager
def rabbitmq(conninfo_of):
    server = fields_of(conninfo_of("rabbitmq"))
    host = f"cost_{os.getpid()}_{os.urandom(4).hex()}"

    def ask(method, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{server['management_port']}/api/{path}", method=method,
                                         data=None if body is None else json.dumps(body).encode())
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        request.add_header("Content-Type", "application/json")
        urllib.request.urlopen(request, timeout=PATIENCE_S).close()

    ask("PUT", f"vhosts/{host}", {})
    try:
        ask("PUT", f"permissions/{host}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        ask("PUT", f"queues/{host}/{TOPIC}", {"durable": True, "arguments": {}})
        yield f'url = "amqp://127.0.0.1:{server["port"]}/{host}"'
    finally:
        ask("DELETE", f"vhosts/{host}")


@contextlib.contextmanager
def nats(conninfo_of):
    server = fields_of(conninfo_of("nats"))
    os.environ["COST_NATS_PASSWORD"] = server["password"]
    stream = json.dumps({"name": "COST", "subjects": [TOPIC], "storage": "file"})

    def ask(what, body):
        login = json.dumps({"verbose": False, "user": server["user"], "pass": server["password"]})
        with socket.create_connection(("127.0.0.1", int(server["port"])), timeout=PATIENCE_S) as connection:
            connection.recv(4096)
            connection.sendall(f"CONNECT {login}\r\nSUB told 1\r\nPUB $JS.API.{what} told {len(body)}\r\n{body}\r\n".encode())
            answer = b""
            while answer.count(b"\r\n") < 2:
                answer += connection.recv(65536)
        if b'"error"' in answer:
            raise RuntimeError(f"NATS refused {what}: {answer!r}")

    ask("STREAM.CREATE.COST", stream)
    try:
        yield (f'url = "nats://127.0.0.1:{server["port"]}"\nuser = "{server["user"]}"\n'
               'password_env = "COST_NATS_PASSWORD"')
    finally:
        ask("STREAM.DELETE.COST", "")


@contextlib.contextmanager
def redis(conninfo_of):
    yield f'url = "redis://127.0.0.1:{fields_of(conninfo_of("redis"))["port"]}/0"'


class Accepting(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def webhook(_):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Accepting)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield (f'url = "http://127.0.0.1:{server.server_port}/cost"\n'
               'settings = { allow_private = true }')
    finally:
        server.shutdown()
        server.server_close()


RECEIVERS = {"http": webhook, "kafka": kafka, "nats": nats, "rabbitmq": rabbitmq, "redis": redis}
