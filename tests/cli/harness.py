"""What the tests of the command line share: a folder of their own, the binary, and a patient way to wait."""

import datetime
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest

DOVETAIL = os.environ.get("DOVETAIL", "dovetail")
EXAMPLES = pathlib.Path(os.environ.get("EXAMPLES", "."))
ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 90
TIME_SCALE = float(os.environ.get("DOVETAIL_TIME_SCALE", "1"))  # with a sanitizer, everything takes longer

CONFIG = """\
[store.orders]
url = "sqlite:orders.db"

[store.inventory]
url = "sqlite:inventory.db"
topics = ["orders.events"]

[[relay]]
name = "orders-to-inventory"
from = "orders"
to = "inventory"
lease = "500ms"
retry_base = "5ms"

[log]
format = "json"
"""


class Result:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"exit {self.code}\nstdout: {self.out}\nstderr: {self.err}"


class Standstill:
    """How long the machine stood still: a thread that wanted to run did not. Nothing that has to happen within a time is
    judged when it did."""

    def __init__(self):
        self.longest_s = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        last = time.monotonic()
        while True:
            time.sleep(0.01)
            now = time.monotonic()
            self.longest_s = max(self.longest_s, now - last)
            last = now

    def is_below(self, limit_s):
        if self.longest_s >= limit_s:
            print(f"NOTE: the machine stood still for {self.longest_s:.1f} s; times are not judged")
        return self.longest_s < limit_s


class Case(unittest.TestCase):
    """One test in a temporary folder, with dovetail.toml in it and no tables yet."""

    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dovetail-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.write("dovetail.toml", CONFIG)

    def write(self, name, text):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def run_dovetail(self, *arguments, stdin=None, env=None, cwd=None):
        environment = {k: v for k, v in os.environ.items() if k != "DOVETAIL_CONFIG"} | (env or {})
        return Result(subprocess.run(
            [DOVETAIL, *arguments], cwd=cwd or self.folder, env=environment, capture_output=True, timeout=PATIENCE_S * 2,
            input=stdin if isinstance(stdin, bytes) else (stdin or "").encode(), text=False))

    def dovetail(self, *arguments, code=0, **more):
        """Runs it and insists on the exit code."""
        result = self.run_dovetail(*arguments, **more)
        result.out, result.err = (text.decode("utf-8", "replace") for text in (result.out, result.err))
        self.assertEqual(result.code, code, f"dovetail {arguments}: {result}")
        return result

    def ask(self, *arguments, code=0, **more):
        """The same with --json, and returns the document."""
        return self.dovetail(*arguments, "--json", code=code, **more).json()

    def refused(self, *arguments, code, name, says=(), **more):
        """It must fail with this code, say why in text, and say the same as JSON."""
        plain = self.dovetail(*arguments, code=code, **more)
        self.assertEqual(plain.out, "")
        self.assertTrue(plain.err.startswith("dovetail: "), plain)
        document = self.ask(*arguments, code=code, **more)
        self.assertEqual(document["error"]["code"], name, document)
        for part in says:
            self.assertIn(part, plain.err)
            self.assertIn(part, document["error"]["text"])
        return plain

    def init(self):
        return self.dovetail("init")

    def publish(self, *more, store="orders", key="17", payload='{"total": 3}', code=0, **rest):
        return self.dovetail("publish", "--store", store, "--aggregate-type", "orders", "--key", key, "--type",
                             "OrderPlaced", "--payload", payload, *more, code=code, **rest)

    def publish_id(self, *more, **rest):
        return self.publish("--json", *more, **rest).json()["id"]

    def start(self, *arguments, env=None):
        """A daemon in the background; it does not outlive the test."""
        with open(self.folder / "daemon.log", "ab") as log:
            process = subprocess.Popen([DOVETAIL, *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=log,
                                       env=os.environ | (env or {}))
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()

    def log(self):
        path = self.folder / "daemon.log"
        return path.read_text() if path.exists() else ""

    def assert_logged_soon(self, standstill, since, part, count=1, limit_s=1):
        """The line number `count` with this part came within the limit after `since`, which is of time.time()."""
        lines = self.wait_for(f"{part} is in the log", lambda: self.lines_with(part, count))
        took_s = datetime.datetime.fromisoformat(json.loads(lines[count - 1])["time"][:-1] + "+00:00").timestamp() - since
        if standstill.is_below(limit_s / 10):
            self.assertLess(took_s, limit_s * TIME_SCALE, self.log())

    def lines_with(self, part, count):
        lines = [line for line in self.log().splitlines() if part in line]
        return lines if len(lines) >= count else None

    def wait_for(self, what, condition):
        """What costs much, such as a command, is asked more seldom: a test that waits leaves the machine to others."""
        deadline = time.monotonic() + PATIENCE_S
        while (asked := time.monotonic()) < deadline:
            value = condition()
            if value:
                return value
            time.sleep(max(0.02, 2 * (time.monotonic() - asked)))
        self.fail(f"gave up waiting until {what}; log: {self.log()}")

    def rows(self, database, sql, *parameters):
        connection = sqlite3.connect(self.folder / database, timeout=PATIENCE_S)
        try:
            return connection.execute(sql, parameters).fetchall()
        finally:
            connection.close()

    def change(self, database, sql, *parameters):
        connection = sqlite3.connect(self.folder / database, timeout=PATIENCE_S)
        try:
            with connection:
                connection.execute(sql, parameters)
        finally:
            connection.close()

    def reader(self, store="orders", name="orders-to-inventory"):
        for one in self.ask("status")["stores"]:
            if one["name"] == store:
                for reader in one["relays"]:
                    if reader["name"] == name:
                        return reader
        return None


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=1)
