"""What an operator is shown of stores in PostgreSQL."""

import signal
import unittest

import harness
import mapped_test
import postgres_test
from mapped_test import PUBLISH_STATUS, STATUS, MappedCase
from postgres_test import PostgresCase

INSERT = ("INSERT INTO dovetail.outbox (topic, aggregate_type, aggregate_id, type, payload) "
          "VALUES ('%s', 'orders', '%s', 'OrderPlaced', '{}')")

setUpModule = mapped_test.setUpModule


class Numbers(PostgresCase):
    def check(self):
        self.init()
        for key in ("1", "2", "3"):
            self.publish(key=key)
        self.sql(INSERT % ("nowhere", "4"))
        self.publish(key="4")
        self.dovetail("run", "--until-idle", code=1)
        reader = self.reader()
        self.assertEqual((reader["delivered_total"], reader["parked"], reader["waiting"], reader["pending"]), (3, 1, 1, 0))
        config = (self.folder / "dovetail.toml").read_text()
        self.write("dovetail.toml", config.replace('"orders.events"]', '"orders.events", "nowhere"]'))
        self.dovetail("parked", "replay", "--all", "--yes")
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.reader()["delivered_total"], 5)

    def test_delivered_counts_neither_parked_nor_waiting_events(self):
        self.check()

    def test_nor_does_it_when_the_log_is_read(self):
        text = (self.folder / "dovetail.toml").read_text()
        self.write("dovetail.toml", text.replace("lanes = 2", 'lanes = 1\nmode = "wal"'))
        self.check()

    def test_numbers_that_are_estimated_say_so(self):
        self.init()
        self.publish()
        store = self.stores("status")["orders"]
        self.assertTrue(store["rows_are_estimated"])
        self.assertIn("about 1 event pending, no relay has run yet", self.dovetail("status").out)
        self.assertFalse(self.stores("status")["inventory"]["rows_are_estimated"])


class OneEvent(PostgresCase):
    def test_show_tells_the_life_of_a_parked_event(self):
        self.init()
        self.sql(INSERT % ("nowhere", "4"))
        self.dovetail("run", "--until-idle", code=1)
        event = self.ask("parked", "list")["parked"][0]["id"]
        self.dovetail("parked", "replay", event)
        self.dovetail("run", "--until-idle", code=1)
        document = self.ask("events", "show", event)
        [life] = document["parked"]
        self.assertEqual((life["state"], life["relay"]), ("parked", "orders-to-inventory"))
        self.assertIn("nowhere", life["reason"])
        self.assertEqual([one["what"] for one in document["audit"]], ["replay"])
        text = self.dovetail("events", "show", event).out
        self.assertTrue(text.startswith("! orders-to-inventory parked it"), text)


class Mapped(MappedCase):
    def reader(self, name):
        [shop] = [store for store in self.ask("status", code=None)["stores"] if store["name"] == "shop"]
        return {one["name"]: one for one in shop["relays"]}.get(name)

    def ask(self, *arguments, code=0, **more):
        if code is None:
            done = self.run_dovetail(*arguments, "--json")
            done.out = done.out.decode()
            return done.json()
        return super().ask(*arguments, code=code, **more)

    def lag(self):
        return self.sql("SELECT relay, lane, held, pending, lag > interval '0', state FROM dovetail.lag ORDER BY 1, 2")

    def test_a_wrong_mapping_is_told_in_its_row_and_hides_no_other_relay(self):
        self.sql(STATUS.replace("event_type", "kind"))
        text = (self.folder / "dovetail.toml").read_text()
        self.write("dovetail.toml", text.replace("[log]", """
[[relay]]
name = "good"
from = "shop"
to = "inventory"
[log]"""))
        self.dovetail("run", "--until-idle", "good")
        document = self.ask("status", code=5)
        [shop] = [store for store in document["stores"] if store["name"] == "shop"]
        by_name = {one["name"]: one for one in shop["relays"]}
        self.assertIn("event_type", by_name["shop-to-inventory"]["error"]["text"])
        self.assertIsNone(by_name["shop-to-inventory"]["pending"])
        self.assertEqual(by_name["good"]["pending"], 0)
        out = self.dovetail("status", code=5).out
        self.assertEqual(out.splitlines()[0], "The relay shop-to-inventory does not fit its table.")
        self.assertRegex(out, r"(?s)\n! The relay shop-to-inventory does not fit its table.*event_type")
        self.assertRegex(out, r"(?m)^shop\.outbox_events +shop-to-inventory +error +-")
        self.assertIn("good", out)

    def test_the_view_of_the_lag_has_a_row_for_a_relay_of_a_mapped_table(self):
        self.sql(STATUS)
        process = self.start("run")
        self.wait_for("it has counted", lambda: "|t|0|f|delivering" in self.lag())
        process.send_signal(signal.SIGSTOP)
        self.addCleanup(process.send_signal, signal.SIGCONT)
        self.sql(PUBLISH_STATUS)
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        self.wait_for("nobody holds it, and the lag grows", lambda: "|f|" in self.lag() and "|t|stopped" in self.lag())

    def test_the_age_is_unknown_where_the_table_has_no_time(self):
        self.sql(mapped_test.PRESETS["sent_at"][0])
        self.table('preset = "sent_at"\n')
        self.sql(mapped_test.PRESETS["sent_at"][1])
        reader = self.reader("shop-to-inventory")
        self.assertEqual((reader["pending"], reader["oldest_age_us"]), (6, None))
        row = next(line for line in self.dovetail("status").out.splitlines() if line.startswith("shop.outbox_events"))
        self.assertEqual(row.split()[2:5], ["stopped", "6", "-"])

    def test_delivered_counts_neither_parked_nor_waiting_rows(self):
        self.sql(STATUS)
        self.sql(PUBLISH_STATUS)
        text = (self.folder / "dovetail.toml").read_text()
        self.write("dovetail.toml", text.replace('url = "sqlite:inventory.db"', 'url = "sqlite:inventory.db"\ntopics = ["x"]'))
        self.dovetail("run", "--until-idle", code=1)
        reader = self.reader("shop-to-inventory")
        self.assertEqual(reader["delivered_total"], 0)
        self.assertEqual(reader["parked"] + reader["waiting"], 6)

    def test_a_relay_that_cannot_start_says_why(self):
        self.sql(STATUS.replace("event_type", "kind"))
        process = self.start("run")
        self.wait_for("it is told", lambda: (one := self.reader("shop-to-inventory")) and one.get("last_error"))
        self.assertIn("event_type", self.reader("shop-to-inventory")["last_error"])


class Targets(PostgresCase):
    def test_another_target_is_refused_until_somebody_means_it(self):
        self.init()
        self.dovetail("run", "--until-idle")
        self.assertIn("inventory.db", self.reader()["target"])
        text = (self.folder / "dovetail.toml").read_text()
        self.write("dovetail.toml", text.replace("sqlite:inventory.db", "sqlite:elsewhere.db"))
        self.init()
        self.refused("run", "--until-idle", code=5, name="rejected", says=("dovetail relay retarget orders-to-inventory",))
        self.dovetail("relay", "retarget", "orders-to-inventory", "--reason", "a new disk")
        self.assertEqual(self.sql("SELECT what, relay, reason FROM dovetail.audit"), "retarget|orders-to-inventory|a new disk")
        self.publish()
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.rows("elsewhere.db", "SELECT count(*) FROM dovetail_mailbox"), [(1,)])

    def test_not_under_a_relay_that_runs(self):
        self.init()
        self.start("run")
        self.wait_for("it runs", lambda: self.reader() and self.reader()["owner"])
        self.refused("relay", "retarget", "orders-to-inventory", "--reason", "x", code=5, name="rejected", says=("stop",))

    def test_events_are_not_split_between_two_targets(self):
        self.init()
        self.start("run")
        self.wait_for("it runs", lambda: self.reader() and self.reader()["owner"])
        text = (self.folder / "dovetail.toml").read_text()
        self.write("other.toml", text.replace("sqlite:inventory.db", "sqlite:elsewhere.db"))
        self.dovetail("-c", "other.toml", "init")
        self.refused("-c", "other.toml", "run", code=5, name="rejected", says=("split",))
        for key in range(20):
            self.publish(key=str(key))
        self.wait_for("all have come to one place", lambda: self.mailbox() == 20)
        self.assertEqual(self.rows("elsewhere.db", "SELECT count(*) FROM dovetail_mailbox"), [(0,)])


if __name__ == "__main__":
    harness.main()
