"""The binary when the answer to COMMIT is lost on the way from the server."""

import re
import sys
import unittest

import postgres_test

PROXY = postgres_test.first_line("proxy.conninfo")


class LostCommit(postgres_test.PostgresCase):
    def test_a_publish_of_which_nobody_knows_says_how_to_repeat_it_without_harm(self):
        self.init()
        for fault, committed in (("reply-lost", 1), ("commit-lost", 0)):
            self.sql("TRUNCATE dovetail.outbox")
            self.configure(f"{PROXY} dbname={self.database} application_name={fault}")
            said = self.publish(code=4).err
            self.assertIn("it is unknown whether the event was published", said)
            self.assertEqual(self.events(), committed, fault)
            self.configure(self.conninfo)
            self.publish(*re.search(r"(--id) ([0-9a-f-]{36})$", said.strip()).groups())
            self.assertEqual(self.events(), 1)

    def events(self):
        return int(self.sql("SELECT count(*) FROM dovetail.outbox"))


if __name__ == "__main__":
    if not PROXY:
        print("SKIPPED: " + (postgres_test.first_line("proxy.missing") or "no proxy; run it through ctest"), file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=1)
