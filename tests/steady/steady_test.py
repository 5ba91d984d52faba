"""A suite that fails is seen, and a load freezes what a run has started, at whatever depth, and nothing else."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import steady

CTEST = """
import pathlib, sys
report = sys.argv[sys.argv.index("--output-junit") + 1]
cases = "".join(f'<testcase name="{name}" status="{status}"/>' for name, status in (pair.split("=") for pair in sys.argv[2].split()))
pathlib.Path(report).write_text(f"<testsuite>{cases}</testsuite>")
sys.exit(int(sys.argv[1]))
"""
# A grandchild in a session of its own, as a server is. It says when it runs, and for how long it stood still.
TICKING = """
import subprocess, sys, time
if len(sys.argv) == 2:
    child = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[1], "tick"], start_new_session=True)
    sys.exit(child.wait())
until = time.monotonic() + 20
last, longest = time.monotonic(), 0
print("ticking", flush=True)  # it may be frozen from here on, and that counts
while time.monotonic() < until and longest < 0.9:
    time.sleep(0.01)
    now = time.monotonic()
    last, longest = now, max(longest, now - last)
print(longest)
"""


class Steady(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = pathlib.Path(folder.name)

    def run_once(self, code, cases, is_loaded=False):
        return steady.run_once(1, [sys.executable, "-c", CTEST, str(code), cases], self.log, is_loaded)

    def test_a_run_without_failures_is_green(self):
        is_green, line = self.run_once(0, "one=run two=run")
        self.assertTrue(is_green)
        self.assertIn("green", line)

    def test_a_run_with_a_failure_is_red_and_names_the_test(self):
        is_green, line = self.run_once(8, "one=run two=fail", is_loaded=True)
        self.assertFalse(is_green)
        self.assertIn("RED", line)
        self.assertIn("two", line)
        self.assertNotIn("one", line)

    def test_a_run_without_a_report_is_red(self):
        is_green, line = steady.run_once(1, [sys.executable, "-c", "import sys; sys.exit(3)"], self.log, False)
        self.assertFalse(is_green)
        self.assertIn("ended with 3", line)

    def test_one_red_run_makes_all_fail(self):
        for code, cases in ((0, "one=run"), (8, "one=fail")):
            done = subprocess.run(
                [sys.executable, "-B", steady.__file__, "--runs", "2", "--log", self.log, "--", sys.executable, "-c", CTEST, str(code),
                 cases], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1 if code else 0, done)

    def freeze(self, freezer):
        """How long a grandchild of a run stood still, in seconds, when it was frozen for one."""
        run = subprocess.Popen([sys.executable, "-c", TICKING, TICKING], stdout=subprocess.PIPE, text=True,
                               preexec_fn=freezer.enter)
        try:
            self.assertEqual(run.stdout.readline(), "ticking\n")
            freezer.freeze()
            time.sleep(1)
            freezer.thaw()
            return float(run.communicate()[0])
        finally:
            freezer.close()

    def test_signals_freeze_the_descendants_of_a_run(self):
        self.assertGreaterEqual(self.freeze(steady.Signals()), 0.9)
        self.assertNotIn(steady.MARK, os.environ)

    def test_a_cgroup_freezes_the_descendants_of_a_run(self):
        freezer = steady.make_freezer()
        if not isinstance(freezer, steady.Cgroup):
            self.skipTest("this user may not make cgroups")
        self.assertGreaterEqual(self.freeze(freezer), 0.9)
        self.assertFalse(freezer.folder.exists())


if __name__ == "__main__":
    unittest.main()
