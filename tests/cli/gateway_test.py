"""`dovetail gateway` before a real service: what clients see, and how often the service was reached."""

import http.client
import itertools
import json
import os
import pathlib
import resource
import signal
import socket
import ssl
import subprocess
import sys
import threading

import harness

STATE = pathlib.Path(os.environ.get("DOVETAIL_SERVERS", "servers"))
SERVICE = pathlib.Path(__file__).with_name("gateway_service.py")
CHAOS = bool(os.environ.get("DOVETAIL_CHAOS"))
COUNT = itertools.count()

CONFIG = """\
[store.shop]
url = "%s"

[gateway]
name = "shop"
listen = "127.0.0.1:0"
service = "http://127.0.0.1:%d"
store = "shop"
%s

[log]
format = "json"
level = "debug"
"""


def first_line(name):
    path = STATE / name
    return path.read_text(encoding="utf-8").splitlines()[0] if path.exists() else ""


SERVER = first_line("postgres.conninfo")


def psql(sql, conninfo=SERVER):
    return subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql, conninfo], check=True,
                          capture_output=True, text=True).stdout.strip()


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def header(self, name):
        return next((value for one, value in self.headers if one.lower() == name.lower()), None)

    def problem(self):
        return json.loads(self.body)["type"].rsplit(":", 1)[1]

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body[:300]!r}"


class GatewayCase(harness.Case):
    """A store, a service in a process of its own, and the gateway between it and the test."""

    more = ""
    certificate = ()  # of the service

    def setUp(self):
        super().setUp()
        self.record = self.folder / "record"
        self.service = None
        self.service_port = 0
        self.start_service()
        self.configure(self.more)
        self.dovetail("init")
        self.gateway = None
        self.start_gateway()

    def store_url(self):
        return "sqlite:shop.db"

    def configure(self, more):
        self.write("dovetail.toml", CONFIG % (self.store_url(), self.service_port, more))

    def start_service(self):
        self.service = subprocess.Popen([sys.executable, str(SERVICE), str(self.record), str(self.service_port),
                                         *map(str, self.certificate)],
                                        stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, self.service)
        self.service_port = int(self.service.stdout.readline())

    def start_gateway(self):
        before = self.log().count('"listening"')
        self.gateway = self.start("gateway", "--json")
        self.wait_for("the gateway listens", lambda: self.log().count('"listening"') > before)
        line = [line for line in self.log().splitlines() if '"listening"' in line][-1]
        self.port = int(json.loads(line)["port"])

    def restart_gateway(self, more):
        self.end(self.gateway)
        self.configure(more)
        self.start_gateway()

    def send(self, method="POST", path="/orders", body=b"{}", key=None, headers=(), port=None):
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=harness.PATIENCE_S * 2)
        try:
            given = dict(headers)
            if key is not None:
                given["Idempotency-Key"] = key
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()

    def in_background(self, *arguments, **more):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.send(*arguments, **more)), daemon=True)
        thread.start()

        def join():
            thread.join(harness.PATIENCE_S * 2)
            return answers[0]
        return join

    def executed(self):
        if not self.record.exists():
            return []
        return [json.loads(line) for line in self.record.read_text(encoding="utf-8").splitlines()]

    def let_go(self):
        pathlib.Path(f"{self.record}.go").touch()

    def until_executed(self, count):
        self.wait_for(f"{count} requests reached the service", lambda: len(self.executed()) >= count)

    def stop(self):
        """Asks it to stop and returns its counts."""
        self.gateway.send_signal(signal.SIGTERM)
        out, _ = self.gateway.communicate(timeout=harness.PATIENCE_S * 2)
        self.assertEqual(self.gateway.returncode, 0, self.log())
        return json.loads(out)["gateway"]


class Postgres:
    """The same in PostgreSQL."""

    def setUp(self):
        if not SERVER:
            self.skipTest("PostgreSQL is not there")
        self.database = f"gateway_{os.getpid()}_{next(COUNT)}"
        psql(f"CREATE DATABASE {self.database}")
        self.addCleanup(psql, f"DROP DATABASE {self.database} WITH (FORCE)")
        super().setUp()

    def store_url(self):
        return f"postgres:{SERVER} dbname={self.database}"


class Keys(GatewayCase):
    def test_a_repeat_gets_the_answer_of_the_first(self):
        first = self.send(key='"k-1"')
        self.assertEqual((first.status, first.body), (201, b"order 1\n"), first)
        self.assertIsNone(first.header("Idempotency-Replayed"))
        for form in ('"k-1"', "k-1", '"k-1";p=1'):
            again = self.send(key=form)
            self.assertEqual((again.status, again.body), (201, b"order 1\n"), again)
            self.assertEqual(again.header("Idempotency-Replayed"), "true")
            self.assertEqual(again.header("X-Number"), "1")
            self.assertEqual([v for n, v in again.headers if n == "Set-Cookie"], ["a=1", "b=2"])
            self.assertEqual(again.header("Date"), first.header("Date"))
        self.assertEqual(self.send(key="k-2").body, b"order 2\n")
        self.assertEqual(len(self.executed()), 2)
        self.assertEqual(self.stop()["replayed"], 3)

    def test_bytes_and_empty_answers_are_kept_as_they_are(self):
        for path, body in (("/bytes", bytes(range(256))), ("/status/204", b""), ("/status/500", b"order 3\n"),
                           ("/status/400", b"order 4\n")):
            for _ in range(2):
                answer = self.send(path=path, key=path)
                self.assertEqual(answer.body, body, answer)
        self.assertEqual(len(self.executed()), 4, "errors are answers, too")

    def test_a_missing_or_wrong_key_is_refused_and_said_how_to_do_better(self):
        missing = self.send()
        self.assertEqual((missing.status, missing.problem()), (400, "key-missing"), missing)
        self.assertEqual(missing.header("Content-Type"), "application/problem+json")
        self.assertIn("Idempotency-Key:", json.loads(missing.body)["detail"])
        self.assertEqual(json.loads(missing.body)["status"], 400)
        for key in ('"open', "a b", "", "x" * 256, "a,b"):
            answer = self.send(key=key)
            self.assertEqual((answer.status, answer.problem()), (400, "key-invalid"), (key, answer))
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.putrequest("POST", "/orders")
        connection.putheader("Idempotency-Key", "a")
        connection.putheader("Idempotency-Key", "b")
        connection.putheader("Content-Length", "0")
        connection.endheaders()
        self.assertEqual(connection.getresponse().status, 400)
        connection.close()
        self.assertEqual(self.executed(), [])

    def test_the_same_key_for_another_request_is_refused(self):
        self.send(key="k")
        for change in ({"body": b"{ }"}, {"path": "/orders?x=1"}, {"method": "PATCH"}):
            answer = self.send(key="k", **change)
            self.assertEqual((answer.status, answer.problem()), (422, "key-reused"), answer)
        self.assertEqual(len(self.executed()), 1)

    def test_keys_of_one_client_are_not_those_of_another(self):
        one = {"Authorization": "Bearer c4n4ry-one"}
        other = {"Authorization": "Bearer c4n4ry-two"}
        self.assertEqual(self.send(key="k", headers=one).body, b"order 1\n")
        self.assertEqual(self.send(key="k", headers=other).body, b"order 2\n")
        self.assertEqual(self.send(key="k").body, b"order 3\n")
        self.assertEqual(self.send(key="k", headers=one).body, b"order 1\n")
        self.assertEqual(self.send(key="k", headers=other, body=b"{ }").status, 422)
        stored = self.ask("requests")
        self.assertEqual(len(stored["requests"]), 3)
        self.assertNotIn("c4n4ry", json.dumps(stored) + self.log())

    def test_another_login_gets_no_answer_of_the_first_and_runs_nothing(self):
        for number, name in enumerate(("Cookie", "X-API-Key", "X-Auth-Token")):
            key = f"k-{number}"
            first = self.send(key=key, headers={name: "c4n4ry-one"})
            self.assertEqual(first.status, 201)
            self.assertEqual(self.send(key=key, headers={name: "c4n4ry-one"}).body, first.body)
            for other in ({name: "c4n4ry-two"}, {}):
                answer = self.send(key=key, headers=other)
                self.assertEqual((answer.status, answer.problem()), (422, "key-reused"), answer)
                self.assertNotIn(first.body, answer.body)
            self.assertEqual(len(self.executed()), number + 1)
        # Who is known by Authorization may have another cookie each time.
        for cookie in ("a", "b"):
            answer = self.send(key="k", headers={"Authorization": "Bearer x", "Cookie": cookie})
            self.assertEqual((answer.status, answer.body), (201, b"order 4\n"), answer)

    def test_all_values_of_a_header_tell_clients_apart(self):
        def send(*values):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.PATIENCE_S)
            connection.putrequest("POST", "/orders")
            for name, value in (*(("Authorization", one) for one in values), ("Idempotency-Key", "k"),
                                ("Content-Length", "2")):
                connection.putheader(name, value)
            connection.endheaders(b"{}")
            answer = connection.getresponse().read()
            connection.close()
            return answer
        answers = [send("one"), send("one", "two"), send("", "two"), send("", "three")]
        self.assertEqual(len(set(answers)), 4, answers)
        self.assertEqual(send("", "two"), answers[2])

    def test_a_repeat_while_the_first_runs_is_told_so(self):
        first = self.in_background(path="/wait", key="k")
        self.until_executed(1)
        repeat = self.send(path="/wait", key="k")
        self.assertEqual((repeat.status, repeat.problem()), (409, "running"), repeat)
        self.assertEqual(repeat.header("Retry-After"), "1")
        self.assertEqual(self.send(path="/wait?", key="k").status, 422)
        self.let_go()
        self.assertEqual(first().status, 201)
        self.assertEqual(self.send(path="/wait", key="k").header("Idempotency-Replayed"), "true")
        self.assertEqual(len(self.executed()), 1)

    def test_a_client_that_goes_away_does_not_end_its_request(self):
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.sendall(b"POST /wait HTTP/1.1\r\nHost: x\r\nIdempotency-Key: gone\r\nContent-Length: 2\r\n\r\n{}")
        self.until_executed(1)
        connection.close()
        self.let_go()
        self.wait_for("its answer is kept", lambda: self.ask("requests")["requests"][0]["state"] == "finished")
        again = self.send(path="/wait", key="gone")
        self.assertEqual((again.status, again.body), (201, b"order 1\n"))
        self.assertEqual(len(self.executed()), 1)

    def test_answers_that_say_that_nothing_was_done_are_not_kept(self):
        for status in (401, 429, 503):
            for _ in range(2):
                self.assertEqual(self.send(path=f"/status/{status}", key=f"k{status}").status, status)
        self.assertEqual(len(self.executed()), 6)
        self.assertEqual(self.ask("requests")["requests"], [])

    def test_an_answer_that_is_too_large_is_said_to_be_and_the_request_runs_once(self):
        for _ in range(2):
            answer = self.send(path="/big", key="k")
            self.assertEqual((answer.status, answer.problem()), (502, "answer-too-large"), answer)
        self.assertEqual(len(self.executed()), 1)

    def test_a_body_that_is_too_large_is_refused(self):
        answer = self.send(key="k", body=b"x" * ((1 << 20) + 1))
        self.assertEqual((answer.status, answer.problem()), (413, "body-too-large"), answer)
        self.assertEqual(self.send(key="k", body=b"x" * (1 << 20)).status, 201)
        self.assertEqual(len(self.executed()), 1)

    def test_logs_show_neither_keys_nor_bodies(self):
        self.send(path="/die", key="k3y-c4n4ry", body=b"b0dy-c4n4ry")
        self.send(key="k3y-c4n4ry-2", body=b"b0dy-c4n4ry")
        self.stop()
        self.assertIn("unknown", self.log())
        self.assertNotIn("c4n4ry", self.log())


class PostgresKeys(Postgres, GatewayCase):
    def test_a_repeat_gets_the_answer_of_the_first(self):
        for _ in range(3):
            answer = self.send(path="/bytes", key="k")
            self.assertEqual((answer.status, answer.body), (201, bytes(range(256))), answer)
        self.assertEqual(self.send(path="/bytes", key="k", body=b"").status, 422)
        self.assertEqual(len(self.executed()), 1)

    def test_headers_that_are_no_utf8_are_kept_byte_for_byte(self):
        name = "attachment; filename=caf\xe9\xff.pdf; again=caf\xc3\xa9.pdf"  # the client reads Latin-1
        for replayed in (None, "true", "true"):
            answer = self.send(path="/file", key="k", headers={"X-Mine": "caf\xe9"})
            self.assertEqual((answer.status, answer.header("Idempotency-Replayed")), (201, replayed), answer)
            self.assertEqual(answer.header("Content-Disposition"), name)
        self.assertEqual(dict(self.executed()[0]["headers"])["X-Mine"], "caf\xe9")
        self.assertEqual(len(self.executed()), 1)

    def test_an_operator_lets_an_unknown_one_run_again(self):
        lost = self.send(path="/cut", key="k", headers={"Authorization": "Bearer x"})
        self.assertEqual((lost.status, lost.problem()), (502, "outcome-unknown"), lost)
        listed = self.ask("requests", "--state", "unknown")["requests"]
        self.assertEqual(len(listed), 1)
        self.assertIn(listed[0]["shown"], self.log())
        forget = ("requests", "forget", "k", "--scope", listed[0]["scope"], "--reason", "nothing is there")
        self.assertEqual(self.ask(*forget), {"forgotten": 1})
        self.refused(*forget, code=5, name="rejected", says=["requests list"])
        self.assertIn("no requests", self.dovetail("requests").out)
        self.send(path="/cut", key="k", headers={"Authorization": "Bearer x"})
        self.assertEqual(len(self.executed()), 2)

    def test_a_gateway_works_with_the_rights_of_a_relay(self):
        self.dovetail("init", "--roles")
        user = f"{self.database}_relay"
        psql(f"CREATE ROLE {user} LOGIN; GRANT dovetail_relay TO {user}")
        self.addCleanup(psql, f"DROP ROLE {user}")
        self.end(self.gateway)
        text = (self.folder / "dovetail.toml").read_text().replace(self.store_url(), f"{self.store_url()} user={user}")
        self.write("dovetail.toml", text)
        self.start_gateway()
        self.assertEqual([self.send(key="k").status for _ in range(2)], [201, 201])
        self.assertEqual(len(self.executed()), 1)


class Tls(GatewayCase):
    more = 'cert_file = "certs/server.pem"\nkey_file = "certs/server.key"\nservice_ca_file = "certs/ca.pem"'

    def start_service(self):
        certs = self.folder / "certs"
        subprocess.run([sys.executable, harness.ROOT / "tests/servers/certificates.py", certs], check=True,
                       stdout=subprocess.DEVNULL)
        self.certificate = (certs / "server",)
        super().start_service()

    def configure(self, more):
        super().configure(more)
        path = self.folder / "dovetail.toml"
        self.write("dovetail.toml", path.read_text().replace("http://127", "https://127"))

    def send_over_tls(self, key, trusts="ca.pem"):
        context = ssl.create_default_context(cafile=str(self.folder / "certs" / trusts))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=harness.PATIENCE_S, context=context)
        try:
            connection.request("POST", "/orders", b"{}", {"Idempotency-Key": key})
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()

    def test_clients_and_the_service_are_spoken_to_over_tls_and_strangers_are_not(self):
        first, again = self.send_over_tls("k"), self.send_over_tls("k")
        self.assertEqual((first.status, again.status, again.body), (201, 201, first.body))
        self.assertEqual(again.header("Idempotency-Replayed"), "true")
        self.assertEqual(len(self.executed()), 1)
        with self.assertRaises(ssl.SSLError):
            self.send_over_tls("k2", trusts="other-ca.pem")
        with self.assertRaises((http.client.HTTPException, OSError)):
            self.send(key="k3")  # without TLS
        # A service that is not the one it should be gets nothing.
        self.end(self.service)
        self.certificate = (self.folder / "certs/stranger",)
        GatewayCase.start_service(self)
        self.assertEqual(self.send_over_tls("k4").problem(), "service-unreachable")
        self.assertEqual(len(self.executed()), 1)


class Janitor(Postgres, GatewayCase):
    more = '[retention]\nevery = "1s"'

    def said(self, name):
        lines = [json.loads(line) for line in self.log().splitlines() if '"so far"' in line]
        return int(lines[-1][name]) if lines else 0

    def test_a_gateway_deletes_what_has_expired_by_itself_and_says_what_it_has_done(self):
        self.dovetail("init", "--roles")
        user = f"{self.database}_janitor"
        psql(f"CREATE ROLE {user} LOGIN; GRANT dovetail_relay TO {user}")
        self.addCleanup(psql, f"DROP ROLE {user}")
        text = (self.folder / "dovetail.toml").read_text()
        self.end(self.gateway)
        self.write("dovetail.toml", text.replace(self.store_url(), f"{self.store_url()} user={user}"))
        self.start_gateway()
        for key in ("a", "b", "b"):
            self.assertEqual(self.send(key=key).status, 201)
        psql("UPDATE dovetail.request SET expires_at = now() - interval '1 s', lease_until = now() - interval '1 s'",
             f"{SERVER} dbname={self.database}")
        self.wait_for("both are gone", lambda: self.said("pruned") == 2)
        self.assertEqual((self.said("executed"), self.said("replayed")), (2, 1))
        self.write("dovetail.toml", text)
        self.assertEqual(self.ask("requests")["requests"], [])
        self.assertEqual(self.send(key="a").status, 201)
        self.assertEqual(len(self.executed()), 3)


class Passing(GatewayCase):
    def test_safe_and_other_methods_pass_without_a_key(self):
        for method in ("GET", "PUT", "DELETE", "OPTIONS"):
            answer = self.send(method, "/orders?a=%2F..%2f&b", body=b"x" if method == "PUT" else None)
            self.assertEqual(answer.status, 201, answer)
        self.assertEqual([(one["method"], one["path"]) for one in self.executed()],
                         [(method, "/orders?a=%2F..%2f&b") for method in ("GET", "PUT", "DELETE", "OPTIONS")])
        head = self.send("HEAD", body=None)
        self.assertEqual((head.status, head.body, head.header("Content-Length")), (201, b"", "8"), head)
        # A key on a method that has none is for the service alone.
        self.assertEqual([self.send("GET", key="k", body=None).body for _ in range(2)], [b"order 6\n", b"order 7\n"])
        self.assertEqual(self.executed()[-1]["key"], "k")
        self.assertEqual(self.ask("requests")["requests"], [])

    def test_headers_pass_but_for_those_of_the_connection(self):
        answer = self.send(path="/echo", key='"k"', headers={
            "X-Mine": "yes", "X-Empty": "", "Connection": "close, X-Secret", "X-Secret": "no", "TE": "trailers",
            "Proxy-Authorization": "Basic x", "Content-Type": "text/x"})
        seen = {name.lower(): value for name, value in json.loads(answer.body)["headers"]}
        self.assertEqual(seen["x-mine"], "yes")
        self.assertEqual(seen["x-empty"], "")
        self.assertEqual(seen["content-type"], "text/x")
        self.assertEqual(seen["idempotency-key"], '"k"')
        self.assertEqual(seen["x-forwarded-for"], "127.0.0.1")
        self.assertEqual(seen["x-forwarded-host"], f"127.0.0.1:{self.port}")
        self.assertEqual(seen["via"], "1.1 dovetail")
        self.assertEqual(seen["host"], f"127.0.0.1:{self.service_port}")
        for name in ("x-secret", "te", "proxy-authorization", "expect"):
            self.assertNotIn(name, seen)
        for name in ("X-Hop", "Keep-Alive"):
            self.assertIsNone(answer.header(name))
        bare = self.send(path="/echo", key="k2", headers={"Accept-Encoding": "identity"}, body=b"")
        seen = {name.lower(): value for name, value in json.loads(bare.body)["headers"]}
        self.assertNotIn("content-type", seen)
        self.assertEqual(seen["content-length"], "0")

    def echoed(self, key, headers):
        answer = self.send(path="/echo", key=key, headers=headers)
        return {name.lower(): value for name, value in json.loads(answer.body)["headers"]}

    CLAIMS = {"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Host": "bank.example", "X-Forwarded-Proto": "https",
              "X-Forwarded-Prefix": "/admin", "Forwarded": "for=192.0.2.1", "X-Real-IP": "192.0.2.1",
              "X_Forwarded_For": "192.0.2.2", "X-Original-URL": "/admin"}

    def test_what_a_client_says_about_itself_as_a_proxy_is_not_believed(self):
        seen = self.echoed("k", self.CLAIMS)
        self.assertEqual(seen["x-forwarded-for"], "127.0.0.1")
        self.assertEqual(seen["x-forwarded-host"], f"127.0.0.1:{self.port}")
        self.assertEqual(seen["x-forwarded-proto"], "http")
        for name in ("forwarded", "x-real-ip", "x_forwarded_for", "x-forwarded-prefix", "x-original-url"):
            self.assertNotIn(name, seen)

    def test_what_a_trusted_proxy_says_is_passed_on(self):
        self.restart_gateway('trusted_proxies = ["127.0.0.0/8"]')
        seen = self.echoed("k", self.CLAIMS)
        self.assertEqual(seen["x-forwarded-for"], "192.0.2.1, 127.0.0.1")
        for name in ("X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "X-Real-IP"):
            self.assertEqual(seen[name.lower()], self.CLAIMS[name])

    def test_no_path_leads_out_of_the_prefix_of_the_service(self):
        path = self.folder / "dovetail.toml"
        self.end(self.gateway)
        self.write("dovetail.toml", path.read_text().replace(f":{self.service_port}\"", f":{self.service_port}/api\""))
        self.start_gateway()
        for target in ("/../admin", "/..", "/a/../../admin", "/%2e%2e/admin", "/%2E%2E%2Fadmin", "/..%2fadmin",
                       "/..%5cadmin", "/%252e%252e/admin", "/..;/admin", "/./x", "/x%00y", "/%zz"):
            answer = self.send("GET", target, body=None)
            self.assertEqual((answer.status, answer.problem()), (400, "path-unsafe"), (target, answer))
        self.assertEqual(self.executed(), [])
        for target in ("/x/..y", "/group%2Fproject?../..", "/.well-known/a"):
            self.assertEqual(self.send("GET", target, body=None).status, 201, target)
        self.assertEqual([one["path"] for one in self.executed()],
                         ["/api/x/..y", "/api/group%2Fproject?../..", "/api/.well-known/a"])

    def test_a_chunked_body_arrives_whole(self):
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.sendall(b"POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: c\r\nTransfer-Encoding: chunked\r\n"
                           b"Connection: close\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        self.assertIn(b"201", connection.makefile("rb").readline())
        connection.close()
        self.assertEqual(self.executed()[0]["body"], "abcde")

    def test_without_a_requirement_requests_without_a_key_pass(self):
        self.restart_gateway('key_required = false\nmethods = ["POST", "DELETE"]')
        self.assertEqual([self.send().body for _ in range(2)], [b"order 1\n", b"order 2\n"])
        self.assertEqual([self.send("DELETE", key="k", body=None).body for _ in range(2)], [b"order 3\n"] * 2)

    def test_what_cannot_be_passed_on_is_refused(self):
        for line, status in ((b"OPTIONS * HTTP/1.1", b" 501 "), (b"GET http://127.0.0.1/x HTTP/1.1", b" 400 "),
                             (b"CONNECT x:80 HTTP/1.1", b" 501 "), (b"TRACE / HTTP/1.1", b" 501 ")):
            connection = socket.create_connection(("127.0.0.1", self.port))
            connection.sendall(line + b"\r\nHost: x\r\nConnection: close\r\n\r\n")
            self.assertIn(status, connection.makefile("rb").readline(), line)
            connection.close()
        self.assertEqual(self.executed(), [])


class Starting(GatewayCase):
    def test_other_addresses_than_loopback_must_be_named(self):
        self.end(self.gateway)
        text = (self.folder / "dovetail.toml").read_text()
        self.write("dovetail.toml", text.replace("127.0.0.1:0", "0.0.0.0:0"))
        self.refused("gateway", code=5, name="rejected", says=["allow_remote"])

    def test_what_is_wrong_is_said(self):
        self.refused("gateway", "--config", self.write("x.toml", '[store.a]\nurl = "sqlite:a.db"\n').name, code=3,
                     name="config", says=["has no [gateway]"])
        text = (self.folder / "dovetail.toml").read_text()
        self.write("dovetail.toml", text.replace("[log]", 'lease = "2s"\n[log]'))
        self.refused("gateway", code=5, name="rejected", says=["lease is too short"])
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        self.write("dovetail.toml", text.replace("127.0.0.1:0", f"127.0.0.1:{taken.getsockname()[1]}"))
        self.refused("gateway", code=4, name="unavailable", says=["check that no other process uses the port"])

    def test_it_stops_when_what_is_there_is_finished(self):
        first = self.in_background(path="/wait", key="k")
        self.until_executed(1)
        self.gateway.send_signal(signal.SIGTERM)
        self.wait_for("it takes no more", lambda: self.is_refused())
        self.let_go()
        self.assertEqual(first().status, 201)
        self.assertEqual(self.gateway.wait(harness.PATIENCE_S), 0)
        self.assertEqual(self.ask("requests")["requests"][0]["state"], "finished")

    def is_refused(self):
        try:
            return self.send("GET", body=None).status == 503
        except OSError:
            return True

    def test_what_does_not_finish_in_time_is_given_up_as_unknown(self):
        self.restart_gateway('drain_timeout = "100ms"')
        first = self.in_background(path="/wait", key="k")
        self.until_executed(1)
        counts = self.stop()
        self.assertEqual(counts["lost"], 1)
        self.assertEqual((first().status, first().problem()), (502, "outcome-unknown"))
        self.assertEqual(self.ask("requests")["requests"][0]["state"], "unknown")


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    harness.main()


if __name__ == "__main__":
    main()
