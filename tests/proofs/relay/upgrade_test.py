"""An older binary before this one: it made a database with events that are applied, parked and pending, and works on it. This
one migrates the database under load. From then on the older one is refused, and nothing is lost. Part of
`./dev chaos upgrade`, which builds the older one and names it in DOVETAIL_OLD."""

import collections
import os
import random
import subprocess
import sys
import threading
import time
import unittest

import consumer_test
import harness
import postgres_test
import receiver
from postgres_test import psql

OLD = os.environ.get("DOVETAIL_OLD", "")
KEYS = 20
TURNS = 12
REFUSED = "upgrade dovetail"  # the error of the older binary
HEALED_S = 90  # everything must arrive within this time after the last kill

CONFIG = """
[store.shop]
url = "postgres:%s"
[store.hook]
url = "http://127.0.0.1:%d/in"
[store.hook.settings]
allow_private = true
[[relay]]
name = "out"
from = "shop"
to = "hook"
lanes = 4
lease = "2s"
retry_base = "5ms"
[[consumer]]
name = "booking"
from = "shop"
to = "shop"
parallel = 2
lease = "2s"
retry_base = "5ms"
retry_cap = "20ms"
attempts_max = 3
""" + consumer_test.SQL_HANDLER + """
[log]
format = "json"
"""


class Case(harness.Case):
    def old(self, *arguments, code=0):
        done = subprocess.run([OLD, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=harness.PATIENCE_S * 2)
        if code is not None:
            self.assertEqual(done.returncode, code, f"{arguments}: {done}")
        return done

    def start_of(self, binary, log):
        with open(self.folder / log, "ab") as out:
            process = subprocess.Popen([binary, "run"], cwd=self.folder, stdout=out, stderr=out)
        self.addCleanup(self.end, process)
        return process

    def log_of(self, name):
        return (self.folder / name).read_text() if (self.folder / name).exists() else ""

    def logs(self):
        return "\n".join(f"{name}: " + self.log_of(name)[-3000:] for name in ("old.log", "new.log"))


class Postgres(Case):
    def setUp(self):
        super().setUp()
        name = f"upgrade_{os.getpid()}"
        psql(f"CREATE DATABASE {name}")
        self.addCleanup(postgres_test.drop_database, name)
        self.conninfo = f"{postgres_test.SERVER} dbname={name}"
        self.healed = threading.Event()
        self.poison = set()
        port, self.took = receiver.serve(self, lambda event: 400 if event in self.poison and not self.healed.is_set() else 200)
        self.write("dovetail.toml", CONFIG % (self.conninfo, port))

    def sql(self, statement):
        return psql(statement, self.conninfo)

    def place(self, first, count):
        self.sql(f"SELECT dovetail.publish('orders', (n % {KEYS})::text, 'order.placed', jsonb_build_object('n', n)) "
                 f"FROM generate_series({first}, {first + count - 1}) n")

    def place_poison(self):
        """One event that the receiver refuses and one that the handler refuses, each with another event behind it."""
        for key, n in (("refused", 1), ("refused", 2), ("beast", 666), ("beast", 3)):
            event = self.sql(f"SELECT dovetail.publish('orders', '{key}', 'order.placed', jsonb_build_object('n', {n}))")
            if (key, n) == ("refused", 1):
                self.poison.add(event)

    def booked(self):
        return self.sql("SELECT id FROM shop.booked ORDER BY at").split()

    def committed(self):
        return [tuple(line.split()) for line in self.sql(
            "SELECT id || ' ' || aggregate_id FROM dovetail.outbox ORDER BY seq").splitlines()]

    def parked(self):
        return int(self.sql("SELECT count(*) FROM dovetail.parked WHERE finished_at IS NULL"))

    def misses(self, but=()):
        wanted = {event for event, key in self.committed() if key not in but}
        return len(wanted - set(self.took)), len(wanted - set(self.booked()))

    def judge(self):
        committed = self.committed()
        order = {event: (key, n) for n, (event, key) in enumerate(committed)}
        inverted = 0
        for came in (self.took, self.booked()):
            last = {}
            for event in dict.fromkeys(came):
                key, n = order[event]
                inverted += n < last.get(key, -1)
                last[key] = max(n, last.get(key, -1))
        booked = collections.Counter(self.booked())
        return len(committed), sum(self.misses()), sum(count - 1 for count in booked.values()), inverted

    def test_the_tables_are_migrated_under_load_and_the_old_one_is_refused(self):
        self.old("init")
        self.sql(consumer_test.FUNCTIONS)
        before = self.sql("SELECT version FROM dovetail.schema_version")
        old = self.start_of(OLD, "old.log")
        self.wait_for("the old one has started", lambda: self.sql("SELECT count(*) FROM dovetail.reader WHERE owner <> ''") == "6")
        self.place(1, 200)
        self.wait_for("the old one works", lambda: self.misses() == (0, 0))
        self.place_poison()
        # An event is at fault when it fails while others pass, so others have to come.
        self.wait_for("the old one parks", lambda: self.place(10_000, 5) or self.parked() == 4)
        over = threading.Event()

        def publish():
            n = 20_000
            while not over.is_set():
                self.place(n, 10)
                n += 10
                time.sleep(0.05)
        publisher = threading.Thread(target=publish)
        publisher.start()
        chance, kills = random.Random(3), collections.Counter()
        try:
            self.init()
            # The running one is refused at its next statement, and its error says what to do.
            self.wait_for("the old one is refused", lambda: REFUSED in self.log_of("old.log"))
            running = {"old": old, "new": self.start_of(harness.DOVETAIL, "new.log")}
            for turn in range(TURNS):
                count = len(self.took)
                self.wait_for("the new one works", lambda: len(self.took) > count + 50)
                name = ("old", "new")[turn % 2]
                if running[name].poll() is None:
                    time.sleep(chance.uniform(0, 0.3))
                    running[name].kill()
                    running[name].wait()
                    kills[name] += 1
                if name == "old":
                    (self.folder / "old.log").unlink()
                running[name] = self.start_of(OLD if name == "old" else harness.DOVETAIL, f"{name}.log")
                if name == "old":
                    self.wait_for("the old one is refused again", lambda: REFUSED in self.log_of("old.log"))
        finally:
            over.set()
            publisher.join()
        since = time.monotonic()
        self.wait_for("everything came but what is parked", lambda: self.misses(("refused", "beast")) == (0, 0))
        healed_in = time.monotonic() - since
        owners = self.sql("SELECT DISTINCT split_part(split_part(owner, '#', 1), ':', 2) FROM dovetail.relay_lane WHERE owner <> ''")
        self.assertEqual(owners, str(running["new"].pid), "the old one holds no lane")
        refused = self.old("status", code=6)
        self.assertIn(REFUSED, refused.stdout + refused.stderr)
        self.old("prune", "--sent", "1d", code=6)
        self.healed.set()
        self.sql("CREATE OR REPLACE FUNCTION shop.book(event dovetail.event) RETURNS void LANGUAGE sql AS $$ INSERT INTO "
                 "shop.booked VALUES ((event).id, (event).aggregate_id, (dovetail.json(event)->>'n')::int, '') $$")
        running["old"].kill()
        running["old"].wait()
        self.dovetail("parked", "replay", "--all", "--yes")
        self.wait_for("what was parked by the old one came", lambda: self.misses() == (0, 0))
        running["new"].terminate()
        self.assertEqual(running["new"].wait(harness.PATIENCE_S), 0, self.logs())
        count, lost, twice, inverted = self.judge()
        after = self.sql("SELECT version FROM dovetail.schema_version")
        holds = lost == 0 and twice == 0 and inverted == 0 and healed_in <= HEALED_S
        print(f"claim {'ok    ' if holds else 'FAILED'} PostgreSQL, version {before} to {after} under load, the old one refused at "
              f"each of {1 + TURNS // 2} tries, {kills['old']} kills of it and {kills['new']} of the new: {count} events, {lost} lost, "
              f"{twice} applied twice, {inverted} out of order")
        self.assertTrue(holds, self.logs())


class Files(Case):
    def test_files_are_migrated_and_the_old_one_is_refused(self):
        self.old("init")
        publish = ("publish", "--store", "orders", "--aggregate-type", "orders", "--type", "OrderPlaced", "--payload", "1")
        for n in range(20):
            self.old(*publish, "--key", str(n % 3))
        self.write("loose.toml", harness.CONFIG.replace('topics = ["orders.events"]', ""))
        self.old("-c", "loose.toml", *publish, "--key", "refused", "--topic", "nowhere")
        self.old("run", "--until-idle", code=1)
        for n in range(20):
            self.old(*publish, "--key", str(n % 3))
        old = self.start_of(OLD, "old.log")
        time.sleep(0.5)
        self.init()
        refused = self.old("status", code=6)
        self.publish()
        daemon = self.start_of(harness.DOVETAIL, "new.log")
        came = lambda: [one[0] for one in self.rows("inventory.db", "SELECT hex(id) FROM dovetail_mailbox")]
        self.wait_for("everything came but what is parked", lambda: len(came()) == 41)
        if old.poll() is None:
            old.terminate()
            old.wait(harness.PATIENCE_S)
        self.dovetail("-c", "loose.toml", "parked", "replay", "--all", "--yes")
        daemon.terminate()
        self.assertEqual(daemon.wait(harness.PATIENCE_S), 0, self.logs())
        self.dovetail("-c", "loose.toml", "run", "--until-idle")
        self.assertEqual((len(came()), len(set(came()))), (42, 42))
        said = refused.stdout + refused.stderr
        self.assertIn(REFUSED, said)
        print(f"claim ok     SQLite: 42 events, 0 lost, 0 twice; the old one is refused: {said.splitlines()[0]}")


if __name__ == "__main__":
    if not OLD:
        print("DOVETAIL_OLD names no older binary; run ./dev chaos upgrade")
        sys.exit(77)
    postgres_test.require_server()
    unittest.main(verbosity=1)
