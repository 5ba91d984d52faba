"""One process with several relays on PostgreSQL of which one fails: the others go on, `status` says which one and why, the
one that failed goes on when its cause is gone, and the process ends cleanly."""

import json
import re
import signal
import unittest

import harness
import postgres_test
from postgres_test import psql

RELAY = """
[store.%(name)s]
url = "%(url)s"
[[relay]]
name = "%(name)s"
from = "%(source)s"
to = "%(name)s"
lease = "2s"
reconnect_cap = "200ms"
%(more)s
"""

CONFIG = """
[store.shop]
url = "postgres:%s"
[store.limited]
url = "postgres:%s"
"""

TABLE = """
[relay.table]
preset = "sent_at"
name = "shop_outbox"
type = "type"
"""

CREATE = """
CREATE TABLE shop_outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT NULL,
  aggregate_id text NOT NULL, type text NOT NULL, payload jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(),
  sent_at timestamptz);
GRANT SELECT, UPDATE ON shop_outbox TO PUBLIC;
"""


class SeveralRelays(postgres_test.PostgresCase):
    GOOD = ("one", "two")

    def setUp(self):
        super().setUp()
        self.dovetail("init", "--roles")
        self.login = f"{self.database}_login"
        psql(f"CREATE ROLE {self.login} LOGIN; GRANT dovetail_relay TO {self.login}")
        self.addCleanup(psql, f"DROP ROLE {self.login}")
        self.addCleanup(self.sql, f"DROP OWNED BY {self.login}")
        self.sql(CREATE)

    def with_bad(self, url="sqlite:bad.db", source="shop", more=""):
        relays = [{"name": name, "url": f"sqlite:{name}.db", "source": "shop", "more": 'mode = "%s"' % mode}
                  for name, mode in zip(self.GOOD, ("poll", "auto"))]
        relays.append({"name": "bad", "url": url, "source": source, "more": more})
        self.write("dovetail.toml", CONFIG % (self.conninfo, f"{self.conninfo} user={self.login}") +
                   "".join(RELAY % one for one in relays) + '[log]\nformat = "json"\n')
        self.init()

    def sell(self, count):
        self.sql(f"SELECT dovetail.publish('orders', n::text, 'placed', jsonb_build_object('n', n)) "
                 f"FROM generate_series(1, {count}) n")

    def sell_in_table(self):
        self.sql("INSERT INTO shop_outbox (aggregate_type, aggregate_id, type, payload) VALUES ('orders', '1', 'placed', '{}')")

    def came(self, name):
        return self.rows(f"{name}.db", "SELECT count(DISTINCT id) FROM dovetail_mailbox")[0][0]

    def until_came(self, count, *names):
        self.wait_for(f"{count} events came at {names}", lambda: [self.came(name) for name in names] == [count] * len(names))

    def row(self, name):
        stores = json.loads(self.run_dovetail("status", "--json").out)["stores"]  # its exit code says that one is bad
        return ([reader for store in stores for reader in store["relays"]
                 if store["name"] == "shop" and reader["name"] == name] or [{}])[0]

    def until_it_is_said(self, states, says):
        """What `status` shows: the bad one is bad, and the others deliver."""
        row = self.wait_for("it is said", lambda: (lambda row: row.get("state") in states and
                                                   re.search(says, row.get("last_error", "")) and row)(self.row("bad")))
        self.assertRegex(self.run_dovetail("status").out.decode(), rf"(?s)\n! .*?\bbad\b.*?({says})")
        for name in self.GOOD:
            self.wait_for(f"{name} delivers", lambda: (lambda row: (row["state"], row["last_error"]) == ("delivering", ""))(
                self.row(name)))
        return row

    def ends_well(self, daemon):
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(harness.PATIENCE_S), 0, self.log())
        for name in (*self.GOOD, "bad"):
            self.assertEqual(self.row(name).get("owner", ""), "", "every lease is given back")

    def test_a_target_whose_tables_are_missing_holds_up_nobody_else(self):
        self.with_bad()
        bad = self.folder / "bad.db"
        for path in self.folder.glob("bad.db*"):
            path.unlink()
        self.write("bad.db", "")
        daemon = self.start("run")
        self.sell(5)
        self.until_came(5, *self.GOOD)
        self.until_it_is_said(("backing_off", "halted"), "dovetail init")
        bad.unlink()
        self.init()
        self.until_came(5, "bad")
        self.sell(5)
        self.until_came(10, "bad", *self.GOOD)
        self.ends_well(daemon)

    def test_a_table_that_goes_away_holds_up_nobody_else(self):
        self.with_bad(more=TABLE)
        daemon = self.start("run")
        self.sell(5)
        self.sell_in_table()
        self.until_came(5, *self.GOOD)
        self.until_came(1, "bad")
        self.sql("ALTER TABLE shop_outbox RENAME TO put_away")
        self.sell(5)
        self.until_came(10, *self.GOOD)
        self.until_it_is_said(("halted", "backing_off"), "shop_outbox")
        self.sell(5)
        self.until_came(15, *self.GOOD)
        self.sql("ALTER TABLE put_away RENAME TO shop_outbox")
        self.sell_in_table()
        self.until_came(2, "bad")
        self.wait_for("it delivers again", lambda: self.row("bad").get("state") == "delivering")
        self.ends_well(daemon)

    def test_a_right_that_is_lost_holds_up_nobody_else(self):
        self.with_bad(source="limited")
        daemon = self.start("run")
        self.sell(5)
        self.until_came(5, "bad", *self.GOOD)
        psql(f"REVOKE dovetail_relay FROM {self.login}")
        self.sell(5)
        self.until_came(10, *self.GOOD)
        self.wait_for("it is said", lambda: "permission denied" in self.log() or "dovetail_relay" in self.log())
        # It cannot record the reason; status shows anyway that its lease has ended and events wait.
        self.wait_for("status says so", lambda: re.search(r"(?s)\n! No process runs the relay bad.*\n    \d+ events? waits?\.",
                                                          self.run_dovetail("status").out.decode()))
        for name in self.GOOD:
            self.wait_for(f"{name} delivers", lambda: (lambda row: (row["state"], row["last_error"]) == ("delivering", ""))(
                self.row(name)))
        self.assertEqual(self.came("bad"), 5)
        psql(f"GRANT dovetail_relay TO {self.login}")
        self.until_came(10, "bad")
        self.ends_well(daemon)

    def test_the_end_is_clean_while_one_of_them_fails(self):
        self.with_bad(more=TABLE)
        self.sql("DROP TABLE shop_outbox")
        daemon = self.start("run")
        self.sell(5)
        self.until_came(5, *self.GOOD)
        self.wait_for("it is said", lambda: "shop_outbox" in self.log())
        self.ends_well(daemon)


if __name__ == "__main__":
    postgres_test.require_server()
    unittest.main(verbosity=1)
