"""The binary that reads the log of a real PostgreSQL server, as the config file says."""

import json
import signal
import sys
import unittest

import harness
import postgres_test
from postgres_test import psql

POOLER = postgres_test.first_line("pgbouncer.conninfo")


class LogCase(postgres_test.PostgresCase):
    """A database with the schema, and a login that may run relays and perhaps replicate."""

    def setUp(self):
        super().setUp()
        self.settings()
        self.dovetail("init", "--roles")

    def settings(self, lines="", conninfo=None, store=""):
        super().configure(conninfo or self.conninfo, store)
        path = self.folder / "dovetail.toml"
        # What is looked at between two commands must not change because a busy machine lost a short lease.
        path.write_text(path.read_text().replace("lanes = 2", lines).replace('lease = "2s"', 'lease = "10s"'))

    def login(self, options):
        name = f"{self.database}_login"
        psql(f"CREATE ROLE {name} LOGIN {options}")
        psql(f"GRANT dovetail_relay TO {name}")
        self.addCleanup(psql, f"DROP ROLE {name}")
        return f"{self.conninfo} user={name}"

    def reads(self):
        return (self.reader() or {}).get("reads", {})

    def until_it_reads(self, where, why=""):
        self.wait_for(f"it reads the {where}",
                      lambda: self.reads().get("from") == where and why in self.reads()["why"])

    def until_mailbox_has(self, count):
        self.wait_for(f"{count} events are there", lambda: self.mailbox() == count)

    def mailbox(self):
        return self.rows("inventory.db", "SELECT count(DISTINCT id) FROM dovetail_mailbox")[0][0]

    def slots(self):
        return [slot for slot in self.ask("slots")["slots"] if slot["database"] == self.database]

    def stop(self, daemon):
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(timeout=harness.PATIENCE_S), 0, self.log())


class Automatic(LogCase):
    def test_a_login_that_may_replicate_streams_and_leaves_nothing_behind(self):
        self.settings(conninfo=self.login("REPLICATION"))
        daemon = self.start("run")
        self.until_it_reads("wal")
        self.sql("SELECT dovetail.publish('orders', '1', 'T', '{}')")
        self.until_mailbox_has(1)
        (slot,) = self.slots()
        self.assertEqual((slot["relay"], slot["mode"], slot["active"]), ("orders-to-inventory", "auto", True))
        self.assertEqual(self.reads()["slot"], slot["name"])
        self.assertIn("has read the WAL for", self.dovetail("status").out)
        self.assertIn('"source_changed"', self.log())
        self.refused("slots", "--drop", slot["name"], "--force", code=5, name="rejected", says=["is temporary"])
        self.assertEqual([one for one in self.findings() if one["code"].startswith("log-")], [])
        self.stop(daemon)
        self.wait_for("the slot has ended", lambda: not self.slots())

    def findings(self):
        (store,) = [one for one in self.ask("doctor")["stores"] if one["name"] == "orders"]
        return store["findings"]

    def test_a_login_that_may_not_replicate_reads_the_table_and_says_why(self):
        self.settings(conninfo=self.login(""))
        daemon = self.start("run")
        self.until_it_reads("table", "REPLICATION")
        self.sql("SELECT dovetail.publish('orders', '1', 'T', '{}')")
        self.until_mailbox_has(1)
        self.assertIn("REPLICATION", self.dovetail("status").out)
        found = {one["code"]: one for one in self.findings()}
        self.assertEqual(found["log-unreadable"]["severity"], "note")
        self.stop(daemon)

    def test_several_lanes_read_the_table(self):
        self.settings("lanes = 2")
        daemon = self.start("run")
        self.wait_for("it is said", lambda: "reads the table" in self.log())
        self.stop(daemon)

    @unittest.skipUnless(POOLER, "there is no pooler")
    def test_replication_goes_past_a_pooler(self):
        pooled = f"{POOLER} dbname={self.database}"
        self.settings(conninfo=pooled)
        daemon = self.start("run")
        self.until_it_reads("table", "pooler")
        self.stop(daemon)
        self.settings(conninfo=pooled, store=f'replication_url = "postgres:{self.conninfo}"\n')
        daemon = self.start("run")
        self.until_it_reads("wal")
        self.stop(daemon)


class Slots(LogCase):
    def test_one_that_stays_is_kept_shown_and_dropped_with_care(self):
        self.settings('mode = "wal"')
        daemon = self.start("run")
        self.until_it_reads("wal")
        (slot,) = self.slots()
        self.assertEqual((slot["relay"], slot["mode"], slot["temporary"]), ("orders-to-inventory", "wal", False))
        name = slot["name"]
        self.refused("slots", "--drop", name, "--force", code=4, name="unavailable", says=["in use"])
        self.stop(daemon)
        self.wait_for("nobody uses it", lambda: [slot["active"] for slot in self.slots()] == [False])
        self.refused("slots", "--drop", name, code=5, name="rejected", says=["--force", "table"])
        self.assertEqual(self.ask("slots", "--drop", name, "--force")["dropped"], name)
        self.assertEqual(self.slots(), [])
        self.assertEqual(self.sql("SELECT subject FROM dovetail.audit WHERE what = 'drop slot'"), name)
        self.refused("slots", "--drop", name, code=5, name="rejected", says=["dovetail slots"])
        # It heals: what was published meanwhile comes from the table, and the slot is made again.
        self.sql("SELECT dovetail.publish('orders', '1', 'T', '{}')")
        daemon = self.start("run")
        self.until_mailbox_has(1)
        self.until_it_reads("wal")
        self.assertEqual([slot["name"] for slot in self.slots()], [name])
        self.stop(daemon)


class Refused(LogCase):
    def test_a_missing_right_halts_a_relay_that_must_read_the_log_until_it_is_granted(self):
        self.settings('mode = "wal"', conninfo=self.login(""))
        daemon = self.start("run")
        self.wait_for("it is halted", lambda: "REPLICATION" in self.log())
        psql(f"ALTER ROLE {self.database}_login REPLICATION")
        self.until_it_reads("wal")
        self.stop(daemon)

    def test_what_cannot_be_is_refused_with_its_place(self):
        for lines, says in (('mode = "wal"\nlanes = 2', "lanes = 1"), ("emitted = true", "dovetail.publish()"),
                            ('mode = "log"', "poll"), ('slot = "x"', "table")):
            self.settings(lines)
            self.refused("status", code=3, name="config", says=["dovetail.toml:", says])

    def test_a_secret_in_the_way_past_a_pooler_is_refused_and_not_shown(self):
        self.settings(store='replication_url = "postgres://relay:s3cret@db/shop"\n')
        said = self.refused("status", code=3, name="config", says=["replication_url", "password_env"])
        self.assertNotIn("s3cret", said.err)


if __name__ == "__main__":
    postgres_test.require_server()
    unittest.main(verbosity=1)
