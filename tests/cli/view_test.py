"""What an operator is shown: true numbers, what is wrong before all else, and the whole life of one event."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import unittest

import harness

INSERT = ("INSERT INTO dovetail_outbox (topic, aggregate_type, aggregate_id, type, payload) "
          "VALUES (?, 'orders', ?, 'OrderPlaced', '{}')")


class Case(harness.Case):
    def setUp(self):
        super().setUp()
        self.init()

    def insert(self, topic, key):
        """Past `publish`, which refuses a topic that nobody takes."""
        self.change("orders.db", INSERT, topic, key)
        return self.ask("events", "--store", "orders", "--limit", "1000")["events"][-1]["id"]

    def on_terminal(self, *arguments, columns=80):
        """What a person sees in a terminal of that width."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        process = subprocess.Popen([harness.DOVETAIL, *arguments], cwd=self.folder, stdin=slave, stdout=slave,
                                   stderr=subprocess.STDOUT)
        os.close(slave)
        shown = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        os.close(master)
        process.wait(harness.PATIENCE_S)
        return shown.decode().replace("\r\n", "\n")


class Numbers(Case):
    def test_delivered_counts_neither_parked_nor_waiting_events(self):
        for key in ("1", "2", "3"):
            self.publish(key=key)
        poison = self.insert("nowhere", "4")
        self.publish(key="4")
        self.dovetail("run", "--until-idle", code=1)
        reader = self.reader()
        self.assertEqual((reader["delivered_total"], reader["parked"], reader["waiting"], reader["pending"]), (3, 1, 1, 0))
        row = next(line for line in self.dovetail("status").out.splitlines() if line.startswith("orders.outbox"))
        self.assertEqual(row.split()[7:9], ["1", "3"], row)
        self.write("dovetail.toml", harness.CONFIG.replace('"orders.events"]', '"orders.events", "nowhere"]'))
        self.dovetail("parked", "replay", poison)
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.reader()["delivered_total"], 5, "what came out of parking is delivered too")

    def test_what_was_given_up_is_not_delivered(self):
        self.publish(key="1")
        poison = self.insert("nowhere", "2")
        self.dovetail("run", "--until-idle", code=1)
        self.dovetail("parked", "discard", poison, "--reason", "test data")
        self.assertEqual(self.reader()["delivered_total"], 1)


class OneEvent(Case):
    def setUp(self):
        super().setUp()
        self.poison = self.insert("nowhere", "4")
        self.publish(key="4")
        self.dovetail("run", "--until-idle", code=1)

    def test_show_tells_the_life_of_a_parked_event(self):
        document = self.ask("events", "show", self.poison)
        [life] = document["parked"]
        self.assertEqual((life["state"], life["head"], life["relay"]), ("parked", True, "orders-to-inventory"))
        self.assertIn("nowhere", life["reason"])
        self.assertGreaterEqual(life["attempts"], 1)
        self.assertRegex(life["parked_at"], r"^\d{4}-")
        text = self.dovetail("events", "show", self.poison).out
        self.assertTrue(text.startswith("! orders-to-inventory parked it"), text)
        for part in ("published  2", "state       parked", "parked      2", "attempts    ", "last error  ", life["reason"]):
            self.assertIn(part, text)

    def test_show_tells_what_operators_did(self):
        self.dovetail("parked", "replay", self.poison)
        self.dovetail("run", "--until-idle", code=1)
        self.dovetail("parked", "discard", self.poison, "--reason", "test data")
        document = self.ask("events", "show", self.poison)
        self.assertEqual([(one["what"], one["reason"]) for one in document["audit"]],
                         [("discard", "test data"), ("replay", "")])
        [life] = document["parked"]
        self.assertEqual((life["state"], life["note"]), ("discarded", "test data"))
        self.assertRegex(life["finished_at"], r"^\d{4}-")
        text = self.dovetail("events", "show", self.poison).out
        self.assertNotIn("!", text.splitlines()[0])
        self.assertIn("discard for orders-to-inventory: test data", text)

    def test_the_list_is_cut_at_the_width_of_a_terminal_and_nowhere_else(self):
        reason = "Grund: ä " + "langer Grund ü " * 60 + "END"
        self.change("orders.db", "UPDATE dovetail_parked SET reason = ? WHERE at_head = 1", reason)
        self.assertIn("END", self.dovetail("parked", "list").out)
        wide = self.on_terminal("parked", "list", columns=200)
        self.assertTrue(all(len(line) <= 200 for line in wide.splitlines()), wide)
        self.assertIn("...", wide)
        self.assertIn("Grund: ä lang", wide)
        narrow = self.on_terminal("parked", "list", columns=80).splitlines()
        [reason] = [line for line in narrow if "Grund" in line]
        self.assertTrue(reason.startswith("    Grund: ä") and reason.endswith("...") and len(reason) <= 80, narrow)
        self.assertIn("END", self.on_terminal("parked", "list", columns=2000))

    def test_everything_fits_a_terminal_of_80_columns_and_breaks_between_words(self):
        plain = lambda text: re.sub("\x1b\\[[0-9;]*m", "", text)
        for command in (("status",), ("trace", self.poison), ("explain", self.poison), ("doctor",), ("config", "check"),
                        ("parked", "list"), ("events", "show", self.poison), ("--help",), ("run", "--help"),
                        ("prune", "--help"), ("relay", "seek", "--help")):
            with self.subTest(command):
                shown, piped = plain(self.on_terminal(*command)), self.dovetail(*command).out
                self.assertEqual([line for line in shown.splitlines() if len(line) > 80], [])
                reason = "the mailbox does not accept the topic"
                if reason in piped and command[0] != "parked":
                    self.assertIn(reason, " ".join(shown.split()))
                if command[0] in ("explain", "doctor", "config", "run", "prune", "relay", "--help"):
                    self.assertEqual(" ".join(shown.split()), " ".join(piped.split()))


class Commands(harness.Case):
    def test_an_unknown_command_is_named_with_the_nearest(self):
        for words, says in ((("stauts",), ('"stauts"', '"status"')), (("publsih", "--store", "x"), ('"publish"',)),
                            (("-c", "some.toml", "evnets"), ('"events"',)),
                            (("parked", "lits"), ('"parked lits"', "list, replay, discard")),
                            (("events", "shwo", "1"), ('"events shwo"', "show, cancel")),
                            (("requests", "forgte"), ('"requests forget"',)), (("zzzzzzz",), ('"zzzzzzz"', "--help"))):
            self.refused(*words, code=2, name="usage", says=says)

    def test_a_payload_that_is_too_large_is_told_with_its_size(self):
        self.init()
        self.write("large", b"x" * 3_000_001)
        base = ("publish", "--store", "orders", "--aggregate-type", "a", "--type", "t")
        self.refused(*base, "--payload-file", "large", code=5, name="rejected", says=("3000001 bytes", "1024000"))
        self.refused(*base, "-", code=5, name="rejected", says=("more than 1024000 bytes",), stdin=b"x" * 3_000_000)

    def test_the_doctor_says_before_the_first_start_that_there_are_no_tables_yet(self):
        document = self.ask("doctor")
        self.assertEqual([[one["code"] for one in store["findings"]] for store in document["stores"]], [["no-tables"]] * 2)
        self.assertIn("dovetail init", self.dovetail("doctor").out)
        self.init()
        self.assertEqual([store["findings"] for store in self.ask("doctor")["stores"]], [[], []])

    def test_help_says_of_prune_what_the_manual_says(self):
        text = " ".join(self.dovetail("prune", "--help").out.split())
        self.assertIn("an older event that comes again is parked", text)

    def test_every_example_of_help_runs(self):
        """Those that need no special store, as they are written."""
        self.write("dovetail.toml", harness.CONFIG + '\n[retention]\ndelivered = "7d"\n\n[store.bus]\nurl = "redis://127.0.0.1:1/0"\n')
        self.init()
        top = self.dovetail("--help").out
        commands = re.findall(r"^  ([a-z]+)  ", top, re.MULTILINE)
        self.assertIn("status", commands)
        ran = 0
        for command in commands:
            text = re.sub(r"\\\n\s*", " ", self.dovetail(command, "--help").out)
            for line in re.findall(r"^  ((?:generate \| )?dovetail .*)$", text, re.MULTILINE):
                example = re.sub(r"   +.*", "", line)
                if re.search(r"--watch|--roles|^dovetail run(?! --)|gateway|retarget|reconcile|0190\.\.\.|01932b7e|\bID\b|--drop|remember|KEY|demo", example):
                    continue
                example = example.replace("generate", "echo 1").replace("dovetail ", harness.DOVETAIL + " ", 1)
                done = subprocess.run(["bash", "-o", "pipefail", "-c", example], cwd=self.folder, capture_output=True,
                                      text=True, timeout=harness.PATIENCE_S)
                self.assertEqual(done.returncode, 0, f"{example}: {done.stdout} {done.stderr}")
                ran += 1
        self.assertGreater(ran, 8)


class Secrets(harness.Case):
    """A store whose secret is missing is unusable, and no other."""

    CONFIG = harness.CONFIG + """
[store.away]
url = "postgres:host=127.0.0.1 port=1 dbname=x user=y"
password_env = "NO_SUCH_VARIABLE"

[store.hook]
url = "http://127.0.0.1:1/x"
[store.hook.settings]
secret_env = "NO_SUCH_VARIABLE_EITHER"
"""

    def setUp(self):
        super().setUp()
        self.init()
        self.write("dovetail.toml", self.CONFIG)

    def test_commands_that_do_not_need_it_go_on(self):
        self.publish(store="orders")
        self.dovetail("events", "--store", "orders")
        self.dovetail("parked", "list", "--store", "orders")
        self.dovetail("run", "--until-idle")
        document = self.ask("status", code=3)
        stores = {store["name"]: store for store in document["stores"]}
        self.assertEqual(stores["orders"]["relays"][0]["delivered_total"], 1)
        self.assertEqual(stores["away"]["error"]["code"], "config")
        self.assertIn("NO_SUCH_VARIABLE", stores["away"]["error"]["text"])
        self.assertIn("orders-to-inventory", self.dovetail("status", code=3).out)

    def test_commands_that_need_it_name_it(self):
        self.refused("publish", "--store", "away", "--aggregate-type", "a", "--type", "t", "--payload", "x", code=3,
                     name="config", says=("NO_SUCH_VARIABLE", "not set"))
        self.refused("init", code=3, name="config", says=("NO_SUCH_VARIABLE",))
        self.write("dovetail.toml", self.CONFIG + '\n[[relay]]\nname = "out"\nfrom = "orders"\nto = "hook"\n')
        self.refused("run", "--until-idle", code=3, name="config", says=("secret_env", "not set"))
        self.dovetail("run", "--until-idle", "orders-to-inventory")
        findings = {store["name"]: store["findings"] for store in self.ask("doctor", code=1)["stores"]}
        self.assertEqual([one["code"] for one in findings["away"]], ["secret"])
        self.assertEqual([one["code"] for one in findings["hook"]], ["secret"])


AWAY = """
[store.bus]
url = "redis://127.0.0.1:1/0"
read = ["orders.events"]

[[relay]]
name = "orders-to-bus"
from = "orders"
to = "bus"
lease = "500ms"
reconnect_cap = "200ms"
"""
FROM_AWAY = AWAY.replace('from = "orders"\nto = "bus"', 'from = "bus"\nto = "inventory"').replace("orders-to-bus", "bus-in")


class States(Case):
    """What a relay does is told by its store, as long as its process lives."""

    def setUp(self):
        super().setUp()
        self.write("dovetail.toml", harness.CONFIG + AWAY)
        if "was built without" in self.run_dovetail("status").err.decode():
            self.skipTest("built without Redis")

    def wait_for_state(self, state, error="", **where):
        # While the machine stands still the lease may run out, which is told, too.
        return self.wait_for(f"the relay says {state}",
                             lambda: (reader := self.reader(**where)) and reader["state"] == state
                             and error in reader.get("last_error", "") and reader)

    def test_a_broker_that_is_away_is_told_first_with_since_when_and_the_next_try(self):
        self.publish()
        process = self.start("run")
        reader = self.wait_for_state("backing_off", "127.0.0.1", name="orders-to-bus")
        self.assertRegex(reader["state_since"], r"^\d{4}-")
        self.wait_for_state("delivering", name="orders-to-inventory")
        self.wait_for("it is told first", lambda: re.match(
            r"(?s)The broker bus is away\..*\n! The broker bus is away, for .*orders-to-bus: [^\n]*127\.0\.0\.1", self.dovetail("status").out))
        process.kill()
        process.wait()
        stopped = self.wait_for_state("stopped", name="orders-to-bus")
        self.assertEqual(stopped["last_state"], "backing_off", "its last words are kept, and not told as the truth")
        self.assertNotIn("next_try", stopped)
        self.assertRegex(self.dovetail("status").out, r"(?s)! No process runs the relay orders-to-bus.*\n    1 event waits\.\n")

    def test_a_relay_that_reads_a_broker_tells_it_to_the_store_that_it_fills(self):
        self.write("dovetail.toml", harness.CONFIG + FROM_AWAY)
        self.start("run", "bus-in")
        self.wait_for_state("backing_off", "127.0.0.1", store="inventory", name="bus-in")
        self.assertRegex(self.dovetail("status").out, r"^The broker bus is away")

    def test_a_password_in_an_error_is_not_kept(self):
        canary = "c4n4ry"
        config = harness.CONFIG + AWAY.replace('url = "redis://127.0.0.1:1/0"',
                                               'url = "redis://127.0.0.1:1/0"\nuser = "u"\npassword_env = "P"')
        self.write("dovetail.toml", config)
        os.environ["P"] = canary
        self.addCleanup(os.environ.pop, "P")
        self.start("run", "orders-to-bus")
        self.wait_for_state("backing_off", name="orders-to-bus")
        for one in self.folder.glob("*.db*"):
            self.assertNotIn(canary.encode(), one.read_bytes())
        self.assertNotIn(canary, self.log() + self.dovetail("status").out)


class StatusScreen(Case):
    """`status` on a terminal of 80 columns."""

    def setUp(self):
        super().setUp()
        self.write("dovetail.toml", harness.CONFIG.replace("orders-to-inventory", "a-relay-with-a-name-of-forty-characters"))
        self.insert("nowhere", "4")
        self.dovetail("run", "--until-idle", code=1)

    def without_colours(self, text):
        return re.sub(r"\x1b\[[0-9;]*m", "", text)

    def test_it_fits_and_the_verdict_comes_first(self):
        shown = self.on_terminal("status")
        lines = self.without_colours(shown).splitlines()
        self.assertEqual(lines[0][:36], "1 event of the relay a-relay-with-a-")
        self.assertTrue(all(len(line) <= 80 for line in lines), "\n".join(lines))
        self.assertIn("a-relay-with-a-name-of-forty-characters", shown)
        self.assertIn("PARKED", shown)
        self.assertIn("DELIVERED", self.on_terminal("status", columns=200))

    def test_colours_are_for_terminals_and_can_be_refused(self):
        self.assertIn("\x1b[1;33m", self.on_terminal("status"))
        self.assertNotIn("\x1b", self.dovetail("status").out)
        os.environ["NO_COLOR"] = "1"
        self.addCleanup(os.environ.pop, "NO_COLOR")
        self.assertNotIn("\x1b", self.on_terminal("status"))

    def watch(self):
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(slave)
        process = subprocess.Popen([harness.DOVETAIL, "status", "--watch", "--every", "0.05"], cwd=self.folder, stdin=slave,
                                   stdout=slave, stderr=slave, start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.addCleanup(self.end, process)
        self.slave, self.shown = slave, b""
        self.addCleanup(os.close, slave)
        return master, process

    def read_until(self, master, condition):
        def look():
            if select.select([master], [], [], 0.01)[0]:
                self.shown += os.read(master, 65536)
            return condition(self.shown)
        self.wait_for("the screen shows it", look)

    def ends_with(self, key):
        master, process = self.watch()
        self.read_until(master, lambda shown: shown.count(b"is parked") > 4)
        self.assertTrue(self.shown.startswith(b"\x1b[?1049h\x1b[?25l"), self.shown[:40])
        self.assertNotIn(b"\x1b[2J", self.shown, "it draws over what is there")
        for part in self.shown.split(b"\x1b[H")[1:-1]:
            self.assertLessEqual(part.count(b"\n"), 23, "no line below the edge")
        os.write(master, key)
        self.read_until(master, lambda shown: shown.endswith(b"\x1b[?25h\x1b[?1049l"))
        self.assertEqual(process.wait(harness.PATIENCE_S), 0)
        self.assertEqual(termios.tcgetattr(self.slave), self.before)

    def test_q_ends_the_live_screen_and_the_terminal_is_as_before(self):
        self.ends_with(b"q")

    def test_interrupt_ends_it_too(self):
        self.ends_with(b"\x03")


class UntilIdle(Case):
    def test_what_is_there_is_served_and_what_is_away_is_named(self):
        self.write("dovetail.toml", harness.CONFIG + AWAY)
        if "was built without" in self.run_dovetail("status").err.decode():
            self.skipTest("built without Redis")
        self.publish()
        self.refused("run", "--until-idle", "orders-to-bus", code=4, name="unavailable", says=("bus",))
        done = self.dovetail("run", "--until-idle", code=4)
        self.assertIn("delivered 1", done.out)
        self.assertIn("relay orders-to-bus", done.err)
        self.assertEqual(self.rows("inventory.db", "SELECT count(*) FROM dovetail_mailbox"), [(1,)])
        self.assertEqual(self.ask("run", "--until-idle", code=4)["error"]["code"], "unavailable")

    def test_a_file_that_is_missing_keeps_nobody_else_from_delivering(self):
        self.write("dovetail.toml", harness.CONFIG + """
[store.third]
url = "sqlite:third.db"
[[relay]]
name = "orders-to-third"
from = "orders"
to = "third"
""")
        self.publish()
        done = self.dovetail("run", "--until-idle", code=4)
        self.assertIn("third", done.err)
        [orders] = [store for store in self.ask("status", code=4)["stores"] if store["name"] == "orders"]
        self.assertEqual({one["name"]: one["delivered_total"] for one in orders["relays"]}, {"orders-to-inventory": 1})


class Targets(Case):
    """The name of a relay belongs to one target."""

    OTHER = harness.CONFIG.replace("sqlite:inventory.db", "sqlite:elsewhere.db")

    def setUp(self):
        super().setUp()
        self.dovetail("run", "--until-idle")

    def test_another_target_is_refused_until_somebody_means_it(self):
        self.assertEqual(self.reader()["target"], "sqlite inventory.db")
        self.write("dovetail.toml", self.OTHER)
        self.init()
        self.publish()
        self.refused("run", "--until-idle", code=5, name="rejected",
                     says=("orders-to-inventory", "inventory.db", "elsewhere.db", "dovetail relay retarget orders-to-inventory"))
        self.dovetail("relay", "retarget", "orders-to-inventory", code=2)
        moved = self.ask("relay", "retarget", "orders-to-inventory", "--reason", "a new disk")
        self.assertEqual((moved["before"], moved["target"]), ("sqlite inventory.db", "sqlite elsewhere.db"))
        self.assertEqual(self.rows("orders.db", "SELECT what, relay, reason FROM dovetail_audit"),
                         [("retarget", "orders-to-inventory", "a new disk")])
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.rows("elsewhere.db", "SELECT count(*) FROM dovetail_mailbox"), [(1,)])

    def test_it_is_not_changed_under_a_relay_that_runs(self):
        process = self.start("run")
        self.wait_for("it runs", lambda: self.reader()["owner"])
        self.refused("relay", "retarget", "orders-to-inventory", "--reason", "x", code=5, name="rejected", says=("stop",))
        process.terminate()
        process.wait(harness.PATIENCE_S)
        self.dovetail("relay", "retarget", "orders-to-inventory", "--reason", "x")
        self.refused("relay", "retarget", "nope", "--reason", "x", code=5, name="rejected", says=("orders-to-inventory",))

    def test_a_standby_of_another_target_does_not_take_over(self):
        first = self.start("run")
        self.wait_for("it runs", lambda: self.reader()["owner"])
        self.start("run")
        self.wait_for("another one stands by", lambda: "standby" in self.log())
        # As if the operator had been quicker than the standby.
        self.change("orders.db", "UPDATE dovetail_relay SET target = 'sqlite elsewhere.db'")
        first.kill()
        self.wait_for("the standby says why it does not", lambda: "dovetail relay retarget" in self.log())
        self.publish()
        self.assertEqual(self.rows("inventory.db", "SELECT count(*) FROM dovetail_mailbox"), [(0,)])

    def test_files_that_move_together_stay_together(self):
        for name in ("orders.db", "inventory.db"):
            self.dovetail("run", "--until-idle")
        other = self.folder / "moved"
        other.mkdir()
        for path in list(self.folder.glob("*.db*")) + [self.folder / "dovetail.toml"]:
            path.rename(other / path.name)
        self.dovetail("run", "--until-idle", cwd=other)


if __name__ == "__main__":
    harness.main()
