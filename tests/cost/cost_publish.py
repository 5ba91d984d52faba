"""What publishing costs the server: instructions of a PostgreSQL that one process is, on prepared statements."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/servers"))
import common  # noqa: E402
import postgres as server  # noqa: E402

VERSION = 15  # of the server for which expected.json holds
# An event costs the server as much as many cost a relay, so that a part of the events is enough.
SHARE = 10
PATIENCE_S = 600


def why_not():
    """Why it cannot be counted here; empty when it can."""
    if not common.program("postgres"):
        return "there is no PostgreSQL"
    said = subprocess.run([common.program("postgres"), "--version"], capture_output=True, text=True, check=True).stdout
    return "" if f" {VERSION}." in said else f"the counts are of PostgreSQL {VERSION}, and here is {said.strip()}"


@contextlib.contextmanager
def database(make):
    """The folder of a database that make(conninfo) has filled, and whose server has stopped."""
    home, process, conninfo = server.cluster(str(VERSION)).start(None, "cost")
    try:
        until = time.monotonic() + common.WAIT_MAX_S
        while not server.answers(conninfo):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the server does not answer: {(home / 'log').read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        make(conninfo)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=common.WAIT_MAX_S)
        yield home / "data"
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(home, ignore_errors=True)


def counted(data, statements):
    """Instructions of a server that executes these, one after the other, and ends."""
    # Valgrind writes there as the user of the server, who may not write where the tests work.
    environment = os.environ | {"TMPDIR": str(data)}
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", common.program("postgres"), "--single", "-D",
         str(data), "-c", "fsync=off", "-c", "log_min_messages=warning", "postgres"],
        input="".join(f"{statement}\n" for statement in statements), capture_output=True, text=True, cwd="/", check=False,
        timeout=PATIENCE_S, env=environment, **common.unprivileged())
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not collected or "ERROR" in done.stderr:
        raise RuntimeError(f"the server ended with {done.returncode}: {done.stderr[-2000:]}")
    return int(collected[1])


def road(statement, payload):
    def run(one, count):
        def make(conninfo):
            one.configure(f'[store.orders]\nurl = "postgres:{conninfo}"\n')
        with database(make) as data:
            executions = [f"EXECUTE publish ('{i % 1000}', '{payload}')" for i in range(count // SHARE)]
            return counted(data, [f"PREPARE publish (text, text) AS {statement}", *executions]) * SHARE
    return run


STATEMENTS = {
    "function": "SELECT dovetail.publish('order', $1, 'placed', $2)",
    "insert": "INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload) "
              "VALUES ('order', $1, 'placed', convert_to($2, 'UTF8'))",
}
