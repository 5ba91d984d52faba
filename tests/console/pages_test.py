"""Every page and action of the dashboard in a browser: both themes, narrow and wide, nothing on its console."""

import json
import signal
import sys
import time

import browser
import dashboard
import harness
import scene

MARKUP = '<img src=x onerror="alert(1)"><b>bold</b>'


class Pages(dashboard.SharedScene):
    def places(self):
        return {"overview": "/", "relays": "/relays", "relay": "/relays/orders-to-inventory", "parked": "/parked",
                "events": "/events", "event": f"/events/{self.good[0]}", "parked-event": f"/events/{self.poison[0]}",
                "edit": f"/events/{self.poison[0]}/edit", "consumers": "/consumers", "stores": "/stores",
                "store": "/stores/orders", "reconcile": "/reconcile", "audit": "/audit", "missing": "/nowhere", "missing-relay": "/relays/nobody",
                "missing-event": "/events/0190ffff-0000-7000-8000-00000000ffff", "nothing-found": "/events?q=nothing"}

    def test_every_page_in_both_themes_narrow_and_wide(self):
        self.post(f"events/{self.good[0]}/reveal", {"reason": "so that the audit has a row"})
        self.assertEqual(self.api("parked/discard", {"key": "a", "reason": "so that it has a refusal"}, role="viewer").status, 403)
        self.open()
        self.check_every_page(self.places())

    def test_signing_in_and_out(self):
        self.open("/parked", role=None)
        self.check("sign-in")
        self.page.type("#token", "x" * 32)
        self.page.click("button", "Sign in")
        self.page.shows("This token is not known")
        self.page.console()  # it says that 401 came
        self.page.type("#token", scene.TOKENS["viewer"])
        self.page.press("Enter")
        self.page.shows("2 events are parked for 1 reason")
        self.assertIn("vera", self.page.text())
        self.page.click("button", "Sign out")
        self.page.shows("Sign in with a token")
        self.assertNotIn("poison", self.page.text())
        self.no_complaints()

    def test_the_keyboard_reaches_everything_in_order(self):
        self.check_focus(("/", "/parked", f"/events/{self.poison[0]}"))

    def test_keys(self):
        self.open()
        self.page.press("g", "p")
        self.page.shows("2 events are parked for 1 reason")
        self.page.press("?")
        self.page.wait("the keys are listed", "return document.querySelector('dialog[open]')")
        self.check("keys")
        self.page.press("Escape")
        self.page.wait("they are gone", "return !document.querySelector('dialog')")
        dark = "return getComputedStyle(document.body).backgroundColor"
        before = self.page.run(dark)
        self.page.press("t")
        self.page.wait("the theme changes", dark + " !== arguments[0]", before)
        self.page.press("t")
        self.page.press("/")
        self.page.press(*"Poisoned", "Enter")
        self.page.shows("3 events, newest first")
        self.page.press("/")
        self.page.type(".find input", self.good[0])
        self.page.press("Enter")
        self.page.shows("It is delivered.")
        self.no_complaints()

    def test_searching(self):
        self.open("/events")
        self.page.shows("6 events, newest first")
        self.page.type("input[name=q]", "poison/a")
        self.page.press("Enter")
        self.page.shows("2 events, newest first")
        self.page.run("const box = document.querySelector('select[name=state]'); box.value = 'waiting'; box.dispatchEvent(new Event('change'))")
        self.page.shows("1 event, newest first")
        self.page.click("a", "Clear all filters")
        self.page.shows("6 events, newest first")
        self.no_complaints()

    def test_what_is_drawn_stays_while_the_page_is_drawn_again(self):
        self.open()
        drawn = "return document.querySelectorAll('figure.chart svg .line, .pipeline svg .node').length"
        before = self.page.wait("two measurements are there", drawn + " >= 4 && document.querySelectorAll('figure.chart svg').length")
        self.draw_again()
        self.assertEqual(self.page.run("return document.querySelectorAll('figure.chart svg').length"), before)
        self.assertGreaterEqual(self.page.run(drawn), 4)
        self.no_complaints()

    def test_a_viewer_is_told_what_is_missing(self):
        self.open(f"/events/{self.good[0]}", role="viewer")
        self.page.click("button", "Reveal the payload")
        self.page.shows("This needs the role operator, and your role is viewer.")
        self.page.run("location.hash = '#/stores'")
        self.page.click("button", "Ask the doctor now")
        self.page.shows("This needs the role operator")
        self.no_complaints()

    def test_asking_the_doctor(self):
        self.open("/stores")
        self.page.wait("it has looked", "return !document.body.innerText.includes('The doctor is looking')")
        before = self.get("doctor")["at"]
        self.page.click("button", "Ask the doctor now")
        self.wait_for("it has looked again", lambda: self.get("doctor")["at"] != before)
        self.no_complaints()

    def test_a_hidden_tab_asks_nothing(self):
        self.open()
        asked = "return performance.getEntriesByType('resource').filter(e => e.name.includes('/api/v1/')).length"
        self.page.run("Object.defineProperty(document, 'hidden', {configurable: true, get: () => window.isHidden}); "
                      "window.isHidden = true; document.dispatchEvent(new Event('visibilitychange'))")
        time.sleep(2)  # what was under way comes to its end
        before = self.page.run(asked)
        time.sleep(3)  # otherwise it asks every two seconds
        self.assertEqual(self.page.run(asked), before)
        self.page.run("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")
        self.page.wait("it asks again", asked + " > arguments[0]", before)


class Actions(dashboard.DashboardCase):
    def test_a_new_event_appears_without_reload(self):
        self.open("/events")
        self.page.shows("6 events, newest first")
        self.page.run("window.mark = 1; document.querySelector('input[name=q]').focus()")
        self.publish(key="20")
        self.page.shows("7 events, newest first")
        self.assertEqual(self.page.run("return [window.mark, document.activeElement.name]"), [1, "q"])
        self.no_complaints()

    def choose(self, key):
        self.page.wait("the row is there", "return [...document.querySelectorAll('tbody label.check')].find(l => l.innerText.trim() === arguments[0])", key)
        self.page.run("[...document.querySelectorAll('tbody label.check')].find(l => l.innerText.trim() === arguments[0]).querySelector('input').click()", key)

    def test_discarding_one(self):
        self.open("/parked")
        self.choose("poison/a")
        self.page.shows("1 parked event selected")
        self.page.click(".select-bar button", "Discard 1")
        self.page.wait("the dialog counts", "return (document.querySelector('dialog .counts') || {innerText: ''}).innerText.includes('waits behind')")
        self.dialog_says("Discard 1 event?", "1 parked event", "1 waits behind", "orders-to-inventory will never deliver this event",
                         "What waits behind goes out at once", "It stays listed as discarded, with your reason")
        self.check("discard-one")
        self.assertTrue(self.page.run("return [...document.querySelectorAll('dialog button')].pop().disabled"))
        self.page.type("dialog textarea", "test data")
        self.page.click("dialog button", "Discard 1")
        self.page.shows("1 event discarded")
        self.page.wait("what waited is first now", "return D.status.totals.parked === 2 && D.status.totals.waiting === 0")
        self.page.run("location.hash = '#/audit'")
        self.page.shows("olga by the console: test data")
        self.no_complaints()

    def test_replaying_one_first_stops_when_it_fails_again(self):
        self.open("/parked")
        self.page.click(".group-tools button", "Replay all 2")
        self.page.wait("the dialog counts", "return document.querySelector('dialog .counts')")
        self.dialog_says("Replay 2 events?", "2 parked events", "1 waits behind", "If the first one is parked again, the others stay",
                         "is sent again with its old id", "What waits behind follows in its order",
                         "What fails again is parked again, with its new reason")
        self.check("replay-two")
        self.page.click("dialog button", "Replay 2")
        self.page.shows("The first one was parked again. The others stay where they are.")
        self.assertEqual([one["subject"] for one in self.get("audit")["audit"]], [self.poison[0]])
        self.no_complaints()

    def test_replaying_all_when_it_is_mended(self):
        self.mend()
        self.open("/parked")
        self.page.click(".group-tools button", "Replay all 2")
        self.page.type("dialog textarea", "the topic is there")
        self.page.click("dialog button", "Replay 2")
        self.page.shows("Nothing is parked.")
        self.check("nothing-parked")
        self.wait_for("all are delivered", lambda: self.reader()["delivered_total"] == 6)
        self.assertEqual([one["reason"] for one in self.get("audit")["audit"]], ["olga by the console: the topic is there"] * 2)
        self.no_complaints()

    def test_a_payload_is_revealed_and_hidden_again(self):
        place = self.insert("c", payload=json.dumps({"text": MARKUP, "secret": scene.CANARY}))
        self.open(f"/events/{place}")
        self.page.click("button", "Reveal the payload")
        self.page.type("dialog textarea", "a customer asks")
        self.dialog_says("Your name, the time and the reason go into the audit")
        self.check("reveal")
        self.page.click("dialog button", "Reveal")
        self.page.shows(scene.CANARY)
        self.assertIn("<b>bold</b>", self.page.text())
        self.check("revealed")
        self.draw_again()
        self.assertIn(scene.CANARY, self.page.text())
        self.page.click("button", "Hide")
        self.assertNotIn(scene.CANARY, self.page.text())
        self.page.run("location.hash = '#/audit'")
        self.page.shows("olga by the console: a customer asks")
        self.no_complaints()

    def test_markup_in_names_is_text(self):
        self.change("orders.db", "INSERT INTO dovetail_outbox (aggregate_type, aggregate_id, type, payload) VALUES (?, ?, ?, '{}')",
                    "poison", MARKUP, "\u202e" + MARKUP)
        self.wait_for("it is parked", lambda: self.reader()["parked"] == 3)
        for place in ("/events", "/parked", "/"):
            self.open(place)
            self.assertEqual(self.page.run("return document.querySelectorAll('main img, main b b').length"), 0)
            self.no_complaints()
        self.page.run("location.hash = '#/parked'")
        self.page.shows(f"poison/{MARKUP}")

    def test_editing_and_replaying_as_a_new_event(self):
        self.mend()
        self.open(f"/events/{self.poison[2]}")
        self.page.click("a", "Edit and replay")
        self.page.click("button", "Reveal and edit")
        self.page.type("dialog textarea", "the total was wrong")
        self.page.click("dialog button", "Reveal")
        self.page.shows("Nothing is changed yet")
        self.page.type("textarea.code", '{"total": ')
        self.page.shows("This is not JSON")
        self.page.type("textarea.code", '{"total": 4}')
        self.page.shows("3 lines out, 1 line in")
        self.check("edited")
        self.page.click("button", "Replay as a new event")
        self.dialog_says("A new event with a new id goes into the outbox", "every relay of this outbox delivers it",
                         "The old event is discarded for orders-to-inventory")
        self.check("edit-and-replay")
        self.page.type("dialog textarea", "total corrected")
        self.page.click("dialog button", "Replay as a new event")
        self.page.shows("The new event is in the outbox")
        self.page.shows("It is delivered.")
        self.wait_for("it is delivered", lambda: self.rows(
            "inventory.db", "SELECT payload FROM dovetail_mailbox WHERE aggregate_id = 'b'") == [(b'{"total": 4}',)])
        self.assertEqual(self.get(f"events/{self.poison[2]}")["state"], "discarded")
        self.assertIn("olga by the console: total corrected", [one["reason"].split("; as ")[0] for one in self.get("audit")["audit"]])
        self.no_complaints()

    def test_pausing_and_resuming_a_relay(self):
        self.open("/relays/orders-to-inventory")
        self.page.click("button", "Pause")
        self.dialog_says("What will happen", "delivers nothing, also after a restart", "what comes meanwhile waits, too",
                         "what is parked (2) and what waits for its turn (1) stays there".capitalize(), "so the store grows")
        self.check("pause")
        self.page.type("dialog textarea", "the shop moves")
        self.page.click("dialog button", "Pause")
        self.page.shows("the shop moves")
        self.check("paused")
        self.page.click("button", "Resume")
        self.dialog_says("which was paused by", "continues within seconds")
        self.page.type("dialog textarea", "it has moved")
        self.page.click("dialog button", "Resume")
        self.page.wait("it delivers", "return [...document.querySelectorAll('main button')].some(b => b.innerText.includes('Pause'))")
        self.assertEqual([(one["what"], one["reason"]) for one in self.get("audit")["audit"]],
                         [("resume", "olga by the console: it has moved"), ("pause", "olga by the console: the shop moves")])
        self.no_complaints()

    def test_a_daemon_that_is_gone_and_comes_back(self):
        self.open()
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait()
        self.page.shows("The daemon has not answered")
        self.check("no-answer")
        self.page.run("location.hash = '#/relays'")
        self.start_daemon()
        self.page.wait("it is live again", "return !D.stale && !document.querySelector('.banner')")
        self.page.run("location.hash = '#/parked'")
        self.page.shows("2 events are parked for 1 reason")


if __name__ == "__main__":
    if browser.why_not():
        print("SKIPPED: " + browser.why_not(), file=sys.stderr)
        sys.exit(77)
    harness.main()
