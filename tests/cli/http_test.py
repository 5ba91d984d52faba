"""Webhooks out and in, seen by those who are not Dovetail: a server and senders in Python, and curl."""

import base64
import hashlib
import hmac
import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

import harness

SCRIPT = harness.ROOT / "tests" / "servers" / "servers.py"
SECRET_BYTES = b"0123456789abcdef0123456789abcdef"
OLD_SECRET_BYTES = b"fedcba9876543210fedcba9876543210"
SECRETS = " ".join("whsec_" + base64.b64encode(one).decode() for one in (SECRET_BYTES, OLD_SECRET_BYTES))

STORES = """\
[store.orders]
url = "sqlite:orders.db"

[store.hook]
url = "%s"
%s

[store.inventory]
url = "sqlite:inventory.db"
"""
RELAY = """
[[relay]]
name = "%s-to-%s"
from = "%s"
to = "%s"
lease = "3s"
retry_base = "5ms"
reconnect_cap = "100ms"
"""
OUT = RELAY % ("orders", "hook", "orders", "hook")
IN = RELAY % ("hook", "inventory", "hook", "inventory")
LOG = '\n[log]\nformat = "json"\n'
OURS = '[store.hook.settings]\nallow_private = true\nsecret_file = "secrets"\n'


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def signature(secret, identifier, timestamp, body):
    signed = f"{identifier}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()


class Sending(harness.Case):
    """What arrives at a server that is not ours."""

    def setUp(self):
        super().setUp()
        self.state = self.folder / "servers"
        self.servers("start")
        self.addCleanup(self.servers, "stop")
        fields = dict(one.split("=", 1) for one in (self.state / "http.conninfo").read_text().split())
        self.home, self.url = fields["home"], f"http://127.0.0.1:{fields['port']}/hook"
        self.write("secrets", SECRETS + "\n")

    def servers(self, action):
        subprocess.run([sys.executable, SCRIPT, "--state", self.state, action, "http"], check=True, capture_output=True)

    def came(self):
        try:
            with open(f"{self.home}/record", encoding="utf-8") as record:
                lines = [json.loads(line) for line in record if line.endswith("\n")]
        except FileNotFoundError:
            return []
        return [line for line in lines if line["method"] == "POST"]

    def test_an_event_is_a_signed_cloudevent(self):
        self.write("dovetail.toml", STORES % (self.url + "/{topic}", OURS) + OUT + LOG)
        self.init()
        payload = '{"name": "Gr\u00fc\u00dfe \\u0000"}'
        event = self.publish_id("--header", "traceparent=00-ab-cd-01", "--header", "note=gr\u00fc\u00df", key="K 1/\u00fc",
                                payload=payload)
        self.start("run")
        request = self.wait_for("it arrives", self.came)[0]
        headers = dict(request["headers"])
        body = base64.b64decode(request["body"])
        self.assertEqual(request["path"], "/hook/orders.events")
        self.assertEqual(body, payload.encode())
        for name, value in (("ce-specversion", "1.0"), ("ce-id", event), ("ce-type", "OrderPlaced"),
                            ("ce-source", "dovetail"), ("ce-subject", "K%201/%C3%BC"), ("content-type", "application/json"),
                            ("traceparent", "00-ab-cd-01"), ("note", "gr\u00fc\u00df"), ("idempotency-key", event),
                            ("webhook-id", event)):
            self.assertEqual(headers[name], value, name)
        timestamp = headers["webhook-timestamp"]
        self.assertLess(abs(int(timestamp) - time.time()), 300)
        expected = [signature(secret, event, timestamp, body) for secret in (SECRET_BYTES, OLD_SECRET_BYTES)]
        self.assertEqual(headers["webhook-signature"].split(" "), expected, "one for each secret")

    def test_an_id_is_the_same_after_a_restart_and_a_retry(self):
        self.write("dovetail.toml", STORES % (self.url + "?early=1&times=2", OURS) + OUT + LOG)
        self.init()
        event = self.publish_id()
        first = self.start("run")
        self.wait_for("it arrives", self.came)
        first.kill()
        first.wait()
        self.start("run")
        self.wait_for("it is delivered", lambda: self.reader(name="orders-to-hook")["pending"] == 0)
        ids = {dict(request["headers"])["idempotency-key"] for request in self.came()}
        self.assertEqual(ids, {event})
        self.assertGreaterEqual(len(self.came()), 2)

    def test_the_doctor_names_what_is_unsafe(self):
        self.write("dovetail.toml", STORES % (self.url, "[store.hook.settings]\nallow_private = true\n") + OUT + LOG)
        self.init()
        codes = [finding["code"] for store in self.ask("doctor", "--store", "hook")["stores"]
                 for finding in store["findings"]]
        self.assertEqual(codes, ["unsigned"])
        self.assertEqual(self.came(), [], "the doctor posts no events")

    def test_without_allow_private_nothing_is_sent_to_this_machine(self):
        self.write("dovetail.toml", STORES % (self.url, "") + OUT + LOG)
        self.init()
        self.publish()
        self.refused("run", "--until-idle", code=4, name="unavailable", says=("allow_private",))
        self.assertEqual(self.came(), [])

    def test_wrong_settings_are_refused_with_their_place(self):
        for settings, says in (("[store.hook.settings]\nsecret = 'x'\n", "store.hook.settings.secret"),
                               ("[store.hook.settings]\nsecret_env = 'NO_SUCH_VARIABLE'\n", "secret_env"),
                               ("[store.hook.settings]\nsecret_file = 'nowhere'\n", "secret_file"),
                               ("[store.hook.settings]\nrequests_max = 0\n", "requests_max"),
                               ("[store.hook.headers]\ncontent-length = '1'\n", "content-length")):
            self.write("dovetail.toml", STORES % (self.url, settings) + OUT + LOG)
            self.refused("run", code=3, name="config", says=("dovetail.toml", says))


HTTP2_SERVER = """
const http2 = require("http2"), fs = require("fs"), [certs, record] = process.argv.slice(2);
const server = http2.createSecureServer({key: fs.readFileSync(certs + "/server.key"),
                                         cert: fs.readFileSync(certs + "/server.pem")});
let sessions = 0;
server.on("session", session => { session.number = ++sessions; });
server.on("stream", (stream, headers) => {
  let body = "";
  stream.on("data", data => { body += data; });
  stream.on("end", () => {
    const one = {session: stream.session.number, alpn: stream.session.alpnProtocol, body, headers};
    fs.appendFileSync(record, JSON.stringify(one) + "\\n");
    stream.respond({":status": headers[":path"] == "/" ? 404 : 200});
    stream.end();
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
"""


@unittest.skipUnless(shutil.which("node"), "node is not installed")
class SendingHttp2(harness.Case):
    def test_many_events_share_one_connection(self):
        subprocess.run([sys.executable, SCRIPT.with_name("certificates.py"), self.folder / "certs"], check=True,
                       capture_output=True)
        record = self.folder / "record"
        server = subprocess.Popen(["node", self.write("server.js", HTTP2_SERVER), self.folder / "certs", record],
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, server)
        port = int(server.stdout.readline())
        hook = 'ca_file = "certs/ca.pem"\n[store.hook.settings]\nallow_private = true\n'
        self.write("dovetail.toml", STORES % (f"https://localhost:{port}/hook", hook) + OUT + LOG)
        self.init()
        for number in range(20):
            self.publish(key=str(number), payload=str(number))
        self.start("run")
        self.wait_for("all are there", lambda: record.exists() and record.read_text().count("\n") >= 20)
        came = [json.loads(line) for line in record.read_text().splitlines()]
        self.assertEqual({one["alpn"] for one in came}, {"h2"})
        self.assertEqual(len({one["session"] for one in came}), 1)
        self.assertEqual({one["body"] for one in came}, {str(number) for number in range(20)})
        self.assertEqual({one["headers"]["ce-type"] for one in came}, {"OrderPlaced"})


class Taking(harness.Case):
    """What senders that are not ours see of the endpoint."""

    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.write("secrets", SECRETS)

    def serve(self, settings=""):
        self.write("dovetail.toml", STORES % (f"http://127.0.0.1:{self.port}/events", settings) + IN + LOG)
        self.init()
        return self.start_again()

    def start_again(self):
        process = self.start("run")
        self.wait_for("it listens", lambda: self.post("GET")[0] == 405)
        return process

    def post(self, method="POST", body=b"{}", path="/events", **headers):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.PATIENCE_S)
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError as error:
            return 0, str(error)
        finally:
            connection.close()

    def mailbox(self):
        return self.rows("inventory.db", "SELECT lower(hex(id)), topic, type, aggregate_id, payload, headers "
                                         "FROM dovetail_mailbox ORDER BY seq")

    def test_the_answer_means_that_the_event_is_in_the_mailbox(self):
        self.serve()
        body = b"\x00\xff payload"
        status, text = self.post(body=body, path="/events/shop.orders", ce_id="0190163d-8694-739b-aea5-966c26f8ad91",
                                 ce_type="placed", ce_source="/shop", ce_specversion="1.0", ce_subject="K%201",
                                 traceparent="00-ab-cd-01")
        self.assertEqual(status, 202, text)
        row = self.mailbox()[0]
        self.assertEqual(row[:5], ("0190163d8694739baea5966c26f8ad91", "shop.orders", "placed", "K 1", body))
        self.assertEqual(json.loads(row[5])["traceparent"], "00-ab-cd-01")

    def test_an_event_that_comes_again_is_there_once(self):
        self.serve()
        for _ in range(3):
            self.assertEqual(self.post(idempotency_key="order-17")[0], 202)
        self.assertEqual(len(self.mailbox()), 1)

    def test_many_at_once_are_each_there_once(self):
        self.serve()
        statuses = []

        def send(number):
            statuses.append(self.post(idempotency_key=f"order-{number % 20}", body=b"%d" % (number % 20))[0])

        threads = [threading.Thread(target=send, args=(number,)) for number in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(statuses, [202] * 60)
        self.assertEqual(len(self.mailbox()), 20)

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_curl_is_understood_and_told(self):
        self.serve()

        def curl(*arguments):
            done = subprocess.run(["curl", "-s", "-w", "\n%{http_code}", *arguments,
                                   f"http://127.0.0.1:{self.port}/events"], capture_output=True, text=True, check=True)
            return done.stdout

        self.assertEqual(curl("-H", "Idempotency-Key: \"quoted\"", "-d", "{}").strip(), "202")
        big = self.write("big", b"x" * 900_000)
        self.assertEqual(curl("-H", "webhook-id: msg_1", "--data-binary", f"@{big}").strip(), "202", "with Expect")
        self.assertEqual(curl("-H", "ce-id: c", "-H", "Transfer-Encoding: chunked", "-d", "{}").strip(), "202")
        self.assertIn("send the same id", curl("-d", "{}"))
        self.assertTrue(curl("-d", "{}").endswith("400"))
        huge = self.write("huge", b"x" * 2_000_000)
        self.assertTrue(curl("-H", "ce-id: d", "--data-binary", f"@{huge}").endswith("413"))
        self.assertEqual(len(self.mailbox()), 3)

    def test_a_signature_is_verified(self):
        self.serve('[store.hook.settings]\nsecret_file = "secrets"\n')
        body, now = b'{"n": 1}', str(int(time.time()))
        for secret in (SECRET_BYTES, OLD_SECRET_BYTES):
            status, text = self.post(body=body, webhook_id="msg_1", webhook_timestamp=now,
                                     webhook_signature=signature(secret, "msg_1", now, body))
            self.assertEqual(status, 202, text)
        wrong = signature(b"x" * 32, "msg_2", now, body)
        self.assertEqual(self.post(body=body, webhook_id="msg_2", webhook_timestamp=now, webhook_signature=wrong)[0], 401)
        self.assertEqual(self.post(body=body, webhook_id="msg_2")[0], 401)
        old = str(int(time.time()) - 3600)
        status, text = self.post(body=body, webhook_id="msg_2", webhook_timestamp=old,
                                 webhook_signature=signature(SECRET_BYTES, "msg_2", old, body))
        self.assertEqual(status, 401)
        self.assertIn("clock", text)
        self.assertEqual(len(self.mailbox()), 1)

    def test_nothing_that_was_answered_is_lost_when_it_is_killed(self):
        process = self.serve()
        answered, stop = [], threading.Event()

        def send(sender):
            number = 0
            while not stop.is_set():
                # As a careful sender does: the same id until it is told 2xx.
                if self.post(idempotency_key=f"{sender}-{number}", body=b"%d-%d" % (sender, number))[0] == 202:
                    answered.append(f"{sender}-{number}".encode())
                    number += 1
                else:
                    time.sleep(0.02)

        threads = [threading.Thread(target=send, args=(sender,)) for sender in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            before = len(answered)
            self.wait_for("more is answered", lambda: len(answered) > before + 20)
            process.send_signal(signal.SIGKILL)
            process.wait()
            process = self.start_again()
        stop.set()
        for thread in threads:
            thread.join()
        there = [row[4] for row in self.mailbox()]
        self.assertEqual(len(there), len(set(there)), "each is there once")
        self.assertEqual(set(answered) - set(there), set())

    def test_it_does_not_listen_to_the_world_without_a_lock(self):
        self.write("dovetail.toml", STORES % (f"http://0.0.0.0:{self.port}/events", "") + IN + LOG)
        self.init()
        done = self.run_dovetail("run", "--until-idle")
        self.assertNotEqual(done.code, 0)
        self.assertIn(b"token", done.err)


class Through(harness.Case):
    """From one Dovetail to another."""

    def test_events_go_through_http_while_both_ends_are_killed(self):
        port = free_port()
        url = f"http://127.0.0.1:{port}/events"
        self.write("secrets", SECRETS)
        self.write("out.toml", STORES % (url + "/{topic}", OURS) + OUT + LOG)
        self.write("in.toml", STORES % (url, '[store.hook.settings]\nsecret_file = "secrets"\n') + IN + LOG)
        self.write("dovetail.toml", (self.folder / "in.toml").read_text())
        self.init()
        ends = {name: self.start("run", "--config", f"{name}.toml") for name in ("out", "in")}
        for name in ("out", "in", "out", "in"):
            self.change("orders.db", "INSERT INTO dovetail_outbox (aggregate_type, aggregate_id, type, payload) "
                        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 299) "
                        "SELECT 'orders', CAST(i % 7 AS TEXT), 'T', CAST((SELECT count(*) FROM dovetail_outbox) + i AS TEXT) "
                        "FROM n")
            ends[name].kill()
            ends[name].wait()
            ends[name] = self.start("run", "--config", f"{name}.toml")
        count = "SELECT count(*) FROM dovetail_mailbox"
        self.wait_for("all are there", lambda: self.rows("inventory.db", count) == [(1200,)])
        self.assertEqual(self.rows("inventory.db", "SELECT count(DISTINCT payload) FROM dovetail_mailbox"), [(1200,)])
        for key in range(7):
            came = [int(row[0]) for row in self.rows(
                "inventory.db", "SELECT payload FROM dovetail_mailbox WHERE aggregate_id = ? ORDER BY seq", str(key))]
            self.assertEqual(came, sorted(came), f"key {key} is in order")


if __name__ == "__main__":
    harness.main()
