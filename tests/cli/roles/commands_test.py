"""The table of docs/CLI.md that says which command needs which role: each row is run by a login with each role."""

import re
import subprocess
import uuid

import gateway_test
import harness
import postgres_test
from postgres_test import PostgresCase, psql

ROLES = ("nobody", "app", "worker", "relay", "operator")
# These tell of every store, and name the one that does not answer them.
REPORTS = ("status", "trace", "explain", "doctor")
UNKNOWN = "01890000-0000-7000-8000-0000000000ff"
CONSUMER = """
[[consumer]]
name = "booking"
from = "orders"
to = "orders"

[[consumer.handler]]
kind = "sql"
function = "shop.book"
"""
FUNCTION = """
CREATE SCHEMA shop;
GRANT USAGE ON SCHEMA shop TO PUBLIC;
CREATE FUNCTION shop.book(event dovetail.event) RETURNS void LANGUAGE sql AS 'SELECT'
"""


def rows():
    """The table: what is run, and which roles it names."""
    page = (harness.ROOT / "docs" / "CLI.md").read_text(encoding="utf-8")
    table = page.split("| command | needs a role that was granted |\n|---|---|\n")[1].split("\n\n")[0]
    cells = [line.strip("| ").split(" | ", 1) for line in table.splitlines()]
    return {command: set(re.findall(r"`dovetail_(\w+)`", needs)) for command, needs in cells}


def named(cell):
    return re.findall(r"`([^`]+)`", cell)


class RolesCase(PostgresCase):
    """Everything that commands can be about is there, and a login for each role."""

    def setUp(self):
        super().setUp()
        self.owner = f"{self.database}_owner"
        psql(f"CREATE ROLE {self.owner} LOGIN CREATEROLE; ALTER DATABASE {self.database} OWNER TO {self.owner}")
        self.addCleanup(psql, f"DROP ROLE {self.owner}")
        self.addCleanup(postgres_test.drop_database, self.database)
        for role in ROLES:
            psql(f"CREATE ROLE {self.login(role)} LOGIN")
            self.addCleanup(psql, f"DROP ROLE {self.login(role)}")
        self.become(self.owner)
        self.dovetail("init", "--roles")
        for role in ROLES[1:]:
            psql(f"GRANT dovetail_{role} TO {self.login(role)}")
        self.sql(FUNCTION)
        self.sql(f"SELECT dovetail.grant_worker('{self.login('worker')}', 'booking')")

    def login(self, role):
        return f"{self.database}_{role}"

    def become(self, user, lines="lanes = 1"):
        text = postgres_test.CONFIG % f"{self.conninfo} user={user}"
        self.write("dovetail.toml", text.replace("lanes = 2", lines).replace("[log]", CONSUMER + "\n[log]"))

    def attempt(self, roles, what, *command, codes=(0,), before=None, lines="lanes = 1", among=ROLES):
        """Only these roles may; the others are told that they may not, and nothing is written down."""
        for role in among:
            with self.subTest(what, role=role):
                if before:
                    before()
                self.become(self.login(role), lines)
                decided = self.sql("SELECT count(*) FROM dovetail.audit")
                done = self.run_dovetail(*command, "--json")
                if role in roles:
                    self.assertIn(done.code, codes, done)
                    self.assertNotIn("permission denied", done.out.decode())
                    continue
                self.assertIn("permission denied" if command[0] in REPORTS else '"rejected"', done.out.decode())
                self.assertRegex(done.out.decode(), "dovetail_|owns|owner|REPLICATION")
                if command[0] not in REPORTS:
                    self.assertEqual((done.code, done.json()["error"]["code"]), (5, "rejected"), done)
                self.assertEqual(self.sql("SELECT count(*) FROM dovetail.audit"), decided)


class Table(RolesCase):
    def setUp(self):
        super().setUp()
        self.event = self.sql("SELECT dovetail.publish('orders', '1', 'OrderPlaced', '{}', topic => 'orders.events')")
        self.parked = self.sql("SELECT dovetail.publish('orders', '2', 'OrderPlaced', '{}', topic => 'nowhere')")
        self.become(self.owner)
        self.dovetail("run", "--until-idle", code=1)

    def delay(self):
        self.delayed = str(uuid.uuid4())
        self.sql(f"SELECT dovetail.publish('orders', '1', 'T', '{{}}', id => '{self.delayed}', deliver_at => now() + interval '1 h')")

    def request(self):
        self.sql("DELETE FROM dovetail.request; SELECT dovetail.begin_request('shop', 'k', 'print');"
                 "UPDATE dovetail.request SET status = 201")

    def forgotten(self):
        self.sql("UPDATE dovetail.consumer SET forgotten_until = now(); UPDATE dovetail.inbox_state SET forgotten_before = now(),"
                 "exact_before = now()")

    def spare(self):
        self.sql("DELETE FROM dovetail.relay_lane WHERE relay IN ('spare', 'other');"
                 "INSERT INTO dovetail.relay_lane (relay, lane, lanes) VALUES ('spare', 0, 1)")

    def elsewhere(self):
        self.sql("UPDATE dovetail.relay_lane SET target = 'sqlite elsewhere.db', owner = '' WHERE relay = 'orders-to-inventory'")

    def resumed(self):
        self.sql("UPDATE dovetail.relay_lane SET hold = '' WHERE relay = 'orders-to-inventory'")

    def paused(self):
        self.sql("UPDATE dovetail.relay_lane SET hold = 'paused' WHERE relay = 'orders-to-inventory'")

    def applied(self):
        self.sql("INSERT INTO dovetail.inbox (event_id, consumer_id) SELECT '%s', id FROM dovetail.consumer WHERE name = 'booking' "
                 "ON CONFLICT DO NOTHING" % self.event)

    def commands(self):
        """What each command of the table is called with, the exit codes of success, and what must be there before."""
        why = ("--reason", "a test")
        relay = ("orders-to-inventory", *why)
        return {
            "publish": (("publish", "--store", "orders", "--aggregate-type", "orders", "--key", "1", "--type", "T", "--topic",
                         "orders.events", "--payload", "{}"), (0,), None),
            "run": (("run", "--until-idle"), (0, 1), None),
            "status": (("status",), (0,), None),
            "events": (("events", "--store", "orders"), (0,), None),
            "events show": (("events", "show", self.event), (0,), None),
            "trace": (("trace", self.event), (0,), None),
            "explain": (("explain", self.event), (0,), None),
            "parked list": (("parked", "list", "--store", "orders"), (0,), None),
            "reconcile": (("reconcile", "--outbox", "orders", "--inbox", "orders"), (0, 1), None),
            "slots": (("slots",), (0,), None),
            "requests": (("requests", "--store", "orders"), (0,), self.request),
            "requests forget": (("requests", "forget", "k", "--scope", "shop", "--store", "orders", *why), (0,), self.request),
            "inbox forget": (("inbox", "forget", "booking", self.event, *why), (0,), self.applied),
            "inbox apply": (("inbox", "apply", "booking", UNKNOWN, *why), (0,), None),
            "inbox remember": (("inbox", "remember", "--store", "orders", "--since", "2020-01-01T00:00:00Z", *why), (0,), self.forgotten),
            "parked replay": (("parked", "replay", self.parked), (0,), None),
            "parked discard": (("parked", "discard", self.parked, *why), (0,), None),
            "events cancel": (("events", "cancel", "{delayed}", "--store", "orders", *why), (0,), self.delay),
            "relay pause": (("relay", "pause", *relay), (0,), self.resumed),
            "relay drain": (("relay", "drain", *relay), (0,), self.resumed),
            "relay resume": (("relay", "resume", *relay), (0,), self.paused),
            "relay seek": (("relay", "seek", *relay, "--to", "now"), (0,), self.paused),
            "relay rename": (("relay", "rename", "spare", "other", "--store", "orders", *why), (0,), self.spare),
            "relay forget": (("relay", "forget", "spare", "--store", "orders", *why), (0,), self.spare),
            "relay retarget": (("relay", "retarget", *relay), (0,), self.elsewhere),
            "doctor": (("doctor", "--store", "orders"), (0, 1), None),
        }

    def test_each_command_needs_what_the_table_says_and_no_other_role_may(self):
        commands = self.commands()
        elsewhere = {"`init`, `prune`", "services that call `dovetail.claim`, `dovetail.receive`, `dovetail.complete`",
                     "`run` that reads the WAL", "`run` with a console", "`slots --drop`", "`gateway`"}
        known = rows()
        self.assertLess(elsewhere, set(known), "rows with a test of their own")
        for cell, roles in known.items():
            if cell in elsewhere:
                continue
            for name in named(cell):
                command, codes, before = commands.pop(name)
                with self.subTest(name):
                    self.each(roles, name, command, codes, before)
        self.assertEqual(commands, {}, "not in the table")

    def each(self, roles, name, command, codes, before):
        if name != "events cancel":
            return self.attempt(roles, name, *command, codes=codes, before=before)
        self.delay()
        self.attempt(roles, name, *(part.format(delayed=self.delayed) for part in command), codes=codes)

    def test_only_the_owner_makes_the_tables_and_prunes(self):
        self.assertEqual(rows()["`init`, `prune`"], set())
        for command in (("init",), ("init", "--roles"), ("prune", "--delivered", "1d")):
            self.become(self.owner)
            self.dovetail(*command)
            if command != ("init",):  # which finds nothing to do
                self.attempt((), " ".join(command), *command)

    def test_services_take_events_with_a_role_and_a_grant(self):
        self.assertEqual(rows()["services that call `dovetail.claim`, `dovetail.receive`, `dovetail.complete`"], {"worker"})
        calls = ("SELECT dovetail.receive('booking')", f"SELECT dovetail.claim('booking', '{UNKNOWN}')",
                 "SELECT dovetail.complete('booking', gen_random_uuid(), 1)")
        for role in ROLES:
            for call in calls:
                with self.subTest(role=role, call=call):
                    # Nobody holds the event that is completed, and only a worker gets to know that.
                    said = self.service(role, call)
                    self.assertEqual("permission denied" in said or "dovetail_worker" in said, role != "worker", said)
        self.sql(f"SELECT dovetail.revoke_worker('{self.login('worker')}', 'booking')")
        self.assertIn("grant_worker", self.service("worker", calls[0]))

    def service(self, role, call):
        return subprocess.run(["psql", "-XAtq", "-c", call, f"{self.conninfo} user={self.login(role)}"], check=False,
                              capture_output=True, text=True).stderr


class Wal(RolesCase):
    WAL = 'lanes = 1\nmode = "wal"'

    def publish(self):
        """A relay with nothing to read makes no slot."""
        self.sql("SELECT dovetail.publish('orders', '1', 'OrderPlaced', '{}', topic => 'orders.events')")

    def replication(self, on):
        for role in ROLES:
            psql(f"ALTER ROLE {self.login(role)} {'REPLICATION' if on else 'NOREPLICATION'}")

    def slot(self):
        return next(one["name"] for one in self.ask("slots")["slots"] if one["database"] == self.database)

    def test_the_wal_is_read_and_a_slot_dropped_by_a_login_that_may_replicate(self):
        known = rows()
        self.publish()
        self.become(self.login("relay"), self.WAL)
        self.assertIn("REPLICATION", self.dovetail("run", "--until-idle", "orders-to-inventory", code=5).err)
        self.replication(True)
        self.attempt(known["`run` that reads the WAL"], "run that reads the WAL", "run", "--until-idle", "orders-to-inventory",
                     lines=self.WAL)
        self.become(self.owner, self.WAL)
        drop = ("slots", "--drop", self.slot(), "--force")
        self.replication(False)
        self.attempt((), "slots --drop, without REPLICATION", *drop, lines=self.WAL)
        self.replication(True)
        allowed = known["`slots --drop`"]
        self.attempt((), "slots --drop", *drop, lines=self.WAL, among=[role for role in ROLES if role not in allowed])
        for role in sorted(allowed):
            self.publish()
            self.become(self.login("relay"), self.WAL)
            self.dovetail("run", "--until-idle", "orders-to-inventory")
            self.become(self.login(role), self.WAL)
            self.dovetail("slots", "--drop", self.slot(), "--force")
            self.assertEqual(self.sql("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"), "0")


class Gateway(gateway_test.Postgres, gateway_test.GatewayCase):
    def test_a_gateway_needs_the_role_of_the_table(self):
        self.dovetail("init", "--roles")
        roles = rows()["`gateway`"]
        text = (self.folder / "dovetail.toml").read_text()
        for number, role in enumerate(ROLES):
            with self.subTest(role=role):
                self.end(self.gateway)
                user = f"{self.database}_{role}"
                psql(f"CREATE ROLE {user} LOGIN" + (f"; GRANT dovetail_{role} TO {user}" if role != "nobody" else ""))
                self.addCleanup(psql, f"DROP ROLE {user}")
                self.write("dovetail.toml", text.replace(self.store_url(), f"{self.store_url()} user={user}"))
                if role not in roles:
                    self.refused("gateway", code=5, name="rejected", says=["dovetail_worker"])
                    continue
                self.start_gateway()
                before = len(self.executed())
                answers = [self.send(key=f"k{number}").status for _ in range(2)]
                self.assertEqual((answers, len(self.executed()) - before), ([201, 201], 1))


if __name__ == "__main__":
    harness.main()
