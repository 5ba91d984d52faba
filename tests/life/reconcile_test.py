"""`dovetail reconcile`: a real outbox, a consumer's inbox and a topic, with faults that the test plants."""

import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import time
import unittest

import consumer_test
import harness
import kafka_topics
import postgres_test

KAFKA = dict(part.split("=", 1) for part in postgres_test.first_line("kafka.conninfo").split()).get("port", "")
CHROMIUM = shutil.which("chromium")


def some(table, column, count, offset=0):
    return f"SELECT {column} FROM {table} ORDER BY md5({column}::text) OFFSET {offset} LIMIT {count}"


class Inbox(consumer_test.ConsumerCase):
    """The consumer reads the outbox of its own database."""

    def setUp(self):
        super().setUp()
        self.configure()
        self.place(400)
        self.handle()

    def reconcile(self, *more, code=0):
        return self.ask("reconcile", "--outbox", "shop", "--inbox", "shop", *more, code=code)

    def ids(self, statement):
        return sorted(self.sql(statement).splitlines())

    def found(self, report, kind):
        return sorted(one["id"] for one in report["findings"] if one["kind"] == kind)

    def test_what_was_applied_is_accounted_for(self):
        report = self.reconcile()
        self.assertEqual(report["verdict"], "All 400 events of shop are accounted for in the inbox of booking in shop.")
        self.assertEqual((report["counts"]["events"], report["counts"]["received"]), (400, 400))
        self.assertEqual(report["findings"], [])
        self.assertEqual(report["relay"], "booking")
        plain = self.dovetail("reconcile", "--outbox", "shop", "--inbox", "shop", "--consumer", "booking")
        self.assertIn("All 400 events of shop are accounted for", plain.out)
        self.assertEqual(plain.err, "")

    def test_every_planted_fault_is_named_and_nothing_else(self):
        missing = self.ids(f"DELETE FROM dovetail.inbox WHERE event_id IN ({some('dovetail.inbox', 'event_id', 7)}) "
                           "RETURNING event_id")
        altered = self.ids("UPDATE dovetail.outbox SET payload = '{\"n\": 0}' WHERE id IN "
                           f"({some('dovetail.inbox', 'event_id', 5, 20)}) RETURNING id")
        late = self.ids("UPDATE dovetail.inbox SET applied_at = applied_at + interval '2 hours' WHERE event_id IN "
                        f"({some('dovetail.inbox', 'event_id', 3, 50)}) RETURNING event_id")
        extra = self.ids(f"DELETE FROM dovetail.outbox WHERE id IN ({some('dovetail.inbox', 'event_id', 4, 90)}) RETURNING id")
        report = self.reconcile("--late-after", "1h", code=1)
        self.assertEqual({kind: self.found(report, kind) for kind in ("missing", "altered", "late", "extra")},
                         {"missing": missing, "altered": altered, "late": late, "extra": extra})
        self.assertEqual(len(report["findings"]), 19)
        self.assertEqual(report["counts"]["received"], 400 - 7 - 4)
        # The listing is bounded; the digest is not.
        short = self.reconcile("--late-after", "1h", "--findings", "2", code=1)
        self.assertEqual(len(short["findings"]), 8)
        self.assertEqual(short["findings_digest"], report["findings_digest"])
        digests = (hashlib.sha256("".join(f"{kind} booking {one}\n" for one in ids).encode()).hexdigest()
                   for kind, ids in (("missing", missing), ("extra", extra), ("altered", altered), ("late", late)))
        self.assertEqual(report["findings_digest"], hashlib.sha256("".join(digests).encode()).hexdigest())
        said = self.dovetail("reconcile", "--outbox", "shop", "--inbox", "shop", code=1).out
        self.assertIn("7 missing, 4 extra, 5 altered", said)
        self.assertIn(missing[0], said)

    def test_late_alone_ends_with_0(self):
        self.sql("UPDATE dovetail.inbox SET applied_at = applied_at + interval '2 hours'")
        self.assertEqual(self.reconcile("--late-after", "1h")["counts"]["late"], 400)

    def test_what_is_kept_back_is_counted_apart(self):
        self.place(1, first=666)
        self.place(2, first=1001)
        self.handle(code=1)
        self.sql("SELECT dovetail.publish('orders', '1', 'order.placed', '{}'::jsonb, deliver_at => now() + interval '1 day')")
        self.place(3, first=2001)
        counts = self.reconcile()["counts"]
        self.assertEqual((counts["parked"], counts["delayed"], counts["missing"]), (1, 1, 0))
        self.assertGreaterEqual(counts["waiting"], 3)

    def test_events_of_types_that_no_handler_wants_are_skipped(self):
        self.configure(consumer_test.SQL_HANDLER + 'types = ["order.*"]\n')
        self.place(5, kind="mail.sent")
        self.handle()
        counts = self.reconcile()["counts"]
        self.assertEqual((counts["skipped"], counts["missing"]), (5, 0))

    def test_only_the_time_that_is_asked_for_is_judged(self):
        missing = self.ids("DELETE FROM dovetail.inbox USING dovetail.outbox AS o WHERE o.id = event_id AND o.seq % 20 = 0 "
                           "RETURNING event_id")
        self.assertEqual(len(missing), 20)
        middle = self.sql("SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') "
                          "FROM dovetail.outbox ORDER BY seq OFFSET 200 LIMIT 1")
        before = int(self.sql(f"SELECT count(*) FROM dovetail.outbox WHERE created_at < '{middle}'"))
        early = self.reconcile("--to", middle, code=1)
        self.assertEqual((early["counts"]["events"], early["counts"]["outside"]), (before, 400 - before))
        self.assertEqual(early["judged"]["to"], middle)
        late = self.reconcile("--from", middle, code=1)
        self.assertEqual(late["judged"]["from"], middle)
        self.assertEqual(sorted(self.found(early, "missing") + self.found(late, "missing")), missing)

    def test_what_the_inbox_forgot_is_not_judged(self):
        self.sql("UPDATE dovetail.consumer SET forgotten_until = now() - interval '12 hours'")
        self.sql("UPDATE dovetail.outbox SET created_at = created_at - interval '1 day' WHERE seq <= 20")
        self.sql("DELETE FROM dovetail.inbox USING dovetail.outbox AS o WHERE o.id = event_id AND o.seq <= 20")
        report = self.reconcile("--from", "2020-01-01T00:00:00Z")
        self.assertEqual(report["counts"]["events"], 380)
        self.assertIn("the inbox remembers everything since", " ".join(report["limits"]))
        said = self.refused("reconcile", "--outbox", "shop", "--inbox", "shop", "--to", "2020-01-02T00:00:00Z", code=5,
                            name="rejected", says=("retain nothing",))
        self.assertIn("choose a later time", said.err)

    def test_a_wrong_request_says_what_to_do(self):
        for arguments, code, says in (
                (("--outbox", "shop"), 2, "--inbox"),
                (("--outbox", "shop", "--topic", "bus"), 2, "STORE/TOPIC"),
                (("--outbox", "shop", "--inbox", "shop", "--from", "yesterday"), 2, "RFC 3339"),
                (("--outbox", "nowhere", "--inbox", "shop"), 5, "nowhere"),
                (("--outbox", "shop", "--inbox", "shop", "--consumer", "nobody"), 5, "nobody"),
                (("--outbox", "shop", "--topic", "shop/orders"), 5, "relay")):
            self.assertIn(says, self.dovetail("reconcile", *arguments, code=code).err)

    def page(self, *more, code=0):
        self.dovetail("reconcile", "--outbox", "shop", "--inbox", "shop", "--report", "report.html", *more, code=code)
        return (self.folder / "report.html").read_text(encoding="utf-8")

    def test_the_page_holds_the_document_and_its_digest(self):
        self.sql(f"DELETE FROM dovetail.inbox WHERE event_id IN ({some('dovetail.inbox', 'event_id', 120)})")
        self.sql("UPDATE dovetail.outbox SET type = '<script>alert(1)</script>'")
        page = self.page(code=1)
        [text] = re.findall(r'<script type="application/json" id="report">(.*)</script></body>', page, re.DOTALL)
        document = json.loads(text)
        self.assertEqual(len(document["findings"]), 120)
        [digest] = re.findall(r"SHA-256 of this report: <code>([0-9a-f]{64})</code>", page)
        self.assertEqual(hashlib.sha256(text.encode()).hexdigest(), digest)
        self.assertNotIn("<script>alert", page)
        self.assertNotRegex(page, r"(src|href)=|url\(|@import")
        self.assertNotIn('"payload"', page)
        self.assertEqual(sorted(os.listdir(self.folder)), ["dovetail.toml", "report.html"])

    @unittest.skipUnless(CHROMIUM, "no browser is installed")
    def test_the_page_prints_on_one_sheet(self):
        self.sql(f"DELETE FROM dovetail.inbox WHERE event_id IN ({some('dovetail.inbox', 'event_id', 120)})")
        self.page("--late-after", "1h", "--from", "2020-01-01T00:00:00Z", code=1)
        subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer",
                        f"--user-data-dir={self.folder / 'browser'}", f"--print-to-pdf={self.folder / 'report.pdf'}",
                        (self.folder / "report.html").as_uri()], check=True, capture_output=True, timeout=harness.PATIENCE_S)
        sheets = re.findall(rb"/Type\s*/Page\b", (self.folder / "report.pdf").read_bytes())
        self.assertEqual(len(sheets), 1)

    def test_a_report_that_cannot_be_written_is_an_error(self):
        self.refused("reconcile", "--outbox", "shop", "--inbox", "shop", "--report", "no/such/folder/report.html", code=4,
                     name="unavailable", says=("cannot write the report",))


@unittest.skipUnless(KAFKA, "the server of the tests is missing; run it through ctest")
class Topic(consumer_test.ConsumerCase):
    """Out to a topic of Kafka, and from there into the inbox."""

    COUNT = 1_000_000 if os.environ.get("DOVETAIL_CHAOS") == "1" else 20_000

    def setUp(self):
        super().setUp()
        self.topic = f"reconcile-{self.database}"
        kafka_topics.create(int(KAFKA), self.topic)
        bus = (f'[store.bus]\nurl = "kafka://127.0.0.1:{KAFKA}"\nread = ["{self.topic}"]\n\n[[relay]]\nname = "out"\n'
               f'from = "shop"\nto = "bus"\ntopic = "{self.topic}"\n')
        self.configure(stores=bus, source="bus")

    def ids(self, statement):
        return sorted(self.sql(statement).splitlines())

    def deliver(self):
        """A million events take longer than any command may."""
        daemon = self.start("run", "out")
        end = time.monotonic() + harness.PATIENCE_S * 15
        while self.ask("status")["totals"]["pending"] != 0:
            self.assertLess(time.monotonic(), end, self.log())
            time.sleep(0.5)
        daemon.terminate()
        self.assertEqual(daemon.wait(harness.PATIENCE_S), 0, self.log())

    def test_a_hundred_faults_in_a_topic_are_found(self):
        self.sql(f"INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload) SELECT 'orders', (n % 100)::text, "
                 f"'order.placed', convert_to(jsonb_build_object('n', n)::text, 'UTF8') FROM generate_series(1, {self.COUNT}) n")
        self.deliver()
        well = self.ask("reconcile", "--outbox", "shop", "--topic", f"bus/{self.topic}")
        self.assertEqual((well["counts"]["events"], well["counts"]["received"]), (self.COUNT, self.COUNT))
        altered = self.ids("UPDATE dovetail.outbox SET payload = '{\"n\": 0}' WHERE id IN "
                           f"({some('dovetail.outbox', 'id', 30)}) RETURNING id")
        extra = self.ids(f"DELETE FROM dovetail.outbox WHERE id IN ({some('dovetail.outbox', 'id', 30, 100)}) RETURNING id")
        # Passed by the relay, and never sent.
        missing = self.ids("INSERT INTO dovetail.outbox (aggregate_type, type, payload) SELECT 'orders', 'order.placed', "
                           "'{\"n\": 1}' FROM generate_series(1, 40) RETURNING id")
        self.sql("UPDATE dovetail.relay_lane SET window_start = pg_current_snapshot(), window_end = NULL WHERE relay = 'out'")
        began = time.monotonic()
        report = self.ask("reconcile", "--outbox", "shop", "--topic", f"bus/{self.topic}", code=1)
        print(f"reconcile of {self.COUNT} events and a topic: {(time.monotonic() - began) * 1000:.0f} ms, at most "
              f"{resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss} KiB (the largest of all processes of the test)")
        found = {kind: sorted(one["id"] for one in report["findings"] if one["kind"] == kind)
                 for kind in ("missing", "extra", "altered")}
        self.assertEqual(found, {"missing": missing, "extra": extra, "altered": altered})
        self.assertEqual(len(report["findings"]), 100)
        for one in report["findings"]:
            self.assertEqual("offset" in one, one["kind"] != "missing", one)

    def test_an_inbox_behind_a_topic(self):
        self.place(50)
        self.dovetail("run", "out", "--until-idle")
        # The consumer has not run, or its inbox does not know it.
        self.refused("reconcile", "--outbox", "shop", "--inbox", "shop", code=5, name="rejected", says=("booking",))
        self.handle("booking")
        self.place(5, first=51)
        self.dovetail("run", "out", "--until-idle")
        arguments = ("reconcile", "--outbox", "shop", "--inbox", "shop")
        young = self.ask(*arguments)
        self.assertEqual((young["counts"]["received"], young["counts"]["waiting"], young["relay"]), (50, 5, "out"))
        old = self.ask(*arguments, "--on-the-way", "0s", code=1)
        self.assertEqual(old["counts"]["missing"], 5)
        self.handle("booking")
        self.assertEqual(self.ask(*arguments, "--on-the-way", "0s")["counts"]["received"], 55)


if __name__ == "__main__":
    harness.main()
