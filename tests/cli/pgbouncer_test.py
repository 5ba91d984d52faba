"""The binary with a store that it reaches through PgBouncer in transaction mode: everything works as without."""

import json
import sys
import unittest

import harness
import postgres_test

POOLER = postgres_test.first_line("pgbouncer.conninfo")
POOL_SIZE = 4  # as servers.py sets it


class Pooled(postgres_test.PostgresCase):
    """The config leads through the pooler; self.sql() goes to the server, to see what became of it."""

    def setUp(self):
        super().setUp()
        self.configure(f"{POOLER} dbname={self.database}")

    def configure(self, conninfo, more=""):
        super().configure(conninfo, more)
        path = self.folder / "dovetail.toml"
        path.write_text(path.read_text().replace("lanes = 2", "lanes = 6"))

    def sessions(self):
        return int(self.sql("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                            "AND pid <> pg_backend_pid()"))

    def owners(self):
        """The processes that hold lanes now."""
        owners = self.sql("SELECT DISTINCT split_part(owner, '#', 1) FROM dovetail.relay_lane WHERE owner <> ''")
        return set(owners.splitlines())


class WholeFlow(Pooled):
    def test_every_command_does_its_work(self):
        self.assertTrue(self.stores("init", "--roles")["orders"]["created"])
        self.assertFalse(self.stores("init")["orders"]["created"])
        bad = self.publish_id("--topic", "orders.events", payload="1" * 100)
        behind = self.publish_id("--topic", "orders.events")
        unwanted = self.publish_id("--topic", "orders.events", key="18", payload="2" * 100)
        others = [self.publish_id("--topic", "orders.events", key=f"other-{n}") for n in range(10)]
        self.publish("--id", others[0], "--topic", "orders.events", key="other-0")
        config = (self.folder / "dovetail.toml").read_text()
        self.write("dovetail.toml", config.replace("topics = [", 'payload_max = "50B"\ntopics = ['))
        self.assertEqual(self.ask("run", "--until-idle", code=1)["parked"], 2)
        self.assertEqual(self.mailbox(), 10)
        reader = self.reader()
        self.assertEqual((reader["pending"], reader["parked"], reader["waiting"]), (0, 2, 1))
        self.assertEqual({row["id"] for row in self.ask("parked", "list")["parked"]}, {bad, behind, unwanted})
        self.dovetail("parked", "discard", unwanted, "--reason", "test data")
        self.write("dovetail.toml", config)
        self.assertEqual(self.ask("parked", "replay", bad)["replayed"], 1)
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.mailbox(), 12)
        for event in (bad, behind):
            shown = self.ask("events", "show", event)["places"]
            self.assertEqual({(one["box"], one["state"]) for one in shown},
                             {("outbox", "delivered"), ("mailbox", "unread")})
        self.dovetail("prune", "--delivered", "1d")
        self.start("run")
        self.wait_for("all lanes are served", lambda: all(lane["owner"] for lane in self.reader()["lanes"]))
        self.assertTrue(self.ask("doctor")["ok"])
        self.assertEqual(self.sql("SELECT string_agg(what, ',' ORDER BY number) FROM dovetail.audit"), "discard,replay")


class Daemons(Pooled):
    def test_relays_share_the_lanes_over_fewer_sessions_than_they_have_connections(self):
        self.init()
        first = self.start("run")
        second = self.start("run")
        self.wait_for("each has a part of the lanes", lambda: len(self.owners()) == 2)
        self.sql("SELECT dovetail.publish('orders', (n % 50)::text, 'OrderPlaced', n::text) "
                 "FROM generate_series(1, 2000) AS n")
        self.wait_for("all events are there", lambda: self.mailbox() == 2000)
        # Six lanes and two heartbeats are eight connections.
        self.assertLessEqual(self.sessions(), POOL_SIZE)
        first.kill()
        first.wait()
        self.sql("SELECT dovetail.publish('orders', (n % 50)::text, 'OrderPlaced', n::text) "
                 "FROM generate_series(2001, 3000) AS n")
        self.wait_for("the other has taken over", lambda: self.mailbox() == 3000)
        second.terminate()
        self.assertEqual(second.wait(harness.PATIENCE_S), 0, self.log())
        stored = self.rows("inventory.db", "SELECT aggregate_id, payload FROM dovetail_mailbox ORDER BY seq")
        for key in range(50):
            numbers = [json.loads(payload) for one, payload in stored if one == str(key)]
            self.assertEqual(numbers, sorted(numbers), f"key {key}")
        self.assertEqual(self.owners(), set())


if __name__ == "__main__":
    missing = [name for name in ("postgres", "pgbouncer") if not postgres_test.first_line(name + ".conninfo")]
    if missing:
        print("SKIPPED: " + (postgres_test.first_line(missing[0] + ".missing") or f"{missing[0]} was not started; run it "
                             "through ctest"), file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=1)
