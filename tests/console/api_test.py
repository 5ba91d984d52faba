"""The JSON API of a running daemon: what it says, what it changes, and that it is as openapi.json says."""

import json
import uuid

import harness
import openapi
import scene

UNKNOWN = "0190ffff-0000-7000-8000-00000000ffff"


class EveryCall:
    """Each call of the description, whatever the database of the scene."""

    def setUp(self):
        super().setUp()
        self.begin()
        self.description = openapi.Description(self.get("openapi.json", role=None))

    def group(self):
        return self.get("parked")["groups"][0]["id"]

    def test_every_call_answers_as_it_is_described(self):
        self.wait_for("the doctor has looked", lambda: self.get("doctor")["at"])
        edited = {"id": str(uuid.uuid4()), "payload": '{"total": 4}', "reason": "a test"}
        calls = {
            ("GET", "/api/v1/history"): "history?relay=orders-to-inventory",
            ("GET", "/api/v1/events/{id}"): f"events/{self.poison[0]}",
            ("GET", "/api/v1/parked/{group}"): f"parked/{self.group()}",
            ("POST", "/api/v1/session"): ("session", {"token": scene.TOKENS["viewer"]}),
            ("DELETE", "/api/v1/session"): ("session", {}),
            ("POST", "/api/v1/events/{id}/reveal"): (f"events/{self.good[0]}/reveal", {"reason": "a test"}),
            ("POST", "/api/v1/events/{id}/edit"): (f"events/{self.good[0]}/edit", edited),
            ("POST", "/api/v1/parked/replay"): ("parked/replay", {"ids": [self.poison[2]]}),
            ("POST", "/api/v1/parked/discard"): ("parked/discard", {"ids": [self.poison[0]], "reason": "a test"}),
            ("POST", "/api/v1/relays/{name}/pause"): ("relays/orders-to-inventory/pause", {"reason": "a test"}),
            ("POST", "/api/v1/relays/{name}/drain"): ("relays/orders-to-inventory/drain", {"dry_run": True}),
            ("POST", "/api/v1/relays/{name}/resume"): ("relays/orders-to-inventory/resume", {"reason": "a test"}),
            ("POST", "/api/v1/relays/{name}/seek"): ("relays/orders-to-inventory/seek", {"to": "now", "dry_run": True}),
            ("POST", "/api/v1/relays/{name}/rename"): ("relays/orders-to-inventory/rename", {"new_name": "x", "dry_run": True}),
            ("POST", "/api/v1/doctor"): ("doctor", {}),
        }
        # They need a relay that nobody runs, or PostgreSQL.
        elsewhere = {"/api/v1/relays/{name}/forget", "/api/v1/events/{id}/cancel", "/api/v1/reconcile", "/api/v1/jobs/{id}",
                     "/api/v1/jobs/{id}/report", "/api/v1/jobs/{id}/stop"}
        for method, path, _ in self.description.calls():
            if path in elsewhere:
                continue
            with self.subTest(f"{method} {path}"):
                called = calls.pop((method, path), path.removeprefix("/api/v1/"))
                place, body = called if isinstance(called, tuple) else (called, None)
                self.described(method, path, self.api(place, body, method=method, role="admin"))
        self.assertEqual(calls, {})


class Api(EveryCall, scene.SceneCase):
    def test_the_status_is_that_of_the_command(self):
        self.wait_for("the relay is known", lambda: self.get("status")["totals"]["running"])
        names = lambda document: {store["name"]: {relay["name"] for relay in store["relays"]} for store in document["stores"]}
        told, shown = self.ask("status"), self.get("status")
        self.assertEqual(set(told), set(shown))
        self.assertEqual(names(told), names(shown))
        # The daemon looks at its stores every few seconds.
        self.wait_for("both say the same", lambda: self.ask("status")["verdict"] == self.get("status")["verdict"])

    def test_search_finds_what_it_should_and_never_a_payload(self):
        found = lambda query: [one["id"] for one in self.get("events" + query)["events"]]
        everything = list(reversed(self.good + self.poison))
        self.assertEqual(found("?store=orders"), everything)
        self.assertEqual(found("?q=poison/a&store=orders"), [self.poison[1], self.poison[0]])
        self.assertEqual(found("?q=Poisoned"), [self.poison[2], self.poison[1], self.poison[0]])
        self.assertEqual(found("?type=OrderPlaced&key=18"), [self.good[1]])
        self.assertEqual(found("?state=delivered&store=orders"), list(reversed(self.good)))
        self.assertEqual(found("?state=parked"), [self.poison[2], self.poison[0]])
        self.assertEqual(found("?to=2020-01-01T00:00:00Z"), [])
        self.assertEqual(found("?from=2020-01-01T00:00:00Z&store=orders"), everything)
        self.assertEqual(found("?box=mailbox"), list(reversed(self.good)))
        pages, after = [], ""
        while True:
            page = self.get(f"events?limit=2&after={after}")
            pages += [one["id"] for one in page["events"]]
            after = page["next"]
            if not after:
                break
        self.assertEqual(pages, everything)
        for path in ("events", f"events/{self.good[0]}", "parked", f"parked/{self.group()}", "audit", "status"):
            self.assertNotIn(scene.CANARY, self.api(path).body)

    def test_one_event_with_all_that_the_stores_know(self):
        life = self.get(f"events/{self.good[0]}")
        self.assertEqual([(one["store"], one["box"], one["state"]) for one in life["places"]],
                         [("inventory", "mailbox", "unread"), ("orders", "outbox", "delivered")])
        life = self.get(f"events/{self.poison[0]}")
        self.assertEqual([(one["state"], one["behind"]) for one in life["parked"]], [("parked", 1)])
        self.assertIn("poison.events", life["parked"][0]["reason"])
        self.assertEqual(self.api(f"events/{UNKNOWN}").status, 404)

    def test_parked_events_are_grouped_by_reason(self):
        page = self.get("parked")
        self.assertEqual([(one["relay"], one["parked"], one["waiting"], one["types"]) for one in page["groups"]],
                         [("orders-to-inventory", 2, 1, ["Poisoned"])])
        self.assertTrue(page["complete"])
        self.assertEqual(sum(page["groups"][0]["per_hour"]), 2)
        group = page["groups"][0]["id"]
        first = self.get(f"parked/{group}?limit=1")
        rest = self.get(f"parked/{group}?limit=1&after={first['next']}")
        self.assertEqual([one["id"] for one in first["parked"] + rest["parked"]], [self.poison[0], self.poison[2]])
        self.assertEqual([one["id"] for one in self.get(f"parked/{group}?key=n/b")["parked"]], [self.poison[2]])

    def test_counts_come_first_and_change_nothing(self):
        before = self.rows("orders.db", "SELECT * FROM dovetail_parked ORDER BY number")
        counts = self.post("parked/discard", {"group": self.group(), "dry_run": True})
        self.assertEqual({name: counts[name] for name in ("parked", "waiting", "keys", "relays", "complete")},
                         {"parked": 2, "waiting": 1, "keys": 2, "relays": ["orders-to-inventory"], "complete": True})
        self.assertEqual(self.rows("orders.db", "SELECT * FROM dovetail_parked ORDER BY number"), before)
        self.assertEqual(self.get("audit")["audit"], [])

    def test_a_group_is_replayed_a_part_at_a_time_and_audited(self):
        self.mend()
        group = self.group()
        step = self.post("parked/replay", {"group": group, "limit": 1, "reason": "the topic is there"})
        self.assertEqual((step["done"], step["left"], step["ids"]), (1, 1, [self.poison[0]]))
        step = self.post("parked/replay", {"group": group, "limit": 1, "after": step["next"]})
        self.assertEqual((step["done"], step["next"], step["ids"]), (1, None, [self.poison[2]]))
        self.wait_for("all are delivered", lambda: self.reader()["delivered_total"] == 6)
        keys = self.rows("inventory.db", "SELECT aggregate_id, id FROM dovetail_mailbox WHERE aggregate_type = 'poison' "
                         "AND aggregate_id = 'a' ORDER BY seq")
        self.assertEqual([str(uuid.UUID(bytes=one)) for _, one in keys], self.poison[:2])
        audit = self.get("audit")["audit"]
        self.assertEqual([(one["what"], one["subject"], one["reason"]) for one in audit],
                         [("replay", self.poison[2], "olga by the console: "),
                          ("replay", self.poison[0], "olga by the console: the topic is there")])

    def test_a_key_is_discarded_with_its_reason(self):
        refused = self.api("parked/discard", {"key": "a"})
        self.assertEqual((refused.status, refused.json()["error"]["code"]), (400, "usage"))
        done = self.post("parked/discard", {"key": "a", "aggregate_type": "poison", "reason": "test data"})
        self.assertEqual(done["ids"], [self.poison[0]])
        life = self.get(f"events/{self.poison[0]}")
        self.assertEqual(life["parked"][0]["state"], "discarded")
        self.assertEqual(life["audit"][0]["reason"], "olga by the console: test data")
        self.assertEqual(self.api("parked/discard", {"ids": [self.poison[0]], "reason": "again"}).status, 422)

    def test_a_payload_is_shown_after_the_audit_knows_it(self):
        self.assertEqual(self.api(f"events/{self.good[0]}/reveal", {"reason": " "}).status, 400)
        self.assertEqual(self.api(f"events/{self.good[0]}/reveal", {"reason": "x"}, role="viewer").status, 403)
        self.assertEqual(self.get("audit")["audit"], [])
        shown = self.post(f"events/{self.good[0]}/reveal", {"reason": "a customer asks"})
        self.assertIn(scene.CANARY, shown["payload"])
        self.assertEqual([(one["what"], one["reason"]) for one in self.get(f"audit?subject={self.good[0]}")["audit"]],
                         [("reveal", "olga by the console: a customer asks")])
        for store in ("orders.db", "inventory.db"):
            self.change(store, "CREATE TRIGGER full BEFORE INSERT ON dovetail_audit BEGIN SELECT RAISE(ABORT, 'full'); END")
        refused = self.api(f"events/{self.good[0]}/reveal", {"reason": "again"})
        self.assertGreaterEqual(refused.status, 400)
        self.assertNotIn(scene.CANARY, refused.body)

    def test_a_changed_copy_goes_out_once_and_the_old_one_is_discarded(self):
        self.mend()
        edit = {"id": str(uuid.uuid4()), "payload": '{"total": 4}', "reason": "the total was wrong"}
        path = f"events/{self.poison[2]}/edit"
        self.assertEqual(self.api(path, edit | {"payload": "{"}).status, 422)
        self.assertEqual(self.api(f"events/{self.poison[1]}/edit", edit).status, 422)
        done = self.post(path, edit)
        self.assertEqual((done["id"], done["discarded"]), (edit["id"], 1))
        self.assertEqual(self.post(path, edit)["discarded"], 0)
        self.wait_for("the new event is delivered", lambda: self.reader()["delivered_total"] == 4)
        rows = self.rows("inventory.db", "SELECT payload, headers FROM dovetail_mailbox WHERE aggregate_id = 'b'")
        self.assertEqual([(json.loads(payload), json.loads(headers)) for payload, headers in rows],
                         [({"total": 4}, {"dovetail-replaces": self.poison[2]})])
        self.assertEqual(self.get(f"events/{self.poison[2]}")["parked"][0]["state"], "discarded")
        self.assertEqual([(one["subject"], one["reason"]) for one in self.get("audit?what=edit")["audit"]],
                         [(self.poison[2], f"olga by the console: the total was wrong; as {edit['id']}")])

    def test_a_relay_is_paused_and_resumed(self):
        self.assertEqual(self.api("relays/orders-to-inventory/pause", {}).status, 400)
        self.assertEqual(self.api("relays/nobody/pause", {"reason": "x"}).status, 404)
        plan = self.post("relays/orders-to-inventory/pause", {"dry_run": True})
        self.assertTrue(plan["dry_run"] and plan["consequences"])
        self.assertNotEqual(self.reader()["state"], "paused")
        self.assertFalse(self.post("relays/orders-to-inventory/pause", {"reason": "the shop moves"})["dry_run"])
        self.wait_for("it is paused", lambda: self.reader()["state"] == "paused")
        self.assertIn("olga by the console: the shop moves", self.reader()["hold"]["reason"])
        self.publish(key="21")
        self.post("relays/orders-to-inventory/resume", {"reason": "it has moved"})
        self.wait_for("it delivers again", lambda: self.reader()["delivered_total"] == 4)

    def test_a_relay_is_moved(self):
        place = "relays/orders-to-inventory/seek"
        for to, status in (("soon", 400), ("", 400), (None, 400)):
            self.assertEqual(self.api(place, {"dry_run": True} | ({} if to is None else {"to": to})).status, status)
        self.post("relays/orders-to-inventory/pause", {"reason": "to see what is skipped"})
        self.wait_for("it is paused", lambda: self.reader()["state"] == "paused")
        left_out = [self.publish_id(key="21"), self.publish_id(key="22")]
        plan = self.post(place, {"to": "now", "dry_run": True})
        self.assertEqual((plan["dry_run"], plan["skipped"], plan["sent_again"]), (True, 2, 0))
        self.assertEqual(self.reader()["pending"], 2)
        self.assertEqual(self.api(place, {"to": "now"}).status, 400, "it needs a reason")
        self.assertEqual(self.post(place, {"to": "now", "reason": "old orders"})["skipped"], 2)
        self.post("relays/orders-to-inventory/resume", {"reason": "go on"})
        self.assertEqual([one["id"] for one in self.get("events?state=skipped")["events"]], list(reversed(left_out)))
        life = self.get(f"events/{left_out[0]}")
        self.assertEqual((life["state"], life["sentence"]), ("skipped", "It is skipped: no relay carries it."))
        self.assertEqual(self.post(place, {"to": "beginning", "reason": "all again"})["sent_again"], 8)
        self.wait_for("all go out again", lambda: self.reader()["delivered_total"] == 3 + 5)
        self.assertEqual([one["what"] for one in self.get("audit?what=seek")["audit"]], ["seek", "seek"])

    def test_a_relay_that_is_gone_is_renamed_and_forgotten(self):
        self.post("parked/discard", {"ids": [self.poison[0]], "reason": "test data"})
        self.wait_for("what waited behind is parked, too", lambda: self.reader()["waiting"] == 0 and self.reader()["parked"] == 2)
        self.post("parked/discard", {"ids": [self.poison[1]], "reason": "test data"})
        self.daemon.terminate()  # so that it gives its lease up
        self.daemon.wait()
        self.end(self.daemon)
        self.write("dovetail.toml", self.config.replace('name = "orders-to-inventory"', 'name = "another"'))
        self.daemon = self.start_daemon()
        self.wait_for("the other one has run", lambda: self.reader(name="another"))
        rename, forget = "relays/orders-to-inventory/rename", "relays/orders-to-inventory/forget"
        asked = {"store": "orders", "new_name": "older", "reason": "a test"}
        self.assertEqual(self.api(rename, asked).status, 403)
        self.assertEqual(self.api(forget, asked).status, 403)
        self.assertEqual(self.api(rename, {"new_name": "older", "reason": "x"}, role="admin").status, 404, "no store is named")
        self.assertEqual(self.api(rename, asked | {"new_name": "a b"}, role="admin").status, 400)
        self.assertTrue(self.post(rename, asked | {"dry_run": True}, role="admin")["dry_run"])
        self.assertIsNone(self.reader(name="older"))
        self.described("POST", "/api/v1/relays/{name}/rename", self.api(rename, asked, role="admin"))
        self.assertTrue(self.reader(name="older"))
        refused = self.api("relays/older/forget", {"store": "orders", "reason": "x"}, role="admin")
        self.assertEqual(refused.status, 422)
        self.assertIn("parked", refused.json()["error"]["text"])
        self.post("parked/discard", {"relay": "older", "key": "b", "reason": "test data"})
        done = self.described("POST", "/api/v1/relays/{name}/forget",
                              self.api("relays/older/forget", {"store": "orders", "reason": "it is gone"}, role="admin"))
        self.assertFalse(done["dry_run"])
        self.assertIsNone(self.reader(name="older"))

    def test_the_audit_is_filtered_and_knows_who_was_refused(self):
        self.post(f"events/{self.good[0]}/reveal", {"reason": "one"})
        self.post(f"events/{self.good[0]}/reveal", {"reason": "two"}, role="admin")
        self.post("parked/discard", {"ids": [self.poison[0]], "reason": "three"})
        reasons = lambda query: [one["reason"][-5:].strip() for one in self.get("audit" + query)["audit"]]
        self.assertEqual(reasons("?who=olga"), ["three", ": one"])
        self.assertEqual(reasons("?what=reveal"), [": two", ": one"])
        self.assertEqual(reasons("?what=reveal&who=ada"), [": two"])
        self.assertEqual(reasons("?who=olg"), [])
        self.assertEqual(self.api("parked/discard", {"key": "a", "reason": "x"}, role="viewer").status, 403)
        self.assertEqual(self.api("parked/discard", {"key": "a", "reason": "x"}, role=None).status, 401)
        page = self.described("GET", "/api/v1/audit", self.api("audit"))
        for one in page["refused"]:  # until a database has it
            self.assertEqual((one["who"], one["what"], one["peer"]), ("vera", "POST /api/v1/parked/discard", "127.0.0.1"))
        self.assertEqual(self.get("audit?who=olga")["refused"], [])
        self.wait_for("a database has it", lambda: self.get("audit?what=refused&who=vera")["audit"])
        [kept] = self.get("audit?what=refused")["audit"]
        self.assertEqual((kept["subject"], kept["events"]), ("POST /api/v1/parked/discard", 1))
        self.assertEqual(kept["reason"], "vera by the console: refused, from 127.0.0.1")
        self.wait_for("it is not told twice", lambda: self.get("audit")["refused"] == [])

    def test_a_group_is_decided_only_where_the_key_matches(self):
        group = self.group()
        self.assertEqual(self.get(f"parked/{group}?key=n/b&limit=1")["matching"], 1)
        self.assertEqual(self.get(f"parked/{group}?limit=1")["matching"], 2)
        choice = {"group": group, "key_part": "n/b"}
        self.assertEqual(self.post("parked/discard", choice | {"dry_run": True})["parked"], 1)
        self.assertEqual(self.post("parked/discard", choice | {"reason": "test data"})["ids"], [self.poison[2]])
        self.assertEqual(self.api("parked/discard", {"key": "a", "key_part": "a", "reason": "x"}).status, 400)

    def test_the_life_of_an_event_is_that_of_the_command(self):
        # The receipt comes with the progress of the relay, a moment after the delivery.
        self.wait_for("the receipt is there", lambda: "confirmed" in [step["what"] for step in self.get(f"events/{self.good[0]}")["steps"]])
        for event in (self.good[0], self.poison[0]):
            told, shown = self.ask("trace", event), self.get(f"events/{event}")
            self.assertEqual({name: shown[name] for name in told}, told)
        self.assertEqual((shown["state"], shown["sentence"]),
                         ("parked", "It is parked by orders-to-inventory and waits for a decision."))
        self.assertEqual([one["id"] for one in shown["of_its_key"]["before"]], [])
        self.assertEqual([one["id"] for one in shown["of_its_key"]["behind"]], [self.poison[1]])
        behind = self.get(f"events/{self.poison[1]}")["of_its_key"]
        self.assertEqual([one["id"] for one in behind["before"]], [self.poison[0]])

    def test_the_audit_pages(self):
        for i in range(5):
            self.post(f"events/{self.good[0]}/reveal", {"reason": str(i)})
        reasons, after = [], ""
        while True:
            page = self.get(f"audit?limit=2&after={after}")
            reasons += [one["reason"][-1] for one in page["audit"]]
            after = page["next"]
            if not after:
                break
        self.assertEqual(reasons, list("43210"))

    def test_what_is_asked_wrongly_is_refused_with_a_reason(self):
        for path in ("events?limit=0", "events?limit=201", "events?limit=x", "events?state=lost", "events?state=delayed&box=mailbox", "events?from=noon",
                     "events?nonsense=1", "events?after=x", "events?store=nowhere", "events/17", "history?steps=some",
                     "audit?after=orders:x", "parked?limit=1000"):
            with self.subTest(path):
                answer = self.api(path)
                self.assertEqual((answer.status, answer.json()["error"]["code"]), (400, "usage"))
                self.assertEqual(self.description.wrong(self.description.error(), answer.json()), [])
        for path, body in (("parked/replay", {}), ("parked/replay", {"ids": []}), ("parked/replay", {"ids": ["x"]}),
                           ("parked/replay", {"ids": [self.poison[0]], "key": "a"}), ("parked/replay", {"group": 1}),
                           ("parked/replay", {"key": "a", "limit": 0}), ("parked/replay", {"nonsense": 1}),
                           ("parked/replay", {"key": "a", "dry_run": "yes"}), ("doctor", {"x": 1}),
                           (f"events/{self.good[0]}/edit", {"id": self.good[0], "payload": "{}", "reason": "x"})):
            with self.subTest(path, body=body):
                self.assertEqual(self.api(path, body).status, 400)
        self.assertEqual(self.api("history?relay=nobody").status, 404)
        self.assertEqual(self.api("parked/replay", {"ids": [UNKNOWN]}).status, 422)

    def test_a_store_that_is_broken_is_named_and_hides_nothing_else(self):
        (self.folder / "inventory.db").rename(self.folder / "gone.db")
        page = self.get("events")
        self.assertEqual(len(page["events"]), 6)
        self.assertEqual([one["store"] for one in page["problems"]], ["inventory"])
        self.assertEqual([one["store"] for one in self.get(f"events/{self.good[0]}")["problems"]], ["inventory"])
        self.wait_for("the status says so", lambda: any("inventory" in one["where"]["store"] for one in self.get("status")["problems"]))

    def test_the_history_begins(self):
        self.wait_for("it is measured", lambda: self.get("history?relay=orders-to-inventory")["pending"])
        history = self.get("history?relay=orders-to-inventory&steps=coarse")
        self.assertEqual((history["step_us"], history["pending"][-1]), (300_000_000, 0.0))


if __name__ == "__main__":
    harness.main()
