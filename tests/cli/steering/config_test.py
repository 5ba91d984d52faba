"""`dovetail config check`, and variables of the environment in the config file."""

import harness


class Check(harness.Case):
    def test_a_file_that_is_well_is_well_without_any_store(self):
        checked = self.ask("config", "check")
        self.assertEqual((checked["stores"], checked["relays"], checked["problems"]), (2, 1, []))
        self.assertIn("is well", self.dovetail("config", "check").out)
        self.assertFalse((self.folder / "orders.db").exists())

    def test_with_connect_every_store_must_answer(self):
        broken = self.ask("config", "check", "--connect", code=4)
        self.assertCountEqual([one["where"] for one in broken["problems"]], ["store orders", "store inventory"])
        self.assertIn("dovetail init", self.dovetail("config", "check", "--connect", code=4).out)
        self.init()
        self.assertTrue(self.ask("config", "check", "--connect")["connected"])

    def test_what_is_wrong_is_named_with_its_place(self):
        self.write("dovetail.toml", harness.CONFIG.replace('lease = "500ms"', "lease = 5"))
        self.refused("config", "check", code=3, name="config", says=["dovetail.toml:12:9", "lease"])

    def test_a_missing_secret_is_named_and_stops_no_other_command(self):
        self.write("dovetail.toml", harness.CONFIG + '[store.bus]\nurl = "redis://127.0.0.1:1"\npassword_env = "NO_SUCH"\n')
        problems = self.ask("config", "check", code=3)["problems"]
        self.assertEqual(len(problems), 1)
        self.assertIn("NO_SUCH", problems[0]["text"])
        self.init()
        self.publish()

    def test_the_reference_is_still_there(self):
        self.assertIn("[[relay]]", self.dovetail("config").out)
        self.assertIn("lease", self.dovetail("config", "relay").out)


class Variables(harness.Case):
    def test_a_value_comes_from_the_environment(self):
        self.write("dovetail.toml", harness.CONFIG.replace("orders.db", "${SHOP}-$${x}.db"))
        self.dovetail("init", env={"SHOP": "books"})
        self.assertTrue((self.folder / "books-${x}.db").exists())

    def test_one_that_is_not_set_is_named_with_its_place(self):
        self.write("dovetail.toml", harness.CONFIG.replace("orders.db", "${NO_SUCH}.db"))
        self.refused("status", code=3, name="config", says=["dovetail.toml:2:7", "store.orders.url", "NO_SUCH is not set"])

    def test_a_value_is_not_shown_when_it_is_wrong(self):
        self.write("dovetail.toml", harness.CONFIG.replace('to = "inventory"', 'to = "${SECRET}"'))
        error = self.dovetail("config", "check", code=3, env={"SECRET": "c4n4ry"}).err
        self.assertNotIn("c4n4ry", error)
        self.assertIn("${SECRET}", error)


if __name__ == "__main__":
    harness.main()
