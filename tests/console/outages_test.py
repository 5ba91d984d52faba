"""Each outage is named by the verdict of `dovetail status`, by /readyz and by the JSON API, in the same words."""

import concurrent.futures
import contextlib
import datetime
import io
import multiprocessing
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

import clock_test
import console
import harness
import kafka_topics
import postgres_test

POOLER = postgres_test.first_line("pgbouncer.conninfo")
REDIS = postgres_test.first_line("redis.conninfo")
RABBITMQ = postgres_test.first_line("rabbitmq.conninfo")
KAFKA = postgres_test.first_line("kafka.conninfo")
FULL = postgres_test.first_line("postgres_full.conninfo")
NAMED_S = 5  # from the first call that failed; printed, and not judged
RELAY = """
[[relay]]
name = "out"
from = "shop"
to = "%s"
lease = "2s"
retry_base = "5ms"
reconnect_cap = "500ms"
attempts_max = 3
retry_cap = "50ms"
%s
"""
CONSUMER = """
[[consumer]]
name = "taker"
from = "shop"
to = "shop"
lease = "2s"
retry_base = "5ms"
reconnect_cap = "500ms"
attempts_max = 3
retry_cap = "50ms"
[[consumer.handler]]
kind = "sql"
function = "public.take"
"""
FUNCTION = """
CREATE TABLE taken (n int);
CREATE FUNCTION public.take(event dovetail.event) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF event.aggregate_id LIKE 'bad%' THEN RAISE EXCEPTION 'no such article'; END IF;
  INSERT INTO taken VALUES (1);
END $$;
GRANT ALL ON taken TO PUBLIC;
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def fields_of(conninfo):
    return dict(one.split("=", 1) for one in conninfo.split())


class OutageCase(console.ConsoleCase):
    @staticmethod
    def tell_how_soon(kind, began, since):
        """A machine may be slow, so that this is printed and not judged."""
        now = datetime.datetime.now(datetime.timezone.utc)
        if since is None:
            print(f"{kind}: named {(now - began).total_seconds():.1f} s after the test began to look")
            return
        failed = max(began, datetime.datetime.fromisoformat(since.replace("Z", "+00:00")))
        print(f"{kind}: named {(now - failed).total_seconds():.1f} s after the first call that failed (wanted: {NAMED_S})")

    def named(self, kind, says, ready=503, code=0, by_command=True):
        """All three say it, in the same words."""
        def all_say_it():
            api = self.call("/api/v1/status").json()
            return api if api["verdict"]["title"].startswith(says) and api["problems"][0]["kind"] == kind else None

        began = datetime.datetime.now(datetime.timezone.utc)
        try:
            self.wait_for(f"the daemon says '{says}'", all_say_it)
        except AssertionError:
            print(self.call("/api/v1/status").body)
            raise
        self.tell_how_soon(kind, began, (all_say_it() or {"problems": [{"since": None}]})["problems"][0]["since"])
        if by_command:
            self.wait_for("the command says it", lambda: self.dovetail("status", code=code).out.startswith(says))
        self.wait_for(f"/readyz answers {ready}", lambda: (answer := self.call("/readyz")).status == ready and
                      kind in [one["kind"] for one in answer.json()["reasons" if ready == 503 else "problems"]])


@unittest.skipUnless(postgres_test.SERVER, "the server of the tests is missing; run it through ctest")
class Outages(OutageCase, postgres_test.PostgresCase):
    def setUp(self):
        postgres_test.PostgresCase.setUp(self)

    def configure(self, conninfo, *parts):
        self.write("dovetail.toml", f'[store.shop]\nurl = "postgres:{conninfo}"\n' + "".join(parts) +
                   '[alerts]\naway_max = "1s"\n[log]\nformat = "json"\n' + console.HTTP)

    def bus(self, url, more=""):
        """The outbox goes to a broker."""
        self.configure(self.conninfo, f'[store.bus]\nurl = "{url}"\n{more}\n', RELAY % ("bus", ""))
        self.dovetail("init")

    def event(self, key="1"):
        self.sql(f"SELECT dovetail.publish('orders', '{key}', 'placed', '{{}}'::jsonb)")

    def see_a_broker_away(self, url):
        self.bus(url % free_port(), "[store.bus.settings]\nallow_private = true" if url.startswith("http") else "")
        self.event()
        self.start_daemon()
        self.named("broker-away", "The broker bus is away.")

    def test_kafka_that_is_away(self):
        self.see_a_broker_away("kafka://127.0.0.1:%d")

    def test_rabbitmq_that_is_away(self):
        self.see_a_broker_away("amqp://127.0.0.1:%d/")

    def test_nats_that_is_away(self):
        self.see_a_broker_away("nats://127.0.0.1:%d")

    def test_redis_that_is_away(self):
        self.see_a_broker_away("redis://127.0.0.1:%d/0")

    def test_a_receiver_of_http_that_is_away(self):
        self.see_a_broker_away("http://127.0.0.1:%d/")

    def test_a_database_that_is_away(self):
        two = '[store.two]\nurl = "sqlite:two.db"\n'
        self.write("dovetail.toml", two)
        self.dovetail("init")  # or this one is away, too
        self.configure(f"host=127.0.0.1 port={free_port()} dbname=shop user=x", two, RELAY % ("two", ""))
        self.start_daemon()
        self.named("database-away", "The database shop is away.", code=4)

    def test_a_pooler_that_is_down(self):
        direct = self.conninfo
        self.write("dovetail.toml", '[store.two]\nurl = "sqlite:two.db"\n')
        self.dovetail("init")
        self.configure(f"host=127.0.0.1 port={free_port()} dbname=shop user=x",
                       f'replication_url = "postgres:{direct}"\n[store.two]\nurl = "sqlite:two.db"\n', RELAY % ("two", ""))
        self.dovetail("init", code=4)
        self.start_daemon()
        self.named("pooler-down", "The pooler before the database shop is down", code=4)

    def test_a_pooler_whose_database_is_away(self):
        if not POOLER:
            self.skipTest("PgBouncer is missing")
        self.configure(f"{POOLER} dbname={self.database}", '[store.two]\nurl = "sqlite:two.db"\n', RELAY % ("two", ""))
        self.dovetail("init")
        self.start_daemon()
        self.wait_for("it is ready", lambda: self.call("/readyz").status == 200)
        postgres_test.psql(f"ALTER DATABASE {self.database} ALLOW_CONNECTIONS false; SELECT pg_terminate_backend(pid) "
                           f"FROM pg_stat_activity WHERE datname = '{self.database}'")
        self.named("database-away", "The database shop is away.", code=4)

    def test_a_slot_that_keeps_too_much_and_is_then_lost(self):
        self.configure(self.conninfo, f'[store.bus]\nurl = "redis://127.0.0.1:{free_port()}/0"\n',
                       RELAY % ("bus", 'mode = "wal"\nretained_wal_max = "64MiB"'))
        self.dovetail("init")
        self.start_daemon()
        self.wait_for("it reads the WAL", lambda: self.sql(
            "SELECT count(*) FROM pg_replication_slots WHERE database = current_database() AND active") == "1")
        self.event()
        write = "SELECT count(pg_logical_emit_message(false, 'x', repeat('x', 1000000))) FROM generate_series(1, %d)"
        kinds = lambda: [one["kind"] for one in self.call("/api/v1/status").json()["problems"]]
        self.sql(write % 40)
        self.wait_for("it is said before the limit", lambda: "wal-budget" in kinds())
        self.sql(write % 40)
        self.wait_for("it is said that the slot is lost", lambda: "slot-lost" in kinds())
        self.assertIn("The relay out lost its slot in shop", self.dovetail("status").out)
        self.assertEqual(kinds()[0], "broker-away", "the cause comes first")

    def test_a_poison_key(self):
        self.configure(self.conninfo, CONSUMER)
        self.dovetail("init")
        self.sql(FUNCTION)
        self.start_daemon()
        self.event("bad")

        def others_pass():
            self.event("good")
            # Until then it stands in the list as an event that waits for its next try.
            return "parked" in [one["state"] for one in self.ask("parked", "list")["parked"]]
        self.wait_for("it is parked", others_pass)
        self.named("parked", "1 event of the consumer taker is parked.", ready=200)

    def test_a_handler_that_is_sick(self):
        self.configure(self.conninfo, CONSUMER)
        self.dovetail("init")
        self.sql(FUNCTION)
        for n in range(20):
            self.event(f"bad{n}")
        self.start_daemon()
        self.named("handler-failing", "The handlers of the consumer taker fail")

    def test_a_mapping_that_is_wrong(self):
        self.sql("CREATE TABLE outbox_events (id uuid PRIMARY KEY)")
        self.configure(self.conninfo, '[store.two]\nurl = "sqlite:two.db"\n',
                       RELAY % ("two", '[relay.table]\npreset = "sent_at"\n'))
        self.dovetail("init")
        self.start_daemon()
        self.named("wrong-mapping", "The relay out does not fit its table.", code=5)

    def test_a_topic_that_is_missing(self):
        if not RABBITMQ:
            self.skipTest("RabbitMQ is missing")
        rabbit = fields_of(RABBITMQ)
        self.bus(f"amqp://127.0.0.1:{rabbit['port']}/", '[store.bus.settings]\nexchange = "nowhere-%d"\n' % os.getpid())
        self.event()
        self.start_daemon()
        self.named("missing-topic", "The broker bus does not have what out needs.")

    def test_a_topic_that_is_missing_in_kafka(self):
        if not KAFKA:
            self.skipTest("Kafka is missing")
        port = fields_of(KAFKA)["port"]
        self.bus(f"kafka://127.0.0.1:{port}", '[store.bus.settings]\ntopic_prefix = "outage%d."\n' % os.getpid())
        self.event()
        self.start_daemon()
        self.named("missing-topic", "The broker bus does not have what out needs.")
        kafka_topics.create(int(port), f"outage{os.getpid()}.orders.events")
        self.wait_for("it goes on by itself", lambda: self.call("/readyz").status == 200)

    def test_a_slot_that_is_lost_while_the_receiver_is_well(self):
        self.configure(self.conninfo, '[store.two]\nurl = "sqlite:two.db"\n', RELAY % ("two", 'mode = "wal"'))
        self.dovetail("init")
        daemon = self.start_daemon()
        reads_wal = lambda: self.sql("SELECT count(*) FROM pg_replication_slots WHERE database = current_database() AND "
                                     "active AND NOT temporary") == "1"
        self.wait_for("it reads the WAL", reads_wal)
        # Somebody drops it, and takes every place where a new one could be.
        daemon.send_signal(signal.SIGSTOP)
        self.sql("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database()")
        self.wait_for("it is dropped", lambda: not reads_wal() and self.sql(
            "SELECT count(pg_drop_replication_slot(slot_name)) FROM pg_replication_slots WHERE database = "
            "current_database() AND NOT active") is not None and self.sql(
            "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == "0")
        taken = f"taken_{os.getpid()}_"
        free = int(self.sql("SELECT current_setting('max_replication_slots')::int - count(*) FROM pg_replication_slots"))
        self.addCleanup(postgres_test.psql, "SELECT count(pg_drop_replication_slot(slot_name)) FROM pg_replication_slots "
                        f"WHERE slot_name LIKE '{taken}%'")
        for n in range(free):
            self.sql(f"SELECT pg_create_physical_replication_slot('{taken}{n}')")
        daemon.send_signal(signal.SIGCONT)
        self.event()
        self.named("slot-lost", "The relay out gets no slot in shop", ready=200)
        self.assertEqual(self.rows("two.db", "SELECT count(*) FROM dovetail_mailbox"), [(1,)], "it goes on with the table")

    def test_a_lease_that_ran_out_beside_a_second_process(self):
        self.configure(self.conninfo, '[store.two]\nurl = "sqlite:two.db"\n', RELAY % ("two", ""))
        self.dovetail("init")
        first = self.start_daemon()
        self.wait_for("it has the relay", lambda: self.ask("status")["totals"]["delivering"] == 1)
        first.send_signal(signal.SIGSTOP)
        self.event()
        mine = (self.folder / "dovetail.toml").read_text()
        self.configure(self.conninfo, '[store.two]\nurl = "sqlite:two.db"\n',
                       (RELAY % ("two", "")).replace('"out"', '"another"'))
        second = self.start_daemon()  # looks at the same database, and does not have the relay
        self.named("lease-lost", "No process runs the relay out: its lease ran out.", ready=200)
        [problem] = [one for one in self.call("/api/v1/status").json()["problems"] if one["kind"] == "lease-lost"]
        self.assertRegex(problem["text"], r"did not renew it, and it ended .+ ago; what that process wrote here is older")
        self.assertIn(f":{first.pid}#", problem["text"], "it names the process that is frozen")
        # One that has the relay takes over, and the frozen one finds that out.
        self.end(second)
        self.write("dovetail.toml", mine)
        self.start_daemon()
        self.wait_for("another process delivers", lambda: self.call("/api/v1/status").json()["verdict"]["kind"] == "ok")
        first.send_signal(signal.SIGCONT)
        self.wait_for("it learns that", lambda: "the lease ran out before it was renewed" in self.log())
        # Its last words about the lane it lost may be seen for a moment.
        self.wait_for("all is well", lambda: self.call("/api/v1/status").json()["verdict"]["kind"] == "ok")

    @unittest.skipUnless(shutil.which("cc"), "cc is missing; install the package gcc")
    def test_a_clock_that_was_set(self):
        # What is to be deleted is looked at every second and not every minute.
        self.configure(self.conninfo, '[store.two]\nurl = "sqlite:two.db"\n', RELAY % ("two", ""), '[retention]\nevery = "1s"\n')
        self.dovetail("init")
        self.start_daemon(env=clock_test.under_another_clock(self, 50))
        # The command has a clock of its own, which is right.
        self.named("clock-step", "The clock of the database", ready=200, by_command=False)
        self.event()
        self.wait_for("events go on", lambda: self.rows("two.db", "SELECT count(*) FROM dovetail_mailbox") == [(1,)])

    def test_a_relay_that_is_paused(self):
        self.configure(self.conninfo, '[store.two]\nurl = "sqlite:two.db"\n', RELAY % ("two", ""))
        self.dovetail("init")
        self.start_daemon()
        self.wait_for("it is ready", lambda: self.call("/readyz").status == 200)
        self.dovetail("relay", "pause", "out", "--reason", "a release")
        self.event()
        self.named("paused", "The relay out is paused by", ready=200)

    def test_a_relay_that_nobody_runs(self):
        self.configure(self.conninfo, '[store.two]\nurl = "sqlite:two.db"\n', RELAY % ("two", ""))
        self.dovetail("init")
        process = self.start_daemon()
        self.wait_for("it is ready", lambda: self.call("/readyz").status == 200)
        process.send_signal(signal.SIGTERM)
        process.wait(harness.PATIENCE_S)
        self.event()
        self.assertRegex(self.dovetail("status").out, r"\ANo process runs the relay out\.")


@unittest.skipUnless(FULL, "the server whose disk gets full is missing; run it through ctest")
class FullServer(OutageCase):
    """The disk of the database is full, so that not even a report can be kept there."""

    def test_the_disk_of_a_server(self):
        home = pathlib.Path(fields_of(FULL)["host"])
        room = lambda: [(home / disk).unlink(missing_ok=True) for disk in ("full", "log_full")]
        self.addCleanup(room)
        name = f"outage_{os.getpid()}"
        postgres_test.psql(f"CREATE DATABASE {name}", FULL)
        self.addCleanup(postgres_test.drop_database, name, FULL)
        self.write("dovetail.toml", f'[store.shop]\nurl = "postgres:{FULL} dbname={name}"\n' + CONSUMER +
                   '[alerts]\naway_max = "1s"\n[log]\nformat = "json"\n' + console.HTTP)
        self.dovetail("init")
        sql = lambda text: postgres_test.psql(text, f"{FULL} dbname={name}")
        sql(FUNCTION)
        self.dovetail("run", "--until-idle")
        sql("SELECT count(dovetail.publish('orders', n::text, 'placed', '{}'::jsonb)) FROM generate_series(1, 600) AS n")
        (home / "full").touch()
        self.start_daemon()
        # The command asks the store, which cannot keep what the relay reports, and says what that may mean.
        self.named("disk-full", "The disk of the database shop is full.", by_command=False)
        self.wait_for("the command says that it knows nothing", lambda: self.dovetail("status").out.startswith(
            "The consumer taker runs and keeps no report here."))
        self.assertIn("as on a full disk", " ".join(self.dovetail("status").out.split()))
        room()
        self.wait_for("it goes on by itself", lambda: sql("SELECT count(*) FROM taken") == "600" and
                      self.call("/readyz").status == 200)


@unittest.skipUnless(shutil.which("cc"), "cc is missing; install the package gcc")
class FullDisk(OutageCase):
    """The same for SQLite files."""

    def test_the_disk_of_a_file(self):
        self.write("dovetail.toml", harness.CONFIG + console.HTTP + '[alerts]\naway_max = "1s"\n')
        self.init()
        (self.folder / "disk").mkdir()
        source, library = harness.ROOT / "tests/servers/full_disk.c", self.folder / "disk/full_disk.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        flag = self.folder / "disk/full"
        on_this_disk = {"LD_PRELOAD": str(library), "DOVETAIL_DISK": str(self.folder), "DOVETAIL_DISK_FULL": str(flag),
                        "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
        self.start_daemon(env=on_this_disk)
        self.wait_for("it is ready", lambda: self.call("/readyz").status == 200)
        flag.touch()
        self.publish()
        self.named("disk-full", "The disk of the database", by_command=False)
        # The command is another process, and the relay can write nothing. It looks at the disk itself.
        said = self.run_dovetail("status", env=on_this_disk)
        self.assertTrue(said.out.startswith(b"The disk of the database"), said)
        self.assertRegex(said.out, rb"\b0 (B|bytes) are free")
        self.assertIn(said.code, (0, 4), "SQLite may need room only to open a file")
        flag.unlink()
        self.wait_for("it goes on by itself", lambda: self.call("/readyz").status == 200)


ALONE = "Outages.test_a_slot_that_is_lost_while_the_receiver_is_well"  # it takes every slot of the server


def run_one(name):
    """Whether it was well, and what it said."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        tests = unittest.defaultTestLoader.loadTestsFromName(name, sys.modules[__name__])
        is_well = unittest.TextTestRunner(stream=said, verbosity=2).run(tests).wasSuccessful()
    return is_well, said.getvalue()


def run_side_by_side():
    """An outage is long, and nearly all of it is waiting: some at a time, each in a process of its own."""
    names = [".".join(test.id().split(".")[-2:]) for suite in unittest.defaultTestLoader.loadTestsFromModule(
        sys.modules[__name__]) for test in suite]
    names.remove(ALONE)
    outcomes = []
    with concurrent.futures.ProcessPoolExecutor(2 * os.cpu_count(), multiprocessing.get_context("fork")) as pool:
        for is_well, said in [*pool.map(run_one, names), *pool.map(run_one, [ALONE])]:
            print(said, flush=True)
            outcomes.append(is_well)
    sys.exit(0 if all(outcomes) and len(outcomes) > 15 else 1)


if __name__ == "__main__":
    if sys.argv[1:]:
        harness.main()
    run_side_by_side()
