"""The examples do what their comments say."""

import subprocess
import sys

import harness


class Examples(harness.Case):
    def run_program(self, *command):
        done = subprocess.run([str(word) for word in command], cwd=self.folder, capture_output=True, text=True,
                              timeout=harness.PATIENCE_S)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout} {done.stderr}")
        return done.stdout

    def test_two_services_and_a_relay(self):
        self.init()
        self.assertIn("order 1", self.run_program(harness.EXAMPLES / "order_service", "orders.db"))
        self.run_program(harness.EXAMPLES / "order_service", "orders.db")
        self.dovetail("run", "--until-idle")
        out = self.run_program(harness.EXAMPLES / "inventory_service", "inventory.db", "--until-quiet")
        self.assertIn("moved", out)
        ordered = self.rows("orders.db", "SELECT product, sum(quantity) FROM orders GROUP BY product ORDER BY product")
        taken = self.rows("inventory.db", "SELECT product, -on_hand FROM stock ORDER BY product")
        self.assertEqual(ordered, taken)
        self.run_program(harness.EXAMPLES / "inventory_service", "inventory.db", "--until-quiet")
        self.assertEqual(taken, self.rows("inventory.db", "SELECT product, -on_hand FROM stock ORDER BY product"))

    def test_a_handler_is_tested_without_a_database(self):
        self.assertIn("does what it should", self.run_program(harness.EXAMPLES / "handler_test"))

    def test_publishing_from_python_with_nothing_but_sqlite(self):
        self.init()
        self.run_program(sys.executable, harness.ROOT / "examples" / "publish.py", "orders.db")
        self.dovetail("run", "--until-idle")
        out = self.run_program(harness.EXAMPLES / "inventory_service", "inventory.db", "--until-quiet")
        self.assertIn("moved", out)
        self.assertEqual(self.rows("orders.db", "SELECT count(*) FROM dovetail_outbox"),
                         self.rows("orders.db", "SELECT count(*) FROM orders"))
        self.assertEqual(self.rows("inventory.db", "SELECT count(*) FROM dovetail_inbox"),
                         self.rows("orders.db", "SELECT count(*) FROM orders"))


if __name__ == "__main__":
    harness.main()
