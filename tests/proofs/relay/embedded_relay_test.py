"""A relay inside an application's process, examples/embedded_relay.cc, with Redis behind it: it is killed at random moments
and its broker goes away. Nothing is lost, and along each key the first copies come in the order of their commits."""

import json
import os
import random
import signal
import subprocess
import threading
import time
import unittest

import brokers_test
import harness
import postgres_test

CONFIG = """
[store.orders]
url = "%s"
[store.bus]
url = "%s"
[[relay]]
name = "orders-to-bus"
from = "orders"
to = "bus"
lease = "500ms"
retry_base = "5ms"
reconnect_cap = "100ms"
%s
"""
KEYS = 5
KILLS = int(os.environ.get("DOVETAIL_CHAOS") or 0) * 40 or 8


class Embedded:
    """The tests; a subclass says where the outbox is."""

    def start_relay(self):
        with open(self.folder / "daemon.log", "ab") as log:
            relay = subprocess.Popen([harness.EXAMPLES / "embedded_relay", "dovetail.toml"], cwd=self.folder,
                                     stdout=subprocess.PIPE, stderr=log)
        self.addCleanup(self.end, relay)
        return relay

    def arrived(self):
        """Payloads by key, in the order of the stream."""
        answer = json.loads("".join(self.server.ask("--json", "xrange", "orders.events", "-", "+")))
        seen = {}
        for _, pairs in answer:
            entry = dict(zip(pairs[::2], pairs[1::2]))
            seen.setdefault(entry["key"], []).append(int(entry["data"]))
        return seen

    def first_copies(self):
        return {key: list(dict.fromkeys(numbers)) for key, numbers in self.arrived().items()}

    def wanted(self, count):
        return {str(key): list(range(key, count, KEYS)) for key in range(KEYS)}

    def all_arrived(self, count):
        self.wait_for("all events are there", lambda: sum(map(len, self.first_copies().values())) >= count)
        self.assertEqual(self.first_copies(), self.wanted(count))

    def stop(self, relay):
        relay.send_signal(signal.SIGTERM)
        out, _ = relay.communicate(timeout=harness.PATIENCE_S)
        self.assertEqual(relay.returncode, 0, self.log())
        return out.decode()

    def test_what_it_had_in_flight_when_it_is_killed_is_sent_by_the_next(self):
        chance = random.Random(7)
        count = 0
        for _ in range(KILLS):
            relay = self.start_relay()
            publisher = threading.Thread(target=self.sell, args=(count, count + 100))
            publisher.start()
            time.sleep(chance.uniform(0, 0.4))
            relay.kill()
            relay.wait()
            publisher.join()
            count += 100
        relay = self.start_relay()
        self.all_arrived(count)
        self.assertIn("events delivered", self.stop(relay))

    def test_while_its_broker_is_away_nothing_is_lost_or_parked(self):
        relay = self.start_relay()
        self.sell(0, 50)
        self.all_arrived(50)
        self.server.run("kill")
        try:
            self.sell(50, 100)
            self.wait_for("it says so", lambda: "sink" in self.log() or "connect" in self.log())
            self.assertIsNone(relay.poll())
        finally:
            self.server.run("again")
        self.all_arrived(100)
        self.assertEqual(self.reader("orders", "orders-to-bus")["parked"], 0)
        self.stop(relay)

    def test_a_stop_in_good_order_repeats_nothing(self):
        count = 0
        for _ in range(3):
            relay = self.start_relay()
            self.sell(count, count + 50)
            count += 50
            self.all_arrived(count)
            self.stop(relay)
        self.assertEqual(self.arrived(), self.wanted(count))


class OnSqlite(Embedded, harness.Case):
    @classmethod
    def setUpClass(cls):
        brokers_test.start_redis(cls)

    def setUp(self):
        super().setUp()
        self.server.ask("flushall")
        self.write("dovetail.toml", CONFIG % ("sqlite:orders.db", self.server.url, ""))
        self.init()

    def sell(self, begin, end):
        done = subprocess.run(
            ["sqlite3", "-cmd", ".timeout 30000", self.folder / "orders.db"], check=True, capture_output=True, text=True,
            input="PRAGMA wal_autocheckpoint = 0;\n" + "".join(map(self.insert, range(begin, end))))
        self.assertEqual(done.stderr, "")

    @staticmethod
    def insert(number):
        return ("INSERT INTO dovetail_outbox (aggregate_type, aggregate_id, type, payload) VALUES "
                f"('orders', '{number % KEYS}', 'OrderPlaced', '{number}');\n")


@unittest.skipUnless(postgres_test.SERVER, "the server of the tests is missing; run it through ctest")
class OnPostgres(Embedded, postgres_test.PostgresCase):
    @classmethod
    def setUpClass(cls):
        brokers_test.start_redis(cls)

    def setUp(self):
        super().setUp()
        self.server.ask("flushall")
        self.write("dovetail.toml", CONFIG % ("postgres:" + self.conninfo, self.server.url, "lanes = 2"))
        self.init()

    def sell(self, begin, end):
        statements = "".join(f"SELECT dovetail.publish('orders', '{n % KEYS}', 'OrderPlaced', to_jsonb({n}));\n"
                             for n in range(begin, end))
        subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", self.conninfo], input=statements, check=True,
                       capture_output=True, text=True)

if __name__ == "__main__":
    harness.main()
