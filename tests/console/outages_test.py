"""Each outage is named by the verdict of `dovetail status`, by /readyz and by the JSON API, in the same words."""

import os
import signal
import socket
import time
import unittest

import console
import harness
import postgres_test

POOLER = postgres_test.first_line("pgbouncer.conninfo")
REDIS = postgres_test.first_line("redis.conninfo")
RABBITMQ = postgres_test.first_line("rabbitmq.conninfo")
NAMED_S = 5  # from the first call that failed; printed, and not judged
RELAY = """
[[relay]]
name = "out"
from = "shop"
to = "%s"
lease = "2s"
retry_base = "5ms"
reconnect_cap = "500ms"
attempts_max = 3
retry_cap = "50ms"
%s
"""
CONSUMER = """
[[consumer]]
name = "taker"
from = "shop"
to = "shop"
lease = "2s"
retry_base = "5ms"
reconnect_cap = "500ms"
attempts_max = 3
retry_cap = "50ms"
[[consumer.handler]]
kind = "sql"
function = "public.take"
"""
FUNCTION = """
CREATE TABLE taken (n int);
CREATE FUNCTION public.take(event dovetail.event) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF event.aggregate_id LIKE 'bad%' THEN RAISE EXCEPTION 'no such article'; END IF;
  INSERT INTO taken VALUES (1);
END $$;
GRANT ALL ON taken TO PUBLIC;
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def fields_of(conninfo):
    return dict(one.split("=", 1) for one in conninfo.split())


@unittest.skipUnless(postgres_test.SERVER, "the server of the tests is missing; run it through ctest")
class Outages(console.ConsoleCase, postgres_test.PostgresCase):
    def setUp(self):
        postgres_test.PostgresCase.setUp(self)

    def configure(self, conninfo, *parts):
        self.write("dovetail.toml", f'[store.shop]\nurl = "postgres:{conninfo}"\n' + "".join(parts) +
                   '[alerts]\naway_max = "1s"\n[log]\nformat = "json"\n' + console.HTTP)

    def bus(self, url, more=""):
        """The outbox goes to a broker."""
        self.configure(self.conninfo, f'[store.bus]\nurl = "{url}"\n{more}\n', RELAY % ("bus", ""))
        self.dovetail("init")

    def event(self, key="1"):
        self.sql(f"SELECT dovetail.publish('orders', '{key}', 'placed', '{{}}'::jsonb)")

    def named(self, kind, says, ready=503, code=0):
        """All three say it."""
        began = time.monotonic()

        def all_say_it():
            api = self.call("/api/v1/status").json()
            return api["verdict"]["title"].startswith(says) and api["problems"][0]["kind"] == kind

        try:
            self.wait_for(f"the daemon says '{says}'", all_say_it)
        except AssertionError:
            print(self.call("/api/v1/status").body)
            raise
        print(f"{kind}: named after {time.monotonic() - began:.1f} s (wanted: {NAMED_S})")
        self.wait_for("the command says it", lambda: self.dovetail("status", code=code).out.startswith(says))
        self.wait_for(f"/readyz answers {ready}", lambda: (answer := self.call("/readyz")).status == ready and
                      kind in [one["kind"] for one in answer.json()["reasons" if ready == 503 else "problems"]])

    def test_a_broker_that_is_away(self):
        for url in ("kafka://127.0.0.1:%d", "amqp://127.0.0.1:%d/", "nats://127.0.0.1:%d", "redis://127.0.0.1:%d/0",
                    "http://127.0.0.1:%d/"):
            with self.subTest(url):
                self.sql("DROP SCHEMA IF EXISTS dovetail CASCADE")
                more = "[store.bus.settings]\nallow_private = true" if url.startswith("http") else ""
                self.bus(url % free_port(), more)
                self.event()
                process = self.start_daemon()
                self.named("broker-away", "The broker bus is away.")
                process.kill()
                process.wait()

    def test_a_database_that_is_away(self):
        self.configure(f"host=127.0.0.1 port={free_port()} dbname=shop user=x", '[store.two]\nurl = "sqlite:two.db"\n',
                       RELAY % ("two", ""))
        self.dovetail("init", code=4)
        self.start_daemon()
        self.named("database-away", "The database shop is away", code=4)

    def test_a_pooler_that_is_down(self):
        direct = self.conninfo
        self.write("dovetail.toml", '[store.two]\nurl = "sqlite:two.db"\n')
        self.dovetail("init")
        self.configure(f"host=127.0.0.1 port={free_port()} dbname=shop user=x",
                       f'replication_url = "postgres:{direct}"\n[store.two]\nurl = "sqlite:two.db"\n', RELAY % ("two", ""))
        self.dovetail("init", code=4)
        self.start_daemon()
        self.named("pooler-down", "The pooler before the database shop is down", code=4)

    def test_a_pooler_whose_database_is_away(self):
        if not POOLER:
            self.skipTest("PgBouncer is missing")
        self.configure(f"{POOLER} dbname={self.database}", '[store.two]\nurl = "sqlite:two.db"\n', RELAY % ("two", ""))
        self.dovetail("init")
        self.start_daemon()
        self.wait_for("it is ready", lambda: self.call("/readyz").status == 200)
        postgres_test.psql(f"ALTER DATABASE {self.database} ALLOW_CONNECTIONS false; SELECT pg_terminate_backend(pid) "
                           f"FROM pg_stat_activity WHERE datname = '{self.database}'")
        self.named("database-away", "The database shop is away.", code=4)

    def test_a_slot_that_keeps_too_much_and_is_then_lost(self):
        self.configure(self.conninfo, f'[store.bus]\nurl = "redis://127.0.0.1:{free_port()}/0"\n',
                       RELAY % ("bus", 'mode = "wal"\nretained_wal_max = "64MiB"'))
        self.dovetail("init")
        self.start_daemon()
        self.wait_for("it reads the WAL", lambda: self.sql(
            "SELECT count(*) FROM pg_replication_slots WHERE database = current_database() AND active") == "1")
        self.event()
        write = "SELECT count(pg_logical_emit_message(false, 'x', repeat('x', 1000000))) FROM generate_series(1, %d)"
        kinds = lambda: [one["kind"] for one in self.call("/api/v1/status").json()["problems"]]
        self.sql(write % 40)
        self.wait_for("it is said before the limit", lambda: "wal-budget" in kinds())
        self.sql(write % 40)
        self.wait_for("it is said that the slot is lost", lambda: "slot-lost" in kinds())
        self.assertIn("The relay out lost its slot in shop", self.dovetail("status").out)
        self.assertEqual(kinds()[0], "broker-away", "the cause comes first")

    def test_a_poison_key(self):
        self.configure(self.conninfo, CONSUMER)
        self.dovetail("init")
        self.sql(FUNCTION)
        self.start_daemon()
        self.event("bad")

        def others_pass():
            self.event("good")
            # Until then it stands in the list as an event that waits for its next try.
            return "parked" in [one["state"] for one in self.ask("parked", "list")["parked"]]
        self.wait_for("it is parked", others_pass)
        self.named("parked", "1 event of the consumer taker is parked.", ready=200)

    def test_a_handler_that_is_sick(self):
        self.configure(self.conninfo, CONSUMER)
        self.dovetail("init")
        self.sql(FUNCTION)
        for n in range(20):
            self.event(f"bad{n}")
        self.start_daemon()
        self.named("handler-failing", "The handlers of the consumer taker fail")

    def test_a_mapping_that_is_wrong(self):
        self.sql("CREATE TABLE outbox_events (id uuid PRIMARY KEY)")
        self.configure(self.conninfo, '[store.two]\nurl = "sqlite:two.db"\n',
                       RELAY % ("two", '[relay.table]\npreset = "sent_at"\n'))
        self.dovetail("init")
        self.start_daemon()
        self.named("wrong-mapping", "The relay out does not fit its table.", code=5)

    def test_a_topic_that_is_missing(self):
        if not RABBITMQ:
            self.skipTest("RabbitMQ is missing")
        rabbit = fields_of(RABBITMQ)
        self.bus(f"amqp://127.0.0.1:{rabbit['port']}/", '[store.bus.settings]\nexchange = "nowhere-%d"\n' % os.getpid())
        self.event()
        self.start_daemon()
        self.named("missing-topic", "The broker bus does not have what out needs.")

    def test_a_relay_that_is_paused(self):
        self.configure(self.conninfo, '[store.two]\nurl = "sqlite:two.db"\n', RELAY % ("two", ""))
        self.dovetail("init")
        self.start_daemon()
        self.wait_for("it is ready", lambda: self.call("/readyz").status == 200)
        self.dovetail("relay", "pause", "out", "--reason", "a release")
        self.event()
        self.named("paused", "The relay out is paused by", ready=200)

    def test_a_relay_that_nobody_runs(self):
        self.configure(self.conninfo, '[store.two]\nurl = "sqlite:two.db"\n', RELAY % ("two", ""))
        self.dovetail("init")
        process = self.start_daemon()
        self.wait_for("it is ready", lambda: self.call("/readyz").status == 200)
        process.send_signal(signal.SIGTERM)
        process.wait(harness.PATIENCE_S)
        self.event()
        self.assertTrue(self.dovetail("status").out.startswith("No process runs the relay out."))


if __name__ == "__main__":
    harness.main()
