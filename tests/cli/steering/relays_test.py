"""Operators steer relays, in a SQLite file and in PostgreSQL: pause, drain, resume."""

import signal

import harness
import postgres_test


class Steering:
    """The same for both; the store `orders` has the outbox."""

    relay = "orders-to-inventory"

    def state(self):
        relay = self.reader()
        return (relay["state"], relay["pending"]) if relay else None

    def becomes(self, state, pending):
        self.wait_for(f"{self.relay} is {state} with {pending} pending", lambda: self.state() == (state, pending))

    def order(self, what, *more, reason="the broker moves"):
        return self.ask("relay", what, self.relay, "--reason", reason, *more)

    def stop(self, daemon):
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(harness.PATIENCE_S), 0, self.log())

    def test_a_paused_relay_stays_paused_after_a_restart_until_it_is_resumed(self):
        daemon = self.start("run")
        self.publish()
        self.becomes("delivering", 0)
        tried = self.order("pause", "--dry-run")
        self.assertTrue(tried["dry_run"])
        self.assertIn("stops", [one["kind"] for one in tried["consequences"]])
        self.assertEqual(self.audit(), [])
        self.assertNotIn("hold", self.reader())

        self.assertFalse(self.order("pause")["dry_run"])
        self.becomes("paused", 0)
        self.publish()
        text = self.dovetail("status").out
        self.assertIn("is paused by", text)
        self.assertIn("the broker moves", text)
        self.assertEqual(self.order("pause", reason="again")["consequences"][0]["kind"], "nothing")
        self.stop(daemon)
        daemon = self.start("run")
        self.wait_for("the new process says why it does nothing", lambda: self.log().count("was paused by") >= 2)
        self.assertEqual(self.state(), ("paused", 1))

        self.assertEqual(self.order("resume")["pending"], 1)
        self.becomes("delivering", 0)
        self.stop(daemon)
        self.assertEqual(self.audit(), ["pause: the broker moves", "resume: the broker moves"])

    def test_a_drained_relay_says_so_and_reads_nothing_new(self):
        daemon = self.start("run")
        self.publish()
        self.becomes("delivering", 0)
        self.order("drain")
        self.becomes("drained", 0)
        self.publish()
        self.stop(daemon)
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.state(), ("drained", 1))
        self.order("resume")
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.reader()["pending"], 0)

    def test_an_order_that_cannot_be_is_refused_with_the_reason(self):
        self.refused("relay", "pause", "nobody", "--reason", "x", code=5, name="rejected", says=[self.relay, "--store"])
        self.refused("relay", "pause", self.relay, "--reason", "x", code=5, name="rejected", says=["has run"])
        self.dovetail("run", "--until-idle")
        self.refused("relay", "pause", self.relay, "--reason", " ", code=5, name="rejected", says=["reason"])
        self.assertEqual(self.audit(), [])


class Sqlite(Steering, harness.Case):
    def setUp(self):
        super().setUp()
        self.init()

    def audit(self):
        return [f"{what}: {why}" for what, why in
                self.rows("orders.db", "SELECT what, reason FROM dovetail_audit ORDER BY number")]


class Postgres(Steering, postgres_test.PostgresCase):
    def setUp(self):
        super().setUp()
        self.init()

    def audit(self):
        return self.sql("SELECT what || ': ' || reason FROM dovetail.audit ORDER BY number").splitlines()


if __name__ == "__main__":
    harness.main()
