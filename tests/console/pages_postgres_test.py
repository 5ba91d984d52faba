"""The dashboard over PostgreSQL, a consumer with a queue, a WAL relay and a broker that is away: every page, and the
actions that the other scene has no ground for."""

import os
import sys
import time

import browser
import dashboard
import harness
import postgres_scene
import scene


class PostgresPages(dashboard.SharedScene, postgres_scene.PostgresScene):
    def places(self):
        return {"postgres-overview": "/", "postgres-relays": "/relays", "postgres-relay": "/relays/shop-to-files",
                "postgres-wal-relay": "/relays/shop-to-bus", "postgres-consumer": "/relays/stock", "postgres-parked": "/parked",
                "postgres-events": "/events", "postgres-delayed": "/events?state=delayed", "postgres-event": f"/events/{self.good[0]}",
                "postgres-delayed-event": f"/events/{self.delayed}", "postgres-parked-event": f"/events/{self.broken[0]}",
                "postgres-edit": f"/events/{self.broken[0]}/edit", "postgres-consumers": "/consumers",
                "postgres-stores": "/stores", "postgres-reconcile": "/reconcile", "postgres-audit": "/audit"}

    def test_the_pages_in_both_themes_narrow_and_wide(self):
        self.post(f"events/{self.good[0]}/reveal", {"reason": "a customer asks where the order is"})
        job = self.post("reconcile", {"outbox": "shop", "inbox": "shop", "consumer": "stock"})["id"]
        self.wait_for("it has compared", lambda: self.get(f"jobs/{job}")["state"] == "done")
        self.wait_for("the broker is away long enough", lambda: "broker-away" in [one["kind"] for one in self.get("status")["problems"]])
        points = 4 if os.environ.get("DOVETAIL_PICTURES") else 2
        self.wait_for("the charts have points", lambda: len(self.get("history?relay=stock")["pending"]) >= points)
        self.open()
        self.check_every_page(self.places())

    def test_the_keyboard_reaches_everything_in_order(self):
        self.check_focus(("/relays/shop-to-files", "/consumers", "/reconcile"))

    def test_nothing_moves_for_those_who_want_no_motion(self):
        moving = "return document.getAnimations().filter(a => a.playState === 'running').length"
        self.open()
        self.page.wait("the pipeline is drawn", "return document.querySelectorAll('.pipeline .node').length >= 6")
        self.page.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "no-preference"}])
        for _ in range(5):
            self.event("flow")
        self.page.wait("events flow", moving + " > 0")
        self.page.look(1440)  # with reduced motion
        self.page.wait("nothing moves", moving + " === 0")

    def test_an_event_shows_its_life_and_its_key(self):
        self.open(f"/events/{self.broken[1]}")
        self.page.shows("An earlier event of its key is parked by stock.")
        shown = self.get(f"events/{self.broken[1]}")
        text = self.page.text()
        for one in shown["steps"]:
            self.assertIn(one["what"], text)
            self.assertIn(one["detail"], text)
        for one in shown["explain"]:
            self.assertIn(one["text"].split("; the next try is at")[0], text)  # that time goes on
        self.page.click("main td a, main th a", "Broken")
        self.page.wait("the earlier event is there", "return location.hash.includes(arguments[0])", self.broken[0])
        self.no_complaints()

    def test_a_search_goes_further_back_by_itself_and_can_be_stopped(self):
        self.open()
        # As if there were many events: each look finds nothing and is not at the end, until the search is let go.
        self.page.run("""const real = D.get; window.looks = 0; D.get = async (path, params) => { if (path !== 'events' || window.letGo) return real(path, params);
            window.looks += 1; await new Promise(done => setTimeout(done, 100));
            return { events: [], next: 'shop:1000000', looked_back_to: new Date().toISOString(), problems: [] }; };
            location.hash = '#/events?q=Broken'""")
        self.page.shows("Nothing found yet.")
        self.page.shows("and still looking")
        self.page.wait("it looks again and again", "return window.looks > 3")
        self.check("postgres-search")
        self.page.click("main button", "Stop")
        self.page.shows("No event matches.")
        before = self.page.wait("it looks no more", "return document.querySelector('.pager .btn') && window.looks")
        time.sleep(1)
        self.assertEqual(self.page.run("return window.looks"), before)
        self.page.run("window.letGo = true")
        self.page.click("main button", "Search further back")
        self.page.shows("3 events, newest first.")
        self.no_complaints()

    def test_the_audit_is_filtered(self):
        self.post(f"events/{self.good[0]}/reveal", {"reason": "for the filter"})
        self.assertEqual(self.api("parked/discard", {"key": "a", "reason": "x"}, role="viewer").status, 403)
        self.open("/audit")
        self.page.shows("for the filter")
        self.page.shows("POST /api/v1/parked/discard")
        self.page.type("input[name=who]", scene.NAMES["viewer"])
        self.page.press("Enter")
        self.page.wait("only hers", "return !document.body.innerText.includes('for the filter') && document.body.innerText.includes('refused')")
        self.page.run("location.hash = '#/audit?what=replay'")
        self.page.shows("No action matches.")
        self.no_complaints()


class PostgresActions(dashboard.DashboardCase, postgres_scene.PostgresScene):
    def audited(self):
        return [(one["what"], one["reason"].split(": ")[-1]) for one in self.get("audit")["audit"]]

    def confirm(self, reason, button):
        if reason:
            self.page.type("dialog textarea", reason)
        self.check("postgres-confirm-" + button.lower().replace(" ", "-"))
        self.page.click("dialog button", button)

    def test_draining_and_resuming(self):
        self.open("/relays/shop-to-files")
        self.page.click("button", "Drain")
        self.dialog_says("Every process", "reads nothing new", "0 events are pending; they stay pending")
        self.confirm("a new disk", "Drain")
        self.page.shows("It has been drained for")
        self.assertEqual(self.relay("shop-to-files")["state"], "drained")
        self.event("later")
        self.page.click("button", "Resume")
        self.confirm("it is there", "Resume")
        self.wait_for("both are in the audit", lambda: self.audited() == [("resume", "it is there"), ("drain", "a new disk")])
        count = int(self.sql("SELECT count(*) FROM dovetail.outbox"))
        self.wait_for("it delivers what came meanwhile", lambda: self.relay("shop-to-files")["delivered_total"] == count)
        self.no_complaints()

    def test_moving_a_relay(self):
        self.open("/relays/shop-to-files")
        self.page.click("summary", "More")
        self.page.click(".menu-list button", "Move")
        self.page.shows("Where does shop-to-files continue?")
        self.check("postgres-where")
        self.page.click("dialog label.radio", "The beginning")
        self.page.click("dialog button", "Show what will happen")
        self.dialog_says("go out again: receivers get duplicates", "if this command dies in between, it stays paused")
        count = self.sql("SELECT count(*) FROM dovetail.outbox")
        self.assertEqual(self.page.run("return document.querySelector('dialog .counts b').innerText"), count)
        self.confirm("the disk was lost", "Move")
        self.page.shows("shop-to-files continues elsewhere.")
        self.wait_for("all are delivered again", lambda: self.relay("shop-to-files")["delivered_total"] == 2 * int(count))
        self.assertIn(("seek", "the disk was lost"), self.audited())
        self.no_complaints()

    def test_renaming_and_forgetting_need_an_admin(self):
        self.open("/relays/shop-to-files")
        self.page.click("summary", "More")
        self.page.click(".menu-list button", "Rename")
        self.page.shows("This needs the role admin, and your role is operator.")
        self.open("/relays/shop-to-files", role="admin")
        self.page.click("summary", "More")
        self.page.click(".menu-list button", "Rename")
        self.page.type("dialog input[name=new_name]", "shop-to-disk")
        self.page.click("dialog button", "Show what will happen")
        self.dialog_says('belong to "shop-to-disk" from then on', "sends everything that is still there")
        self.confirm("a better name", "Rename")
        self.page.shows("stop every process that runs it")
        self.assertEqual(self.audited(), [])
        self.page.click("summary", "More")
        self.page.click(".menu-list button", "Forget")
        self.dialog_says("never delivers them", "it then begins where \"start\" says")
        self.page.click("dialog button", "Cancel")
        self.page.run("location.hash = '#/relays/stock'")
        self.page.wait("it is the consumer", "return document.querySelector('main h1').innerText === 'stock'")
        self.page.click("summary", "More")
        self.assertNotIn("Rename", self.page.run("return document.querySelector('.menu-list').innerText"))

    def choose(self, key):
        row = "[...document.querySelectorAll('tbody label.check')].find(l => l.innerText.trim() === arguments[0])"
        self.page.wait("the row is there", "return " + row, key)
        self.page.run(row + ".querySelector('input').click()", key)

    def test_discarding_all_of_a_reason(self):
        self.mend()
        self.open("/parked")
        self.page.click(".group-tools button", "Discard all 2")
        self.dialog_says("2 parked events", "1 waits behind", "stock will never deliver these 2 events", "What waits behind goes out at once")
        self.confirm("test data", "Discard 2")
        self.page.shows("2 events discarded")
        self.wait_for("what waited goes out", lambda: self.sql(f"SELECT count(*) FROM taken WHERE id = '{self.broken[1]}'") == "1")
        self.assertEqual(self.audited(), [("discard", "test data")] * 2)
        self.no_complaints()

    def test_replaying_several_that_are_selected(self):
        self.mend()
        self.open("/parked")
        self.choose("orders/a")
        self.choose("orders/b")
        self.page.shows("2 parked events selected")
        self.page.click(".select-bar button", "Clear")
        self.page.wait("none is selected", "return document.querySelector('.select-bar').hidden")
        self.page.click("input[aria-label='Select all that are shown']")
        self.page.click(".select-bar button", "Replay 2")
        self.page.click("dialog label.radio", "All at once")
        self.confirm("the article is there", "Replay 2")
        self.page.shows("2 events go out again")
        self.page.shows("Nothing is parked.")
        self.wait_for("all are applied", lambda: self.sql(
            f"SELECT count(*) FROM taken WHERE id IN ('{self.broken[0]}', '{self.broken[1]}', '{self.broken[2]}')") == "3")
        self.no_complaints()

    def test_replaying_only_the_keys_that_match(self):
        self.mend()
        self.open("/parked")
        self.page.type("input[aria-label='Filter keys']", "orders/b")
        self.page.click(".group-tools button", "Replay all 1")
        self.confirm("", "Replay 1")
        self.page.shows("1 event goes out again")
        self.wait_for("the other is still parked", lambda: self.relay("stock")["parked"] == 1)
        self.assertEqual([one["subject"] for one in self.get("audit")["audit"]], [self.broken[2]])
        self.no_complaints()

    def test_replaying_and_discarding_on_the_page_of_the_event(self):
        self.open(f"/events/{self.broken[2]}")
        self.page.shows("It is parked by stock and waits for a decision.")
        self.page.click("main button", "Discard")
        self.confirm("given up", "Discard 1")
        self.page.shows("1 event discarded")
        self.page.wait("the page says so", "return !document.querySelector('main .actions')")
        self.mend()
        self.show(f"/events/{self.broken[0]}")
        self.page.click("main button", "Replay")
        self.confirm("the article is there", "Replay 1")
        self.page.shows("1 event goes out again")
        self.page.shows("One handler has applied it.")
        self.assertEqual(self.audited(), [("replay", "the article is there"), ("discard", "given up")])
        self.no_complaints()

    def test_cancelling_what_waits_for_its_time(self):
        self.open("/events")
        self.page.run("const box = document.querySelector('select[name=state]'); box.value = 'delayed'; box.dispatchEvent(new Event('change'))")
        self.page.shows("1 event, in the order of publishing")
        self.page.shows("2200-01-01")
        self.page.click("main th a")
        self.page.shows("It waits for its time.")
        self.page.click("main button", "Cancel")
        self.dialog_says("Nobody gets it.", "The audit keeps its id, your name and the reason.")
        self.confirm("the order was cancelled", "Cancel the event")
        self.page.shows("An operator has cancelled it before its time.")
        self.assertEqual(self.audited(), [("cancel", "the order was cancelled")])
        self.no_complaints()

    def test_comparing_an_outbox_with_an_inbox(self):
        self.sql(f"DELETE FROM dovetail.inbox USING dovetail.consumer c WHERE c.id = consumer_id AND c.name = 'stock.ledger' "
                 f"AND event_id = '{self.good[1]}'")
        self.open("/reconcile")
        self.page.shows("Nothing has been compared yet.")
        self.page.click("main button", "Compare")
        self.page.wait("the report is there", "return document.querySelector('article.report')")
        self.check("postgres-report")
        self.assertIn("1 missing", self.page.text())
        job = self.get("jobs")["jobs"][0]["id"]
        self.assertIn(self.get(f"jobs/{job}")["result"]["digest"], self.page.text())
        kept = self.page.run("return fetch(document.querySelector('article.report a[download]').href).then(answer => answer.text())")
        self.assertIn("SHA-256 of this report", kept)
        self.page.type("input[name=late_after]", "soon")
        self.page.click("main button", "Compare")
        self.page.shows("late_after")
        self.page.console()  # it says that 400 came


if __name__ == "__main__":
    if browser.why_not():
        print("SKIPPED: " + browser.why_not(), file=sys.stderr)
        sys.exit(77)
    harness.main()
