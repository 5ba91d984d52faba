"""What a daemon says about itself: metrics, whether it is ready, and alerts."""

import base64
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time
import unittest

import console
import harness
import postgres_test
import receiver

MONITORING = harness.ROOT / "apps" / "dovetail" / "monitoring"
PROMTOOL = shutil.which("promtool") or str(harness.ROOT / "build" / "prometheus" / "usr" / "bin" / "promtool")
LABELS = {"relay", "lane", "store", "consumer", "state", "kind", "version", "le"}
NAMES = re.compile(r"dovetail_[a-z0-9_]+")
BUS = """
[store.bus]
url = "redis://127.0.0.1:1/0"

[[relay]]
name = "orders-to-bus"
from = "orders"
to = "bus"
lease = "500ms"
reconnect_cap = "200ms"
"""


def needs_promtool(test):
    return unittest.skipUnless(pathlib.Path(PROMTOOL).exists(), "promtool is missing: install prometheus")(test)


def samples_of(text):
    """{name: [(labels, value)]}"""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = re.fullmatch(r'(\w+)(?:\{(.*)\})? (\S+)', line)
        labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match.group(2) or ""))
        found.setdefault(match.group(1), []).append((labels, float(match.group(3))))
    return found


class WatchCase(console.ConsoleCase):
    def metrics(self):
        answer = self.call("/metrics")
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        return answer.body

    def value(self, name, **labels):
        """Of the one sample with these labels; None: there is none."""
        values = [value for has, value in samples_of(self.metrics()).get(name, []) if labels.items() <= has.items()]
        self.assertLess(len(values), 2, (name, labels, values))
        return values[0] if values else None

    def kinds(self, answer, of="problems"):
        return [one["kind"] for one in answer.json()[of]]


class Metrics(WatchCase):
    def test_a_daemon_counts_what_it_does(self):
        self.init()
        for key in "12345":
            self.publish(key=f"a-secret-key-{key}", payload='{"card": "4111"}')
        self.start_daemon()
        relay = {"relay": "orders-to-inventory"}
        self.wait_for("all are delivered", lambda: self.value("dovetail_events_delivered_total", **relay) == 5)
        self.assertEqual(self.value("dovetail_commit_to_confirm_seconds_count", **relay), 5)
        self.assertGreater(self.value("dovetail_commit_to_confirm_seconds_sum", **relay), 0)
        self.assertEqual(self.value("dovetail_receive_to_applied_seconds_count", **relay), 5)
        self.assertEqual(self.value("dovetail_lanes", state="delivering", **relay), 1)
        self.assertEqual(self.value("dovetail_sink_up", **relay), 1)
        self.assertEqual(self.value("dovetail_lease_changes_total", **relay), 1)
        self.wait_for("the database has said so", lambda: self.value("dovetail_pending_events", **relay) == 0)
        self.assertEqual(self.value("dovetail_store_up", store="orders"), 1)
        version = self.ask("version")["version"]
        self.assertEqual(self.value("dovetail_build_info", version=version), 1)
        text = self.metrics()
        self.assertNotIn("a-secret-key", text)
        for name, samples in samples_of(text).items():
            self.assertTrue(name.startswith("dovetail_"), name)
            for labels, _ in samples:
                self.assertLessEqual(set(labels), LABELS, name)

    def test_a_scrape_does_not_wait_for_a_database(self):
        self.init()
        self.publish()
        self.start_daemon()
        self.wait_for("it is delivered", lambda: self.value("dovetail_events_delivered_total") == 1)
        locked = postgres_test.sqlite3.connect(self.folder / "orders.db", isolation_level=None)
        self.addCleanup(locked.close)
        locked.execute("BEGIN EXCLUSIVE")
        for _ in range(20):
            self.assertEqual(self.value("dovetail_events_delivered_total"), 1)
            time.sleep(0.05)

    @needs_promtool
    def test_promtool_has_nothing_to_say_about_them(self):
        self.init()
        self.start_daemon()
        self.wait_for("the database has answered", lambda: self.value("dovetail_store_up", store="orders") == 1)
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=self.metrics(), capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    @needs_promtool
    def test_the_rules_are_right_and_fire_when_they_should(self):
        for arguments in (("check", "rules", "dovetail.rules.yml"), ("test", "rules", "dovetail.rules_test.yml")):
            done = subprocess.run([PROMTOOL, *arguments], cwd=MONITORING, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_rule_is_tested_and_explained(self):
        rules = re.findall(r"- alert: (\w+)", (MONITORING / "dovetail.rules.yml").read_text())
        tested = set(re.findall(r"alertname: (\w+)\n +exp_alerts:\n", (MONITORING / "dovetail.rules_test.yml").read_text()))
        page = (harness.ROOT / "docs" / "MONITOR.md").read_text()
        self.assertGreater(len(rules), 10)
        self.assertEqual(set(rules), tested)
        for rule in rules:
            self.assertIn(f"| `{rule}` |", page)


class OfPostgres(WatchCase, postgres_test.PostgresCase):
    """Every number that a database gives."""

    def setUp(self):
        postgres_test.PostgresCase.setUp(self)
        self.write("dovetail.toml", postgres_test.CONFIG % self.conninfo + console.HTTP)
        self.init()

    def test_every_metric_of_the_rules_and_the_dashboard_is_there(self):
        self.sql("SELECT dovetail.enqueue('stock', ARRAY[dovetail.uuid7()], ARRAY['o'], ARRAY['o'], ARRAY['1'], ARRAY['t'], "
                 "ARRAY['application/json'], ARRAY[''], ARRAY['{}'::bytea], ARRAY[0::bigint], ARRAY[now()])")
        self.sql("SELECT id FROM dovetail.receive('stock', 1)")
        self.start_daemon()
        texts = [(MONITORING / name).read_text() for name in ("dovetail.rules.yml", "grafana.json")]
        wanted = {name for text in texts for name in NAMES.findall(text)}
        self.assertGreater(len(wanted), 20)
        missing = lambda: wanted - set(samples_of(self.metrics())) - {"dovetail_consumer_applied_total",
                                                                     "dovetail_consumer_failing_events"}
        self.wait_for("the database has told all", lambda: not missing())

    def test_the_lanes_of_a_relay_add_up(self):
        for key in range(20):
            self.publish(key=str(key))
        self.start_daemon()
        relay = {"relay": "orders-to-inventory"}
        self.wait_for("all are delivered", lambda: self.value("dovetail_events_delivered_total", **relay) == 20)
        self.assertEqual(self.value("dovetail_lanes", state="delivering", **relay), 2)
        self.assertEqual(self.value("dovetail_lease_changes_total", **relay), 2)
        self.wait_for("both lanes are owned", lambda: [self.value("dovetail_lane_owned", lane=lane, **relay) for lane in "01"]
                      == [1, 1])

    def test_a_database_that_goes_away_is_named_and_has_no_numbers(self):
        self.start_daemon()
        self.wait_for("it is ready", lambda: self.call("/readyz").status == 200)
        postgres_test.psql(f"ALTER DATABASE {self.database} ALLOW_CONNECTIONS false; SELECT pg_terminate_backend(pid) "
                           f"FROM pg_stat_activity WHERE datname = '{self.database}'")
        self.wait_for("it is away", lambda: self.value("dovetail_store_up", store="orders") == 0)
        self.assertIsNone(self.value("dovetail_pending_events"))
        self.assertIn("database-away", self.kinds(self.call("/readyz")))
        self.assertEqual(self.call("/api/v1/status").json()["verdict"]["title"], "The database orders is away.")
        self.assertIsNotNone(self.value("dovetail_events_delivered_total"), "what the process counted is still told")


class Ready(WatchCase):
    def begin(self, config, *arguments):
        self.write("dovetail.toml", config)
        self.init()
        self.publish()
        return self.start_daemon(*arguments)

    def test_a_broker_that_stays_away_makes_it_unready_with_the_reason(self):
        self.begin(self.config + BUS + '\n[alerts]\naway_max = "1s"\n')
        self.wait_for("it is not ready", lambda: "broker-away" in self.kinds(self.call("/readyz"), "reasons"))
        answer = self.call("/readyz")
        self.assertEqual(answer.status, 503)
        [reason] = answer.json()["reasons"]
        self.assertEqual(reason["title"], "The broker bus is away")
        self.assertEqual(reason["where"]["relay"], "orders-to-bus")
        self.assertIn("127.0.0.1:1", reason["text"])
        self.assertEqual(self.call("/livez").status, 200)
        self.assertEqual(self.value("dovetail_sink_up", relay="orders-to-bus"), 0)
        self.assertEqual(self.value("dovetail_sink_up", relay="orders-to-inventory"), 1)
        self.assertEqual(self.value("dovetail_problems", kind="broker-away"), 1)

    def test_an_outage_within_its_limit_is_said_and_leaves_it_ready(self):
        self.begin(self.config + BUS + '\n[alerts]\naway_max = "1h"\n')
        self.wait_for("it is said", lambda: "broker-away" in self.kinds(self.call("/readyz")))
        answer = self.wait_for("it is ready", lambda: (answer := self.call("/readyz")).status == 200 and answer)
        self.assertEqual(answer.json()["reasons"], [])
        self.assertEqual(answer.json()["verdict"]["title"], "The broker bus is away.")

    def test_what_another_process_runs_does_not_count(self):
        self.begin(self.config + BUS + '\n[alerts]\naway_max = "1s"\n', "orders-to-inventory")
        self.wait_for("it is ready", lambda: self.call("/readyz").status == 200)

    def test_without_a_token_only_kinds_are_told(self):
        self.write("tokens", "viewer vera " + "v" * 32 + "\n").chmod(0o600)
        self.begin(self.config + 'tokens_file = "tokens"\n' + BUS + '\n[alerts]\naway_max = "1s"\n')
        self.wait_for("it is not ready", lambda: self.kinds(self.call("/readyz"), "reasons") == ["broker-away"])
        self.assertNotIn("127.0.0.1", self.call("/readyz").body)
        self.assertEqual(self.call("/metrics").status, 401)
        vera = {"Authorization": "Bearer " + "v" * 32}
        self.assertIn("127.0.0.1", self.call("/readyz", headers=vera).body)
        self.assertEqual(self.call("/metrics", headers=vera).status, 200)

    def test_the_api_says_what_the_command_says(self):
        self.begin(self.config + BUS)
        said = lambda document: (document["verdict"]["title"], [one["kind"] for one in document["problems"]])
        expected = ("The broker bus is away.", ["broker-away"])
        self.wait_for("both say it", lambda: said(self.call("/api/v1/status").json()) == said(self.ask("status")) == expected)


class CatchUp(WatchCase):
    def test_a_long_catch_up_logs_its_rate_and_the_time_left(self):
        port, _ = receiver.serve(self, lambda event: time.sleep(0.005) or 204)  # so that it is long on every machine
        self.write("dovetail.toml", f"""
[store.orders]
url = "sqlite:orders.db"
[store.hook]
url = "http://127.0.0.1:{port}/"
[store.hook.settings]
allow_private = true
requests_max = 4
[[relay]]
name = "out"
from = "orders"
to = "hook"
[log]
format = "json"
{console.HTTP}""")
        self.init()
        self.change("orders.db", "INSERT INTO dovetail_outbox (topic, aggregate_type, aggregate_id, type, payload) WITH RECURSIVE "
                    "n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000) SELECT 't', 'a', i, 'e', '{}' FROM n")
        self.start_daemon()
        lines = lambda: re.findall(r'"message":"(out catches up[^"]*)"', self.log())
        [line] = self.wait_for("it is logged", lines)
        self.assertRegex(line, r"^out catches up: [\d,]+ events are left, [\d,]+ fewer each second, done in about \d")
        time.sleep(3)
        self.assertEqual(len(lines()), 1, "not more than one in a minute")


class Alerts(WatchCase):
    SECRET = "whsec_" + base64.b64encode(b"k" * 24).decode()

    def setUp(self):
        super().setUp()
        os.environ["ALERT_SECRET"] = self.SECRET
        self.addCleanup(os.environ.pop, "ALERT_SECRET")
        self.posts, self.refusals = [], 0
        self.port_of_receiver = self.serve()
        self.write("dovetail.toml", self.config + f"""
[store.pager]
url = "http://127.0.0.1:{self.port_of_receiver}/alerts"
[store.pager.settings]
allow_private = true
secret_env = "ALERT_SECRET"
[alerts]
to = "pager"
""")
        self.init()

    def serve(self):
        case = self

        class Endpoint(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"] or 0))
                signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + body
                right = base64.b64encode(hmac.new(b"k" * 24, signed, hashlib.sha256).digest()).decode()
                is_refused = case.refusals > 0
                case.refusals -= 1
                if not is_refused:
                    case.posts.append((self.headers["webhook-id"], self.headers["webhook-signature"] == "v1," + right,
                                       json.loads(body)))
                self.send_response(503 if is_refused else 204)
                self.send_header("content-length", "0")
                self.end_headers()

            def do_OPTIONS(self):
                self.send_response(204)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server.server_port

    def told(self):
        return [(body["alert"], body["problem"]["kind"], body["all_clear"]) for _, _, body in list(self.posts)]

    def test_a_parked_event_is_posted_once_signed_and_cleared(self):
        self.publish(payload='{"card": "4111"}')
        self.change("orders.db", "UPDATE dovetail_outbox SET topic = 'nowhere'")
        self.start_daemon()
        self.wait_for("it is posted", lambda: self.told() == [("raised", "parked", False)])
        name, is_signed, body = self.posts[0]
        self.assertRegex(name, "^[0-9a-f-]{36}$")
        self.assertTrue(is_signed)
        self.assertEqual(body["problem"]["where"], {"store": "orders", "relay": "orders-to-inventory"})
        self.assertNotIn("4111", json.dumps(self.posts))
        [parked] = self.ask("parked", "list")["parked"]
        self.dovetail("parked", "discard", parked["id"], "--reason", "test data")
        self.wait_for("all clear is posted", lambda: self.told()[1:] == [("cleared", "parked", True)])

    def test_a_post_that_is_refused_is_repeated_with_its_id(self):
        self.refusals = 2
        self.publish()
        self.change("orders.db", "UPDATE dovetail_outbox SET topic = 'nowhere'")
        self.start_daemon()
        self.wait_for("it is posted", lambda: self.told() == [("raised", "parked", False)])
        self.assertLess(self.refusals, 0)
        self.assertIn("it is tried again", self.log())

    def test_the_receiver_must_be_http(self):
        self.write("dovetail.toml", self.config + '[alerts]\nto = "orders"\n')
        self.assertIn("alerts need one with an http or https url", self.dovetail("run", code=3).err)


if __name__ == "__main__":
    harness.main()
