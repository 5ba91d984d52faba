"""The binary on tables that already exist: relays with a [relay.table], against a real server."""

import os
import re
import sys
import unittest

import harness
from postgres_test import SERVER, STATE, PostgresCase, drop_database, first_line, psql

CONFIG = """\
[store.shop]
url = "postgres:%s"

[store.inventory]
url = "sqlite:inventory.db"

[[relay]]
name = "shop-to-inventory"
from = "shop"
to = "inventory"
lanes = 2
lease = "2s"
retry_base = "5ms"

[relay.table]
%s
[log]
format = "json"
"""

STATUS = """
CREATE TABLE outbox_events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_id varchar(255) NOT NULL,
  aggregate_type varchar(255) NOT NULL, event_type varchar(255) NOT NULL, payload jsonb NOT NULL,
  status varchar(20) NOT NULL DEFAULT 'PENDING', created_at timestamp NOT NULL DEFAULT clock_timestamp(),
  sent_at timestamp)"""
PUBLISH_STATUS = """
INSERT INTO outbox_events (aggregate_id, aggregate_type, event_type, payload)
SELECT n % 2, 'order', 'placed', to_jsonb(n) FROM generate_series(1, 6) AS n"""

# Of each preset: the table, how to publish six events into it, and what is left of them when they were sent.
PRESETS = {
    "status": (STATUS, PUBLISH_STATUS, "SELECT count(*) FROM outbox_events WHERE status = 'SENT' AND sent_at IS NOT NULL",
               "6"),
    "sent_at": ("""
CREATE TABLE outbox_events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_type text NOT NULL,
  payload jsonb NOT NULL, sent_at timestamptz)""", """
INSERT INTO outbox_events (event_type, payload) SELECT 'placed', to_jsonb(n) FROM generate_series(1, 6) AS n""",
                "SELECT count(*) FROM outbox_events WHERE sent_at IS NOT NULL", "6"),
    "message": ("""
CREATE TABLE "OutboxMessage" ("Id" uuid PRIMARY KEY DEFAULT gen_random_uuid(), "OccurredOn" timestamptz NOT NULL
  DEFAULT clock_timestamp(), "MessageType" text NOT NULL, "Payload" text NOT NULL, "CorrelationId" uuid, "Destination"
  text, "ProcessedOn" timestamptz, "RetryCount" int NOT NULL DEFAULT 0, "Error" text)""", """
INSERT INTO "OutboxMessage" ("MessageType", "Payload", "Destination") SELECT 'placed', n, 'order.events'
FROM generate_series(1, 6) AS n""", """SELECT count(*) FROM "OutboxMessage" WHERE "ProcessedOn" IS NOT NULL""", "6"),
    "processed_at": ("""
CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT NULL, aggregate_id text NOT
  NULL, event_type text NOT NULL, payload jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  processed_at timestamptz, status text NOT NULL DEFAULT 'pending')""", """
INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
SELECT 'order', n % 2, 'placed', to_jsonb(n) FROM generate_series(1, 6) AS n""",
                     "SELECT count(*) FROM outbox WHERE status = 'processed' AND processed_at IS NOT NULL", "6"),
    "debezium": ("""
CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype varchar(255) NOT NULL, aggregateid
  varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb)""", """
INSERT INTO outbox (aggregatetype, aggregateid, type, payload)
SELECT 'order', n % 2, 'placed', to_jsonb(n) FROM generate_series(1, 6) AS n""", "SELECT count(*) FROM outbox", "0"),
}


def manual(language):
    """The examples of the manual."""
    text = (harness.ROOT / "docs" / "MAPPED.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


DATABASE = f"mapped_{os.getpid()}"


def setUpModule():
    psql(f"CREATE DATABASE {DATABASE}")
    unittest.addModuleCleanup(drop_database, DATABASE)


class MappedCase(PostgresCase):
    """A relay that serves a table, and the schema dovetail. One database for all tests, made as new for each: that is
    quicker than another one."""

    def setUp(self):
        harness.Case.setUp(self)
        self.database = DATABASE
        self.conninfo = f"{SERVER} dbname={DATABASE}"
        self.configure(self.conninfo)
        self.init()
        self.sql("DROP SCHEMA IF EXISTS shop, orders, public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO "
                 "PUBLIC; TRUNCATE dovetail.relay_lane, dovetail.relay_process, dovetail.parked, dovetail.audit, "
                 "dovetail.relay_state, dovetail.mapped_backlog")

    def configure(self, conninfo, more=""):
        self.write("dovetail.toml", CONFIG % (conninfo, more or 'preset = "status"\n'))

    def table(self, text):
        self.configure(self.conninfo, text)

    def mapped(self):
        return self.reader("shop", "shop-to-inventory")

    def received(self):
        return [row[0].decode() for row in self.rows("inventory.db", "SELECT payload FROM dovetail_mailbox ORDER BY seq")]

    def status_of(self, payload):
        return self.sql(f"SELECT status FROM outbox_events WHERE payload = '{payload}'")


class Presets(MappedCase):
    def test_every_preset_serves_its_table_as_it_stands(self):
        for preset, (table, publish, count, left) in PRESETS.items():
            with self.subTest(preset):
                self.write("dovetail.toml", (CONFIG % (self.conninfo, f'preset = "{preset}"\n')).replace(
                    "shop-to-inventory", preset))
                self.sql("DROP TABLE IF EXISTS outbox_events, outbox;" + table + ";" + publish)
                self.assertEqual(self.ask("run", "--until-idle")["relays"][0]["delivered"], 6)
                reader = self.reader("shop", preset)
                self.assertEqual((reader["pending"], reader["delivered_total"]), (0, 6))
                self.assertEqual(self.sql(count), left)
                rows = self.rows("inventory.db", "SELECT payload, aggregate_id, type, topic FROM dovetail_mailbox "
                                 "ORDER BY seq DESC LIMIT 6")[::-1]
                self.assertEqual({row[2] for row in rows}, {"placed"})
                self.assertEqual(sorted(row[0] for row in rows), [b"1", b"2", b"3", b"4", b"5", b"6"])
                self.assertEqual({row[3] for row in rows}, {"outbox_events.events" if preset == "sent_at" else "order.events"})
                if preset in ("status", "processed_at"):
                    self.assertEqual([row[0] for row in rows if row[1] == "1"], [b"1", b"3", b"5"], "the order of a key")

    def test_the_first_example_of_the_manual(self):
        self.sql("CREATE SCHEMA orders;" + STATUS.replace("outbox_events", "orders.outbox_events"))
        self.sql(PUBLISH_STATUS.replace("outbox_events", "orders.outbox_events"))
        self.write("dovetail.toml", (CONFIG % (self.conninfo, "")).split("[[relay]]")[0] + manual("toml")[0])
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.sql("SELECT count(*) FROM orders.outbox_events WHERE status = 'SENT'"), "6")


class ByHand(MappedCase):
    def test_the_second_example_of_the_manual(self):
        self.sql("CREATE SCHEMA shop;" + manual("sql")[0])
        self.write("dovetail.toml", (CONFIG % (self.conninfo, "")).split("[[relay]]")[0] + manual("toml")[1])
        self.sql("INSERT INTO shop.messages (order_no, body, trace) SELECT n % 2, to_jsonb(n), 'trace-' || n "
                 "FROM generate_series(1, 6) AS n; INSERT INTO shop.messages (order_no, body, state) VALUES (1, '{}', "
                 "'cancelled')")
        self.assertEqual(self.ask("run", "--until-idle")["relays"][0]["delivered"], 6)
        self.assertEqual(self.sql("SELECT string_agg(state, ',' ORDER BY seq) FROM shop.messages"),
                         ",".join(["done"] * 6 + ["cancelled"]))
        row = self.rows("inventory.db", "SELECT topic, aggregate_type, aggregate_id, type, headers FROM dovetail_mailbox "
                        "ORDER BY seq LIMIT 1")
        self.assertEqual(row, [("order.events", "order", "1", "changed", '{"trace-id":"trace-1"}')])
        findings = self.ask("doctor", "--store", "shop")["stores"][0]["findings"]
        self.assertEqual({one["code"] for one in findings} & {"missing-index", "unsafe-order", "mapping"}, set())

    def test_a_preset_with_another_column(self):
        self.sql(STATUS.replace("event_type", "kind") + "; ALTER TABLE outbox_events ADD seq bigint GENERATED ALWAYS AS "
                 "IDENTITY, DROP sent_at")
        self.sql(PUBLISH_STATUS.replace("event_type", "kind"))
        self.table('preset = "status"\ntype = "kind"\norder_by = "seq"\nwhen_delivered = "status = SENT"\ncreated_at = ""\n')
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.sql("SELECT count(*) FROM outbox_events WHERE status = 'SENT'"), "6")


class Running(MappedCase):
    def setUp(self):
        super().setUp()
        self.sql(STATUS)

    def test_two_processes_share_the_lanes_and_one_takes_over_from_the_other(self):
        first, second = self.start("run"), self.start("run")
        owners = lambda: {lane["owner"].split("#")[0] for lane in (self.mapped() or {}).get("lanes", ()) if lane["owner"]}
        self.wait_for("both have a lane", lambda: len(owners()) == 2)
        for _ in range(3):
            self.sql(PUBLISH_STATUS)
        self.wait_for("all is sent", lambda: self.mapped()["pending"] == 0)
        first.kill()
        first.wait()
        self.sql(PUBLISH_STATUS)
        self.wait_for("the other takes its lane over", lambda: self.mapped()["pending"] == 0)
        self.assertEqual(len(self.received()), 24)
        for key in (0, 1):
            of_key = [one for one in self.received() if int(one) % 2 == key]
            self.assertEqual(of_key, (["1", "3", "5"] if key else ["2", "4", "6"]) * 4)
        second.terminate()
        self.assertEqual(second.wait(harness.PATIENCE_S), 0, self.log())

    def test_a_parked_row_is_replayed_and_another_one_discarded(self):
        self.sql(PUBLISH_STATUS)
        config = (self.folder / "dovetail.toml").read_text()
        self.write("dovetail.toml", config.replace('"sqlite:inventory.db"', '"sqlite:inventory.db"\ntopics = ["x"]'))
        self.assertEqual(self.ask("run", "--until-idle", code=1)["parked"], 2)
        # One of each key needs an operator; those behind it have not failed.
        self.assertEqual(self.sql("SELECT string_agg(status, ' ' ORDER BY payload::text) FROM outbox_events"),
                         "FAILED FAILED PENDING PENDING PENDING PENDING")
        listed = self.ask("events", "--store", "shop", "--relay", "shop-to-inventory")["events"]
        self.assertEqual(sorted({one["state"] for one in listed}), ["parked", "waiting"])
        heads = {row["key"]: row["id"] for row in self.ask("parked", "list")["parked"] if row["head"]}
        self.assertEqual(sorted(heads), ["0", "1"])
        self.dovetail("parked", "discard", heads["0"], "--reason", "a test")
        self.write("dovetail.toml", config)
        self.assertEqual(self.ask("parked", "replay", heads["1"])["replayed"], 1)
        self.dovetail("run", "--until-idle")
        self.assertEqual(sorted(self.received()), ["1", "3", "4", "5", "6"])
        self.assertEqual((self.status_of("1"), self.status_of("2"), self.status_of("4")), ("SENT", "FAILED", "SENT"))
        self.assertEqual(self.ask("events", "show", heads["0"])["places"][0]["state"], "discarded")
        shown = self.ask("events", "show", heads["1"], "--payload")
        self.assertEqual({(place["store"], place["state"]) for place in shown["places"]},
                         {("shop", "delivered"), ("inventory", "unread")})
        self.assertEqual(shown["payload"], "1")

    def test_events_are_listed_in_pages(self):
        self.sql(PUBLISH_STATUS)
        self.sql("UPDATE outbox_events SET status = 'FAILED' WHERE payload = '6'")
        of_relay = ("events", "--store", "shop", "--relay", "shop-to-inventory")
        page = self.ask(*of_relay, "--limit", "4")["events"]
        rest = self.ask(*of_relay, "--after", str(page[-1]["position"]))["events"]
        self.assertEqual([one["state"] for one in page + rest], ["pending"] * 5 + ["discarded"])
        self.assertEqual(len({one["id"] for one in page + rest}), 6)
        self.assertEqual(len(self.ask(*of_relay, "--state", "pending", "--key", "0")["events"]), 2)
        self.refused("events", "--store", "shop", "--after", "3", code=5, name="rejected", says=["--relay"])

    def test_a_deleted_row_is_still_known_while_it_is_parked(self):
        table, publish, _, _ = PRESETS["debezium"]
        self.sql(table)
        self.sql(publish)
        self.table('preset = "debezium"\n')
        config = (self.folder / "dovetail.toml").read_text()
        self.write("dovetail.toml", config.replace('"sqlite:inventory.db"', '"sqlite:inventory.db"\ntopics = ["x"]'))
        self.dovetail("run", "--until-idle", code=1)
        # What waits behind a parked one is still to be sent.
        self.assertEqual(self.sql("SELECT count(*) FROM outbox"), "4")
        listed = self.ask("events", "--store", "shop", "--key", "1")["events"]
        self.assertEqual([one["state"] for one in listed], ["parked", "waiting", "waiting"])
        self.assertIn(self.ask("events", "show", listed[0]["id"], "--payload")["payload"], ("1", "3", "5"))

    def test_status_shows_the_lag_also_before_the_first_start(self):
        self.assertEqual(self.mapped()["pending"], 0)
        self.sql(PUBLISH_STATUS)
        self.assertEqual((self.mapped()["pending"], self.mapped()["table"]), (6, "outbox_events"))
        self.assertGreater(self.mapped()["oldest_age_us"], 0)
        self.assertIn("shop.outbox_events", self.dovetail("status").out)
        self.assertEqual(self.sql("SELECT count(*) FROM dovetail.relay_lane"), "0", "nothing was written")

    def test_doctor_names_what_the_table_lacks(self):
        self.sql(PUBLISH_STATUS)
        findings = {one["code"]: one for one in self.ask("doctor", "--store", "shop", code=1)["stores"][0]["findings"]}
        self.assertIn("CREATE INDEX CONCURRENTLY", findings["missing-index"]["what_to_do"])
        self.assertIn("IDENTITY", findings["unsafe-order"]["what_to_do"])
        self.assertIn("shop-to-inventory", findings["relay-not-running"]["what"])
        self.sql("ALTER TABLE outbox_events ADD seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 20)")
        self.table('preset = "status"\norder_by = "seq"\n')
        self.assertIn("sequence-cache", self.dovetail("doctor", "--store", "shop", code=1).out)
        self.sql("ALTER SEQUENCE outbox_events_seq_seq CACHE 1; CREATE INDEX ON outbox_events (seq, id) WHERE status = "
                 "'PENDING'")
        self.start("run")
        self.wait_for("a relay serves both lanes",
                      lambda: self.mapped()["lanes"] and all(lane["owner"] for lane in self.mapped()["lanes"]))
        self.assertNotIn("outbox_events", self.dovetail("doctor", "--store", "shop").out)

    def test_the_name_of_a_relay_belongs_to_what_it_served_first(self):
        self.dovetail("run", "--until-idle")
        text = (self.folder / "dovetail.toml").read_text()
        self.write("dovetail.toml", text.replace('[relay.table]\npreset = "status"\n', ""))
        self.assertIn("another name", self.dovetail("run", "--until-idle", code=5).err)


class WrongFiles(harness.Case):
    """Whatever is wrong in the file is said at once, with what to do, before any server is asked."""

    def wrong_file(self, table, *says):
        self.write("dovetail.toml", CONFIG % ("host=nowhere.invalid", table))
        self.refused("run", code=3, name="config", says=["dovetail.toml:", "relay.table", *says])

    def test_what_the_file_says_must_make_sense(self):
        self.wrong_file('preset = "statuss"\n', "statuss", "status, sent_at, message, processed_at, debezium")
        self.wrong_file('agregate_id = "x"\nname = "t"\n', "agregate_id", 'did you mean "aggregate_id"?')
        self.wrong_file('order_by = "seq"\n', "preset", "name")
        self.wrong_file('name = "t"\n', "when_delivered")
        self.wrong_file('preset = "status"\nwhen_delivered = ["sent_at = now()"]\n', "when_delivered", "pending")
        self.wrong_file('preset = "status"\npending = ["status like x"]\n', "pending", "is malformed")
        self.wrong_file('preset = "status"\npending = 3\n', "list of strings")
        self.wrong_file("preset = \"status\"\npending = [\"status = 'NEW' OR 1=1\"]\n", "pending", "not a plain value")
        self.wrong_file('preset = "status"\nwhen_parked = ["status"]\n', "when_parked", "is malformed")
        self.wrong_file('preset = "status"\nwhen_delivered = ["status = SENT", "note = reason()"]\n', "did not fail")
        self.wrong_file('preset = "status"\nid = ""\n', "id")
        self.wrong_file('preset = "status"\ndelete_when_done = "yes"\n', "true or false")
        self.wrong_file('preset = "status"\nheader_columns = ["x"]\n', "header_columns")
        self.wrong_file('preset = "status"\nheader_columns = { "a b" = "x" }\n', "header_columns", '"a b"', "letters")

    def test_no_name_is_ever_sql(self):
        attack = 'x\\"; DROP TABLE victim; --'
        columns = ("name", "id", "topic", "aggregate_type", "aggregate_id", "aggregate_version", "type", "payload",
                   "content_type", "headers", "created_at", "order_by")
        for key in columns:
            self.wrong_file(f'preset = "status"\n{key} = "{attack}"\n', "is not a valid name")
        self.wrong_file(f'preset = "status"\nname = "public.{attack}"\n', "is not a valid name")
        self.wrong_file('preset = "status"\nname = "a.b.c"\n', "is not a valid name")
        self.wrong_file(f'preset = "status"\nheader_columns = {{ h = "{attack}" }}\n', "is not a valid name")
        for key in ("pending", "when_delivered", "when_parked", "when_discarded"):
            self.wrong_file(f'preset = "status"\n{key} = ["{attack} = 1"]\n', "is not a valid name")

    def test_a_table_of_sqlite_is_refused(self):
        self.write("dovetail.toml", harness.CONFIG.replace("[log]", '[relay.table]\npreset = "status"\n[log]'))
        self.refused("run", code=3, name="config", says=["relay.table", "PostgreSQL"])

    def test_two_relays_on_one_table_are_refused(self):
        text = (CONFIG % ("host=nowhere.invalid", 'preset = "status"\n')).replace("[log]", """[[relay]]
name = "another"
from = "shop"
to = "inventory"
[relay.table]
preset = "status"
[log]""")
        self.write("dovetail.toml", text)
        self.refused("run", code=3, name="config", says=["relay.table", "another", "outbox_events"])


class WrongTables(MappedCase):
    """Whatever is wrong with the table is said at once, with what to do, and nothing is touched."""

    def wrong_table(self, *says):
        self.refused("run", "--until-idle", code=5, name="rejected", says=says)
        self.assertEqual(self.sql("SELECT count(*) FROM dovetail.relay_lane"), "0", "nothing was written")

    def test_a_value_is_never_sql(self):
        self.sql(STATUS + "; CREATE TABLE victim (x int)")
        self.table("preset = \"status\"\nwhen_delivered = [\"status = 'x''; DROP TABLE victi'\"]\ndefault_type = \"'; DROP\"\n")
        self.sql(PUBLISH_STATUS)
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.sql("SELECT count(*), max(status) FROM outbox_events, (SELECT count(*) FROM victim) AS v"),
                         "6|x'; DROP TABLE victi")

    def test_the_table_must_be_there_and_fit(self):
        self.wrong_table("outbox_events", "schema.table")
        self.sql(STATUS.replace("event_type", "kind"))
        self.wrong_table("event_type", "kind, payload")
        self.dovetail("status", code=5)
        self.refused("events", "--store", "shop", code=5, name="rejected", says=["shop-to-inventory", "event_type"])
        self.assertIn("event_type", self.dovetail("doctor", "--store", "shop", code=1).out)
        self.sql("ALTER TABLE outbox_events RENAME kind TO event_type; ALTER TABLE outbox_events ALTER payload TYPE xml USING "
                 "'<x/>'")
        self.wrong_table("payload", "xml", "jsonb")
        self.sql("ALTER TABLE outbox_events ALTER payload TYPE text, DROP CONSTRAINT outbox_events_pkey")
        self.wrong_table("no unique index", "PRIMARY KEY")
        self.sql("ALTER TABLE outbox_events RENAME TO t; CREATE VIEW outbox_events AS SELECT * FROM t")
        self.wrong_table("is not a table")

    def test_missing_rights_are_named(self):
        self.dovetail("init", "--roles")
        self.sql(STATUS)
        user = f"{self.database}_relay"
        self.sql(f"CREATE ROLE {user} LOGIN; GRANT dovetail_relay TO {user}; GRANT SELECT ON outbox_events TO {user}")
        self.addCleanup(self.sql, f"DROP OWNED BY {user}; DROP ROLE {user}")
        self.configure(f"{self.conninfo} user={user}")
        self.assertIn("GRANT UPDATE", self.dovetail("run", "--until-idle", code=5).err)
        self.assertEqual(self.mapped()["pending"], 0, "looking needs no more than SELECT")
        self.sql(f"GRANT UPDATE ON outbox_events TO {user};" + PUBLISH_STATUS)
        self.dovetail("run", "--until-idle")
        self.assertEqual(len(self.received()), 6)

    def test_a_missing_schema_says_how_to_make_it(self):
        self.sql(STATUS + "; DROP SCHEMA dovetail CASCADE")
        self.refused("run", "--until-idle", code=5, name="rejected", says=["dovetail init"])
        self.assertIn("dovetail init", self.dovetail("doctor", "--store", "shop").out)


if __name__ == "__main__":
    if not SERVER:
        print("SKIPPED: " + (first_line("postgres.missing") or f"no server in {STATE}; run it through ctest"),
              file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=1)
