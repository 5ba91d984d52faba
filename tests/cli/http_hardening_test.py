"""Malformed, slow and greedy clients, at the endpoint for webhooks, at the gateway and at the console, over real sockets."""

import socket
import time

import console
import gateway_test
import harness
import http_test

HEAD = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nIdempotency-Key: k\r\n"
JSON = b'{"reason":"x"}'
BODY = b"Content-Length: 14\r\n\r\n" + JSON
CHUNKS = b"e\r\n" + JSON + b"\r\n0\r\n\r\n"
GOOD = HEAD + BODY
SMUGGLED = GOOD.replace(b"Key: k", b"Key: smuggled")

# What could be understood in two ways. The whole table is in src/server/test_malformed.h.
MALFORMED = {
    "two lengths": HEAD + b"Content-Length: 14\r\nContent-Length: 60\r\n\r\n" + JSON,
    "the same length twice": HEAD + b"Content-Length: 14\r\nContent-Length: 14\r\n\r\n" + JSON,
    "a blank before the colon": HEAD + b"Content-Length : 14\r\n\r\n" + JSON,
    "a length with a sign": HEAD + b"Content-Length: +14\r\n\r\n" + JSON,
    "a list of lengths": HEAD + b"Content-Length: 14, 14\r\n\r\n" + JSON,
    "length and encoding": HEAD + b"Content-Length: 14\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    "encoding and length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n" + CHUNKS,
    "another encoding": HEAD + b"Transfer-Encoding: gzip\r\n\r\n" + JSON,
    "encodings in a list": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKS,
    "an encoding that looks like it": HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + CHUNKS,
    "encoding in HTTP/1.0": HEAD.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    "CR alone ends a header": HEAD + b"X: y\rContent-Length: 14\r\n\r\n" + JSON,
    "LF alone ends a header": HEAD + b"X: y\nContent-Length: 14\r\n\r\n" + JSON,
    "LF alone everywhere": GOOD.replace(b"\r", b""),
    "a header in two lines": HEAD + b"X: y\r\n z\r\n" + BODY,
    "a zero": HEAD + b"X: a\0b\r\n" + BODY,
    "a method that is no word": b"PO@ST" + GOOD[4:],
    "no host": GOOD.replace(b"Host: x\r\n", b""),
    "two hosts": HEAD + b"Host: y\r\n" + BODY,
    "a whole url": GOOD.replace(b"%s", b"http://x%s"),
    "a chunk that overflows": HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffe\r\n" + JSON + b"\r\n0\r\n\r\n",
    "a chunk with a sign": HEAD + b"Transfer-Encoding: chunked\r\n\r\n+e\r\n" + JSON + b"\r\n0\r\n\r\n",
    "a chunk with LF alone": HEAD + b"Transfer-Encoding: chunked\r\n\r\ne\n" + JSON + b"\r\n0\r\n\r\n",
    "a chunk that is too long": HEAD + b"Transfer-Encoding: chunked\r\n\r\ne\r\n" + JSON + b"x\r\n0\r\n\r\n",
}


class Clients:
    """What all are asked. `port` and `path` say where, untouched() that nothing came through."""

    connections = 150  # more than there are places

    def connect(self, source="127.0.0.1"):
        connection = socket.create_connection(("127.0.0.1", self.port), harness.PATIENCE_S, (source, 0))
        self.addCleanup(connection.close)
        return connection

    def hear(self, bytes_, source="127.0.0.1"):
        """Everything that is answered until the other side closes."""
        connection = self.connect(source)
        connection.sendall(bytes_)
        answer = b""
        try:
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
        return answer

    def test_what_is_malformed_or_ambiguous_is_refused_and_goes_nowhere(self):
        for name, template in MALFORMED.items():
            with self.subTest(name):
                answer = self.hear((template + SMUGGLED).replace(b"%s", self.path))
                self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer)
                self.assertIn(b"Connection: close", answer)
                self.assertEqual(answer.count(b"HTTP/1.1 "), 1 + answer.count(b"as HTTP/1.1"), answer)
        self.assertTrue(self.untouched())
        self.assertIn(self.good_status, self.hear(self.good()))

    def good(self):
        return (GOOD.replace(b"Idempotency-Key: k", b"Connection: close\r\nIdempotency-Key: good") % self.path)

    def test_slow_clients_do_not_shut_others_out_and_their_time_ends(self):
        slow = [self.connect() for _ in range(self.connections)]
        for connection in slow:
            try:
                connection.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\n")
            except OSError:
                pass  # given up for another one
        self.assertIn(self.good_status, self.hear(self.good(), "127.0.0.2"), "another client")
        self.assertIn(self.good_status, self.hear(self.good()), "the same client")
        # One byte in a while is not enough to stay.
        end = time.monotonic() + harness.PATIENCE_S
        while not self.is_over(slow[-1]):
            self.assertLess(time.monotonic(), end, "a head without an end is given up")
            time.sleep(0.05)

    @staticmethod
    def is_over(connection):
        try:
            connection.sendall(b"X-A: b\r\n")
            connection.setblocking(False)
            return connection.recv(1) is not None
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            connection.setblocking(True)


class Gateway(Clients, gateway_test.GatewayCase):
    more = 'head_timeout = "1s"\nwaiting_max = 50'
    path = b"/orders"
    good_status = b"HTTP/1.1 201"

    def untouched(self):
        return self.executed() == []


class Endpoint(Clients, harness.Case):
    path = b"/events"
    good_status = b"HTTP/1.1 202"

    def setUp(self):
        super().setUp()
        self.port = http_test.free_port()
        settings = '[store.hook.settings]\nhead_timeout = "1s"\nwaiting_max = 50\n'
        self.write("dovetail.toml", http_test.STORES % (f"http://127.0.0.1:{self.port}/events", settings) +
                   http_test.IN + http_test.LOG)
        self.dovetail("init")
        self.start("run")
        self.wait_for("it listens", self.listens)

    def listens(self):
        try:
            self.connect().close()
            return True
        except OSError:
            return False

    def untouched(self):
        return self.rows("inventory.db", "SELECT count(*) FROM dovetail_mailbox") == [(0,)]


class Console(Clients, console.ConsoleCase):
    """Whoever comes through here pauses a relay."""

    config = console.ConsoleCase.config + 'without_token = "operator"\nhosts = ["x"]\n'
    path = b"/api/v1/relays/orders-to-inventory/pause"
    good_status = b"HTTP/1.1 200"
    connections = 300

    def setUp(self):
        super().setUp()
        self.init()
        self.start_daemon()
        self.wait_for("the relay has run", self.reader)

    def untouched(self):
        return self.rows("orders.db", "SELECT count(*) FROM dovetail_audit") == [(0,)]

    def test_who_comes_through_is_seen(self):
        self.assertTrue(self.untouched())
        self.hear(self.good())
        self.assertFalse(self.untouched())


if __name__ == "__main__":
    harness.main()
