"""`dovetail trace` and `dovetail explain`: what every store knows of one event."""

import re
import unittest
import uuid

import consumer_test
import harness
import kafka_topics
import postgres_test

KAFKA = dict(part.split("=", 1) for part in postgres_test.first_line("kafka.conninfo").split()).get("port", "")


class Trace(consumer_test.ConsumerCase):
    """The consumer reads the outbox of its own database."""

    def id_of(self, n):
        return self.sql(f"SELECT id FROM dovetail.outbox WHERE convert_from(payload, 'UTF8')::jsonb->>'n' = '{n}'")

    def trace(self, n, code=0):
        return self.ask("trace", self.id_of(n), code=code)

    def told(self, life):
        return [(step["actor"], step["what"]) for step in life["steps"]]

    def explained(self, n):
        return " ".join(line["text"] for line in self.ask("explain", self.id_of(n))["explain"])

    def test_from_the_commit_to_the_handler(self):
        self.configure()
        self.place(3)
        self.handle()
        life = self.trace(2)
        self.assertEqual(self.told(life), [("shop", "committed"), ("booking", "applied")])
        self.assertEqual((life["state"], life["sentence"]), ("delivered", "It is delivered. One handler has applied it."))
        self.assertEqual(life["steps"][0]["at_us"], 0)
        self.assertGreater(life["steps"][1]["at_us"], 0)
        self.assertEqual(life["event"]["key"], "2")
        self.assertNotIn("payload", life["event"])
        plain = self.dovetail("trace", self.id_of(2)).out
        self.assertIn("committed", plain)
        self.assertIn("applied", plain)
        self.assertIn("Lane 0 of 1 of booking", self.explained(2))

    def test_a_payload_that_was_changed_later_shows(self):
        self.configure()
        self.place(1)
        self.handle()
        event = self.id_of(1)
        self.sql("UPDATE dovetail.outbox SET payload = '{\"n\": 2}'")
        [_, applied] = self.ask("trace", event)["steps"]
        self.assertEqual((applied["kind"], "another payload" in applied["detail"]), ("bad", True))

    def test_what_is_pending_says_what_is_in_the_way(self):
        self.configure()
        self.place(1)
        self.assertEqual(self.trace(1)["state"], "pending")
        self.assertIn("has never run", self.explained(1))
        self.handle()
        self.place(1, first=2)
        life = self.trace(2)
        self.assertEqual(life["sentence"], "It is committed and not delivered yet.")
        self.assertIn("No process runs booking", self.explained(2))

    def test_a_parked_event_tells_its_attempts_and_what_waits_behind_it(self):
        self.configure(more="attempts_max = 3")
        self.place(20, keys=10)
        self.place(1, keys=10, first=666)
        self.place(2, keys=1, first=1000)
        self.sql("UPDATE dovetail.outbox SET aggregate_id = '6' WHERE convert_from(payload, 'UTF8')::jsonb->>'n' IN ('1000', '1001')")
        self.handle(code=1)
        life = self.trace(666)
        [parked] = [step for step in life["steps"] if step["what"] == "parked"]
        self.assertEqual((life["state"], parked["actor"], parked["attempt"]), ("parked", "booking", 3))
        self.assertIn("not this one", parked["detail"])
        why = self.explained(666)
        self.assertIn("booking parked it", why)
        self.assertIn("2 later events of its key wait", why)
        self.assertEqual(self.trace(1000)["state"], "waiting")
        self.assertIn("An earlier event of its key is parked", self.explained(1000))
        # Replayed, it was parked and applied, and says who decided.
        self.mend()
        self.dovetail("parked", "replay", self.id_of(666))
        self.handle()
        told = self.told(self.trace(666))
        self.assertEqual([what for _, what in told if what != "replay"], ["committed", "parked", "applied", "confirmed"])
        self.assertIn("replay", [what for _, what in told])

    def test_types_that_no_handler_wants_are_left_out(self):
        self.configure(consumer_test.SQL_HANDLER + 'types = ["order.*"]\n')
        self.place(1, kind="mail.sent")
        self.handle()
        self.assertIn("leaves it out: no handler of it wants the type mail.sent", self.explained(1))

    def test_a_scheduled_event_waits_for_its_time(self):
        self.configure()
        event = self.sql("SELECT dovetail.publish('orders', '1', 'order.placed', '{}'::jsonb, deliver_at => now() + interval '1 day')")
        life = self.ask("trace", event)
        self.assertEqual((life["state"], self.told(life)), ("delayed", [("shop", "scheduled")]))

    def test_an_unknown_event_is_unknown(self):
        self.configure()
        said = self.refused("trace", str(uuid.uuid4()), code=1, name="negative", says=("no store knows",))
        self.assertNotIn("not asked", said.err)
        self.refused("explain", "no-id", code=5, name="rejected")

    def test_a_store_that_is_away_is_named_and_the_others_are_asked(self):
        away = '[store.away]\nurl = "postgres://127.0.0.1:1/nothing"\n'
        self.configure(stores=away)
        self.place(1)
        self.handle("booking")
        life = self.trace(1)
        self.assertEqual(self.told(life), [("shop", "committed"), ("booking", "applied")])
        self.assertEqual([one["store"] for one in life["not_asked"]], ["away"])
        self.refused("trace", str(uuid.uuid4()), code=4, name="unavailable", says=("not asked: away",))


class Rights(consumer_test.ConsumerCase):
    """From the outbox of a database into the mailbox of a file, as a login sees it that may not read everything."""

    def setUp(self):
        super().setUp()
        self.configure()
        self.dovetail("init", "--roles")
        self.user = f"{self.database}_guest"
        consumer_test.psql(f"CREATE ROLE {self.user} LOGIN")
        self.addCleanup(consumer_test.psql, f"DROP ROLE {self.user}")
        self.addCleanup(self.sql, f"DROP OWNED BY {self.user}")
        self.write("dovetail.toml", f'[store.shop]\nurl = "postgres:{self.conninfo}"\n[store.stock]\nurl = "sqlite:stock.db"\n'
                   '[[relay]]\nname = "out"\nfrom = "shop"\nto = "stock"\n'
                   '[[consumer]]\nname = "count"\nfrom = "stock"\nto = "stock"\n'
                   '[[consumer.handler]]\nkind = "command"\ncommand = ["true"]\n')
        self.init()

    def become_guest(self, *rights):
        for right in rights:
            self.sql(f"GRANT {right} TO {self.user}")
        self.write("dovetail.toml", (self.folder / "dovetail.toml").read_text().replace(
            self.conninfo, f"{self.conninfo} user={self.user}"))

    def test_what_may_not_be_read_is_unknown_and_not_pending(self):
        self.place(1)
        self.dovetail("run", "out", "--until-idle")
        event = self.sql("SELECT id FROM dovetail.outbox")
        self.become_guest()
        life = self.ask("trace", event)
        self.assertEqual(life["state"], "unknown")
        self.assertIn("the outbox of shop could not be read. It has arrived in stock, and count has not applied it", life["sentence"])
        [unasked] = life["not_asked"]
        self.assertEqual(unasked["store"], "shop")
        self.assertIn("permission denied for schema dovetail", unasked["why"])
        self.assertIn("not asked: shop: permission denied", self.dovetail("trace", event).out)
        said = self.refused("trace", str(uuid.uuid4()), code=4, name="unavailable", says=("no store that could be read",))
        self.assertIn("permission denied", said.err)

    def test_one_table_that_may_not_be_read_hides_no_other(self):
        self.configure()
        self.place(1)
        self.handle()
        event = self.sql("SELECT id FROM dovetail.outbox")
        self.become_guest("dovetail_operator")
        self.sql("REVOKE SELECT ON dovetail.audit FROM dovetail_operator")
        life = self.ask("trace", event)
        self.assertEqual(life["state"], "delivered")
        self.assertIn(("booking", "applied"), [(step["actor"], step["what"]) for step in life["steps"]])
        [unasked] = life["not_asked"]
        self.assertIn("permission denied for table audit", unasked["why"])


@unittest.skipUnless(KAFKA, "the server of the tests is missing; run it through ctest")
class Topic(consumer_test.ConsumerCase):
    """Out to a topic of Kafka, and from there into the inbox."""

    def setUp(self):
        super().setUp()
        self.topic = f"trace-{self.database}"
        kafka_topics.create(int(KAFKA), self.topic, partitions=3)
        self.bus()

    def bus(self, port=KAFKA, more=""):
        self.configure(source="bus", stores=(
            f'[store.bus]\nurl = "kafka://127.0.0.1:{port}"\nread = ["{self.topic}"]\n\n[[relay]]\nname = "out"\n'
            f'from = "shop"\nto = "bus"\ntopic = "{self.topic}"\n{more}'))

    def trace(self, n):
        return self.ask("trace", self.id_of(n))

    def id_of(self, n):
        return self.sql(f"SELECT id FROM dovetail.outbox WHERE convert_from(payload, 'UTF8')::jsonb->>'n' = '{n}'")

    def step(self, life, actor, what):
        [step] = [one for one in life["steps"] if (one["actor"], one["what"]) == (actor, what)]
        return step

    def test_from_the_outbox_over_the_topic_to_the_inbox(self):
        self.place(200, keys=20)
        self.dovetail("run", "out", "--until-idle")
        self.start("run", "booking")
        self.wait_for("everything is booked", lambda: len(self.booked()) == 200)
        life = self.trace(117)
        self.assertEqual([(step["actor"], step["what"]) for step in life["steps"] if step["actor"] != "bus"],
                         [("shop", "committed"), ("out", "confirmed"), ("booking", "applied")])
        stored, confirmed = self.step(life, "bus", "stored"), self.step(life, "out", "confirmed")
        self.assertIsNotNone(stored["at"])
        self.assertRegex(stored["detail"], rf"^{self.topic}, partition [012], offset \d+$")
        self.assertEqual(confirmed["kind"], "ok")
        self.assertGreater(confirmed["at_us"], 0)
        self.assertRegex(confirmed["detail"], r"^bus; by .+:\d+.* with \d+ events?$")
        self.assertEqual(life["not_asked"], [])
        # Where the trace says it is, Kafka has it.
        partition, offset = map(int, re.findall(r"partition (\d), offset (\d+)$", stored["detail"])[0])
        report = self.ask("reconcile", "--outbox", "shop", "--topic", f"bus/{self.topic}")
        self.assertEqual(report["findings"], [])
        self.sql(f"UPDATE dovetail.outbox SET payload = '{{\"n\": 0}}' WHERE id = '{life['id']}'")
        [altered] = self.ask("reconcile", "--outbox", "shop", "--topic", f"bus/{self.topic}", code=1)["findings"]
        self.assertEqual((altered["partition"], altered["offset"]), (partition, offset))
        # One row for a write of progress, not one for each event.
        rows, events = self.sql("SELECT count(*), sum(events) FROM dovetail.receipt WHERE relay = 'out'").split("|")
        self.assertEqual(int(events), 200)
        self.assertLess(int(rows), 20)

    def test_a_row_of_a_table_of_the_application(self):
        self.sql("CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text, aggregate_id text, "
                 "event_type text, payload jsonb, created_at timestamptz DEFAULT clock_timestamp(), processed_at timestamptz, "
                 "status text DEFAULT 'pending')")
        self.bus(more='[relay.table]\npreset = "processed_at"\n')
        self.sql("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', n % 5, 'placed', "
                 "to_jsonb(n) FROM generate_series(1, 40) AS n")
        event = self.sql("SELECT id FROM outbox WHERE payload = '17'")
        self.assertEqual(self.ask("trace", event)["state"], "pending")
        self.dovetail("run", "out", "--until-idle")
        life = self.ask("trace", event)
        self.assertEqual((life["state"], life["not_asked"]), ("delivered", []))
        self.assertEqual(self.step(life, "shop", "committed")["detail"], "table of the preset processed_at, 2 bytes")
        self.assertRegex(self.step(life, "bus", "stored")["detail"], rf"^{self.topic}, partition [012], offset \d+$")
        confirmed = self.step(life, "out", "confirmed")
        self.assertRegex(confirmed["detail"], r"^bus; by .+:\d+.* with \d+ events?$")
        marked = "SELECT to_char(processed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM outbox WHERE id = "
        self.assertEqual(confirmed["at"], self.sql(f"{marked} '{event}'"))
        # Without a receipt its row still says when.
        self.sql("DELETE FROM dovetail.receipt")
        life = self.ask("trace", event)
        confirmed = self.step(life, "out", "confirmed")
        self.assertEqual(confirmed["at"], self.sql(f"{marked} '{event}'"))
        self.assertIn("its row says when; by which process and where nobody recorded", confirmed["detail"])
        self.assertIn("noted no place", life["not_asked"][0]["why"])

    def test_without_the_broker_the_receipt_tells(self):
        self.place(40)
        self.dovetail("run", "out", "--until-idle")
        self.bus(port=1, more='[store.bus.settings]\nconnect_timeout = "500ms"\n')
        life = self.trace(17)
        self.assertEqual([one["store"] for one in life["not_asked"]], ["bus"])
        confirmed = self.step(life, "out", "confirmed")
        self.assertRegex(confirmed["detail"], rf"^bus, in {self.topic}, partition \d, offset \d+ to \d+")
        self.assertIn("not asked: bus: ", self.dovetail("trace", self.id_of(17)).out)

    def test_what_no_relay_noted_stays_unknown(self):
        self.place(1)
        self.dovetail("run", "out", "--until-idle")
        self.sql("DELETE FROM dovetail.receipt")
        life = self.trace(1)
        self.assertEqual(self.step(life, "out", "confirmed")["kind"], "unknown")
        [unasked] = life["not_asked"]
        self.assertIn("noted no place", unasked["why"])

    def test_a_replayed_event_has_no_noted_place(self):
        self.place(1)
        self.bus(more='[store.bus.settings]\nmessage_max = "1KiB"\n')
        self.sql("UPDATE dovetail.outbox SET payload = convert_to(jsonb_build_object('n', 1, 'x', repeat('x', 2000))::text, 'UTF8')")
        self.dovetail("run", "out", "--until-idle", code=1)
        self.assertEqual(self.trace(1)["state"], "parked")
        self.bus()
        self.dovetail("parked", "replay", self.id_of(1))
        self.dovetail("run", "out", "--until-idle")
        life = self.trace(1)
        self.assertEqual(self.step(life, "out", "confirmed")["detail"], "bus, from parking")
        self.assertIn("replayed event", life["not_asked"][0]["why"])


class Files(harness.Case):
    """From one SQLite file into the mailbox of another."""

    def test_from_the_outbox_into_the_mailbox(self):
        self.init()
        event = self.publish_id()
        self.assertEqual(self.ask("trace", event)["state"], "pending")
        self.dovetail("run", "--until-idle")
        life = self.ask("trace", event)
        self.assertEqual(life["state"], "delivered")
        self.assertEqual([(step["actor"], step["what"]) for step in life["steps"]][0], ("orders", "committed"))
        self.assertIn(("inventory", "received"), [(step["actor"], step["what"]) for step in life["steps"]])
        [confirmed] = [step for step in life["steps"] if step["what"] == "confirmed"]
        self.assertEqual(confirmed["kind"], "ok")
        self.assertRegex(confirmed["detail"], r"^inventory; by .+ with 1 event$")


if __name__ == "__main__":
    harness.main()
