"""A machine whose clock is set: the real binary while it deletes old rows, and a real server while it leases work."""

import itertools
import os
import pathlib
import subprocess
import sys
import unittest

import harness
import postgres_test

# Shifts the wall clock by the seconds that stand in a file. The file may change at any time.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
  char text[32] = "";
  const char* path = getenv("CLOCK_AHEAD_FILE");
  const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const long size = read(file, text, sizeof text - 1);
  close(file);
  return size <= 0 ? 0 : atol(text);
}
int clock_gettime(clockid_t which, struct timespec* out) {
  static int (*real)(clockid_t, struct timespec*);
  if (real == NULL) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int done = real(which, out);
  if (done == 0 && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) out->tv_sec += shift();
  return done;
}
int gettimeofday(struct timeval* out, void* zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t* out) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}
"""
HOURS = 3600
SERVERS = harness.ROOT / "tests/servers/servers.py"


def set_clock(case, hours):
    """The wall clock of processes under another clock is so far ahead from now on. They never see half of the file."""
    case.write("ahead.new", str(hours * HOURS)).replace(case.folder / "ahead")


def under_another_clock(case, hours):
    """The environment of a process whose wall clock is so far ahead."""
    set_clock(case, hours)
    shim = pathlib.Path(case.folder) / "clock.so"
    if not shim.exists():
        source = case.write("clock.c", SHIM)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(shim), str(source), "-ldl"], check=True)
    return {"LD_PRELOAD": str(shim), "CLOCK_AHEAD_FILE": str(case.folder / "ahead"),
            "ASAN_OPTIONS": "verify_asan_link_order=0"}


class Files(harness.Case):
    """The inbox in SQLite, whose clock is that of the machine."""

    def test_a_clock_that_is_ahead_for_a_moment_forgets_nothing(self):
        self.init()
        self.change("inventory.db", "INSERT INTO dovetail_consumer (name, created_at) VALUES ('stock', 1)")
        self.change("inventory.db", "INSERT INTO dovetail_inbox (consumer_id, event_id, applied_at) "
                    "SELECT id, randomblob(16), 1000000 * strftime('%s', 'now') FROM dovetail_consumer")
        prune = ("prune", "--delivered", "1d", "--inbox", "1d")
        self.dovetail(*prune)
        for hours in (50, -50, 2):
            with self.subTest(hours=hours):
                self.refused(*prune, code=4, name="unavailable", says=("the clock was set", "expected was"),
                             env=under_another_clock(self, hours))
        self.dovetail(*prune)
        self.assertEqual(self.rows("inventory.db", "SELECT count(*) FROM dovetail_inbox"), [(1,)])
        self.assertEqual(self.rows("inventory.db", "SELECT forgotten_until FROM dovetail_consumer"), [(0,)])


class Servers(postgres_test.PostgresCase):
    """The inbox in PostgreSQL, whose clock and that of the machine which deletes are two."""

    def configure(self, conninfo, more=""):
        self.write("dovetail.toml", f'[store.orders]\nurl = "postgres:{conninfo}"\n{more}')

    def test_nothing_is_deleted_while_two_clocks_disagree(self):
        self.dovetail("init")
        self.sql("INSERT INTO dovetail.consumer (name, created_at) VALUES ('stock', '2020-01-01'); "
                  "INSERT INTO dovetail.inbox (event_id, consumer_id) SELECT dovetail.uuid7(), 1")
        prune = ("prune", "--delivered", "1d", "--inbox", "1d")
        for hours in (50, -50, 2):
            with self.subTest(hours=hours):
                self.refused(*prune, code=4, name="unavailable", says=("the database's clock shows", "this machine"),
                             env=under_another_clock(self, hours))
        self.dovetail(*prune)
        self.assertEqual(self.sql("SELECT count(*) FROM dovetail.inbox"), "1")
        self.assertEqual(self.sql("SELECT forgotten_before FROM dovetail.inbox_state"), "-infinity")

    def test_an_inbox_that_a_wrong_clock_has_made_forget_is_repaired(self):
        self.dovetail("init")
        self.sql("INSERT INTO dovetail.consumer (name, created_at) VALUES ('stock', '2020-01-01'); "
                  "UPDATE dovetail.consumer SET forgotten_until = now() + interval '26 hours'")
        since = self.sql("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')")
        said = self.ask("inbox", "remember", "--store", "orders", "--since", since, "--reason", "the clock was wrong")
        self.assertEqual(said["since"][:19], since[:19])
        self.assertEqual(self.sql("SELECT forgotten_until <= now() FROM dovetail.consumer"), "t")
        self.assertEqual(self.sql("SELECT what || ': ' || reason FROM dovetail.audit"), "remember: the clock was wrong")
        self.refused("inbox", "remember", "--store", "orders", "--since", since, "--reason", "again", code=5,
                     name="rejected", says=("nothing changes",))
        self.refused("inbox", "remember", "--store", "orders", "--since", "yesterday", "--reason", "x", code=2,
                     name="usage", says=("--since",))


class SteppedServer(harness.Case):
    """A PostgreSQL of its own, whose clock is set while it runs."""

    COUNT = itertools.count()
    TAKE = """SELECT dovetail.enqueue('stock', ARRAY[dovetail.uuid7()], '{orders}', '{order}', ARRAY['%s'], '{%s}',
                                      '{application/json}', '{""}', ARRAY['{}'::bytea], '{0}', ARRAY[now()])"""

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)  # the server runs as another user
        environment = os.environ | under_another_clock(self, 0)
        self.state = self.folder / "servers"
        self.servers("start", environment)
        self.addCleanup(self.servers, "stop", os.environ)
        self.conninfo = (self.state / "postgres.conninfo").read_text(encoding="utf-8").strip()
        self.write("dovetail.toml", f'[store.orders]\nurl = "postgres:{self.conninfo}"\n')
        self.dovetail("init")

    def servers(self, command, environment):
        subprocess.run([sys.executable, "-B", SERVERS, "--state", self.state, command, "postgres"], check=True,
                       capture_output=True, env=environment)

    def sql(self, statement):
        return postgres_test.psql(statement, self.conninfo)

    def begin(self, lease):
        """Work of every kind under this lease, and what asks for it again."""
        number = next(self.COUNT)
        claim = f"""SELECT state FROM dovetail.claim('mail', '{self.sql("SELECT dovetail.uuid7()")}', '{lease}')"""
        request = f"SELECT state FROM dovetail.lease_request('shop', 'key {number}', 'print', '{lease}')"
        queue = f"SELECT type FROM dovetail.receive('stock', 10, '{lease}')"
        self.sql(self.TAKE % (number, f"held{number}"))
        for statement, answer in ((claim, "first"), (request, "first"), (queue, f"held{number}")):
            self.assertEqual(self.sql(statement), answer)
        self.sql(self.TAKE % (f"fresh {number}", f"fresh{number}"))
        return number, claim, request, queue

    def test_claims_queues_and_requests_outlive_a_clock_that_is_set(self):
        ahead = 0
        for step in (-1, -48, -1, -48):
            with self.subTest(hours=step):
                number, claim, request, queue = self.begin("2 s")
                ahead += step
                set_clock(self, ahead)
                self.wait_for("what is there is received", lambda: self.sql(queue) == f"fresh{number}")
                self.wait_for("the claim is free", lambda: self.sql(claim) == "first")
                self.wait_for("the request has ended", lambda: self.sql(request) == "unknown")
                self.wait_for("the lease has ended", lambda: f"held{number}" in self.sql(queue).split())
                self.sql("TRUNCATE dovetail.queue")

    def test_who_holds_work_keeps_it_when_the_clock_is_set_back(self):
        ahead = 0
        for step in (-1, -48):
            with self.subTest(hours=step):
                number, claim, request, queue = self.begin("10 min")
                ahead += step
                set_clock(self, ahead)
                self.wait_for("what is there is received", lambda: self.sql(queue) == f"fresh{number}")
                self.assertEqual([self.sql(one) for one in (claim, request, queue)], ["in_progress", "running", ""])
                self.sql("SELECT dovetail.complete('stock', event_id, epoch) FROM dovetail.queue")

    def test_who_lost_work_to_a_clock_that_is_set_ahead_is_fenced(self):
        ahead = 0
        for step in (1, 48):
            with self.subTest(hours=step):
                _, claim, _, queue = self.begin("10 min")
                epochs = {table: self.sql(f"SELECT max(epoch) FROM dovetail.{table}") for table in ("queue", "claim")}
                ahead += step
                set_clock(self, ahead)
                self.assertEqual(self.sql(claim), "first")
                self.wait_for("the lease has ended", lambda: "held" in self.sql(queue))
                for table, consumer in (("queue", "stock"), ("claim", "mail")):
                    held = f"FROM dovetail.{table} WHERE attempts = 2"
                    with self.assertRaises(subprocess.CalledProcessError) as refused:
                        self.sql(f"SELECT dovetail.complete('{consumer}', event_id, {epochs[table]}) {held}")
                    self.assertIn("does not hold", refused.exception.stderr)
                    self.sql(f"SELECT dovetail.complete('{consumer}', event_id, epoch) {held}")
                self.sql("TRUNCATE dovetail.queue")


if __name__ == "__main__":
    harness.main()
