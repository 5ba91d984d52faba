"""The console of a daemon whose login in PostgreSQL has exactly the roles that docs/MONITOR.md names, or fewer."""

import json
import os
import re
import unittest
import uuid

import api_test
import browser
import harness
import pages_test
import postgres_test
import scene
from postgres_test import psql


def named_roles():
    """Those that the guide names for the login of a daemon with a dashboard."""
    page = (harness.ROOT / "docs" / "MONITOR.md").read_text(encoding="utf-8")
    sentence = page.split("In PostgreSQL the daemon's login needs", 1)[1].split("\n\n")[0]
    return re.findall(r"`(dovetail_\w+)`", sentence)


class RestrictedCase(scene.SceneCase):
    """The scene with the outbox in PostgreSQL, whose schema belongs to somebody else."""

    roles = ()

    def setUp(self):
        self.database = f"console_{os.getpid()}_{next(postgres_test.COUNT)}"
        self.conninfo = f"{postgres_test.SERVER} dbname={self.database}"
        psql(f"CREATE DATABASE {self.database}")
        self.login = f"{self.database}_daemon"
        psql(f"CREATE ROLE {self.login} LOGIN")
        self.addCleanup(psql, f"DROP ROLE {self.login}")
        self.addCleanup(postgres_test.drop_database, self.database)
        self.config = self.config_of(self.login)
        super().setUp()

    def config_of(self, user):
        return scene.CONFIG.replace("sqlite:orders.db", f"postgres:{self.conninfo} user={user}")

    def init(self):
        self.write("dovetail.toml", self.config_of("postgres"))
        self.dovetail("init", "--roles")
        for role in self.roles:
            psql(f"GRANT {role} TO {self.login}")
        self.write("dovetail.toml", self.config)

    def sql(self, statement):
        return psql(statement, self.conninfo)

    def publish_id(self, key, payload):
        return self.sql(f"SELECT dovetail.publish('orders', '{key}', 'OrderPlaced', '{payload}', topic => 'orders.events')")

    def insert(self, key, payload=None):
        payload = payload or json.dumps({"secret": scene.CANARY})
        return self.sql(f"SELECT dovetail.publish('poison', '{key}', 'Poisoned', '{payload}', topic => 'poison.events')")

    def everything(self):
        """What an action could change."""
        return [self.sql(f"SELECT string_agg(t::text, '; ' ORDER BY t::text) FROM ({one}) AS t") for one in (
            "SELECT id, headers FROM dovetail.outbox", "SELECT relay, id, state, attempts, at_head FROM dovetail.parked",
            "SELECT number, who, what, subject FROM dovetail.audit", "SELECT relay, lane, hold, target FROM dovetail.relay_lane")]


class WithTheRolesOfTheGuide(api_test.EveryCall, RestrictedCase):
    """Every call: what pages show and what they do."""

    roles = named_roles()

    def test_the_audit_has_the_login_and_who_held_the_token(self):
        self.post(f"events/{self.poison[0]}/reveal", {"reason": "a customer asks"})  # the good ones are in both stores
        edit = {"id": str(uuid.uuid4()), "payload": '{"total": 4}', "reason": "the total was wrong"}
        for discarded in (1, 0):
            self.assertEqual(self.post(f"events/{self.poison[2]}/edit", edit)["discarded"], discarded)
        self.assertEqual([(one["who"], one["what"], one["reason"]) for one in self.get("audit")["audit"]],
                         [(self.login, "discard", f"olga by the console: the total was wrong; as {edit['id']}"),
                          (self.login, "edit", f"olga by the console: the total was wrong; as {edit['id']}"),
                          (self.login, "reveal", "olga by the console: a customer asks")])


@unittest.skipIf(browser.why_not(), browser.why_not())
class PagesWithTheRolesOfTheGuide(RestrictedCase):
    roles = named_roles()
    open, arrived, no_complaints = pages_test.Pages.open, pages_test.Pages.arrived, pages_test.Pages.no_complaints

    def test_every_page_shows_what_it_is_about_and_complains_of_nothing(self):
        self.begin()
        self.url, self.page = f"http://127.0.0.1:{self.port}", browser.Browser()
        self.addCleanup(self.page.close)
        self.page.look(1440)
        self.post(f"events/{self.poison[0]}/reveal", {"reason": "a customer asks"})
        for place, text in (("/", "orders-to-inventory"), ("/relays", "orders-to-inventory"), ("/parked", "poison.events"),
                            ("/events", "OrderPlaced"), (f"/events/{self.poison[0]}", "a customer asks"), ("/consumers", "onsumers"),
                            ("/stores", "inventory"), ("/stores/orders", "PostgreSQL"), ("/audit", self.login)):
            with self.subTest(place):
                self.open(place)
                self.page.shows(text)
                self.assertNotIn("permission denied", self.page.text())
                self.no_complaints()


class Refused(RestrictedCase):
    def setUp(self):
        super().setUp()
        self.begin()

    def refused(self, path, body, role):
        before = self.everything()
        answer = self.api(path, body)
        self.assertEqual((answer.status, answer.json()["error"]["code"]), (422, "rejected"), answer)
        self.assertIn("store orders: ", answer.json()["error"]["text"])
        self.assertIn(role, answer.json()["error"]["text"])
        self.assertNotIn(scene.CANARY, answer.body)
        self.assertEqual(self.everything(), before, "nothing is half done")

    def edit(self, event):
        return f"events/{event}/edit", {"id": str(uuid.uuid4()), "payload": '{"total": 4}', "reason": "a test"}


class WithoutTheRightToPublish(Refused):
    roles = ("dovetail_relay", "dovetail_operator")

    def test_an_edit_is_refused_and_leaves_no_trace(self):
        self.refused(*self.edit(self.poison[2]), role="dovetail_app")
        self.refused(*self.edit(self.good[0]), role="dovetail_app")
        self.assertEqual(self.get("audit")["audit"], [])
        self.post("parked/discard", {"ids": [self.poison[2]], "reason": "a test"})


class WithoutTheRightToDecide(Refused):
    roles = ("dovetail_relay", "dovetail_app")

    def test_every_decision_is_refused_and_what_may_be_seen_is_shown(self):
        why = {"reason": "a test"}
        self.refused(*self.edit(self.poison[2]), role="dovetail_operator")
        self.refused(f"events/{self.poison[0]}/reveal", why, role="dovetail_operator")
        for order in ("pause", "drain"):
            self.refused(f"relays/orders-to-inventory/{order}", why, role="dovetail_operator")
        for what in ("replay", "discard"):
            before = self.everything()
            answer = self.api(f"parked/{what}", {"ids": [self.poison[2]]} | why)
            self.assertIn("dovetail_operator", answer.body)
            self.assertNotIn('"done":1', answer.body)
            self.assertEqual(self.everything(), before)
        self.assertEqual(len(self.get("events?store=orders")["events"]), 6)
        self.assertEqual(len(self.get("parked")["groups"]), 1)
        self.assertIn("dovetail_operator", self.api("audit").body)

    def test_a_payload_that_may_not_be_read_is_not_called_missing(self):
        self.sql("REVOKE SELECT ON dovetail.outbox FROM dovetail_relay")
        self.refused(f"events/{self.poison[0]}/reveal", {"reason": "a test"}, role="permission denied for table outbox")


if __name__ == "__main__":
    harness.main()
