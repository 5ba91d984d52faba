"""The binary with a store in PostgreSQL, against a real server."""

import itertools
import json
import os
import pathlib
import re
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
import unittest

import harness

STATE = pathlib.Path(os.environ.get("DOVETAIL_SERVERS", "servers"))
CANARY = "c4n4ry'\\ of mine"
COUNT = itertools.count()

CONFIG = """\
[store.orders]
url = "postgres:%s"

[store.inventory]
url = "sqlite:inventory.db"
topics = ["orders.events"]

[[relay]]
name = "orders-to-inventory"
from = "orders"
to = "inventory"
lanes = 2
lease = "2s"
retry_base = "5ms"

[log]
format = "json"
"""


def first_line(name):
    path = STATE / name
    return path.read_text(encoding="utf-8").splitlines()[0] if path.exists() else ""


SERVER = first_line("postgres.conninfo")


def psql(sql, conninfo=SERVER):
    return subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql, conninfo], check=True, capture_output=True,
                          text=True).stdout.strip()


def drop_database(name, conninfo=SERVER):
    """A slot holds its database until the server has noticed that the process which read it is gone."""
    end = time.monotonic() + harness.PATIENCE_S
    while True:
        try:
            return psql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", conninfo)
        except subprocess.CalledProcessError as refused:
            if "logical replication slot" not in refused.stderr or time.monotonic() > end:
                raise
        time.sleep(0.02)


class PostgresCase(harness.Case):
    """A database of its own; the config reads it, and fills a SQLite file."""

    def setUp(self):
        super().setUp()
        self.database = self.make_database()
        self.conninfo = f"{SERVER} dbname={self.database}"
        self.configure(self.conninfo)

    def make_database(self):
        name = f"cli_{os.getpid()}_{next(COUNT)}"
        psql(f"CREATE DATABASE {name}")
        self.addCleanup(drop_database, name)
        return name

    def configure(self, conninfo, more=""):
        text = CONFIG % conninfo
        self.write("dovetail.toml", text.replace("[store.inventory]", more + "\n[store.inventory]"))

    def stores(self, *command):
        return {store["name"]: store for store in self.ask(*command)["stores"]}

    def sql(self, statement):
        return psql(statement, self.conninfo)

    def mailbox(self):
        return self.rows("inventory.db", "SELECT count(*) FROM dovetail_mailbox")[0][0]


class Init(PostgresCase):
    def test_creates_the_schema_once_and_says_so(self):
        orders = self.stores("init")["orders"]
        self.assertTrue(orders["created"])
        self.assertIn(f"dbname={self.database}", orders["path"])
        self.assertFalse(self.stores("init")["orders"]["created"])
        self.assertGreater(self.stores("status")["orders"]["partitions"], 2, "partitions are made ahead")

    def test_print_sql_prints_what_psql_can_run_and_touches_nothing(self):
        sql = self.dovetail("init", "--print-sql", "--roles").out
        self.assertEqual(self.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'dovetail'"), "0")
        self.assertFalse((self.folder / "inventory.db").exists())
        # It is too long for an argument.
        subprocess.run(["psql", "-Xq1", "-v", "ON_ERROR_STOP=1", "-f", "-", self.conninfo], check=True, input=sql, text=True)
        self.assertFalse(self.stores("init")["orders"]["created"])
        self.assertIn(self.ask("init", "--print-sql")["sql"], sql)

    def test_roles_may_do_their_work_and_no_more(self):
        self.dovetail("init", "--roles")
        for role in ("app", "relay", "operator"):
            user = f"{self.database}_{role}"
            psql(f"CREATE ROLE {user} LOGIN; GRANT dovetail_{role} TO {user}")
            self.addCleanup(psql, f"DROP ROLE {user}")
        as_user = lambda role: self.configure(f"{self.conninfo} user={self.database}_{role}")
        as_user("app")
        event = self.publish_id()
        self.refused("events", "--store", "orders", code=5, name="rejected", says=["dovetail_operator"])
        as_user("relay")
        self.dovetail("run", "--until-idle")
        self.publish(code=5)
        as_user("operator")
        self.assertEqual(self.ask("events", "--store", "orders")["events"][0]["id"], event)
        self.assertEqual(self.reader()["delivered_total"], 1)
        self.publish(code=5)

    def test_roles_without_a_postgres_store_are_refused(self):
        self.write("dovetail.toml", harness.CONFIG)
        self.refused("init", "--roles", code=2, name="usage", says=["PostgreSQL"])


class Delayed(PostgresCase):
    FAR = "2200-01-01T00:00:00Z"

    def setUp(self):
        super().setUp()
        self.init()

    def test_an_event_that_waits_for_its_time_is_seen_and_can_be_cancelled(self):
        event = self.publish_id("--deliver-at", self.FAR)
        self.assertEqual(self.stores("status")["orders"]["delayed"], {"events": 1, "failing": 0, "next": "2200-01-01T00:00:00.000000Z"})
        self.assertIn("1 delayed, the first is due 2200-01-01", self.dovetail("status").out)
        (listed,) = self.ask("events", "--store", "orders", "--state", "delayed")["events"]
        self.assertEqual((listed["id"], listed["state"], listed["deliver_at"]), (event, "delayed", "2200-01-01T00:00:00.000000Z"))
        self.assertIn(event, self.dovetail("events", "--store", "orders", "--state", "delayed").out)
        self.assertEqual(self.ask("events", "show", event)["places"][0]["state"], "delayed")
        self.assertIn("due        2200-01-01", self.dovetail("events", "show", event).out)
        self.assertEqual(self.ask("run", "--until-idle")["relays"][0]["delivered"], 0)
        self.assertEqual(self.dovetail("events", "cancel", event, "--store", "orders", "--reason", "not wanted").out,
                         f"cancelled {event}\n")
        self.assertNotIn("delayed", self.stores("status")["orders"])
        self.assertEqual(self.sql("SELECT what || subject || reason FROM dovetail.audit"), f"cancel{event}not wanted")
        self.refused("events", "cancel", event, "--store", "orders", "--reason", "x", code=5, name="rejected", says=["waits"])

    def test_a_parked_event_that_the_outbox_no_longer_has_is_replayed_as_it_was(self):
        event = "01890a5d-ac96-774b-bcce-b302099a8057"  # of the year 2023
        self.sql(f"SELECT dovetail.publish('orders', '1', 'placed', '{{\"n\": 7}}'::text, topic => 'nowhere', id => '{event}')")
        self.dovetail("run", "--until-idle", code=1)
        self.sql("UPDATE dovetail.outbox SET created_at = '2023-07-01'")
        self.dovetail("prune", "--delivered", "1d")
        self.assertEqual(self.sql("SELECT count(*) FROM dovetail.outbox"), "0")
        path = self.folder / "dovetail.toml"
        path.write_text(path.read_text().replace('topics = ["orders.events"]', ""))
        self.dovetail("parked", "replay", event)
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.rows("inventory.db", "SELECT topic, CAST(payload AS TEXT) FROM dovetail_mailbox"),
                         [("nowhere", '{"n": 7}')])

    def test_one_that_is_due_goes_out(self):
        self.publish("--deliver-at", "2001-01-01T00:00:00Z")
        self.assertEqual(self.ask("run", "--until-idle")["relays"][0]["delivered"], 1)

    def test_what_cannot_be_delayed_is_refused(self):
        self.publish("--deliver-at", "tomorrow", code=5)
        self.assertIn("cannot delay events", self.publish("--deliver-at", self.FAR, store="inventory", code=5).err)
        self.refused("events", "cancel", "01932b7e-0000-7000-8000-000000000001", "--store", "inventory", "--reason", "x",
                     code=5, name="rejected", says=["cannot delay events"])


class Carrying(PostgresCase):
    def setUp(self):
        super().setUp()
        self.init()

    def test_events_reach_the_mailbox_once_and_in_the_order_of_their_key(self):
        ids = [self.publish_id("--header", "n=" + str(n), key=str(n % 3)) for n in range(9)]
        self.assertEqual(self.ask("run", "--until-idle")["relays"][0]["delivered"], 9)
        self.dovetail("run", "--until-idle")
        stored = self.rows("inventory.db", "SELECT aggregate_id, headers FROM dovetail_mailbox ORDER BY seq")
        for key in range(3):
            self.assertEqual([json.loads(headers)["n"] for one, headers in stored if one == str(key)],
                             [str(n) for n in range(9) if n % 3 == key])
        self.assertEqual(len(stored), 9)
        shown = self.ask("events", "show", ids[4], "--payload")
        self.assertEqual({(place["store"], place["box"], place["state"]) for place in shown["places"]},
                         {("orders", "outbox", "delivered"), ("inventory", "mailbox", "unread")})
        self.assertEqual(shown["payload"], '{"total": 3}')

    def test_status_shows_what_nobody_reads_yet(self):
        self.assertIn("Nothing was published", self.dovetail("status").out)
        self.publish()
        self.assertIn("orders.outbox: about 1 event pending, no relay has run yet", self.dovetail("status").out)

    def test_status_and_events_show_what_is_pending(self):
        self.dovetail("run", "--until-idle")
        event = self.publish_id()
        reader = self.reader()
        self.assertEqual((reader["pending"], reader["parked"], len(reader["lanes"])), (1, 0, 2))
        self.assertGreater(reader["oldest_age_us"], 0)
        listed = self.ask("events", "--store", "orders", "--state", "pending")["events"]
        self.assertEqual([one["id"] for one in listed], [event])
        self.assertIn("orders.outbox", self.dovetail("status").out)
        self.refused("events", "--store", "orders", "--box", "mailbox", code=5, name="rejected", says=["no mailbox"])

    def test_the_same_id_with_other_content_is_rejected(self):
        event = self.publish_id()
        self.publish("--id", event)
        self.publish("--id", event, payload='"other"', code=5)
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.mailbox(), 1)

    def test_a_daemon_carries_what_comes_and_stops_when_told(self):
        process = self.start("run")
        self.wait_for("the relay has its lanes", lambda: self.reader() and self.reader()["owner"])
        self.publish()
        self.wait_for("the event is there", lambda: self.mailbox() == 1)
        process.terminate()
        self.assertEqual(process.wait(harness.PATIENCE_S), 0, self.log())
        self.assertEqual(self.reader()["owner"], "")

    def test_the_lanes_of_a_process_that_was_killed_are_taken_over(self):
        process = self.start("run")
        self.publish()
        self.wait_for("the event is there", lambda: self.mailbox() == 1)
        process.kill()
        process.wait()
        for key in range(10):
            self.publish(key=str(key))
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.mailbox(), 11)

    def test_after_kill_9_the_next_one_goes_on_at_once(self):
        self.write("dovetail.toml", (CONFIG % self.conninfo).replace('lease = "2s"', 'lease = "1h"'))
        self.init()
        first = self.start("run")
        self.wait_for("it has started", lambda: self.log().count('"event":"started"') >= 2)
        first.kill()
        first.wait()
        self.publish()
        standstill, since = harness.Standstill(), time.time()
        second = self.start("run")
        self.assert_logged_soon(standstill, since, '"event":"started"', count=4)
        self.wait_for("the event arrived, and nobody waited for an hour", lambda: self.mailbox() == 1)
        second.terminate()
        self.assertEqual(second.wait(harness.PATIENCE_S), 0)

    def test_a_prune_that_waits_for_a_lock_keeps_no_signal_waiting(self):
        self.configure(self.conninfo, '[retention]\ndelivered = "1h"\nevery = "1s"\n')
        self.init()
        holder = subprocess.Popen(["psql", "-XAtq", self.conninfo], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, holder)
        self.addCleanup(holder.stdin.close)
        holder.stdin.write("BEGIN; LOCK TABLE dovetail.audit, dovetail.request IN ACCESS EXCLUSIVE MODE; SELECT 'locked';\n")
        holder.stdin.flush()
        self.assertEqual(holder.stdout.readline().strip(), "locked")
        process = self.start("run")
        self.wait_for("the prune waits", lambda: self.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") != "0")
        standstill, since = harness.Standstill(), time.time()
        process.terminate()
        self.assert_logged_soon(standstill, since, "stopping: ")
        self.assertEqual(process.wait(harness.PATIENCE_S), 0, self.log())
        self.assertIsNone(holder.poll(), "it still has the lock")

    def test_waiting_until_idle_asks_seldom(self):
        if int(psql("SHOW server_version_num")) < 140000:
            self.skipTest("PostgreSQL 14 brought the count of sessions")
        sessions = lambda: int(psql(f"SELECT sessions FROM pg_stat_database WHERE datname = '{self.database}'"))
        self.publish()
        holder = sqlite3.connect(self.folder / "inventory.db", isolation_level=None)
        self.addCleanup(holder.close)
        holder.execute("BEGIN IMMEDIATE")
        process = self.start("run", "--until-idle")
        self.wait_for("the relay runs", lambda: "started" in self.log())
        before, since = sessions(), time.monotonic()
        self.wait_for("two seconds are over", lambda: time.monotonic() > since + 2)
        self.assertLess(sessions() - before, 15, "the mailbox is locked, and there is nothing new to see")
        holder.execute("ROLLBACK")
        self.assertEqual(process.wait(harness.PATIENCE_S), 0, self.log())
        self.assertEqual(self.mailbox(), 1)

    def test_a_relay_that_does_not_own_the_tables_says_once_that_it_cannot_prune(self):
        self.dovetail("init", "--roles")
        psql(f"CREATE ROLE {self.database}_relay LOGIN; GRANT dovetail_relay TO {self.database}_relay")
        self.addCleanup(psql, f"DROP ROLE {self.database}_relay")
        self.configure(f"{self.conninfo} user={self.database}_relay")
        with open(self.folder / "dovetail.toml", "a", encoding="utf-8") as file:
            file.write('level = "debug"\n[retention]\nevery = "1s"\n')
        self.start("run")
        levels = lambda: [line["level"] for line in map(json.loads, self.log().splitlines())
                          if "not pruned" in line["message"]]
        self.wait_for("it has tried twice", lambda: len(levels()) >= 2)
        self.assertEqual(levels()[:2], ["warn", "debug"])

    def test_parked_events_are_replayed_or_discarded_with_an_audit(self):
        bad = self.publish_id("--topic", "orders.events", payload="1" * 100)
        behind = self.publish_id("--topic", "orders.events")
        other = self.publish_id("--topic", "orders.events", key="18", payload="2" * 100)
        config = (self.folder / "dovetail.toml").read_text()
        self.write("dovetail.toml", config.replace("topics = [", 'payload_max = "50B"\ntopics = ['))
        self.assertEqual(self.ask("run", "--until-idle", code=1)["parked"], 2)
        parked = {row["id"]: row for row in self.ask("parked", "list")["parked"]}
        self.assertEqual({bad, behind, other}, set(parked))
        self.assertTrue(parked[bad]["head"] and not parked[behind]["head"])
        self.dovetail("parked", "replay", behind, code=5)
        self.dovetail("parked", "discard", other, "--reason", "test data")
        self.write("dovetail.toml", config)
        self.assertEqual(self.ask("parked", "replay", bad)["replayed"], 1)
        self.dovetail("run", "--until-idle")
        got = self.rows("inventory.db", "SELECT lower(hex(id)) FROM dovetail_mailbox ORDER BY seq")
        self.assertEqual([row[0] for row in got], [bad.replace("-", ""), behind.replace("-", "")])
        self.assertEqual(self.ask("parked", "list")["parked"], [])
        self.assertEqual(self.sql("SELECT string_agg(what, ',' ORDER BY number) FROM dovetail.audit"), "discard,replay")

    def test_prune_keeps_what_no_relay_has_passed(self):
        self.publish()
        self.assertIn("no relay has ever read", " ".join(self.stores("prune", "--delivered", "1s")["orders"]["notes"]))
        self.assertEqual(len(self.ask("events", "--store", "orders")["events"]), 1)


class Doctor(PostgresCase):
    def codes(self, code):
        document = self.ask("doctor", code=code)
        return {one["code"]: one["severity"] for store in document["stores"] for one in store["findings"]}

    def test_a_healthy_store_is_ok_and_a_missing_schema_is_said(self):
        self.assertEqual(self.codes(0).get("no-tables"), "warning")
        self.init()
        self.start("run")
        self.wait_for("a relay serves both lanes",
                      lambda: self.reader() and all(lane["owner"] for lane in self.reader()["lanes"]))
        self.assertNotIn("error", self.codes(0).values())
        self.assertIn("store orders", self.dovetail("doctor").out)

    def test_a_relay_that_does_not_run_is_an_error(self):
        self.init()
        self.dovetail("run", "--until-idle")
        self.publish()
        self.assertEqual(self.codes(1).get("relay-not-running"), "error")

    def test_a_sequence_with_a_cache_is_an_error(self):
        self.init()
        self.sql("ALTER SEQUENCE dovetail.outbox_seq CACHE 20")
        self.assertEqual(self.codes(1).get("sequence-cache"), "error")

    def test_sqlite_stores_are_examined_too(self):
        self.init()
        self.change("inventory.db", "PRAGMA journal_mode = DELETE")
        document = self.ask("doctor", "--store", "inventory", code=1)
        self.assertEqual([one["code"] for one in document["stores"][0]["findings"]], ["journal-mode"])


class Refusals(PostgresCase):
    def test_a_missing_schema_says_how_to_make_it(self):
        self.assertIn("dovetail init", self.dovetail("doctor").out)
        self.write("empty.toml", '[store.inventory]\nurl = "sqlite:inventory.db"\n')
        self.dovetail("-c", "empty.toml", "init")
        self.refused("parked", "list", "--store", "orders", code=5, name="rejected", says=["store orders", "dovetail init"])
        self.refused("run", "--until-idle", code=5, name="rejected", says=["dovetail init"])
        self.publish(code=5)
        self.dovetail("status", code=5)

    def test_a_role_without_rights_is_told_which_it_needs(self):
        self.init()
        psql(f"CREATE ROLE {self.database}_nobody LOGIN")
        self.addCleanup(psql, f"DROP ROLE {self.database}_nobody")
        self.configure(f"{self.conninfo} user={self.database}_nobody")
        for command in (("run", "--until-idle"), ("events", "--store", "orders")):
            self.refused(*command, code=5, name="rejected", says=["dovetail_relay"])
        self.configure(f"{self.conninfo} user=no_such_role")
        self.refused("events", "--store", "orders", code=4, name="unavailable", says=["no_such_role"])

    def test_an_unreachable_server_is_unavailable_and_a_daemon_waits_for_it(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.configure(f"host=127.0.0.1 port={port} dbname=shop user=shop")
        self.refused("init", code=4, name="unavailable", says=["store orders", "cannot connect"])
        self.refused("run", "--until-idle", code=4, name="unavailable")
        self.assertIn("unavailable", json.dumps(self.ask("doctor", code=1)))
        self.ask("status", code=4)
        process = self.start("run")
        self.wait_for("it says so", lambda: "cannot connect" in self.log())
        self.assertIsNone(process.poll())
        process.terminate()
        self.assertEqual(process.wait(harness.PATIENCE_S), 0, self.log())

    def test_a_relay_into_postgres_is_refused(self):
        text = (CONFIG % self.conninfo).replace('to = "inventory"', 'to = "orders"')
        self.write("dovetail.toml", text)
        self.refused("run", code=3, name="config", says=["dovetail.toml:11:6: relay.to", "SQLite"])

    def test_lanes_of_a_sqlite_store_are_refused(self):
        self.write("dovetail.toml", harness.CONFIG.replace('to = "inventory"', 'to = "inventory"\nlanes = 2'))
        self.refused("run", code=3, name="config", says=["relay.lanes"])


class AskForPassword(threading.Thread):
    """Plays a server that asks for the password, keeps it, and says that it is wrong."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.passwords = []

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rwb") as stream:
                self.serve(stream)

    def serve(self, stream):
        while True:
            length, code = struct.unpack("!ii", stream.read(8))
            stream.read(length - 8)
            if code == 196608:
                break
            stream.write(b"N")  # neither TLS nor GSS
            stream.flush()
        stream.write(b"R" + struct.pack("!ii", 8, 3))
        stream.flush()
        if stream.read(1) == b"p":
            length, = struct.unpack("!i", stream.read(4))
            self.passwords.append(stream.read(length - 4).rstrip(b"\0").decode())
        fields = b"SFATAL\0C28P01\0Mpassword authentication failed\0\0"
        stream.write(b"E" + struct.pack("!i", len(fields) + 4) + fields)


class Secrets(PostgresCase):
    def everything(self, environment):
        """Runs every command that can say something about the store, and returns all that was said."""
        said = ""
        for command in (("init",), ("status",), ("doctor",), ("events", "--store", "orders"), ("parked", "list"),
                        ("prune", "--delivered", "1d"), ("run", "--until-idle"),
                        ("publish", "--store", "orders", "--aggregate-type", "orders", "--type", "T", "--payload", "1")):
            for json_option in ((), ("--json",)):
                result = self.run_dovetail(*command, *json_option, env=environment)
                said += (result.out + result.err).decode()
        return said

    def test_a_password_in_the_url_is_refused_and_not_shown(self):
        for url in ("host=db password=c4n4ry", "host=db password = c4n4ry", "host=db password=is c4n4ry",
                    "//shop:c4n4ry@db/shop", "//db/shop?password=c4n4ry"):
            self.configure(url)
            self.assertNotIn("c4n4ry", self.everything({}), url)
            self.refused("status", code=3, name="config", says=["dovetail.toml:2:7: store.orders.url"])
        self.refused("status", code=3, name="config", says=["PGPASSFILE", "password_env", "password_file"])

    def test_a_password_reaches_the_server_and_nobody_else(self):
        server = AskForPassword()
        server.start()
        self.addCleanup(server.listener.close)
        place = f"host=127.0.0.1 port={server.port} dbname=shop user=shop"
        self.write("secret", CANARY + "\n")
        self.write("pgpass", "*:*:*:*:" + re.sub(r"([\\:])", r"\\\1", CANARY) + "\n").chmod(0o600)
        for more, environment in (('password_env = "SHOP_PASSWORD"', {"SHOP_PASSWORD": CANARY}),
                                  ('password_file = "secret"', {}),
                                  ("", {"PGPASSFILE": str(self.folder / "pgpass")})):
            server.passwords.clear()
            self.configure(place, more)
            said = self.everything(environment)
            self.assertEqual(set(server.passwords), {CANARY}, more)
            self.assertIn("password authentication failed", said)
            self.assertNotIn("c4n4ry", said)

    def test_with_a_working_server_the_password_is_not_shown_either(self):
        self.write("secret", CANARY + "\n")
        self.configure(self.conninfo, 'password_file = "secret"')
        said = self.everything({})
        self.assertIn(self.database, said)
        self.assertNotIn("c4n4ry", said)

    def test_a_missing_secret_names_where_it_was_looked_for(self):
        self.configure(self.conninfo, 'password_env = "NO_SUCH_VARIABLE"')
        publish = ("publish", "--store", "orders", "--aggregate-type", "a", "--type", "t", "--payload", "1")
        self.refused(*publish, code=3, name="config", says=["NO_SUCH_VARIABLE"])
        self.configure(self.conninfo, 'password_file = "no-such-file"')
        self.refused(*publish, code=3, name="config", says=["no-such-file"])
        self.configure(self.conninfo, 'password_env = "A"\npassword_file = "b"')
        self.refused("status", code=3, name="config", says=["keep one"])


def require_server():
    if not SERVER:
        print("SKIPPED: " + (first_line("postgres.missing") or f"no server in {STATE}; run it through ctest"), file=sys.stderr)
        sys.exit(77)


if __name__ == "__main__":
    require_server()
    unittest.main(verbosity=1)
