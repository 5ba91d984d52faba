"""Consumers of the config file on real servers: where events come from, what handles them, and what goes wrong."""

import http.server
import json
import os
import pathlib
import signal
import subprocess
import threading
import time
import unittest

import brokers_test
import harness
import kafka_topics
import postgres_test
from postgres_test import psql

SQL_HANDLER = """
[[consumer.handler]]
kind = "sql"
function = "shop.book"
"""

# Books what it is told to, and refuses the number of the beast.
FUNCTIONS = """
CREATE SCHEMA shop;
CREATE TABLE shop.booked (id uuid, key text, n int, topic text, at bigserial);
CREATE FUNCTION shop.book(event dovetail.event) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF (dovetail.json(event)->>'n')::int = 666 THEN RAISE EXCEPTION 'not this one'; END IF;
  INSERT INTO shop.booked VALUES (event.id, event.aggregate_id, (dovetail.json(event)->>'n')::int, event.topic);
END $$;
CREATE FUNCTION shop.book_many(events dovetail.event[]) RETURNS void LANGUAGE sql AS $$
  INSERT INTO shop.booked SELECT e.id, e.aggregate_id, (dovetail.json(e)->>'n')::int, 'many' FROM unnest(events) e
$$;
"""


CONFIG = """
[store.shop]
url = "postgres:%s"
%s
[[consumer]]
name = "booking"
from = "%s"
to = "%s"
lease = "%s"
retry_base = "5ms"
retry_cap = "20ms"
reconnect_cap = "200ms"
%s
%s
[log]
format = "json"
"""


@unittest.skipUnless(postgres_test.SERVER, "the server of the tests is missing; run it through ctest")
class ConsumerCase(harness.Case):
    """A database that has an outbox, the functions above, and the inbox."""

    template = None  # one for all tests: its copies are made faster than it

    def setUp(self):
        super().setUp()
        self.database = self.make_database(self.make_template())
        self.conninfo = f"{postgres_test.SERVER} dbname={self.database}"

    def make_database(self, template="template1"):
        name = f"consumer_{os.getpid()}_{next(postgres_test.COUNT)}"
        psql(f"CREATE DATABASE {name} TEMPLATE {template}")
        self.addCleanup(postgres_test.drop_database, name)
        return name

    def make_template(self):
        if ConsumerCase.template is None:
            name = f"consumer_{os.getpid()}_template"
            psql(f"CREATE DATABASE {name}")
            unittest.addModuleCleanup(psql, f"DROP DATABASE {name} WITH (FORCE)")
            self.conninfo = f"{postgres_test.SERVER} dbname={name}"
            self.configure(SQL_HANDLER)
            self.init()
            psql(FUNCTIONS, self.conninfo)
            ConsumerCase.template = name
        return ConsumerCase.template

    def configure(self, *parts, stores="", source="shop", to="shop", more="", lease="10s"):
        """`parts`: what follows the consumer's own keys, its handlers."""
        self.write("dovetail.toml", CONFIG % (
            self.conninfo, stores, source, to, lease, more, "".join(parts or (SQL_HANDLER,))))

    def sql(self, statement):
        return psql(statement, self.conninfo)

    def place(self, count, keys=5, first=1, kind="order.placed"):
        self.sql(f"""SELECT dovetail.publish('orders', (n % {keys})::text, '{kind}', jsonb_build_object('n', n))
                     FROM generate_series({first}, {first + count - 1}) n""")

    def mend(self):
        """The function accepts everything from now on."""
        self.sql("CREATE OR REPLACE FUNCTION shop.book(event dovetail.event) RETURNS void LANGUAGE sql AS $$ INSERT INTO "
                 "shop.booked VALUES ((event).id, (event).aggregate_id, (dovetail.json(event)->>'n')::int, '') $$")

    def expect_order(self, numbers, keys):
        """Everything is booked once, and along each key in its order."""
        self.assertEqual(self.booked("n"), list(numbers))
        for key in range(keys):
            self.assertEqual(self.booked("at", f"key = '{key}'"), [n for n in numbers if n % keys == key])

    def booked(self, order="at", where="true"):
        text = self.sql(f"SELECT coalesce(string_agg(n::text, ' ' ORDER BY {order}), '') FROM shop.booked WHERE {where}")
        return [int(one) for one in text.split()]

    def handle(self, *names, code=0):
        return self.dovetail("run", *names, "--until-idle", "--idle-after", "1s", code=code)

    def lines(self):
        return [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]


class Sql(ConsumerCase):
    def test_each_event_is_handled_once_in_the_order_of_its_key(self):
        self.configure()
        self.place(12)
        said = self.handle()
        self.assertIn("handled 12", said.out)
        self.expect_order(range(1, 13), 5)
        self.assertEqual(self.sql("SELECT DISTINCT topic FROM shop.booked"), "orders.events")
        self.assertIn("handled 0", self.handle().out)
        # As after a restore of the source: everything comes again, and nothing is booked again.
        self.sql("DELETE FROM dovetail.relay_lane")
        document = self.ask("run", "--until-idle")
        self.assertEqual(document["relays"], [])
        [consumer] = document["consumers"]
        self.assertEqual((consumer["name"], consumer["delivered"], consumer["duplicates_suppressed"]), ("booking", 12, 12))
        self.assertEqual(len(self.booked()), 12)

    def test_the_start_says_where_from_where_to_and_which_handlers(self):
        self.configure()
        said = self.handle().err
        [line] = [json.loads(one) for one in said.splitlines() if '"consumer"' in one]
        for part in ("the outbox of shop", f"dbname={self.database}", "the inbox is in shop",
                     "once, in its transaction: function shop.book(dovetail.event)"):
            self.assertIn(part, json.dumps(line))
        self.assertNotIn("at least once", said)

    def test_a_batch_function_gets_many_at_once(self):
        self.configure(SQL_HANDLER.replace("shop.book", "shop.book_many") + "batch = true\n")
        self.place(30)
        self.handle()
        self.assertEqual(self.booked("n"), list(range(1, 31)))
        self.assertEqual(self.sql("SELECT count(DISTINCT xmin::text) FROM shop.booked") < "5", True)

    def test_several_handlers_get_what_they_asked_for(self):
        self.configure(SQL_HANDLER + 'name = "ledger"\ntypes = ["order.*"]\n',
                     '[[consumer.handler]]\nname = "pull"\nkind = "queue"\ntypes = ["order.cancelled"]\n')
        self.place(3)
        self.place(2, first=4, kind="order.cancelled")
        self.place(2, first=6, kind="visit")
        self.handle()
        self.assertEqual(self.booked("n"), [1, 2, 3, 4, 5])
        self.assertEqual(self.sql("SELECT count(*) FROM dovetail.receive('booking.pull', 10)"), "2")
        self.assertEqual(self.sql("SELECT count(*) FROM dovetail.receive('booking.ledger', 10)"), "0")

    def test_a_handler_that_is_added_later_sees_what_comes_from_then_on(self):
        first = SQL_HANDLER + 'name = "ledger"\n'
        self.configure(first)
        self.place(2)
        self.handle()
        self.configure(first, '[[consumer.handler]]\nname = "pull"\nkind = "queue"\n')
        self.place(1, first=3)
        self.handle()
        self.assertEqual(self.booked("n"), [1, 2, 3])
        self.assertEqual(self.sql("SELECT count(*) FROM dovetail.receive('booking.pull', 10)"), "1")

    def test_only_the_topics_that_were_asked_for(self):
        self.configure(more='topics = ["special", "orders.events"]')
        self.place(2)
        self.sql("SELECT dovetail.publish('orders', '1', 'order.placed', '{\"n\": 8}'::jsonb, topic => 'special')")
        self.sql("SELECT dovetail.publish('orders', '1', 'order.placed', '{\"n\": 9}'::jsonb, topic => 'other')")
        self.handle()
        self.assertEqual(self.booked("n"), [1, 2, 8])

    def test_what_fails_is_parked_with_what_stands_behind_it_and_replayed(self):
        self.configure(more="attempts_max = 5")
        self.place(12, keys=4, first=660)  # 666 and 670 have the key 2
        said = self.handle(code=1)
        self.assertIn("1 parked", said.out)
        self.assertEqual(self.booked("n"), [n for n in range(660, 672) if n not in (666, 670)])
        parked = self.ask("parked", "list")["parked"]
        self.assertEqual([(row["store"], row["relay"], row["key"], row["state"]) for row in parked],
                         [("shop", "booking", "2", "parked"), ("shop", "booking", "2", "waiting")])
        self.assertIn("not this one", parked[0]["reason"])
        self.assertEqual(parked[0]["attempts"], 5)
        self.assertNotIn('"n":', said.err, "no payload in the log")
        self.mend()
        self.dovetail("parked", "replay", parked[0]["id"])
        self.handle()
        self.assertEqual(self.booked("n"), list(range(660, 672)))
        self.assertEqual(self.booked()[-2:], [666, 670])

    def test_an_event_that_ends_the_connection_at_every_try_is_parked_and_its_neighbours_are_handled(self):
        self.configure()
        self.sql("ALTER FUNCTION shop.book RENAME TO really_book; CREATE SEQUENCE shop.tries;"
                 "CREATE FUNCTION shop.book(event dovetail.event) RETURNS void LANGUAGE plpgsql AS $$ BEGIN "
                 "IF (dovetail.json(event)->>'n')::int = 5 THEN PERFORM nextval('shop.tries'), "
                 "pg_terminate_backend(pg_backend_pid()); END IF; PERFORM shop.really_book(event); END $$")
        self.place(12, keys=4)  # 5 and 9 have the key 1
        self.handle(code=1)
        self.assertEqual(self.booked("n"), [n for n in range(1, 13) if n not in (5, 9)])
        parked = self.ask("parked", "list")["parked"]
        self.assertEqual([(row["key"], row["state"]) for row in parked], [("1", "parked"), ("1", "waiting")])
        self.assertEqual(parked[0]["attempts"], 5)
        self.assertIn("broke every time", parked[0]["reason"])
        # The first try alone may have been an outage, and before each one it was in a batch.
        self.assertIn(int(self.sql("SELECT last_value FROM shop.tries")), range(6, 13))
        self.sql("DROP FUNCTION shop.book; ALTER FUNCTION shop.really_book RENAME TO book")
        self.dovetail("parked", "replay", parked[0]["id"])
        self.handle()
        self.assertEqual(self.booked()[-2:], [5, 9])
        self.assertEqual(self.sql("SELECT count(*) FROM dovetail.attempt"), "0")

    def test_connections_that_an_administrator_ends_cost_no_event_an_attempt(self):
        self.configure(more="attempts_max = 1\nparallel = 2")
        daemon = self.start("run")
        for first in range(1, 200, 20):
            self.place(20, first=first)
            self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                     "WHERE datname = current_database() AND pid <> pg_backend_pid()")
        self.wait_for("all are booked", lambda: len(self.booked()) == 200)
        daemon.terminate()
        self.assertEqual(daemon.wait(harness.PATIENCE_S), 0)
        self.expect_order(range(1, 201), 5)
        self.assertEqual(self.ask("parked", "list")["parked"], [])

    def test_an_operator_has_an_event_applied_once_more(self):
        self.configure()
        self.place(6, keys=2)
        self.handle()
        event = self.sql("SELECT id FROM shop.booked WHERE n = 3")
        again = ("inbox", "forget", "booking", event, "--reason", "the shelf was counted wrongly")
        self.assertEqual(self.ask(*again), {"forgotten": 1, "comes_again": True})
        self.refused(*again, code=5, name="rejected", says=("parked replay",))
        self.handle()
        self.assertEqual(self.booked(), [*self.booked()[:6], 3])
        self.handle()
        self.assertEqual(len(self.booked()), 7, "once more, and not for ever")
        self.assertEqual(self.sql("SELECT what || ': ' || reason FROM dovetail.audit ORDER BY number"),
                         "forget: the shelf was counted wrongly\ndeliver again: the shelf was counted wrongly")
        self.refused("inbox", "forget", "booking", "0190aaaa-0000-7000-8000-000000000000", "--reason", "x", code=5,
                     name="rejected", says=("has not applied", "events show"))
        self.refused("inbox", "forget", "bookign", event, "--reason", "x", code=5, name="rejected", says=("bookign",))

    def test_an_event_that_is_too_old_is_applied_when_an_operator_has_checked(self):
        self.configure()
        self.place(4, keys=2)
        self.sql("INSERT INTO dovetail.consumer (name, forgotten_until) VALUES ('booking', now() + interval '26 hours')")
        self.handle(code=1)
        self.assertEqual(self.booked(), [])
        parked = self.ask("parked", "list")["parked"]
        [head] = [row for row in parked if row["key"] == "1" and row["head"]]
        self.assertIn("dovetail inbox apply", head["reason"])
        said = self.ask("inbox", "apply", "booking", head["id"], "--reason", "no booking of it is there")
        self.assertEqual(said, {"allowed": 1, "replayed": True})
        self.handle(code=1)
        self.assertEqual(self.booked(), [1])
        self.assertEqual(self.sql("SELECT reason FROM dovetail.audit WHERE what = 'apply'"), "no booking of it is there")
        self.refused("inbox", "apply", "booking", head["id"], "--reason", "again", code=5, name="rejected",
                     says=("has applied", "inbox forget"))
        # And what a wrong clock has done to all of them is undone at once.
        since = self.sql("SELECT to_char(now() - interval '1 hour', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')")
        self.dovetail("inbox", "remember", "--since", since, "--reason", "the clock was wrong")
        self.dovetail("parked", "replay", "--all", "--yes")
        self.handle()
        self.expect_order(range(1, 5), 2)

    def test_an_event_that_is_still_to_come_does_not_overtake_those_before_it(self):
        self.configure()
        self.place(40, keys=1)
        last = self.sql("SELECT id FROM dovetail.outbox ORDER BY seq DESC LIMIT 1")
        self.sql("INSERT INTO dovetail.relay_lane (relay, lane, lanes) VALUES ('booking', 0, 1)")
        self.refused("inbox", "forget", "booking", last, "--reason", "too early", code=5, name="rejected",
                     says=("has not been delivered yet", "dovetail status"))
        self.handle()
        self.expect_order(range(1, 41), 1)

    def test_a_claim_that_cannot_see_what_was_dropped_since_is_refused(self):
        self.sql("SELECT dovetail.claim('own', '01900000-0000-7000-8000-000000000001')")
        for level in ("REPEATABLE READ", "SERIALIZABLE"):
            with self.subTest(level=level):
                worker = subprocess.Popen(["psql", "-XAtq", self.conninfo], stdin=subprocess.PIPE, text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                worker.stdin.write(f"BEGIN ISOLATION LEVEL {level}; SELECT 'began';\n")
                worker.stdin.flush()
                self.assertEqual(worker.stdout.readline().strip(), "began")
                # As the janitor does it.
                self.sql("BEGIN; UPDATE dovetail.inbox_state SET forgotten_before = now(); DELETE FROM dovetail.inbox; COMMIT")
                out, err = worker.communicate(
                    "SELECT dovetail.claim('own', '01900000-0000-7000-8000-000000000001'); COMMIT;\n",
                    timeout=harness.PATIENCE_S)
                self.assertNotIn("first", out)
                self.assertIn("could not serialize", err)
        # With nothing dropped in between, it is as in any other transaction.
        self.assertEqual(self.sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT dovetail.claim('own', dovetail.uuid7()); "
                                  "COMMIT"), "first")

    def test_a_table_that_exists_already_is_read(self):
        self.configure(more='[consumer.table]\npreset = "sent_at"\nname = "outbox_events"\n')
        self.sql("CREATE TABLE outbox_events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), event_type text, "
                       "payload jsonb, sent_at timestamptz)")
        self.sql("INSERT INTO outbox_events (event_type, payload) SELECT 'placed', jsonb_build_object('n', n) "
                       "FROM generate_series(1, 4) n")
        self.handle()
        self.assertEqual(self.booked("n"), [1, 2, 3, 4])
        self.assertEqual(self.sql("SELECT count(*) FROM outbox_events WHERE sent_at IS NULL"), "0")

    def test_a_role_needs_no_more_than_it_is_given(self):
        self.configure()
        self.dovetail("init", "--roles")
        user = f"{self.database}_consumer"
        psql(f"CREATE ROLE {user} LOGIN; GRANT dovetail_relay TO {user}")
        self.addCleanup(psql, f"DROP ROLE {user}")
        self.addCleanup(self.sql, f"DROP OWNED BY {user}")
        self.write("dovetail.toml", (self.folder / "dovetail.toml").read_text().replace(
            self.conninfo, f"{self.conninfo} user={user}"))
        self.place(3)
        self.refused("run", "--until-idle", code=3, name="config", says=("consumer.handler", "GRANT USAGE", user))
        self.sql(f"GRANT USAGE ON SCHEMA shop TO {user}; GRANT INSERT ON shop.booked TO {user};"
                      f"GRANT USAGE ON SEQUENCE shop.booked_at_seq TO {user}")
        self.handle()
        self.assertEqual(self.booked("n"), [1, 2, 3])


class Daemon(ConsumerCase):
    def test_a_daemon_handles_what_comes_and_drains_when_it_is_asked_to_stop(self):
        self.configure(more="parallel = 2")
        daemon = self.start("run", "--json")
        self.place(40)
        self.wait_for("all are booked", lambda: len(self.booked()) == 40)
        self.place(500, first=1001, keys=50)
        self.wait_for("some are booked", lambda: len(self.booked()) > 40)
        daemon.send_signal(signal.SIGTERM)
        out, _ = daemon.communicate(timeout=harness.PATIENCE_S)
        self.assertEqual(daemon.returncode, 0, self.log())
        [consumer] = json.loads(out)["consumers"]
        self.assertEqual(consumer["delivered"], len(self.booked()))
        self.assertEqual(self.sql("SELECT bool_and(clean)::text FROM dovetail.consumer_session"), "true")
        self.handle()
        self.assertEqual(self.booked("n"), [*range(1, 41), *range(1001, 1501)])

    def test_one_that_is_killed_is_replaced_and_nothing_is_lost_or_doubled(self):
        self.configure(more="parallel = 2\nbatch_events = 20", lease="2s")
        self.place(1500, keys=40, first=1000)
        for _ in range(3):
            before = len(self.booked())
            daemon = self.start("run")
            self.wait_for("it works", lambda: len(self.booked()) > before or len(self.booked()) == 1500)
            daemon.kill()
            daemon.wait()
        self.handle()
        self.assertEqual(self.booked("n"), list(range(1000, 2500)))

    def test_two_of_them_share_the_work(self):
        self.configure(more="parallel = 2", lease="3s")
        daemons = [self.start("run"), self.start("run")]
        owners = lambda: {lane["owner"].split("#")[0] for reader in self.readers() for lane in reader["lanes"]}
        self.wait_for("each has a lane", lambda: len(owners() - {""}) == 2)
        self.place(30)
        self.wait_for("all are booked", lambda: len(self.booked()) == 30)
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            self.assertEqual(daemon.wait(harness.PATIENCE_S), 0)
        self.assertEqual(self.booked("n"), list(range(1, 31)))

    def readers(self):
        return [one for store in self.ask("status")["stores"] for one in store.get("relays", ())]


class Wrong(ConsumerCase):
    """What can never work is said before anything starts, with its place in the file."""

    def refuse(self, handler, *says, more=""):
        self.configure("[[consumer.handler]]\n" + handler, more=more)
        return self.refused("run", code=3, name="config", says=("dovetail.toml:", "consumer", *says))

    def test_what_is_wrong_with_a_handler(self):
        self.configure()
        self.sql("CREATE FUNCTION shop.nothing() RETURNS void LANGUAGE sql AS ''")
        self.sql("CREATE PROCEDURE shop.ends(event dovetail.event) LANGUAGE sql AS ''")
        self.refuse('kind = "sql"\nfunction = "shop.boook"', ":15:8: consumer.handler.kind:", "no function shop.boook",
                    "CREATE FUNCTION shop.boook(event dovetail.event)")
        self.refuse('kind = "sql"\nfunction = "book"', "search_path")
        self.refuse('kind = "sql"\nfunction = "shop.nothing"', "shop.nothing() does not fit", "dovetail.event")
        self.refuse('kind = "sql"\nfunction = "shop.ends"', "must be a function")
        self.refuse('kind = "sql"\nfunction = "shop.book_many"', '"batch"')
        self.refuse('kind = "sql"\nfunction = "shop.book"\nbatch = true', '"batch"')
        self.refuse('kind = "sql"\nfunction = "a.b.c"', "a.b.c")
        self.refuse('kind = "sql"', 'needs "function"')
        self.refuse('kind = "command"\ncommand = ["no-such-program"]', ":15:8:", "no-such-program")
        self.refuse('kind = "command"\ncommand = ["./dovetail.toml"]', "dovetail.toml")
        self.refuse('kind = "http"\nstore = "shop"', "http or https url")
        self.refuse('kind = "sqll"\nfunction = "shop.book"', '"sql", "queue", "http", "command"')

    def test_the_doctor_says_it_too(self):
        self.configure(SQL_HANDLER.replace("shop.book", "shop.boook"))
        [shop] = self.ask("doctor", code=1)["stores"]
        [found] = [one for one in shop["findings"] if one["code"] == "handler"]
        self.assertIn("booking", found["what"])
        self.assertIn("CREATE FUNCTION shop.boook", found["what_to_do"])

    def test_a_name_that_nobody_has(self):
        self.configure()
        self.refused("run", "bookign", code=5, name="rejected", says=("booking",))


class Outside(ConsumerCase):
    """Handlers whose effect is not in the database."""

    PROGRAM = """#!/bin/sh
body=$(cat)
case "$body" in *' 666}'*) echo "not this one" >&2; exit %d;; esac
echo "$DOVETAIL_EVENT_ID $DOVETAIL_EVENT_TYPE $body" >> %s/handled
"""

    def program(self, refusal=1):
        path = self.write("handle.sh", self.PROGRAM % (refusal, self.folder))
        path.chmod(0o755)
        return '[[consumer.handler]]\nkind = "command"\ncommand = ["./handle.sh"]\n'

    def handled(self):
        path = self.folder / "handled"
        return path.read_text().splitlines() if path.exists() else []

    def test_a_program_is_run_for_each_event(self):
        self.configure(self.program())
        self.place(5)
        said = self.handle()
        self.assertIn("handled 5", said.out)
        self.assertIn("at least once", said.err)
        self.assertEqual(len(self.handled()), 5)
        self.assertTrue(all(" order.placed " in line for line in self.handled()), self.handled())
        self.sql("DELETE FROM dovetail.relay_lane")
        self.handle()
        self.assertEqual(len(self.handled()), 5, "what comes again is known")

    def test_a_program_that_fails_is_tried_again_and_parked(self):
        for refusal, attempts in ((1, 5), (65, 1)):
            with self.subTest(refusal=refusal):
                self.configure(self.program(refusal), more="attempts_max = 5")
                self.place(3, first=665, keys=3)
                self.handle(code=1)
                [row] = self.ask("parked", "list")["parked"]
                self.assertIn("not this one", row["reason"])
                self.assertEqual(row["attempts"], attempts)
                self.dovetail("parked", "discard", row["id"], "--reason", "test")

    def test_handlers_inside_and_outside_the_transaction(self):
        self.configure(SQL_HANDLER + 'name = "ledger"\n', self.program() + 'name = "run"\n')
        self.place(6)
        self.handle()
        self.assertEqual(self.booked("n"), [1, 2, 3, 4, 5, 6])
        self.assertEqual(len(self.handled()), 6)

    def serve(self, answer):
        """An endpoint that is not ours; `answer` gets the headers and says which status."""
        came = []

        class Endpoint(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status = answer(body)
                came.append((self.headers["idempotency-key"], body, status))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        stores = (f'[store.hook]\nurl = "http://127.0.0.1:{server.server_port}/in"\n'
                  'settings = { allow_private = true }\n')
        return came, stores, '[[consumer.handler]]\nkind = "http"\nstore = "hook"\n'

    def test_a_request_is_made_for_each_event_with_its_id_as_the_key(self):
        fails = {3: 2}

        def answer(body):
            fails[body["n"]] = fails.get(body["n"], 0) - 1
            return 500 if fails[body["n"]] >= 0 else 204

        came, stores, handler = self.serve(answer)
        self.configure(handler, stores=stores)
        self.place(8)
        said = self.handle()
        self.assertIn("requests to hook", said.err)
        self.assertEqual(sorted(body["n"] for _, body, status in came if status == 204), list(range(1, 9)))
        self.assertEqual(len({key for key, body, _ in came if body["n"] == 3}), 1, "the same key at every try")
        self.assertEqual(len({key for key, _, _ in came}), 8)
        self.sql("DELETE FROM dovetail.relay_lane")
        before = len(came)
        self.handle()
        self.assertEqual(len(came), before, "what comes again is known")

    def test_what_an_endpoint_refuses_for_good_is_parked_and_replayed(self):
        refuses = [True]
        came, stores, handler = self.serve(lambda body: 422 if body["n"] == 666 and refuses[0] else 200)
        self.configure(handler, stores=stores)
        self.place(3, first=665, keys=3)
        self.handle(code=1)
        [row] = self.ask("parked", "list")["parked"]
        refuses[0] = False
        self.dovetail("parked", "replay", row["id"])
        self.handle()
        self.assertEqual(sorted(body["n"] for _, body, status in came if status == 200), [665, 666, 667])


class FromFiles(ConsumerCase):
    """Stores in SQLite at either end."""

    FILES = """
[store.kiosk]
url = "sqlite:kiosk.db"
[store.till]
url = "sqlite:till.db"
[[relay]]
name = "kiosk-to-till"
from = "kiosk"
to = "till"
"""
    program, handled, PROGRAM = Outside.program, Outside.handled, Outside.PROGRAM

    def sell(self, count):
        for n in range(1, count + 1):
            self.publish(store="kiosk", key=str(n % 3), payload=json.dumps({"n": n}))

    def test_the_mailbox_of_the_own_file(self):
        self.configure(self.program(), stores=self.FILES, source="till", to="till")
        self.init()
        self.sell(4)
        self.handle("kiosk-to-till")
        said = self.handle("booking")
        self.assertIn("the mailbox of till", said.err)
        self.assertEqual(len(self.handled()), 4)
        self.assertEqual(self.reader("till", "booking")["source"], "mailbox")
        self.handle()
        self.assertEqual(len(self.handled()), 4)

    def test_the_outbox_of_a_file_into_postgres_on_several_threads(self):
        self.configure(stores=self.FILES, source="kiosk", more="parallel = 3")
        self.init()
        self.sell(9)
        self.handle("booking")
        self.assertEqual(self.booked("n"), list(range(1, 10)))
        self.expect_order(range(1, 10), 3)
        self.assertEqual(self.sql("SELECT count(*) FROM dovetail.consumer_session"), "3")

    def test_what_fails_is_parked_in_the_file_that_is_read(self):
        self.configure(stores=self.FILES, source="kiosk")
        self.init()
        self.sell(3)
        self.publish(store="kiosk", key="poison", payload='{"n": 666}')
        self.handle("booking", code=1)
        [row] = self.ask("parked", "list")["parked"]
        self.assertEqual((row["store"], row["relay"]), ("kiosk", "booking"))


class FromBrokers(ConsumerCase):
    RELAY = """
[[relay]]
name = "shop-to-bus"
from = "shop"
to = "bus"
"""

    def fields(self, name):
        line = postgres_test.first_line(f"{name}.conninfo")
        if not line:
            self.skipTest(postgres_test.first_line(f"{name}.missing") or f"{name} is not started")
        return dict(one.split("=", 1) for one in line.split() if "=" in one)

    def consume(self, what, condition, names=("booking",)):
        """A broker may take its time to let a consumer in, so what is waited for is the effect."""
        daemon = self.start("run", *names)
        self.wait_for(what, condition)
        daemon.terminate()
        self.assertEqual(daemon.wait(harness.PATIENCE_S), 0)

    def settled(self):
        return int(self.sql("SELECT delivered_total FROM dovetail.relay_lane WHERE relay = 'booking'"))

    def road(self, bus, topic):
        relay = self.RELAY + f'topic = "{topic}"\n'
        self.configure(stores=f"[store.bus]\n{bus}\n" + relay, source="bus", more="attempts_max = 2")
        self.place(12, first=660, keys=4)
        self.handle("shop-to-bus")

        def parked():
            """Only who fails while others pass is parked, so there are others."""
            self.sql("SELECT dovetail.publish('orders', 'other', 'order.passed', '{\"n\": 0}'::jsonb)")
            return [row["state"] for row in self.ask("parked", "list")["parked"]] == ["parked", "waiting"]
        self.consume("one is parked and one waits behind it", parked, names=("shop-to-bus", "booking"))
        self.sql("DELETE FROM shop.booked WHERE key = 'other'")
        self.assertEqual(self.booked("n"), [n for n in range(660, 672) if n not in (666, 670)])
        # Its parked events live with its inbox, since a broker keeps none.
        parked = self.ask("parked", "list")["parked"]
        self.assertEqual([(row["store"], row["relay"], row["state"]) for row in parked],
                         [("shop", "booking", "parked"), ("shop", "booking", "waiting")])
        self.assertIn("bus > shop", self.dovetail("status").out)
        reader = self.reader("shop", "booking")
        self.assertEqual((reader["source"], reader["from"], reader["parked"], reader["pending"]), ("broker", "bus", 1, None))
        self.mend()
        self.dovetail("parked", "replay", parked[0]["id"])
        self.consume("those follow", lambda: len(self.booked("n", "key <> 'other'")) == 12)
        self.sql("DELETE FROM shop.booked WHERE key = 'other'")
        self.assertEqual(self.booked()[-2:], [666, 670])
        self.assertEqual(self.booked("n"), list(range(660, 672)))
        # Everything once more: the broker is no reason to book it twice.
        self.sql("DELETE FROM dovetail.relay_lane WHERE relay = 'shop-to-bus'")
        self.handle("shop-to-bus")
        before = self.settled()
        self.consume("all have come again", lambda: self.settled() >= before + 12)
        self.assertEqual(self.booked("n"), list(range(660, 672)))

    def test_kafka(self):
        port = self.fields("kafka")["port"]
        topic = f"orders-{self.database}"
        kafka_topics.create(int(port), topic)
        self.road(f'url = "kafka://127.0.0.1:{port}"\nread = ["{topic}"]\ngroup = "{topic}"\n'
                  "settings = { single_node = true }", topic)

    def test_rabbitmq(self):
        port = self.fields("rabbitmq")["port"]
        queue = f"orders-{self.database}"
        self.road(f'url = "amqp://127.0.0.1:{port}/"\nread = ["{queue}"]\n'
                  'settings = { declare = true, queue_type = "classic" }', queue)


if __name__ == "__main__":
    harness.main()
