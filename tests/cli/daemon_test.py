"""The daemon: follows commits, stops cleanly, stands by, and tells its log nothing that is private."""

import json
import signal
import sqlite3
import time

import harness


class Daemon(harness.Case):
    def setUp(self):
        super().setUp()
        self.init()

    def mailbox(self):
        return self.rows("inventory.db", "SELECT count(*) FROM dovetail_mailbox")[0][0]

    def started(self, count=1):
        self.wait_for("the relay has started", lambda: self.log().count('"event":"started"') >= count)

    def stop(self, process, code=0):
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(harness.PATIENCE_S), code, self.log())

    def test_it_follows_commits_and_stops_in_good_order(self):
        process = self.start("run")
        self.started()
        for key in range(5):
            self.publish(key=str(key))
        self.wait_for("five events arrived", lambda: self.mailbox() == 5)
        reader = self.reader()
        self.assertIn(f":{process.pid}", reader["owner"])
        self.assertGreater(reader["lease_left_us"], 0)
        self.stop(process)
        self.assertIn('"event":"drained"', self.log())
        self.assertEqual(self.reader()["owner"], "", "the lease is given back")

    def test_sigint_stops_it_too_and_json_reports_what_it_did(self):
        process = self.start("run", "--json")
        self.started()
        self.publish()
        self.wait_for("the event arrived", lambda: self.mailbox() == 1)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(harness.PATIENCE_S), 0)
        report = json.load(process.stdout)
        self.assertEqual(report["relays"][0]["delivered"], 1)

    def test_a_second_one_stands_by_and_takes_over_when_the_first_is_killed(self):
        first = self.start("run")
        self.started()
        second = self.start("run")
        self.wait_for("the second stands by", lambda: '"event":"standby"' in self.log())
        self.publish()
        self.wait_for("the event arrived", lambda: self.mailbox() == 1)
        self.assertIn(f":{first.pid}", self.reader()["owner"])
        first.kill()
        self.started(2)
        self.publish()
        self.wait_for("the second event arrived", lambda: self.mailbox() == 2)
        self.assertIn(f":{second.pid}", self.reader()["owner"])
        self.stop(second)

    def test_after_kill_9_the_next_one_goes_on_at_once(self):
        self.write("dovetail.toml", harness.CONFIG.replace('lease = "500ms"', 'lease = "1h"'))
        first = self.start("run")
        self.started()
        self.assertNotIn("@", self.reader()["owner"], "what is shown is for people")
        first.kill()
        first.wait(harness.PATIENCE_S)  # a process that still ends is not provably gone
        self.publish()
        standstill, since = harness.Standstill(), time.time()
        second = self.start("run")
        self.assert_logged_soon(standstill, since, '"event":"started"', count=2)
        self.wait_for("the event arrived, and nobody waited for an hour", lambda: self.mailbox() == 1)
        self.assertNotIn('"event":"standby"', self.log())
        self.stop(second)

    def test_a_terminal_that_goes_away_stops_it_in_good_order(self):
        process = self.start("run")
        self.started()
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(harness.PATIENCE_S), 0, self.log())
        self.assertIn('"event":"drained"', self.log())
        self.assertEqual(self.reader()["owner"], "", "the lease is given back")

    def test_under_nohup_it_goes_on_when_the_terminal_goes_away(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        process = self.start("run")
        self.started()
        process.send_signal(signal.SIGHUP)
        self.publish()
        self.wait_for("the event arrived", lambda: self.mailbox() == 1)
        self.assertNotIn("stopping", self.log())
        self.stop(process)

    def leave_at_once(self, head_start_s):
        """Two signals while the mailbox is locked; the exit code. 0 when the event was not on its way yet."""
        process = self.start("run")
        self.started(self.log().count('"event":"started"') + 1)
        holder = sqlite3.connect(self.folder / "inventory.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        self.publish()
        time.sleep(head_start_s)
        before = self.log().count("events in flight may finish")
        process.send_signal(signal.SIGTERM)
        self.wait_for("it drains", lambda: self.log().count("events in flight may finish") > before)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        code = process.wait(harness.PATIENCE_S)
        holder.execute("ROLLBACK")
        holder.close()
        return code

    def test_a_second_signal_makes_it_leave_at_once_and_nothing_is_lost(self):
        head_starts = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
        codes = []
        while not codes or (codes[-1] == 0 and len(codes) < len(head_starts)):
            codes.append(self.leave_at_once(head_starts[len(codes)]))
        self.assertEqual(codes[-1], 128 + signal.SIGTERM, self.log())
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.mailbox(), len(codes))

    def test_it_prunes_by_itself_what_is_old_and_delivered(self):
        self.write("dovetail.toml", harness.CONFIG + '[retention]\ndelivered = "1s"\nevery = "1s"\n')
        process = self.start("run")
        self.started()
        self.publish()
        self.wait_for("the event is pruned",
                      lambda: self.rows("orders.db", "SELECT count(*) FROM dovetail_outbox") == [(0,)])
        self.assertEqual(self.mailbox(), 1, "nobody has read the mailbox yet, so it keeps everything")
        self.stop(process)

    def test_it_waits_for_a_store_that_is_not_there_yet(self):
        for path in self.folder.glob("inventory.db*"):
            path.unlink()
        process = self.start("run")
        self.publish()
        self.wait_for("the sink is missed", lambda: '"event":"sink_lost"' in self.log())
        self.dovetail("init")
        self.wait_for("the event arrived", lambda: self.mailbox() == 1)
        self.assertEqual(self.reader()["parked"], 0, "an outage parks nothing")
        self.stop(process)

    def test_until_idle_reports_what_is_parked_by_exit_1(self):
        self.publish()
        self.assertEqual(self.ask("run", "--once")["parked"], 0)
        self.write("strict.toml", harness.CONFIG.replace("orders.events", "other.events"))
        self.publish()
        document = self.ask("-c", "strict.toml", "run", "--until-idle", code=1)
        self.assertEqual(document["parked"], 1)
        self.assertIn("1 parked", self.dovetail("-c", "strict.toml", "run", "--until-idle", code=1).out)

    def test_the_log_is_one_json_object_a_line_and_has_no_payload(self):
        process = self.start("run")
        self.started()
        self.change("orders.db", "INSERT INTO dovetail_outbox (topic, aggregate_type, aggregate_id, type, payload, headers)"
                    " VALUES ('nowhere', 'orders', '17', 'T', 'hush-payload', '{\"password\": \"hush-header\"}')")
        self.publish(payload='{"card": "hush-card"}')
        self.wait_for("the event is parked", lambda: '"event":"parked"' in self.log())
        self.stop(process)
        for line in self.log().splitlines():
            entry = json.loads(line)
            self.assertIn(entry["level"], ("info", "warn"))
            self.assertRegex(entry["time"], r"Z$")
        self.assertNotIn("hush", self.log())
        self.assertNotIn("hush", self.dovetail("parked", "list").out + self.dovetail("status").out)

    def test_a_text_log_is_for_people(self):
        self.write("dovetail.toml", harness.CONFIG.replace('"json"', '"text"'))
        process = self.start("run")
        self.wait_for("the relay has started", lambda: "event=started" in self.log())
        self.stop(process)
        self.assertRegex(self.log(), r"(?m)^\d{4}-\d\d-\d\dT\S+Z info  orders-to-inventory: ")

    def test_watching_goes_on_until_it_is_interrupted(self):
        process = self.start("status", "--watch", "--every", "0.05", "--json")
        decoder = json.JSONDecoder()
        seen = b""
        while seen.count(b'"stores"') < 3:
            seen += process.stdout.read1(1 << 16)
        process.send_signal(signal.SIGINT)
        process.wait(harness.PATIENCE_S)
        self.assertIn("stores", decoder.raw_decode(seen.decode())[0])


if __name__ == "__main__":
    harness.main()
