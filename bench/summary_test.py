"""A missed target is first in the table, and neither it nor a benchmark that ended early is overlooked."""

import json
import pathlib
import tempfile
import unittest

import summary


class Summary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.write("one", [self.figure("fast", True), {**self.figure("told", True), "target": None}])

    def write(self, name, figures):
        (self.folder / f"{name}.json").write_text(json.dumps(figures))

    @staticmethod
    def figure(name, met):
        return {"name": name, "value": 1.5, "unit": "ratio", "target": 1, "met": met}

    def test_all_met(self):
        lines, is_well = summary.summarize(self.folder, [("one", 0)])
        self.assertTrue(is_well)
        self.assertIn("0 of 1 targets missed", lines[-1])

    def test_what_was_missed_is_first_wherever_it_was_measured(self):
        self.write("two_part", [self.figure("slow", False)])
        lines, is_well = summary.summarize(self.folder, [("one", 0), ("two", 1)])
        self.assertFalse(is_well)
        self.assertIn("slow", lines[1])
        self.assertIn("1 of 2 targets missed", lines[-1])

    def test_a_benchmark_that_ended_early_is_named(self):
        for code, name in ((2, "one"), (1, "one"), (0, "gone")):
            lines, is_well = summary.summarize(self.folder, [(name, code)])
            self.assertFalse(is_well)
            self.assertTrue(any(line.startswith(f"{name}: ended with {code}") for line in lines), lines)


if __name__ == "__main__":
    unittest.main()
