"""Wrong input with a store in PostgreSQL: each a clear error that says what to do, with its exit code; nothing is lost,
and no secret and no payload is shown."""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import unittest

import harness

sys.path.insert(0, str(harness.ROOT / "tests" / "servers"))
import common
from postgres import SERVERS
from postgres_test import SERVER, STATE, PostgresCase, first_line, psql

PUBLISH = ("publish", "--store", "orders", "--aggregate-type", "orders", "--type", "T", "--payload", '"hush-hush"')
# Every command that works on the store.
COMMANDS = (("init",), PUBLISH, ("events", "--store", "orders"), ("parked", "list", "--store", "orders"),
            ("prune", "--delivered", "1s"), ("run", "--until-idle"))
INJECTION = "x'; DROP SCHEMA dovetail CASCADE; --"


class BadInput(PostgresCase):
    """One database for all tests of a class: making one takes longer than the tests."""

    @classmethod
    def setUpClass(cls):
        cls.shared = f"bad_{os.getpid()}_{cls.__name__.lower()}"
        psql(f"CREATE DATABASE {cls.shared}")
        cls.addClassCleanup(psql, f"DROP DATABASE {cls.shared} WITH (FORCE)")

    def make_database(self):
        self.addCleanup(psql, "DROP SCHEMA IF EXISTS dovetail CASCADE", f"{SERVER} dbname={self.shared}")
        return self.shared

    def each_refused(self, code, name, *says, commands=COMMANDS):
        for command in commands:
            said = self.refused(*command, code=code, name=name, says=says)
            self.assertNotIn("hush-hush", said.err)
            self.assertEqual(said.err.count("\n"), 1, "one line")

    def login(self, role, *granted):
        user = f"{self.database}_{role}"
        psql(f"CREATE ROLE {user} LOGIN" + "".join(f"; GRANT {one} TO {user}" for one in granted))
        self.addCleanup(psql, f"DROP ROLE {user}")
        self.configure(f"{self.conninfo} user={user}")

    def outbox(self):
        return int(self.sql("SELECT count(*) FROM dovetail.outbox"))


class Settings(BadInput):
    def test_settings_that_can_never_work_are_errors_of_the_config_file(self):
        for settings, says in (("host=db port=54x", "port must be a number"), ("host=db port=5432,x", "port must be a number"),
                               ("host=db sslmode=on", "disable allow prefer"), ("host=db connect_timeout=soon", "seconds"),
                               ("host=db target_session_attrs=master", "read-write"), ("hots=db", "KEY=VALUE"),
                               ("dbname='host=other'", "plain name"), ("//u@db:54x/shop", "port must be a number")):
            self.configure(settings)
            self.refused("status", code=3, name="config", says=["dovetail.toml:2:7: store.orders.url", says])

    def test_a_server_that_cannot_be_reached_is_unavailable_and_the_text_says_why(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            closed = probe.getsockname()[1]
        fields = dict(field.split("=", 1) for field in SERVER.split())
        over_tcp = f"host=127.0.0.1 port={fields['port']} user=postgres dbname={self.database}"
        for settings, says in ((f"host=127.0.0.1 port={closed}", "Connection refused"),
                               ("host=no-such-host.invalid", "no-such-host.invalid"),
                               ("host=/no/such/folder", "/no/such/folder"),
                               ("service=no_such_service", "no_such_service"),
                               (f"{SERVER} dbname=no_such_database", "no_such_database"),
                               (f"{SERVER} user=no_such_user", "no_such_user"),
                               (f"{over_tcp} sslmode=require", "SSL"),
                               (f"{self.conninfo} target_session_attrs=standby", "standby")):
            self.configure(settings)
            self.each_refused(4, "unavailable", "store orders", says, "check the connection settings",
                              commands=(("init",), PUBLISH, ("run", "--until-idle")))
            self.assertIn(says, json.dumps(self.ask("doctor", code=1)))

    def test_hostile_names_are_names_and_nothing_more(self):
        self.init()
        self.publish()
        for name in (INJECTION, 'x"; DROP SCHEMA dovetail CASCADE; --', "$1", "%s", "a b", "ö", ""):
            relay = json.dumps(name, ensure_ascii=False)
            self.configure(self.conninfo)
            self.write("dovetail.toml", self.config().replace('"orders-to-inventory"', relay))
            self.refused("run", code=3, name="config", says=["relay.name"])
        self.configure(self.conninfo)
        # dbname and user are quoted for libpq; a backslash and a quote are no way out.
        for keyword in ("dbname", "user", "application_name"):
            value = INJECTION.replace("'", r"\\'")
            self.configure(f"{self.conninfo} {keyword}='{value}'")
            result = self.run_dovetail("events", "--store", "orders")
            self.assertEqual(result.code, 0 if keyword == "application_name" else 4, result)
        self.configure(self.conninfo)
        self.assertEqual(self.outbox(), 1)

    def config(self):
        return (self.folder / "dovetail.toml").read_text()


class Texts(BadInput):
    """What people type as values travels as values."""

    def setUp(self):
        super().setUp()
        self.init()

    def test_statements_in_the_fields_of_an_event_are_only_text(self):
        config = (self.folder / "dovetail.toml").read_text()
        self.write("dovetail.toml", config.replace('topics = ["orders.events"]\n', ""))
        for field in ("--key", "--topic", "--content-type"):
            self.publish_id(field, INJECTION, key="1") if field != "--key" else self.publish_id(key=INJECTION)
        self.publish_id("--header", "note=" + INJECTION)
        self.assertEqual(self.outbox(), 4)
        self.assertEqual(self.ask("run", "--until-idle")["relays"][0]["delivered"], 4)
        for options in (("--key", INJECTION), ("--type", INJECTION), ("--topic", INJECTION), ("--relay", INJECTION)):
            result = self.run_dovetail("events", "--store", "orders", *options, "--json")
            self.assertIn(result.code, (0, 2), result)
        some = "00000000-0000-0000-0000-000000000001"
        self.dovetail("parked", "discard", some, "--reason", INJECTION, code=5)
        self.assertEqual(self.outbox(), 4)

    def test_a_payload_over_the_limit_is_refused_before_anything_is_written(self):
        large = "x" * ((1000 << 10) + 1)
        self.refused(*PUBLISH[:-2], "-", stdin=large, code=5, name="rejected", says=["the payload has more than 1024000 bytes"])
        self.configure(self.conninfo, 'payload_max = "10B"')
        self.refused(*PUBLISH[:-1], "12345678901", code=5, name="rejected", says=["payload_max"])
        self.assertEqual(self.outbox(), 0)

    def test_invalid_text_and_huge_headers_are_refused_before_anything_is_written(self):
        for option in ("--key", "--content-type", "--topic"):
            self.refused(*PUBLISH, option, b"caf\xe9", code=5, name="rejected", says=["UTF-8"])
        self.refused(*PUBLISH, "--key", "k" * 1025, code=5, name="rejected", says=["1024"])
        self.refused(*PUBLISH, "--header", b"name=caf\xe9", code=5, name="rejected", says=["UTF-8"])
        self.refused(*PUBLISH, "--header", "big=" + "x" * (17 << 10), code=5, name="rejected", says=["header"])
        self.assertEqual(self.outbox(), 0)

    def test_any_bytes_are_a_payload(self):
        payload = bytes(range(256))
        event = json.loads(self.run_dovetail(*PUBLISH[:-2], "-", "--content-type", "application/octet-stream", "--json",
                                             stdin=payload).out)["id"]
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.rows("inventory.db", "SELECT payload FROM dovetail_mailbox"), [(payload,)], event)

    def test_an_event_that_is_too_large_for_the_sink_alone_is_parked_and_holds_up_nobody(self):
        insert = ("INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload, topic) VALUES "
                  "('order', '1', 'placed', convert_to(repeat('x', 2000000), 'UTF8'), 'orders.events')")
        with self.assertRaises(subprocess.CalledProcessError) as refused:
            self.sql(insert)
        self.assertIn("the limit is 1024000", refused.exception.stderr)
        self.sql("UPDATE dovetail.outbox_limit SET payload_bytes_max = NULL")
        self.sql(insert)
        self.publish(key="2")
        self.assertEqual(self.ask("run", "--until-idle", code=1)["parked"], 1)
        self.assertEqual(self.mailbox(), 1)
        self.assertIn("payload", self.ask("parked", "list")["parked"][0]["reason"])

    def test_a_database_that_cannot_hold_a_text_says_so(self):
        latin = self.database + "_latin"
        psql(f"CREATE DATABASE {latin} ENCODING LATIN1 LOCALE 'C' TEMPLATE template0")
        self.addCleanup(psql, f"DROP DATABASE {latin} WITH (FORCE)")
        self.configure(f"{SERVER} dbname={latin}")
        self.init()
        self.refused(*PUBLISH, "--key", "€", code=5, name="rejected", says=["LATIN1", "encoding UTF8"])
        self.assertIn("encoding", [one["code"] for store in self.ask("doctor")["stores"] for one in store["findings"]])


class Rights(BadInput):
    def setUp(self):
        super().setUp()
        self.dovetail("init", "--roles")
        self.publish()

    def test_a_user_without_any_role_is_told_which_does_what(self):
        self.login("nobody")
        self.each_refused(5, "rejected", "store orders", "dovetail_app to publish", "dovetail_relay to run",
                          "dovetail_operator to inspect", "owner of the schema")
        self.assertEqual(self.outbox(), 1)

    def test_the_wrong_role_is_told_the_right_one(self):
        self.login("app", "dovetail_app")
        self.each_refused(5, "rejected", "dovetail_relay to run", commands=[c for c in COMMANDS if c is not PUBLISH])
        self.login("operator", "dovetail_operator")
        self.refused(*PUBLISH, code=5, name="rejected", says=["dovetail_app to publish"])
        self.refused("prune", "--delivered", "1s", code=5, name="rejected", says=["owner of the schema"])
        said = self.dovetail("run", "--until-idle", code=5)
        self.assertIn("dovetail_relay to run", said.err.splitlines()[-1])
        self.refused("init", "--roles", code=5, name="rejected", says=["CREATEROLE"])
        self.assertEqual(self.outbox(), 1)

    def test_a_right_that_was_taken_away_stops_the_relay_and_loses_nothing(self):
        self.login("relay", "dovetail_relay")
        self.sql("REVOKE UPDATE ON dovetail.relay_lane FROM dovetail_relay")
        self.assertIn("relay_lane (42501)", self.dovetail("run", "--until-idle", code=5).err.splitlines()[-1])
        self.assertIn("missing-right", json.dumps(self.ask("doctor", code=1)))
        self.sql("GRANT UPDATE ON dovetail.relay_lane TO dovetail_relay")
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.mailbox(), 1)

    def test_who_may_not_create_the_tables_is_told_what_is_needed(self):
        psql(f"CREATE DATABASE {self.database}_empty")
        self.addCleanup(psql, f"DROP DATABASE {self.database}_empty")
        self.login("stranger")
        self.configure(f"{self.conninfo} user={self.database}_stranger dbname={self.database}_empty")
        self.refused("init", code=5, name="rejected", says=["creating dovetail's tables", "granted CREATE"])


class Schemas(BadInput):
    def test_a_missing_schema_says_how_to_make_it(self):
        self.assertIn("dovetail init", self.dovetail("doctor").out)
        self.write("other.toml", '[store.inventory]\nurl = "sqlite:inventory.db"\n')
        self.dovetail("-c", "other.toml", "init")
        self.each_refused(5, "rejected", "store orders", "dovetail init", commands=COMMANDS[1:])

    def test_a_schema_of_somebody_else_is_left_alone(self):
        self.sql("CREATE SCHEMA dovetail; CREATE TABLE dovetail.theirs AS SELECT 1 AS x")
        self.refused("init", code=5, name="rejected", says=["already exists", "another object in this database has that name"])
        self.assertEqual(self.sql("SELECT x FROM dovetail.theirs"), "1")

    def test_a_schema_without_a_version_is_not_guessed_at(self):
        self.init()
        self.sql("UPDATE dovetail.schema_version SET version = 0")
        self.each_refused(6, "corrupt", "holds no version", commands=(("init",), ("run", "--until-idle")))

    def test_a_newer_schema_that_is_for_this_program_too_is_used(self):
        self.init()
        self.sql("UPDATE dovetail.schema_version SET version = 99, compatible_from = 1")
        self.publish()
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.mailbox(), 1)
        self.assertFalse(self.stores("init")["orders"]["created"])
        self.assertEqual(self.stores("status")["orders"]["schema"], 99)

    def test_a_newer_schema_is_left_alone(self):
        self.init()
        self.publish()
        self.sql("UPDATE dovetail.schema_version SET version = 99, compatible_from = 98")
        self.each_refused(6, "corrupt", "99", "upgrade dovetail", commands=[c for c in COMMANDS if c is not PUBLISH])
        self.refused("run", code=6, name="corrupt", says=["99"])
        self.dovetail("status", code=6)
        self.assertEqual((self.outbox(), self.sql("SELECT version FROM dovetail.schema_version")), (1, "99"))


class Servers(BadInput):
    def test_a_standby_is_refused_and_a_daemon_waits_until_it_is_none(self):
        """A server of its own, because it is changed: first as a primary, then as a standby, then promoted."""
        cluster = SERVERS["other"]
        home, self.process, server = cluster.start(None, "standby")
        self.addCleanup(shutil.rmtree, home)
        self.addCleanup(self.stop_server)
        common.wait_until_ready(cluster, server, self.process, home)
        self.configure(server)
        self.init()
        self.dovetail("run", "--until-idle")
        self.publish()
        self.stop_server()
        (home / "data" / "standby.signal").touch()
        self.process = cluster.again(home)
        common.wait_until_ready(cluster, server, self.process, home)
        self.refused("run", "--until-idle", code=4, name="unavailable", says=["standby", "primary"])
        self.refused(*PUBLISH, code=4, name="unavailable", says=["primary"])
        self.assertTrue(self.stores("status")["orders"]["standby"])
        self.assertIn("standby", [one["code"] for one in self.ask("doctor", code=1)["stores"][1]["findings"]])
        self.start("run")
        self.wait_for("it says why it waits", lambda: "standby" in self.log())
        self.assertEqual(self.mailbox(), 0)
        psql("SELECT pg_promote(false)", server)
        self.wait_for("it goes on with what is there", lambda: self.mailbox() == 1)

    def stop_server(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def test_a_server_older_than_13_is_refused(self):
        server = OldServer()
        server.start()
        self.addCleanup(server.listener.close)
        self.configure(f"host=127.0.0.1 port={server.port} user=shop dbname=shop")
        self.each_refused(5, "rejected", "PostgreSQL 12.9", "upgrade it to 13")
        self.assertIn("12.9", json.dumps(self.ask("doctor", code=1)))


class OldServer(threading.Thread):
    """Plays a server of another version: lets everybody in, and answers no statement."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rwb") as stream:
                self.serve(stream)

    @staticmethod
    def serve(stream):
        while True:
            length, code = struct.unpack("!ii", stream.read(8))
            stream.read(length - 8)
            if code == 196608:
                break
            stream.write(b"N")  # neither TLS nor GSS
            stream.flush()
        stream.write(b"R" + struct.pack("!ii", 8, 0))
        for name, value in ((b"server_version", b"12.9"), (b"client_encoding", b"UTF8")):
            stream.write(b"S" + struct.pack("!i", len(name) + len(value) + 6) + name + b"\0" + value + b"\0")
        stream.write(b"Z" + struct.pack("!ic", 5, b"I"))
        stream.flush()
        stream.read(1)


if __name__ == "__main__":
    if not SERVER:
        print("SKIPPED: " + (first_line("postgres.missing") or f"no server in {STATE}; run it through ctest"), file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=1)
