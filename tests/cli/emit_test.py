"""Events that stand in the log alone, from SQL through the binary into a mailbox."""

import itertools
import json
import os
import sys
import threading

import harness
from postgres_test import SERVER, psql

COUNT = itertools.count()

CONFIG = """\
[store.orders]
url = "postgres:%s"

[store.inventory]
url = "sqlite:inventory.db"
topics = ["order.events"]

[[relay]]
name = "orders-to-inventory"
from = "orders"
to = "inventory"
mode = "wal"
emitted = true
lease = "1s"
retry_base = "5ms"

[log]
format = "json"
"""


class EmitCase(harness.Case):
    HANDS_ON = True  # whether the server is to be one that does

    def setUp(self):
        super().setUp()
        if (int(psql("SHOW server_version_num")) >= 140000) != self.HANDS_ON:
            self.skipTest("PostgreSQL 14 brought messages")
        self.database = f"emit_{os.getpid()}_{next(COUNT)}"
        psql(f"CREATE DATABASE {self.database}")
        self.addCleanup(self.drop_database)
        self.conninfo = f"{SERVER} dbname={self.database}"
        self.write("dovetail.toml", CONFIG % self.conninfo)
        self.init()

    def drop_database(self):
        """Its slot holds it."""
        slots = f"FROM pg_replication_slots WHERE database = '{self.database}'"
        psql(f"SELECT pg_terminate_backend(active_pid) {slots} AND active")
        self.wait_for("nobody uses the slot", lambda: psql(f"SELECT count(*) {slots} AND active") == "0")
        psql(f"SELECT pg_drop_replication_slot(slot_name) {slots}")
        psql(f"DROP DATABASE {self.database} WITH (FORCE)")

    def sql(self, statement):
        return psql(statement, self.conninfo)

    def start_streaming(self):
        before = self.log().count("reads the log")
        process = self.start("run")
        self.wait_for("the log is read", lambda: self.log().count("reads the log") > before)
        return process

    def emit(self, *payloads):
        self.sql("; ".join(f"SELECT dovetail.emit('order', '17', 'OrderPlaced', '{payload}'::text)" for payload in payloads))

    def payloads(self):
        if not (self.folder / "inventory.db").exists():
            return []
        rows = self.rows("inventory.db", "SELECT payload FROM dovetail_mailbox ORDER BY rowid")
        return [row[0].decode() if isinstance(row[0], bytes) else row[0] for row in rows]


class Emit(EmitCase):
    def test_emitted_and_published_events_arrive_alike_and_in_one_order(self):
        self.start_streaming()
        self.sql("BEGIN; SELECT dovetail.publish('order', '17', 'OrderPlaced', '1'::text); "
                 "SELECT dovetail.emit('order', '17', 'OrderPlaced', '2'::text); "
                 "SELECT dovetail.publish('order', '17', 'OrderPlaced', '3'::text); COMMIT")
        self.sql("BEGIN; SELECT dovetail.emit('order', '17', 'OrderPlaced', 'undone'::text); ROLLBACK")
        self.emit(4)
        self.wait_for("all have arrived", lambda: len(self.payloads()) >= 4)
        self.assertEqual(self.payloads(), ["1", "2", "3", "4"])
        self.assertEqual(self.sql("SELECT count(*) FROM dovetail.outbox"), "2")

    def test_a_relay_that_is_killed_again_and_again_loses_none(self):
        process = self.start_streaming()
        count = 300
        writer = threading.Thread(target=lambda: [self.emit(*range(i, i + 10)) for i in range(0, count, 10)])
        writer.start()
        for share in (0.25, 0.5, 0.75):
            self.wait_for("some have arrived", lambda: len(self.payloads()) >= count * share)
            process.kill()
            process.wait()
            process = self.start("run")
        writer.join()
        self.wait_for("all have arrived", lambda: len(set(self.payloads())) >= count)
        first = list(dict.fromkeys(self.payloads()))
        self.assertEqual(first, [str(i) for i in range(count)])

    def test_until_idle_means_that_the_log_is_read_to_its_end(self):
        process = self.start_streaming()
        self.emit("first")
        self.wait_for("it has arrived", lambda: self.payloads() == ["first"])
        self.assertEqual(self.dovetail("run", "--until-idle").out, "delivered 0\n", "another one has the lane")
        process.terminate()
        process.wait()
        self.emit(*range(500))
        done = json.loads(self.dovetail("run", "--until-idle", "--json").out)["relays"][0]
        self.assertEqual(self.payloads(), ["first"] + [str(i) for i in range(500)])
        self.assertEqual((done["stream_starts"], done["streams"]), (1, 1), done)
        self.assertIn("stream_ends", done)
        self.assertIn("retained_wal_bytes", done)

    def test_what_was_lost_with_its_slot_is_said_and_what_comes_later_arrives(self):
        process = self.start_streaming()
        self.emit("before")
        self.wait_for("it has arrived", lambda: self.payloads() == ["before"])
        process.terminate()
        process.wait()
        self.emit("lost")
        self.sql("SELECT dovetail.publish('order', '17', 'OrderPlaced', 'kept'::text)")
        self.sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()")
        self.start_streaming()
        self.emit("after")
        self.wait_for("the later ones have arrived", lambda: len(self.payloads()) >= 3)
        self.assertEqual(self.payloads(), ["before", "kept", "after"])
        lines = [json.loads(line) for line in self.log().splitlines() if "events_lost" in line]
        self.assertEqual([line["level"] for line in lines], ["error"], self.log())
        self.assertIn("emitted events", lines[0]["message"])


class OlderServer(EmitCase):
    HANDS_ON = False

    def test_a_server_that_cannot_hand_on_emitted_events_is_named(self):
        self.assertIn("PostgreSQL 14", self.dovetail("run", code=5).err.splitlines()[-1])
        found = [finding for store in self.ask("doctor", code=1)["stores"] for finding in store["findings"]]
        self.assertIn("emit-version", [finding["code"] for finding in found])


if __name__ == "__main__":
    if not SERVER:
        print("SKIPPED: postgres was not started; run the tests through ctest")
        sys.exit(77)
    harness.main()
