"""Every command does what its help says, as text and as JSON."""

import json
import re
import time
import uuid

import harness


class Help(harness.Case):
    def test_help_teaches_with_examples_and_lists_the_exit_codes(self):
        text = self.dovetail("--help").out
        for part in ("dovetail init", "dovetail publish", "Exit codes", "DOVETAIL_CONFIG"):
            self.assertIn(part, text)
        for command in ("init", "run", "publish", "status", "events", "parked", "prune", "demo", "version"):
            self.assertIn(f"  {command} ", text)
            self.assertIn("Usage: dovetail", self.dovetail(command, "--help").out)

    def test_version_is_printed(self):
        self.assertRegex(self.dovetail("version").out, r"^dovetail \d+\.\d+\.\d+\n$")
        self.assertRegex(self.ask("version")["version"], r"^\d+\.\d+\.\d+$")
        self.assertRegex(self.dovetail("--version").out, r"^dovetail \d+\.\d+\.\d+\n$")


class Reference(harness.Case):
    """docs/CONFIG.md and docs/CLI.md list what there is."""

    BROKERS = {"kafka", "rabbitmq", "nats", "redis", "webhook"}

    def tables(self):
        return {table["table"]: table for table in self.ask("config")["tables"]}

    def test_every_key_of_the_config_is_explained(self):
        store = '[store.a]\nurl = "sqlite:a.db"\n'
        relay = store + '[[relay]]\nname = "r"\nfrom = "a"\nto = "a"\n'
        postgres = ('[store.a]\nurl = "postgres:"\n[store.b]\nurl = "sqlite:b.db"\n'
                    '[[relay]]\nname = "r"\nfrom = "a"\nto = "b"\n')
        gateway = store + '[gateway]\nlisten = "127.0.0.1:0"\nservice = "http://h"\nstore = "a"\n'
        tables = self.tables()
        for name, text in {"sqlite": store, "relay": relay, "table": postgres + "[relay.table]\n", "gateway": gateway,
                           "retention": store + "[retention]\n", "log": store + "[log]\n"}.items():
            self.write("dovetail.toml", text + "nosuchkey = 1\n")
            error = self.dovetail("status", code=3).err
            allowed = error.split("Allowed here: ")[1].strip().split(", ")
            self.assertEqual(allowed, [key["key"] for key in tables[name]["keys"]])

    def test_no_two_tables_of_the_reference_have_one_name(self):
        names = [table["table"] for table in self.ask("config")["tables"]]
        self.assertEqual(len(names), len(set(names)), names)

    def test_the_reference_is_complete_and_no_key_stands_twice(self):
        for table in self.tables().values():
            names = [key["key"] for key in table["keys"]]
            self.assertEqual(len(names), len(set(names)), table["table"])
            for key in table["keys"]:
                place = f"{table['table']}.{key['key']}"
                self.assertRegex(key["help"], r"^.+[.!]$", place)
                self.assertRegex(key["type"], "^(text|flag|number|duration|size|choice|list of texts|list of numbers|file"
                                              "|text, or list of texts|url|address and port|table|tables)$", place)
                self.assertTrue(key["type"] != "choice" or len(key["choices"]) > 1, place)
                self.assertFalse("default" in key and ("otherwise" in key or key["required"]), place)

    def test_a_setting_has_one_name_for_every_broker(self):
        tables = self.tables()
        if not self.BROKERS <= tables.keys():
            self.skipTest("this build leaves a broker out")
        having = lambda key: {name for name in self.BROKERS if key in {one["key"] for one in tables[name]["keys"]}}
        self.assertEqual(having("connect_timeout"), self.BROKERS)
        self.assertEqual(having("request_timeout"), {"rabbitmq", "nats", "redis", "webhook"})
        self.assertEqual(having("from_end"), {"kafka", "nats", "redis"})
        self.assertEqual(having("prefetch"), {"rabbitmq", "nats", "redis"})
        self.assertEqual(having("declare"), {"rabbitmq", "nats", "redis"})
        self.assertEqual(having("key_header"), {"rabbitmq", "nats", "redis"})
        self.assertEqual(having("redeliver_after"), {"nats", "redis"})
        self.assertEqual(having("server_name"), {"rabbitmq", "nats", "redis"})

    def test_an_old_name_says_the_new_one(self):
        for url, old, new in (("kafka://h", 'message_bytes_max = "1MiB"', "message_max"),
                              ("amqp://h", 'answer_timeout = "1s"', "request_timeout"),
                              ("nats://h", "only_new = true", "from_end"),
                              ("redis://h", "from_start = false", "from_end"),
                              ("http://h", "requests_in_flight_max = 3", "requests_max")):
            self.write("dovetail.toml", f'[store.a]\nurl = "sqlite:a.db"\n[store.b]\nurl = "{url}"\n[store.b.settings]\n{old}\n')
            error = self.dovetail("status", code=3).err
            if "was built without" in error:
                continue
            self.assertIn(f'is now called "{new}"', error)
            self.assertRegex(error, r"dovetail\.toml:6:\d+: store\.b\.settings\.")

    def test_a_table_is_explained_in_the_terminal(self):
        text = self.dovetail("config", "relay").out
        self.assertIn("[[relay]]", text)
        self.assertRegex(text, r"(?m)^  lanes  \(number, 1 to 256; default 1\)$")
        self.assertTrue(all(len(line) <= 100 for line in text.splitlines()), text)
        error = self.dovetail("config", "relais", code=2).err
        self.assertIn("there are: sqlite, postgres, broker", error)

    def test_the_page_is_what_the_binary_prints(self):
        if not self.BROKERS <= self.tables().keys():
            self.skipTest("this build leaves a broker out")
        page = (harness.ROOT / "docs" / "CONFIG.md").read_text()
        self.assertEqual(page, self.dovetail("config").out,
                         "docs/CONFIG.md is old: run 'dovetail config > docs/CONFIG.md'")

    def test_every_command_and_exit_code_is_documented(self):
        text = (harness.ROOT / "docs" / "CLI.md").read_text()
        listed = self.dovetail("--help").out.split("Subcommands:")[1].split("A first session")[0]
        for command in re.findall(r"(?m)^  (\w+) ", listed):
            self.assertRegex(text, rf"`{command}\b")
        for name in ("ok", "negative", "usage", "config", "unavailable", "rejected", "corrupt"):
            self.assertRegex(text, rf"(?m)^\| \d \| {name} \|")


class Init(harness.Case):
    def test_init_writes_a_config_that_works(self):
        (self.folder / "dovetail.toml").unlink()
        document = self.ask("init")
        self.assertTrue(document["written"])
        self.assertEqual({store["name"] for store in document["stores"]}, {"orders", "inventory"})
        self.assertTrue((self.folder / "orders.db").exists())
        self.publish()
        self.assertEqual(self.dovetail("run", "--until-idle").out, "delivered 1\n")

    def test_init_again_changes_nothing(self):
        self.init()
        self.publish()
        document = self.ask("init")
        self.assertFalse(document["written"])
        self.assertEqual([store["created"] for store in document["stores"]], [False, False])
        self.assertEqual(self.ask("events", "--store", "orders")["events"][0]["key"], "17")
        self.assertEqual((self.folder / "dovetail.toml").read_text(), harness.CONFIG)

    def test_a_store_that_is_away_leaves_no_other_without_tables(self):
        with_file = harness.CONFIG.replace("[store.orders]", '[store.away]\nurl = "sqlite:no/such/folder/away.db"\n\n[store.orders]')
        self.write("dovetail.toml", with_file)
        self.refused("init", code=4, name="unavailable", says=("store away: ", "; done: ", "orders ", "inventory ", "run it again"))
        self.publish()
        self.assertEqual(self.ask("events", "--store", "orders")["events"][0]["key"], "17")
        (self.folder / "no/such/folder").mkdir(parents=True)
        self.assertEqual({store["name"]: store["created"] for store in self.ask("init")["stores"]},
                         {"away": True, "orders": False, "inventory": False})

    def test_the_config_can_be_named_by_option_and_by_environment(self):
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        self.dovetail("--config", "../dovetail.toml", "init", cwd=elsewhere)
        self.assertTrue((self.folder / "orders.db").exists(), "paths are relative to the config file")
        self.dovetail("status", cwd=elsewhere, env={"DOVETAIL_CONFIG": "../dovetail.toml"})
        self.dovetail("status", cwd=elsewhere, code=3)


class Publish(harness.Case):
    def setUp(self):
        super().setUp()
        self.init()

    def shown(self, event_id):
        return self.ask("events", "show", event_id, "--payload")

    def test_everything_said_about_an_event_is_kept(self):
        wanted = str(uuid.uuid4())
        got = self.publish_id("--id", wanted, "--header", "tenant=blue", "--header", "note=a=b", "--aggregate-version", "7",
                              "--content-type", "text/plain", "--topic", "orders.events")
        self.assertEqual(got, wanted)
        document = self.shown(wanted)
        place = document["places"][0]
        self.assertEqual(document["payload"], '{"total": 3}')
        self.assertEqual(place["headers"], {"tenant": "blue", "note": "a=b"})
        self.assertEqual((place["aggregate_type"], place["key"], place["type"]), ("orders", "17", "OrderPlaced"))
        self.assertEqual((place["version"], place["content_type"], place["topic"]), (7, "text/plain", "orders.events"))
        self.assertRegex(place["created_at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")

    def test_the_payload_comes_from_a_file_or_from_stdin_byte_by_byte(self):
        raw = bytes(range(256))
        self.write("raw.bin", raw)
        base = ("publish", "--store", "orders", "--aggregate-type", "orders", "--type", "Raw", "--content-type",
                "application/octet-stream")
        from_file = self.ask(*base, "--payload-file", "raw.bin")["id"]
        from_stdin = self.ask(*base, "-", stdin=raw)["id"]
        stored = self.rows("orders.db", "SELECT payload FROM dovetail_outbox ORDER BY seq")
        self.assertEqual([bytes(row[0]) for row in stored], [raw, raw])
        self.assertNotEqual(from_file, from_stdin)
        self.assertIn("payload_base64", self.shown(from_file))

    def test_the_same_id_with_the_same_content_is_stored_once(self):
        same = str(uuid.uuid4())
        self.publish("--id", same)
        self.publish("--id", same)
        self.assertEqual(len(self.ask("events", "--store", "orders")["events"]), 1)

    def test_a_file_with_one_store_needs_no_store_option(self):
        self.write("one.toml", '[store.orders]\nurl = "sqlite:orders.db"\n')
        self.dovetail("-c", "one.toml", "publish", "--aggregate-type", "a", "--type", "t", "--payload", "1")


class Looking(harness.Case):
    def setUp(self):
        super().setUp()
        self.init()

    def test_status_shows_pending_age_parked_and_owner(self):
        self.assertIn("Nothing was published", self.dovetail("status").out)
        self.publish()
        self.dovetail("run", "--until-idle")
        self.publish(key="18")
        reader = self.reader()
        self.assertEqual((reader["pending"], reader["parked"], reader["waiting"], reader["delivered_total"]), (1, 0, 0, 1))
        self.assertGreater(reader["oldest_age_us"], 0)
        self.assertIn("events_per_second", reader)
        self.assertEqual(reader["owner"], "")
        text = self.dovetail("status").out
        for part in ("PENDING", "OLDEST", "RATE", "PARKED", "WAITING", "OWNER", "orders-to-inventory", "nobody"):
            self.assertIn(part, text)
        self.assertNotIn("\x1b", text, "no escape sequences when stdout is no terminal")

    def test_status_of_a_missing_store_shows_the_others_and_exits_4(self):
        self.publish()
        self.dovetail("run", "--until-idle")
        for path in self.folder.glob("inventory.db*"):
            path.unlink()
        document = self.ask("status", code=4)
        by_name = {store["name"]: store for store in document["stores"]}
        self.assertEqual(by_name["inventory"]["error"]["code"], "unavailable")
        self.assertEqual(by_name["orders"]["relays"][0]["delivered_total"], 1)
        self.assertIn("orders-to-inventory", self.dovetail("status", code=4).out)

    def test_events_are_listed_and_filtered(self):
        first = self.publish_id(key="a")
        self.dovetail("run", "--until-idle")
        second = self.publish_id(key="b")
        ids = lambda *more: [event["id"] for event in self.ask("events", "--store", "orders", *more)["events"]]
        self.assertEqual(ids(), [first, second])
        self.assertEqual(ids("--state", "delivered"), [first])
        self.assertEqual(ids("--state", "pending"), [second])
        self.assertEqual(ids("--key", "b"), [second])
        self.assertEqual(ids("--limit", "1"), [first])
        self.assertEqual(ids("--after", "1"), [second])
        self.assertIn(first, self.dovetail("events", "--store", "inventory", "--box", "mailbox").out)
        self.assertIn("pending", self.dovetail("events", "--store", "orders").out)

    def test_one_event_can_be_followed_through_both_stores(self):
        event = self.publish_id(payload='{"card": "4111"}')
        self.dovetail("run", "--until-idle")
        places = self.ask("events", "show", event)["places"]
        self.assertEqual([(place["store"], place["box"]) for place in places if place["box"] == "outbox"],
                         [("orders", "outbox")])
        self.assertIn(("inventory", "mailbox"), [(place["store"], place["box"]) for place in places])
        self.assertNotIn("4111", self.dovetail("events", "show", event).out, "the payload only when asked for")
        self.assertIn("4111", self.dovetail("events", "show", event, "--payload").out)
        self.refused("events", "show", str(uuid.uuid4()), code=1, name="negative", says=["no store has the event"])

    def test_prune_deletes_what_is_old_and_settled_only(self):
        self.publish()
        self.dovetail("run", "--until-idle")
        self.publish()
        self.change("orders.db", "UPDATE dovetail_outbox SET created_at = created_at - 3600000000")
        self.refused("prune", code=2, name="usage", says=["--delivered"])
        self.refused("prune", "--delivered", "7 days", code=2, name="usage", says=['"7d"'])
        document = self.ask("prune", "--delivered", "1m")
        by_name = {store["name"]: store for store in document["stores"]}
        self.assertEqual(by_name["orders"]["outbox"], 1)
        self.assertEqual(len(self.ask("events", "--store", "orders")["events"]), 1)


class Parked(harness.Case):
    """Three events of one key behind a topic that the inventory does not take, and one of another key."""

    def setUp(self):
        super().setUp()
        self.init()
        self.write("loose.toml", harness.CONFIG.replace('topics = ["orders.events"]', ""))
        wrong = ("-c", "loose.toml", "publish", "--store", "orders", "--aggregate-type", "orders", "--key", "17",
                 "--type", "OrderPlaced", "--payload", '{"secret": "hush"}', "--json")
        self.head = self.dovetail(*wrong, "--topic", "nowhere").json()["id"]
        self.behind = [self.publish_id(), self.publish_id()]
        self.other = self.publish_id(key="18")
        self.dovetail("run", "--until-idle", code=1)

    def test_what_the_outbox_no_longer_has_is_replayed_as_it_was(self):
        self.change("orders.db", "UPDATE dovetail_outbox SET created_at = 0")
        self.dovetail("prune", "--delivered", "1m")
        self.assertEqual(self.rows("orders.db", "SELECT count(*) FROM dovetail_outbox"), [(0,)])
        self.dovetail("parked", "replay", self.head)
        self.dovetail("-c", "loose.toml", "run", "--until-idle")
        self.assertEqual(self.rows("inventory.db", "SELECT CAST(payload AS TEXT) FROM dovetail_mailbox WHERE topic = 'nowhere'"),
                         [('{"secret": "hush"}',)])
        self.assertEqual(self.rows("inventory.db", "SELECT count(*) FROM dovetail_mailbox"), [(4,)], "and those behind it")

    def test_the_head_is_parked_the_rest_of_its_key_waits_and_others_flow(self):
        rows = self.ask("parked", "list")["parked"]
        self.assertEqual([(row["id"], row["state"], row["head"]) for row in rows],
                         [(self.head, "parked", True)] + [(one, "waiting", False) for one in self.behind])
        self.assertIn("nowhere", rows[0]["reason"])
        self.assertEqual([event["id"] for event in
                          self.ask("events", "--store", "inventory", "--box", "mailbox")["events"]], [self.other])
        text = self.dovetail("parked", "list").out
        self.assertIn(self.head, text)
        self.assertIn("behind another event of its key", text)
        self.assertNotIn("hush", text)
        reader = self.reader()
        self.assertEqual((reader["parked"], reader["waiting"]), (1, 2))

    def delivered(self):
        return [event["id"] for event in self.ask("events", "--store", "inventory", "--box", "mailbox")["events"]]

    def run_with_topic_allowed(self):
        self.dovetail("-c", "loose.toml", "run", "--until-idle")

    def test_replay_by_id_sends_the_head_and_what_waits_behind_it_in_order(self):
        self.assertEqual(self.ask("parked", "replay", self.head)["replayed"], 1)
        self.run_with_topic_allowed()
        self.assertEqual(self.delivered(), [self.other, self.head, *self.behind])
        self.assertIn("nothing is parked", self.dovetail("parked", "list").out)

    def test_replay_of_many_says_how_many_first(self):
        self.assertEqual(self.ask("parked", "replay", "--all"), {"would_replay": 1, "ids": [self.head]})
        self.assertIn("add --yes", self.dovetail("parked", "replay", "--key", "17").out)
        self.assertEqual(self.ask("parked", "list")["parked"][0]["state"], "parked", "nothing was done yet")
        self.assertEqual(self.ask("parked", "replay", "--key", "17", "--yes")["replayed"], 1)
        self.run_with_topic_allowed()
        self.assertEqual(self.delivered(), [self.other, self.head, *self.behind])

    def test_replay_without_a_cure_parks_it_again(self):
        self.dovetail("parked", "replay", "--all", "--yes")
        self.dovetail("run", "--until-idle", code=1)
        self.assertEqual(self.ask("parked", "list")["parked"][0]["state"], "parked")

    def test_discard_needs_a_reason_and_keeps_it(self):
        self.refused("parked", "discard", self.head, code=2, name="usage", says=["--reason"])
        self.assertEqual(self.ask("parked", "discard", self.head, "--reason", "test data")["discarded"], 1)
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.delivered(), [self.other, *self.behind])
        place = self.ask("events", "show", self.head)["places"][0]
        self.assertEqual(place["state"], "discarded")
        self.assertEqual(self.rows("orders.db", "SELECT note FROM dovetail_parked WHERE state = 'discarded'"),
                         [("test data",)])

    def test_what_waits_behind_another_cannot_be_replayed_or_discarded(self):
        for verb in (("replay",), ("discard", "--reason", "x")):
            self.refused("parked", verb[0], self.behind[0], *verb[1:], code=5, name="rejected", says=["behind another"])
        self.refused("parked", "replay", self.other, code=5, name="rejected", says=["not parked"])
        self.refused("parked", "replay", "not-a-uuid", code=5, name="rejected")
        self.refused("parked", "replay", code=2, name="usage", says=["--all"])
        self.refused("parked", "list", "--store", "nope", code=5, name="rejected", says=["orders"])


class FileModes(harness.Case):
    def test_files_are_for_their_owner_and_the_doctor_names_those_that_are_not(self):
        self.init()
        self.publish()
        for name in ("orders.db", "inventory.db"):
            self.assertEqual((self.folder / name).stat().st_mode & 0o777, 0o600)
        (self.folder / "orders.db").chmod(0o644)
        stores = {store["name"]: store for store in json.loads(self.run_dovetail("doctor", "--json").out)["stores"]}
        [found] = [one for one in stores["orders"]["findings"] if one["code"] == "file-mode"]
        self.assertIn("orders.db", found["what"])
        self.assertEqual([one for one in stores["inventory"]["findings"] if one["code"] == "file-mode"], [])


class Doctor(harness.Case):
    def findings(self, store):
        stores = json.loads(self.run_dovetail("doctor", "--json").out)["stores"]
        return {one["code"]: one for found in stores if found["name"] == store for one in found["findings"]}

    def test_a_line_that_a_wrong_clock_has_set_is_named_with_its_repair(self):
        self.init()
        self.change("inventory.db", "INSERT INTO dovetail_consumer (name) VALUES ('stock')")
        self.assertNotIn("inbox-forgets-new-events", self.findings("inventory"))
        ahead = int((time.time() + 7200) * 1e6)
        self.change("inventory.db", f"UPDATE dovetail_consumer SET forgotten_until = {ahead}")
        found = self.findings("inventory")["inbox-forgets-new-events"]
        self.assertIn('"stock"', found["what"])
        self.assertIn("inbox remember --since", json.dumps(found))

    def test_a_parked_event_is_named_with_what_waits_behind_it(self):
        self.init()
        for state, position in (("parked", 1), ("waiting", 2), ("waiting", 3)):
            self.change("orders.db", "INSERT INTO dovetail_parked (relay, position, id, topic, aggregate_type, aggregate_id, "
                        "type, content_type, headers, payload, aggregate_version, created_at, state, attempts, reason, "
                        f"parked_at, retry_at, at_head) VALUES ('orders-to-inventory', {position}, randomblob(16), '', 'order', "
                        f"'1', 'x', '', '', x'00', 0, 0, '{state}', 1, 'no', 0, 0, {int(position == 1)})")
        self.change("orders.db", "INSERT OR IGNORE INTO dovetail_relay (relay, source) VALUES ('orders-to-inventory', 'outbox')")
        found = self.findings("orders")["parked"]
        self.assertIn("parked events of orders-to-inventory, which wait for an operator: 1", found["what"])
        self.assertIn("next try: 2", found["what"])
        self.assertIn("parked list", json.dumps(found))


if __name__ == "__main__":
    harness.main()
