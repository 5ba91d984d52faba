"""The demo keeps its promises and says so, and its role processes do not outlive it."""

import harness


class Demo(harness.Case):
    def test_a_short_demo_keeps_every_promise(self):
        document = self.ask("demo", "--orders", "300", "--kills", "4", "--dir", str(self.folder / "shop"))
        self.assertEqual(document["broken_promises"], [])
        self.assertEqual([document[name] for name in ("lost", "phantom", "reordered", "doubled")], [0, 0, 0, 0])
        self.assertEqual(document["relay_kills"] + document["inventory_kills"], 4)
        self.assertEqual((document["parked"], document["replayed"]), (1, 1))
        self.assertEqual(document["orders"], document["movements"])
        self.assertEqual(document["pieces_ordered"], document["pieces_taken"])
        self.assertEqual(self.rows("shop/inventory.db", "SELECT count(*) FROM movements"), [(document["orders"],)])

    def test_a_folder_that_is_in_use_is_left_alone(self):
        self.refused("demo", "--dir", str(self.folder), code=5, name="rejected", says=["not empty"])


if __name__ == "__main__":
    harness.main()
