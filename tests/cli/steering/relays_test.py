"""Operators steer relays, in a SQLite file and in PostgreSQL: pause, drain, move, rename, forget; filters and the first start."""

import signal
import time
import uuid

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

    def mailbox(self):
        return self.rows("inventory.db", "SELECT count(*) FROM dovetail_mailbox")[0][0]

    def states(self, relay=None):
        rows = self.ask("events", "--store", "orders")["events"]
        return [row["state"] for row in rows if row["relay"] == (relay or self.relay)]

    def delivered(self):
        return self.reader()["delivered_total"]

    def test_a_relay_is_moved_back_while_it_runs_and_says_how_much_is_sent_again(self):
        for _ in range(5):
            self.publish()
        daemon = self.start("run")
        self.wait_for("all are delivered", lambda: self.reader() and self.delivered() == 5)
        tried = self.order("seek", "--to", "beginning", "--dry-run")
        self.assertEqual((tried["sent_again"], tried["skipped"], tried["dry_run"]), (5, 0, True))
        self.assertEqual(self.delivered(), 5)
        moved = self.order("seek", "--to", "beginning")
        self.assertEqual((moved["sent_again"], moved["dry_run"]), (5, False))
        self.wait_for("all are delivered again", lambda: self.delivered() == 10)
        self.becomes("delivering", 0)
        self.assertEqual(self.mailbox(), 5, "the receiver knows them")
        self.publish()
        self.wait_for("it goes on", lambda: self.mailbox() == 6)
        self.stop(daemon)
        third = sorted(row["position"] for row in self.ask("events", "--store", "orders")["events"])[2]
        self.assertEqual(self.order("seek", "--to", str(third), "--dry-run")["sent_again"], 4)

    def test_what_a_relay_is_moved_beyond_is_skipped_and_never_delivered(self):
        self.publish()
        self.dovetail("run", "--until-idle")
        for _ in range(3):
            self.publish()
        later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        self.assertEqual(self.order("seek", "--to", later, "--dry-run")["skipped"], 3)
        self.assertEqual(self.order("seek", "--to", "2001-01-01T00:00:00Z", "--dry-run")["sent_again"], 1)
        self.order("pause")
        self.assertEqual(self.order("seek", "--to", "now")["skipped"], 3)
        self.assertEqual(self.state(), ("paused", 0), "a move does not resume it")
        self.order("resume")
        self.publish()
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.mailbox(), 2)
        self.assertEqual((self.delivered(), self.reader()["skipped_total"]), (2, 3))
        self.assertIn("seek: the broker moves", self.audit())
        self.assertEqual(self.states(), ["delivered", "skipped", "skipped", "skipped", "delivered"])
        self.assertEqual(len(self.ask("events", "--store", "orders", "--state", "skipped")["events"]), 3)
        second = self.ask("events", "--store", "orders")["events"][1]["position"]
        self.assertEqual(self.order("seek", "--to", str(second + 1))["sent_again"], 3)
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.states(), ["delivered", "skipped", "delivered", "delivered", "delivered"])

    def test_a_relay_gets_another_name_when_nobody_runs_it_and_sends_nothing_twice(self):
        self.publish()
        daemon = self.start("run")
        self.becomes("delivering", 0)
        self.refused("relay", "rename", self.relay, "shop", "--reason", "x", code=5, name="rejected", says=["runs"])
        self.refused("relay", "forget", self.relay, "--reason", "x", code=5, name="rejected", says=["runs"])
        self.stop(daemon)
        self.order("pause")
        self.refused("relay", "rename", self.relay, "shop", "--reason", "x", code=5, name="rejected", says=["resume"])
        self.order("resume")
        tried = self.ask("relay", "rename", self.relay, "shop", "--reason", "x", "--dry-run")
        self.assertIn("config", [one["kind"] for one in tried["consequences"]])
        self.assertEqual(self.receipts(), [self.relay])
        self.ask("relay", "rename", self.relay, "shop", "--reason", "the shop has another name")
        self.assertEqual(self.receipts(), ["shop"])
        config = self.folder / "dovetail.toml"
        config.write_text(config.read_text().replace(f'"{self.relay}"', '"shop"'))
        self.publish()
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.reader(name="shop")["delivered_total"], 2)
        self.assertIsNone(self.reader())

    def test_a_relay_that_is_gone_is_forgotten_and_begins_anew_if_it_comes_back(self):
        self.publish()
        self.dovetail("run", "--until-idle")
        self.publish()
        self.assertEqual(self.order("forget", "--dry-run")["skipped"], 1)
        self.assertIsNotNone(self.reader())
        self.assertEqual(self.receipts(), [self.relay])
        self.order("forget", "--store", "orders")
        self.assertIsNone(self.reader())
        self.assertEqual(self.receipts(), [])
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.delivered(), 2, "it is a new relay")

    def share(self, filters):
        """The relay gets filters; another one fills mail.db with what is called Mail*."""
        config = self.folder / "dovetail.toml"
        config.write_text(config.read_text().replace('to = "inventory"', 'to = "inventory"\n' + filters) +
                          '[store.mail]\nurl = "sqlite:mail.db"\n[[relay]]\nname = "mails"\nfrom = "orders"\nto = "mail"\ntypes = "Mail*"\n')
        self.init()

    def ask_for_a_mail(self, *more):
        self.dovetail("publish", "--store", "orders", "--aggregate-type", "orders", "--key", "17", "--type", "MailAsked",
                      "--payload", "{}", *more)

    def mails(self):
        return [row for row, in self.rows("mail.db", "SELECT type FROM dovetail_mailbox")]

    def test_filters_share_an_outbox_among_relays_and_what_they_leave_out_is_skipped(self):
        self.share('types = ["Order*"]\nheaders = "region=eu*"')
        self.publish("--header", "region=eu-west")
        self.publish("--header", "region=us")
        self.publish()
        self.ask_for_a_mail()
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.mailbox(), 1)
        self.assertEqual(self.mails(), ["MailAsked"])
        counts = {name: (self.reader(name=name)["delivered_total"], self.reader(name=name)["skipped_total"])
                  for name in (self.relay, "mails")}
        self.assertEqual(counts, {self.relay: (1, 3), "mails": (1, 3)})
        self.assertEqual(self.states(), ["delivered", "skipped", "skipped", "skipped"])
        self.assertEqual(self.states("mails"), ["skipped", "skipped", "skipped", "delivered"])

    def test_retention_takes_what_a_filter_left_out_and_nothing_that_is_still_to_be_delivered(self):
        self.share('types = "Order*"')
        self.dovetail("run", "--until-idle")
        # Random ids, which are in no partition of a time.
        self.ask_for_a_mail("--id", str(uuid.uuid4()))
        self.publish("--id", str(uuid.uuid4()))
        self.dovetail("run", self.relay, "--until-idle")
        self.make_events_old()
        self.assertEqual((self.pruned(), self.mailbox(), self.mails()), (0, 1, []), "the mail is only left out by one of them")
        self.dovetail("run", "--until-idle")
        self.assertEqual((self.pruned(), self.mailbox(), self.mails()), (2, 1, ["MailAsked"]))
        self.ask_for_a_mail("--id", str(uuid.uuid4()))
        self.ask_for_a_mail("--id", str(uuid.uuid4()))
        self.make_events_old()
        self.assertEqual(self.pruned(), 0, "neither has looked at them")
        self.dovetail("run", "--until-idle")
        self.assertEqual((self.pruned(), self.mails()), (2, ["MailAsked"] * 3))
        self.assertEqual(self.reader()["skipped_total"], 3)

    def pruned(self):
        stores = {one["name"]: one for one in self.ask("prune", "--delivered", "1m")["stores"]}
        return stores["orders"]["outbox"]

    def test_a_relay_may_begin_with_what_comes_from_its_first_start_on(self):
        config = self.folder / "dovetail.toml"
        config.write_text(config.read_text().replace('to = "inventory"', 'to = "inventory"\nstart = "now"'))
        self.publish()
        self.dovetail("run", "--until-idle")
        self.publish()
        self.dovetail("run", "--until-idle")
        self.assertEqual((self.mailbox(), self.delivered()), (1, 1))


class Sqlite(Steering, harness.Case):
    def setUp(self):
        super().setUp()
        self.init()

    def audit(self):
        return [f"{what}: {why}" for what, why in
                self.rows("orders.db", "SELECT what, reason FROM dovetail_audit ORDER BY number")]

    def make_events_old(self):
        self.change("orders.db", "UPDATE dovetail_outbox SET created_at = created_at - 3600000000")

    def receipts(self):
        return [name for name, in self.rows("orders.db", "SELECT relay FROM dovetail_receipt")]


class Postgres(Steering, postgres_test.PostgresCase):
    def setUp(self):
        super().setUp()
        self.init()

    def test_a_drained_relay_lets_no_delayed_event_go_before_it_is_resumed(self):
        self.publish()
        daemon = self.start("run")
        self.becomes("delivering", 0)
        self.order("drain")
        self.becomes("drained", 0)
        self.publish("--deliver-at", "2100-01-01T00:00:00Z")
        self.sql("UPDATE dovetail.delayed SET deliver_at = clock_timestamp()")
        self.becomes("drained", 1)
        self.stop(daemon)
        self.dovetail("run", "--until-idle")
        self.assertEqual((self.mailbox(), self.sql("SELECT count(*) FROM dovetail.delayed")), (1, "1"))
        self.order("resume")
        self.dovetail("run", "--until-idle")
        self.assertEqual((self.mailbox(), self.sql("SELECT count(*) FROM dovetail.delayed")), (2, "0"))

    def test_a_filter_holds_for_delayed_events_and_a_replay_of_an_operator_goes_out_all_the_same(self):
        config = self.folder / "dovetail.toml"
        open_config = config.read_text()
        self.publish()
        self.dovetail("run", "--until-idle")
        self.sql("INSERT INTO dovetail.parked (relay, id, position, topic, aggregate_type, aggregate_id, type, content_type, "
                 "headers, payload, aggregate_version, created_at, state, at_head, attempts, reason, retry_at) "
                 f"SELECT '{self.relay}', dovetail.uuid7(), seq, topic, aggregate_type, aggregate_id, type, content_type, headers, "
                 "payload, aggregate_version, created_at, 'parked', true, 1, 'x', now() FROM dovetail.outbox")
        config.write_text(open_config.replace('to = "inventory"', 'to = "inventory"\ntypes = "Mail*"'))
        self.publish("--deliver-at", "2100-01-01T00:00:00Z")
        self.sql("UPDATE dovetail.delayed SET deliver_at = clock_timestamp()")
        self.ask("parked", "replay", "--all", "--yes")
        self.dovetail("run", "--until-idle")
        self.wait_for("the replay is delivered", lambda: self.mailbox() == 2)
        self.assertEqual((self.reader()["skipped_total"], self.sql("SELECT count(*) FROM dovetail.delayed")), (1, "0"))

    def test_a_relay_that_reads_the_wal_is_moved_while_it_streams(self):
        config = self.folder / "dovetail.toml"
        config.write_text(config.read_text().replace("lanes = 2", 'lanes = 1\nmode = "wal"'))
        for _ in range(3):
            self.publish()
        daemon = self.start("run")
        reads_wal = lambda: (self.reader() or {}).get("reads", {}).get("from") == "wal"
        self.wait_for("it reads the WAL", lambda: reads_wal() and self.delivered() == 3)
        self.assertEqual(self.order("seek", "--to", "beginning")["sent_again"], 3)
        self.wait_for("all are delivered again", lambda: self.delivered() == 6)
        self.publish()
        self.wait_for("it goes on with the WAL", lambda: reads_wal() and self.mailbox() == 4)
        self.stop(daemon)
        self.assertEqual(self.delivered(), 7, "the slot repeats nothing that was passed")
        slot = self.ask("slots")["slots"][0]["name"]
        renamed = self.ask("relay", "rename", self.relay, "shop", "--reason", "x")
        self.assertNotIn("slot", [one["kind"] for one in renamed["consequences"]])
        self.assertNotIn(slot, [one["name"] for one in self.ask("slots")["slots"]], "nobody would use it again")

    def audit(self):
        return self.sql("SELECT what || ': ' || reason FROM dovetail.audit ORDER BY number").splitlines()

    def make_events_old(self):
        self.sql("UPDATE dovetail.outbox SET created_at = created_at - interval '1 hour'")

    def receipts(self):
        return self.sql("SELECT relay FROM dovetail.receipt").splitlines()


if __name__ == "__main__":
    harness.main()
