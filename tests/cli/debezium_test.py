"""The binary in the place of Debezium: the same table, out of the same log, gives the same topics, keys, headers and bytes
as its outbox event router documents. kcat, which knows nothing of dovetail, reads what has arrived."""

import json
import subprocess
import sys

import harness
import kafka_topics
from postgres_test import PostgresCase, first_line

CONFIG = """\
[store.shop]
url = "postgres:%s"

[store.bus]
url = "kafka://127.0.0.1:%s"
format = "debezium"
settings = { single_node = true }

[[relay]]
name = "outbox-to-bus"
from = "shop"
to = "bus"
mode = "wal"
lease = "2s"
retry_base = "5ms"
%s
[relay.table]
preset = "debezium"
%s
[log]
format = "json"
"""

# As Debezium's documentation has it.
TABLE = """
CREATE TABLE outbox (id uuid NOT NULL PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL,
  type varchar(255) NOT NULL, payload jsonb)"""
ID = "406c07f3-26f0-4eea-a50c-109940064b8%d"


class Debezium(PostgresCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.drop_slots)  # before the database goes
        self.port = dict(part.split("=", 1) for part in first_line("kafka.conninfo").split())["port"]
        self.kind = f"Order_{self.database}"
        self.topic = f"outbox.event.{self.kind}"
        kafka_topics.create(int(self.port), self.topic, partitions=1)
        self.serve()
        self.dovetail("init")
        self.sql(TABLE)

    def configure(self, conninfo, more=""):
        self.write("dovetail.toml", "")  # when the topic is known

    def serve(self, relay="", table=""):
        self.write("dovetail.toml", CONFIG % (self.conninfo, self.port, relay, table))

    def drop_slots(self):
        self.wait_for("slots can be dropped", lambda: self.sql(
            "SELECT count(pg_drop_replication_slot(slot_name)) FROM pg_replication_slots WHERE database = current_database() "
            "AND NOT active") is not None and self.sql(
            "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == "0")

    def insert(self, number, key, payload, behind=""):
        self.sql(f"BEGIN; INSERT INTO outbox VALUES ('{ID % number}', '{self.kind}', '{key}', 'OrderCreated', {payload});"
                 f"{behind}; COMMIT")

    def messages(self):
        read = subprocess.run(["kcat", "-q", "-X", "log_level=0", "-b", f"127.0.0.1:{self.port}", "-C", "-t", self.topic,
                               "-e", "-o", "beginning", "-J"], check=True, capture_output=True, timeout=60).stdout
        return [json.loads(line) for line in read.splitlines()]

    def carry(self, count):
        daemon = self.start("run")
        self.wait_for(f"{count} messages", lambda: len(self.messages()) >= count)
        self.end(daemon)
        self.assertEqual(len(self.messages()), count, self.log())

    def seen(self):
        return [(message["key"], message["payload"], dict(zip(message["headers"][::2], message["headers"][1::2])))
                for message in self.messages()]

    def test_messages_are_those_of_debeziums_outbox_router(self):
        # Its usual addition: table.fields.additional.placement = type:header:eventType
        self.serve(table='header_columns = { eventType = "type" }\n')
        self.insert(1, "1", "'{\"id\": 1, \"lines\":   [{\"total\": 39.90}],\"u\": \"\\u00e4\"}'")
        daemon = self.start("run")
        self.wait_for("what was there", lambda: len(self.messages()) == 1)
        # A row that is deleted at once is in the log alone, and what was there may come from the table.
        self.wait_for("the log is read", lambda: "reads the WAL" in self.log())
        self.insert(2, "2", "'{}'", behind=f"DELETE FROM outbox WHERE id = '{ID % 2}'")
        self.insert(3, "1", "'[null]'")
        self.insert(4, "2", "NULL")
        self.wait_for("what came", lambda: len(self.messages()) == 4)
        # The progress is a snapshot, which comes a moment after the events that it shows.
        self.wait_for("progress", lambda: self.reader("shop", "outbox-to-bus")["pending"] == 0)
        self.end(daemon)
        headers = [{"id": ID % number, "eventType": "OrderCreated"} for number in (1, 2, 3, 4)]
        # The bytes are those of the column, as PostgreSQL writes a jsonb.
        self.assertEqual(self.seen(), [("1", '{"u": "ä", "id": 1, "lines": [{"total": 39.90}]}', headers[0]),
                                       ("2", "{}", headers[1]), ("1", "[null]", headers[2]), ("2", None, headers[3])])
        self.assertEqual(self.sql("SELECT count(*) FROM outbox"), "3", "dovetail writes nothing to the table")
        reader = self.reader("shop", "outbox-to-bus")
        self.assertEqual((reader["pending"], reader["delivered_total"]), (0, 4))

    def test_the_slot_of_debezium_is_taken_over_where_it_stands(self):
        slot = f"debezium_{self.database}"
        self.insert(1, "1", "'{\"sent\": \"by Debezium\"}'")
        self.sql("CREATE PUBLICATION dbz_publication FOR ALL TABLES")
        self.sql(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
        self.insert(2, "1", "'2'", behind="DELETE FROM outbox")
        self.serve(relay=f'slot = "{slot}"\npublication = "dbz_publication"\n')
        self.carry(1)
        self.insert(3, "1", "'3'", behind="DELETE FROM outbox")
        self.carry(2)
        self.assertEqual(self.seen(), [("1", "2", {"id": ID % 2}), ("1", "3", {"id": ID % 3})])
        self.assertEqual(self.sql(f"SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{slot}'"), "1")

    def test_relays_that_are_killed_and_slots_that_are_dropped_lose_nothing(self):
        for turn in range(4):
            daemon = self.start("run")
            before = len(self.messages())
            self.sql("".join(
                f"BEGIN; INSERT INTO outbox SELECT gen_random_uuid(), '{self.kind}', n % 3, 'x', '{{}}' FROM "
                f"generate_series(1, {10 * row + 1}) AS n; SAVEPOINT s; INSERT INTO outbox VALUES (gen_random_uuid(), "
                f"'{self.kind}', '9', 'x', '{{}}'); RELEASE s; COMMIT;" for row in range(8)))
            if turn != 1:
                self.wait_for("some of it was sent", lambda: len(self.messages()) > before)
            daemon.kill()
            daemon.wait()
            if turn == 2:
                self.drop_slots()
        daemon = self.start("run")
        wanted = set(self.sql("SELECT id FROM outbox").split())
        self.wait_for("all of it was sent", lambda: {headers["id"] for _, _, headers in self.seen()} >= wanted)
        self.end(daemon)
        self.assertEqual({headers["id"] for _, _, headers in self.seen()}, wanted)

    def test_bytes_are_sent_as_they_are(self):
        self.sql("ALTER TABLE outbox ALTER payload TYPE bytea USING NULL")
        self.insert(1, "7", "'\\x41007a0d0a22'")
        self.carry(1)
        self.assertEqual(self.seen(), [("7", "A\0z\r\n\"", {"id": ID % 1})])

    def test_marks_and_more_lanes_are_refused_with_their_place_in_the_file(self):
        self.serve(table="delete_when_done = true\n")
        self.refused("run", code=3, name="config", says=("dovetail.toml:", "delete_when_done", 'mode = "poll"'))
        self.serve(relay="lanes = 2\n")
        self.refused("run", code=3, name="config", says=("dovetail.toml:", "lanes"))
        self.serve(relay='slot = "debezium"\n')
        self.refused("run", code=3, name="config", says=("dovetail.toml:", "publication", "dbz_publication"))


if __name__ == "__main__":
    for name in ("postgres", "kafka"):
        if not first_line(f"{name}.conninfo"):
            print("SKIPPED: " + (first_line(f"{name}.missing") or f"no {name} server; run it through ctest"), file=sys.stderr)
            sys.exit(77)
    harness.main()
