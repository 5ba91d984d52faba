"""The roads against expected.json, after a test of the judge."""

import contextlib
import io
import sys
import unittest

import cost


class Judge(unittest.TestCase):
    def judged(self, value, expected):
        with contextlib.redirect_stdout(io.StringIO()) as told:
            return cost.is_within("a road", value, expected), told.getvalue()

    def test_what_is_dearer_than_the_tolerance_fails(self):
        self.assertTrue(self.judged(1000, {"a road": 1000})[0])
        self.assertTrue(self.judged(round(1000 * (1 + cost.TOLERANCE)), {"a road": 1000})[0])
        self.assertFalse(self.judged(round(1000 * (1 + cost.TOLERANCE)) + 1, {"a road": 1000})[0])

    def test_publishing_is_judged_more_strictly(self):
        expected = {"publish_insert": 1000, "relay": 1000}
        for name, allowed in (("publish_insert", cost.PUBLISH_TOLERANCE), ("relay", cost.TOLERANCE)):
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertTrue(cost.is_within(name, round(1000 * (1 + allowed)), expected))
                self.assertFalse(cost.is_within(name, round(1000 * (1 + allowed)) + 1, expected))

    def test_what_is_cheaper_passes_and_is_told(self):
        is_fine, told = self.judged(500, {"a road": 1000})
        self.assertTrue(is_fine)
        self.assertIn("--write", told)

    def smallest(self, *rounds, enough=10):
        left = [(few, few + per_event * (cost.MANY - cost.FEW)) for few, per_event in rounds]
        return cost.smallest(lambda: left.pop(0), enough), len(left)

    def test_what_a_busy_machine_adds_to_some_rounds_is_not_judged(self):
        self.assertEqual(self.smallest((500, 10)), (10, 0))
        self.assertEqual(self.smallest((500, 14), (500, 9), (500, 9)), (9, 1))

    def test_what_is_dearer_in_each_round_stays_dearer(self):
        self.assertEqual(self.smallest(*[(500, 12)] * cost.ROUNDS_MAX), (12, 0))

    def test_a_road_that_is_not_expected_fails(self):
        self.assertFalse(self.judged(1000, {})[0])


if __name__ == "__main__":
    judge = unittest.TextTestRunner(stream=sys.stdout).run(unittest.defaultTestLoader.loadTestsFromTestCase(Judge))
    sys.exit(cost.main() if judge.wasSuccessful() else 1)
