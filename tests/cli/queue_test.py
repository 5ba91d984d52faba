"""Queues of a PostgreSQL store, as an operator sees them with the binary, and as a worker uses them with psql alone."""

import subprocess
import sys
import unittest

import postgres_test

ENQUEUE = """
SELECT dovetail.enqueue('stock', array_agg(dovetail.uuid7()), array_agg('orders'::text), array_agg('order'::text),
                        array_agg(key), array_agg(type), array_agg('application/json'::text), array_agg(''::text),
                        array_agg('{}'::bytea), array_agg(0::bigint), array_agg(now()))
FROM (VALUES %s) AS e (key, type)
"""


class Queues(postgres_test.PostgresCase):
    def setUp(self):
        super().setUp()
        self.dovetail("init")
        self.sql(ENQUEUE % "('1', 'bad'), ('1', 'behind'), ('2', 'good'), ('3', 'ugly')")
        self.sql("SELECT dovetail.fail('stock', id, epoch, 'no such article', '1 hour', type IN ('bad', 'ugly')) "
                 "FROM dovetail.receive('stock', 10)")

    def parked(self):
        return {row["type"]: row for row in self.ask("parked", "list")["parked"]}

    def received(self):
        return self.sql("SELECT type FROM dovetail.receive('stock', 10) ORDER BY type").split()

    def test_are_part_of_the_status(self):
        queue = self.stores("status")["orders"]["queues"][0]
        self.assertGreater(queue.pop("oldest_age_us"), 0)
        self.assertEqual(queue, {"consumer": "stock", "events": 4, "ready": 0, "held": 0, "later": 1, "waiting": 1,
                                 "parked": 2})
        self.assertRegex(self.dovetail("status").out, r"QUEUE OF +EVENTS(?s:.*)\norders +stock +4 ")

    def test_parked_events_are_listed_replayed_and_discarded(self):
        parked = self.parked()
        self.assertEqual({(row["relay"], row["reason"]) for row in parked.values()}, {("stock", "no such article")})
        self.assertEqual(set(parked), {"bad", "ugly"})
        self.assertEqual(self.ask("parked", "replay", parked["ugly"]["id"])["replayed"], 1)
        self.assertEqual(self.received(), ["ugly"])
        self.dovetail("parked", "discard", parked["bad"]["id"], "--reason", "test data")
        self.assertEqual(self.received(), ["behind"])
        self.assertEqual(self.parked(), {})
        self.assertEqual(self.sql("SELECT what || ' ' || reason FROM dovetail.audit ORDER BY number"),
                         "replay \ndiscard test data")

    def test_a_lost_event_ends_the_script_of_a_worker_and_undoes_its_work(self):
        self.sql("CREATE TABLE effect (n int)")
        script = ("BEGIN; INSERT INTO effect VALUES (1); SELECT dovetail.complete('stock', event_id, 1) "
                  "FROM dovetail.queue LIMIT 1; COMMIT;")
        done = subprocess.run(["psql", "-X", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-c", script, self.conninfo],
                              capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("DT001", done.stderr)
        self.assertIn("HINT:  roll back", done.stderr)
        self.assertEqual(self.sql("SELECT count(*) FROM effect"), "0")

    def test_functions_explain_themselves_in_psql(self):
        for name in ("claim", "receive", "complete", "complete_many", "fail", "release", "extend", "replay", "discard"):
            said = self.sql(f"SELECT obj_description(oid) FROM pg_proc WHERE proname = '{name}' "
                            "AND pronamespace = 'dovetail'::regnamespace")
            self.assertGreater(len(said), 60, name)


if __name__ == "__main__":
    if not postgres_test.SERVER:
        print("SKIPPED: " + (postgres_test.first_line("postgres.missing") or "postgres was not started; run it through "
                             "ctest"), file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=1)
