"""What the JSON API says and changes where the stores are in PostgreSQL: delayed events, handlers, comparisons."""

import harness
import postgres_scene


class PostgresApi(postgres_scene.PostgresScene):
    def setUp(self):
        super().setUp()
        self.begin()

    def compare(self, **more):
        """Compares with the consumer, and waits until that has ended."""
        asked = {"outbox": "shop", "inbox": "shop", "consumer": "stock.ledger"} | more
        job = self.described("POST", "/api/v1/reconcile", self.api("reconcile", asked))["id"]
        return self.wait_for("the comparison has ended", lambda: (seen := self.described(
            "GET", "/api/v1/jobs/{id}", self.api(f"jobs/{job}")))["state"] != "running" and seen)

    def test_an_event_is_told_from_its_commit_to_every_handler(self):
        life = self.described("GET", "/api/v1/events/{id}", self.api(f"events/{self.good[0]}"))
        told = {(one["actor"], one["what"]) for one in life["steps"]}
        for step in (("shop", "committed"), ("stock.ledger", "applied"), ("stock.mail", "queued")):
            self.assertIn(step, told)
        self.assertEqual({(one["consumer"], one["queued"]) for one in life["inbox"]}, {("stock.ledger", False), ("stock.mail", True)})
        self.assertEqual(life["state"], "pending", "the broker is away")
        self.assertIn("No attempt is counted", " ".join(one["text"] for one in life["explain"]))

    def test_what_waits_for_its_time_is_listed_and_cancelled(self):
        more = [self.publish_id("--deliver-at", postgres_scene.FAR, store="shop", key=key) for key in ("21", "22")]
        page = self.described("GET", "/api/v1/events", self.api("events?state=delayed"))
        self.assertEqual([one["id"] for one in page["events"]], [self.delayed, *more])
        self.assertEqual({one["deliver_at"] for one in page["events"]}, {"2200-01-01T00:00:00.000000Z"})
        found = lambda query: [one["id"] for one in self.get("events?state=delayed" + query)["events"]]
        self.assertEqual(found("&q=orders/21"), [more[0]])
        self.assertEqual(found("&key=22"), [more[1]])
        self.assertEqual(found("&type=Other"), [])
        self.assertEqual(found("&to=2020-01-01T00:00:00Z"), [])
        first = self.get("events?state=delayed&limit=2")
        self.assertEqual([one["id"] for one in first["events"]], [self.delayed, more[0]])
        self.assertEqual(found(f"&limit=2&after={first['next']}"), [more[1]])

        cancel = f"events/{self.delayed}/cancel"
        self.assertEqual(self.api(cancel, {}).status, 400)
        self.assertEqual(self.api(cancel, {"reason": "x"}, role="viewer").status, 403)
        done = self.described("POST", "/api/v1/events/{id}/cancel", self.api(cancel, {"reason": "the order was cancelled"}))
        self.assertEqual((done["store"], done["cancelled"]), ("shop", True))
        self.assertEqual(found(""), more)
        self.assertEqual(self.api(cancel, {"reason": "again"}).status, 422)
        self.assertEqual(self.api(f"events/{self.good[0]}/cancel", {"reason": "too late"}).status, 422)
        life = self.get(f"events/{self.delayed}")
        self.assertEqual((life["state"], life["audit"][0]["reason"]), ("discarded", "olga by the console: the order was cancelled"))

    def test_a_comparison_finds_what_is_missing_and_keeps_its_report(self):
        self.mend()
        self.post("parked/replay", {"key": "a"})
        self.post("parked/replay", {"key": "b"})
        self.wait_for("nothing is parked", lambda: self.relay("stock")["parked"] + self.relay("stock")["waiting"] == 0)
        whole = self.compare()
        self.assertEqual((whole["state"], whole["by"], whole["error"]), ("done", "olga", None))
        self.assertEqual((whole["result"]["counts"]["missing"], whole["result"]["findings"]), (0, []))
        self.sql(f"DELETE FROM dovetail.inbox USING dovetail.consumer c WHERE c.id = consumer_id AND c.name = 'stock.ledger' "
                 f"AND event_id = '{self.good[1]}'")
        found = self.compare(late_after="1h")
        self.assertEqual([(one["kind"], one["id"]) for one in found["result"]["findings"]], [("missing", self.good[1])])
        report = self.described("GET", "/api/v1/jobs/{id}/report", self.api(f"jobs/{found['id']}/report"))
        self.assertIn(found["result"]["digest"], report)
        self.assertIn("attachment", self.api(f"jobs/{found['id']}/report").headers["Content-Disposition"])
        jobs = self.described("GET", "/api/v1/jobs", self.api("jobs"))["jobs"]
        self.assertEqual([one["id"] for one in jobs], [found["id"], whole["id"]])
        stopped = self.described("POST", "/api/v1/jobs/{id}/stop", self.api(f"jobs/{found['id']}/stop", {}))
        self.assertEqual(stopped["state"], "done", "what has ended stays as it is")

    def test_a_comparison_that_does_not_fit_is_refused_or_fails_with_its_reason(self):
        for body in ({}, {"outbox": "shop"}, {"outbox": "shop", "inbox": "nowhere"}, {"outbox": "shop", "inbox": "shop", "topic": "x"},
                     {"outbox": "shop", "inbox": "shop", "from": "noon"}, {"outbox": "shop", "inbox": "shop", "late_after": "soon"},
                     {"outbox": "shop", "topic": "x"}, {"outbox": "shop", "inbox": "shop", "nonsense": 1}):
            with self.subTest(body):
                self.assertEqual(self.api("reconcile", body).status, 400)
        self.assertEqual(self.api("reconcile", {"outbox": "shop", "inbox": "shop"}, role="viewer").status, 403)
        failed = self.compare(inbox="files")
        self.assertEqual((failed["state"], failed["result"]), ("failed", None))
        self.assertIn("stock", failed["error"])
        self.assertEqual(self.api(f"jobs/{failed['id']}/report").status, 404)
        self.assertEqual(self.api("jobs/unknown").status, 404)

    def test_a_consumer_is_moved_and_keeps_its_name(self):
        plan = self.post("relays/stock/seek", {"to": "beginning", "dry_run": True})
        self.assertGreaterEqual(plan["sent_again"], 3)
        refused = self.api("relays/stock/rename", {"new_name": "other", "reason": "x"}, role="admin")
        self.assertEqual(refused.status, 422)
        self.assertIn("a consumer keeps its name", refused.json()["error"]["text"])
        before = self.sql("SELECT count(*) FROM taken")
        done = self.post("relays/stock/seek", {"to": "beginning", "reason": "all again"})
        self.assertFalse(done["dry_run"])
        self.wait_for("all are read again", lambda: self.relay("stock")["pending"] == 0)
        self.assertEqual(self.sql("SELECT count(*) FROM taken"), before, "the inbox remembers them")


if __name__ == "__main__":
    harness.main()
