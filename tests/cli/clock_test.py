"""A machine whose clock is set while old rows are deleted: the real binary, under a clock of its own."""

import pathlib
import subprocess
import unittest

import harness
import postgres_test

# Every call that tells the time of the wall, so many seconds from the truth.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long shift(void) {
  const char* text = getenv("CLOCK_AHEAD_S");
  return text == NULL ? 0 : atol(text);
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


def under_another_clock(case, hours):
    """The environment of a process whose wall clock is so far ahead."""
    shim = pathlib.Path(case.folder) / "clock.so"
    if not shim.exists():
        source = case.write("clock.c", SHIM)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(shim), str(source), "-ldl"], check=True)
    return {"LD_PRELOAD": str(shim), "CLOCK_AHEAD_S": str(hours * HOURS),
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


if __name__ == "__main__":
    harness.main()
