"""The traceparent of a publisher arrives at the broker and at every kind of handler."""

import http.server
import json
import threading
import unittest

import brokers_test
import harness
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
url = "%s"
read = ["orders.events"]
[store.hook]
url = "http://127.0.0.1:%d/"
[store.hook.settings]
allow_private = true
[[relay]]
name = "shop-to-bus"
from = "shop"
to = "bus"
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
"""


@unittest.skipUnless(postgres_test.SERVER, "the server of the tests is missing; run it through ctest")
class TraceParent(postgres_test.PostgresCase):
    @classmethod
    def setUpClass(cls):
        brokers_test.start_redis(cls)

    def setUp(self):
        super().setUp()
        self.posts = []
        self.write("see.sh", "#!/bin/sh\ncat >> seen.json\n").chmod(0o755)
        self.write("dovetail.toml", CONFIG % (self.conninfo, self.server.url, self.serve()))
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

    def test_it_goes_from_the_publisher_over_the_broker_to_each_handler(self):
        self.sql("SELECT dovetail.publish('orders', '17', 'order.placed', '{}'::jsonb, "
                 f"headers => '{{\"traceparent\": \"{PARENT}\"}}')")
        self.start("run")
        self.wait_for("all handlers have it", lambda: PARENT in self.posts and self.sql("SELECT count(*) FROM shop.seen") == "1"
                      and (self.folder / "seen.json").exists())
        fields = self.server.ask("XRANGE", "orders.events", "-", "+")
        self.assertEqual(fields[fields.index("traceparent") + 1], PARENT)
        self.assertEqual(self.sql("SELECT traceparent FROM shop.seen"), PARENT)
        self.assertEqual(json.loads((self.folder / "seen.json").read_text())["headers"]["traceparent"], PARENT)


if __name__ == "__main__":
    harness.main()
