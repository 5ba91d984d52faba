"""The traceparent of a publisher arrives at every kind of broker and at every kind of handler."""

import base64
import http.server
import json
import os
import socket
import threading
import unittest
import uuid

import brokers_test
import harness
import kafka_topics
import postgres_test

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SCHEMA = """
CREATE SCHEMA shop;
CREATE TABLE shop.seen (traceparent text);
CREATE FUNCTION shop.see(event dovetail.event) RETURNS void LANGUAGE sql AS $$
  INSERT INTO shop.seen VALUES (event.headers->>'traceparent') $$;
"""
CONFIG = """
[store.shop]
url = "postgres:%s"
[store.bus]
%s
[store.hook]
url = "http://127.0.0.1:%d/"
[store.hook.settings]
allow_private = true
[[relay]]
name = "shop-to-bus"
from = "shop"
to = "bus"
topic = "%s"
[[consumer]]
name = "taker"
from = "bus"
to = "shop"
[[consumer.handler]]
name = "inside"
kind = "sql"
function = "shop.see"
[[consumer.handler]]
name = "program"
kind = "command"
command = ["./see.sh"]
[[consumer.handler]]
name = "hook"
kind = "http"
store = "hook"
[[consumer.handler]]
name = "pull"
kind = "queue"
"""


def server_of(name):
    """Where it listens; empty if it is missing."""
    return dict(one.split("=", 1) for one in postgres_test.first_line(f"{name}.conninfo").split())


class Loop:
    """Out of the outbox, through a broker, to a handler of each kind."""

    def setUp(self):
        super().setUp()
        self.posts = []
        self.topic = f"orders-{uuid.uuid4().hex}"
        self.write("see.sh", "#!/bin/sh\ncat >> seen.json\n").chmod(0o755)
        self.write("dovetail.toml", CONFIG % (self.conninfo, self.bus(), self.serve(), self.topic))
        self.init()
        self.sql(SCHEMA)

    def serve(self):
        case = self

        class Endpoint(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"] or 0))
                case.posts.append(self.headers["traceparent"])
                self.send_response(204)
                self.send_header("content-length", "0")
                self.end_headers()

            do_OPTIONS = do_POST

            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server.server_port

    def check_broker(self):
        """What lies there, where it can be asked."""

    def test_it_goes_from_the_publisher_over_the_broker_to_each_handler(self):
        self.sql("SELECT dovetail.publish('orders', '17', 'order.placed', '{}'::jsonb, "
                 f"headers => '{{\"traceparent\": \"{PARENT}\"}}')")
        self.start("run")
        self.wait_for("all handlers have it", lambda: PARENT in self.posts and self.sql("SELECT count(*) FROM shop.seen") == "1"
                      and (self.folder / "seen.json").exists()
                      and self.sql("SELECT count(*) FROM dovetail.queue") == "1")
        self.check_broker()
        self.assertEqual(self.sql("SELECT traceparent FROM shop.seen"), PARENT)
        self.assertEqual(json.loads((self.folder / "seen.json").read_text())["headers"]["traceparent"], PARENT)
        self.assertEqual(self.sql("SELECT headers->>'traceparent' FROM dovetail.receive('taker.pull')"), PARENT)


@unittest.skipUnless(postgres_test.SERVER, "the server of the tests is missing; run it through ctest")
class Redis(Loop, postgres_test.PostgresCase):
    @classmethod
    def setUpClass(cls):
        brokers_test.start_redis(cls)

    def bus(self):
        return f'url = "{self.server.url}"\nread = ["{self.topic}"]'

    def check_broker(self):
        fields = self.server.ask("XRANGE", self.topic, "-", "+")
        self.assertEqual(fields[fields.index("traceparent") + 1], PARENT)


@unittest.skipUnless(postgres_test.SERVER and server_of("kafka"), "PostgreSQL or Kafka is missing; run it through ctest")
class Kafka(Loop, postgres_test.PostgresCase):
    def bus(self):
        port = server_of("kafka")["port"]
        kafka_topics.create(int(port), self.topic)
        return f'url = "kafka://127.0.0.1:{port}"\nread = ["{self.topic}"]'


@unittest.skipUnless(postgres_test.SERVER and server_of("rabbitmq"), "PostgreSQL or RabbitMQ is missing; run it through ctest")
class Rabbitmq(Loop, postgres_test.PostgresCase):
    def bus(self):
        return (f'url = "amqp://127.0.0.1:{server_of("rabbitmq")["port"]}/"\nread = ["{self.topic}"]\n'
                'settings = { declare = true, queue_type = "classic" }')


@unittest.skipUnless(postgres_test.SERVER and server_of("nats"), "PostgreSQL or NATS is missing; run it through ctest")
class Nats(Loop, postgres_test.PostgresCase):
    def bus(self):
        server = server_of("nats")
        os.environ["TRACE_NATS_PASSWORD"] = server["password"]
        return (f'url = "nats://127.0.0.1:{server["port"]}"\nuser = "{server["user"]}"\n'
                f'password_env = "TRACE_NATS_PASSWORD"\nread = ["{self.topic}"]\n'
                f'settings = {{ declare = true, stream = "{self.topic}" }}')


@unittest.skipUnless(postgres_test.SERVER, "the server of the tests is missing; run it through ctest")
class Http(Loop, postgres_test.PostgresCase):
    """A webhook that is sent to an endpoint of the same process."""

    def bus(self):
        self.write("secrets", "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode() + "\n")
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        return (f'url = "http://127.0.0.1:{port}/hook"\n'
                'settings = { allow_private = true, secret_file = "secrets" }')


if __name__ == "__main__":
    harness.main()
