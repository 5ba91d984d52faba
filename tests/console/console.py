"""A daemon with a console, and a client of it."""

import http.client
import json
import re
import ssl

import harness

HTTP = '\n[http]\nlisten = "127.0.0.1:0"\n'


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body[:2000]}"


class ConsoleCase(harness.Case):
    """`dovetail run` with [http], asked over HTTP."""

    config = harness.CONFIG + HTTP

    def setUp(self):
        super().setUp()
        self.write("dovetail.toml", self.config)

    def start_daemon(self, *arguments, env=None):
        """Returns the process; self.port is where it listens."""
        before = len(self.ports())
        process = self.start("run", *arguments, env=env)
        self.wait_for("the daemon listens", lambda: len(self.ports()) > before or process.poll() is not None)
        self.assertIsNone(process.poll(), self.log())
        self.port = self.ports()[-1]
        return process

    def ports(self):
        """Of those that have said that they listen; the log is JSON in these tests."""
        return [int(port) for port in re.findall(r'"message":\s*"listening".*?"port":\s*"(\d+)"', self.log())]

    def call(self, path, method="GET", headers=None, body=None, port=None, tls=False, timeout=harness.PATIENCE_S):
        if tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connection = http.client.HTTPSConnection("127.0.0.1", port or self.port, timeout=timeout, context=context)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=timeout)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read().decode())
        finally:
            connection.close()
