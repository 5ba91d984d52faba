"""Operators steer a consumer as they steer a relay: pause, resume, drain."""

import signal
import unittest

import consumer_test
import harness
import postgres_test


@unittest.skipUnless(postgres_test.SERVER, "the server of the tests is missing; run it through ctest")
class Consumers(consumer_test.ConsumerCase):
    def setUp(self):
        super().setUp()
        self.configure(lease="2s")
        self.daemon = self.start("run")
        self.place(5)
        self.wait_for("five are booked", lambda: self.booked_count() == 5)

    def booked_count(self):
        return int(self.sql("SELECT count(*) FROM shop.booked"))

    def state(self):
        [one] = [relay for store in self.ask("status")["stores"] for relay in store["relays"] if relay["name"] == "booking"]
        return one["state"], one["pending"]

    def order(self, what, *more):
        return self.ask("relay", what, "booking", "--reason", "the handler changes", *more)

    def becomes(self, state, pending):
        self.wait_for(f"it is {state} with {pending} pending", lambda: self.state() == (state, pending))

    def restart(self):
        self.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(self.daemon.wait(harness.PATIENCE_S), 0, self.log())
        self.daemon = self.start("run")

    def audit(self):
        return self.sql("SELECT what FROM dovetail.audit ORDER BY number").splitlines()

    def test_a_paused_consumer_applies_nothing_until_it_is_resumed(self):
        self.assertTrue(self.order("pause", "--dry-run")["dry_run"])
        self.assertEqual(self.audit(), [])
        self.order("pause")
        self.becomes("paused", 0)
        self.place(3, first=6)
        said = self.log().count("was paused by")
        self.restart()
        self.wait_for("the new process says why it does nothing", lambda: self.log().count("was paused by") > said)
        self.assertEqual((self.state(), self.booked_count()), (("paused", 3), 5))
        self.assertIn("The consumer booking is paused by", self.dovetail("status").out)
        self.order("resume")
        self.becomes("delivering", 0)
        self.expect_order(range(1, 9), 5)
        self.assertEqual(self.audit(), ["pause", "resume"])

    def test_a_drained_consumer_applies_what_waits_for_its_next_try_and_nothing_new(self):
        self.place(1, first=666)  # the function refuses it
        self.wait_for("it was tried", lambda: self.sql("SELECT count(*) FROM dovetail.attempt") == "1"
                      or self.sql("SELECT count(*) FROM dovetail.parked WHERE finished_at IS NULL") != "0")
        self.mend()
        self.order("drain")
        self.becomes("drained", 0)
        self.assertEqual(self.booked_count(), 6, "the last try was applied")
        self.place(2, first=6)
        self.restart()
        self.wait_for("the new process says why it does nothing", lambda: "was drained by" in self.log())
        self.assertEqual((self.state(), self.booked_count()), (("drained", 2), 6))
        self.order("resume")
        self.becomes("delivering", 0)
        self.assertEqual(self.booked_count(), 8)


if __name__ == "__main__":
    harness.main()
