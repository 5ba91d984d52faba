"""Consumers of the config file, killed at any moment under load, with every kind of handler; and handlers that hurt.

Part of `./dev chaos inbox`; without DOVETAIL_CHAOS=1 it is short, and no server is crashed.
"""

import collections
import http.server
import os
import random
import signal
import subprocess
import sys
import threading
import time

import consumer_test
import harness
import postgres_test
from postgres_test import psql

CHAOS = os.environ.get("DOVETAIL_CHAOS") == "1"
SERVERS = harness.ROOT / "tests/servers/servers.py"
KEYS = 10

CONSUMER = """
[[consumer]]
name = "%s"
from = "shop"
to = "shop"
lease = "1s"
batch_events = 20
parallel = %d
retry_base = "5ms"
retry_cap = "100ms"
reconnect_cap = "200ms"
claim = "4s"
attempts_max = 1000
[[consumer.handler]]
%s
"""

PROGRAM = """#!/bin/sh
read -r body
echo "$DOVETAIL_EVENT_KEY $DOVETAIL_EVENT_ID" >> %s/ran
"""

FUNCTIONS = """
CREATE TABLE shop.chaos (consumer text, id uuid, key text, n bigserial);
CREATE FUNCTION shop.one(event dovetail.event) RETURNS void LANGUAGE sql AS $$
  INSERT INTO shop.chaos (consumer, id, key) VALUES ('one', (event).id, (event).aggregate_id) $$;
CREATE FUNCTION shop.many(events dovetail.event[]) RETURNS void LANGUAGE sql AS $$
  INSERT INTO shop.chaos (consumer, id, key) SELECT 'many', e.id, e.aggregate_id FROM unnest(events) e $$;
"""

# A worker of the queue: its effect commits with the completion.
WORK = """DO $$ DECLARE one record; BEGIN
  FOR one IN SELECT * FROM dovetail.receive('queue', 20, '5 seconds') LOOP
    INSERT INTO shop.chaos (consumer, id, key) VALUES ('queue', one.id, one.aggregate_id);
    PERFORM dovetail.complete('queue', one.id, one.epoch);
  END LOOP; END $$"""


class Killed(consumer_test.ConsumerCase):
    def set_the_stage(self):
        self.requests = requests = []

        class Endpoint(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                requests.append((self.headers["x-key"], self.headers["idempotency-key"].strip('"')))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *arguments):
                pass

            def handle(self):
                try:
                    super().handle()
                except ConnectionError:
                    pass  # its client was killed

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.write("run.sh", PROGRAM % self.folder).chmod(0o755)
        (self.folder / "ran").touch()
        self.sql(FUNCTIONS)
        handlers = {"one": (2, 'kind = "sql"\nfunction = "shop.one"'),
                    "many": (1, 'kind = "sql"\nbatch = true\nfunction = "shop.many"'),
                    "queue": (2, 'kind = "queue"'),
                    "program": (1, 'kind = "command"\ncommand = ["./run.sh"]\ntimeout = "2s"'),
                    "request": (2, 'kind = "http"\nstore = "hook"')}
        self.write("dovetail.toml", f'[store.shop]\nurl = "postgres:{self.conninfo}"\n'
                   f'[store.hook]\nurl = "http://127.0.0.1:{server.server_port}/in"\n'
                   'headers = { x-key = "{aggregate_id}" }\nsettings = { allow_private = true, request_timeout = "1s" }\n'
                   + "".join(CONSUMER % (name, parallel, handler) for name, (parallel, handler) in handlers.items())
                   + '[log]\nformat = "json"\n')
        # They get the events from their first start on.
        self.handle()

    def done(self):
        """What each consumer did, in its order: (key, id)."""
        found = collections.defaultdict(list)
        for line in self.sql("SELECT consumer || ' ' || key || ' ' || id FROM shop.chaos ORDER BY n").splitlines():
            consumer, key, event = line.split()
            found[consumer].append((key, event))
        found["program"] = [tuple(line.split()) for line in (self.folder / "ran").read_text().splitlines()]
        found["request"] = list(self.requests)
        return found

    def judge(self, consumer, done):
        """(lost, doubled, out of order), by first deliveries."""
        published = [tuple(line.split()) for line in self.sql(
            "SELECT aggregate_id || ' ' || id FROM dovetail.outbox ORDER BY seq").splitlines()]
        firsts = list(dict.fromkeys(done[consumer]))
        order = {one: n for n, one in enumerate(published)}
        last = {}
        inverted = 0
        for one in firsts:
            inverted += order[one] < last.get(one[0], -1)
            last[one[0]] = max(last.get(one[0], -1), order[one])
        return len(set(published) - set(firsts)), len(done[consumer]) - len(firsts), inverted

    def test_consumers_that_are_killed_at_any_moment_lose_double_and_reorder_nothing(self):
        self.set_the_stage()
        kills = 40 if CHAOS else 2
        chance = random.Random(5)
        over = threading.Event()

        def keep_on(statement, pause):
            while not over.is_set():
                self.sql(statement)
                time.sleep(pause)
        threads = [threading.Thread(target=keep_on, args=one) for one in (
            (f"SELECT dovetail.publish('orders', (n % {KEYS})::text, 'placed', '{{}}'::jsonb) "
             "FROM generate_series(1, 30) n", 1 if CHAOS else 0.1), (WORK, 0.02))]
        for one in threads:
            one.start()
        try:
            for _ in range(kills):
                before = {name: len(done) for name, done in self.done().items()}
                daemon = self.start("run")
                # The others wait for the claim of a killed one, which gives them time enough.
                self.wait_for("all of them work", lambda: all(
                    len(done) > before.get(name, 0) for name, done in self.done().items()) and len(self.done()) == 5)
                time.sleep(chance.uniform(0, 0.3))
                daemon.kill()
                daemon.wait()
        finally:
            over.set()
            for one in threads:
                one.join()
        # A program per event of the backlog is slow on a busy machine.
        self.assertEqual(self.start("run", "--until-idle").wait(20 * harness.PATIENCE_S), 0)
        while self.sql("SELECT count(*) FROM dovetail.queue") != "0":
            self.sql(WORK)
        done = self.done()
        count = int(self.sql("SELECT count(*) FROM dovetail.outbox"))
        for name in ("one", "many", "queue", "program", "request"):
            lost, doubled, inverted = self.judge(name, done)
            # Outside the database, effects that were running at a kill happen again.
            most = kills * 64 if name in ("program", "request") else 0
            holds = lost == 0 and inverted == 0 and doubled <= most
            print(f"claim {'ok    ' if holds else 'BROKEN'} {name}: killed {kills} times, {count} events, lost {lost}, "
                  f"twice {doubled} (at most {most}), out of order {inverted}")
            self.assertTrue(holds, name)
        self.assertEqual(self.ask("parked", "list")["parked"], [])


class StandsStill(consumer_test.ConsumerCase):
    def test_programs_are_not_repeated_because_their_consumer_lost_its_lease(self):
        self.write("run.sh", PROGRAM % self.folder + "sleep 0.3\n").chmod(0o755)
        self.configure('[[consumer.handler]]\nkind = "command"\ncommand = ["./run.sh"]\n', lease="1s")
        self.place(60 if CHAOS else 8, keys=50)
        daemon = self.start("run", "--until-idle")
        self.wait_for("it works", lambda: (self.folder / "ran").exists())
        while daemon.poll() is None and self.log().count("session_lost") < (30 if CHAOS else 1):
            daemon.send_signal(signal.SIGSTOP)
            time.sleep(0.9)  # together with the time until its renewal, more than the lease
            daemon.send_signal(signal.SIGCONT)
            time.sleep(0.25)
        self.assertEqual(daemon.wait(harness.PATIENCE_S), 0)
        ran = collections.Counter((self.folder / "ran").read_text().splitlines())
        lost = self.log().count("session_lost")
        print(f"claim ok     a lease of 1 s lost {lost} times: {len(ran)} programs, at most {max(ran.values())} times each")
        self.assertGreater(lost, 0, "else nothing was shown")
        self.assertEqual(set(ran.values()), {1})


class Bomb(consumer_test.ConsumerCase):
    """A handler that crashes the database server, on a server for this test."""

    template = None

    def setUp(self):
        if not CHAOS:
            self.skipTest("it takes a while; with DOVETAIL_CHAOS=1")
        harness.Case.setUp(self)
        (self.folder / "servers").mkdir()
        self.addCleanup(self.server, "stop")
        self.conninfo = self.server("start")
        self.configure(lease="1s")
        self.init()
        psql(consumer_test.FUNCTIONS, self.conninfo)

    def server(self, command):
        return subprocess.run([sys.executable, str(SERVERS), "--state", str(self.folder / "servers"), command, "postgres"],
                              check=True, capture_output=True, text=True).stdout.strip()

    def test_an_event_that_crashes_the_server_at_every_try_is_parked_and_its_neighbours_are_handled(self):
        self.sql("ALTER FUNCTION shop.book RENAME TO really_book; "
                 "CREATE FUNCTION shop.book(event dovetail.event) RETURNS void LANGUAGE plpgsql AS $$ BEGIN "
                 "IF (dovetail.json(event)->>'n')::int = 5 THEN "
                 "EXECUTE format('COPY (SELECT 1) TO PROGRAM %L', 'kill -9 ' || pg_backend_pid()); PERFORM pg_sleep(60); "
                 "END IF; PERFORM shop.really_book(event); END $$")
        self.place(40, keys=4)  # 5, 9, 13 ... have the key 1
        daemon = self.start("run")

        def quietly(statement):
            try:
                return self.sql(statement)
            except (AssertionError, subprocess.CalledProcessError):
                return ""  # the server is starting
        for _ in range(5):  # it recovers from a dozen crashes meanwhile
            if quietly("SELECT count(*) FROM dovetail.parked WHERE state = 'parked'") != "1":
                time.sleep(30)
        self.wait_for("it is parked", lambda: quietly(
            "SELECT count(*) FROM dovetail.parked WHERE state = 'parked'") == "1")
        self.wait_for("its neighbours are handled", lambda: quietly("SELECT count(*) FROM shop.booked") == "31")
        daemon.terminate()
        daemon.wait(harness.PATIENCE_S)
        self.assertEqual(self.booked("n"), [n for n in range(1, 41) if n % 4 != 1 or n < 5])
        [row] = [row for row in self.ask("parked", "list")["parked"] if row["state"] == "parked"]
        self.assertEqual(row["attempts"], 5)
        print(f"claim ok     a handler that crashes the server is parked after {row['attempts']} counted attempts: "
              f"{row['reason'][:60]}")


if __name__ == "__main__":
    harness.main()
