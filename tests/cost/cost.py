#!/usr/bin/env python3
"""Counts the instructions that the binary executes per event, so that a slower path shows on any machine and under any load.

    cost.py                          compares with expected.json; fails when a road costs more than its tolerance allows
    cost.py --write                  measures and writes expected.json anew
    cost.py --against OLD_BINARY     compares with another binary; writes build/bench/cost.json
    cost.py --only relay_sqlite      one road

Each road drains a backlog under valgrind's callgrind, once a small and once a large one. The difference, divided by the
events between them, is the cost of one event: starting, connecting and idling cancel out. The roads named publish_ publish
instead, and count the instructions of the server.

A busy machine adds instructions (smaller batches, more wake-ups of threads that wait) and removes none. So a road that seems
too dear is measured again, and the smallest counts are judged. What really got dearer is dearer each time.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import cost_publish
import cost_receivers as receivers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/servers"))
import postgres as postgres_server  # noqa: E402

STATE = pathlib.Path(os.environ.get("DOVETAIL_SERVERS", "."))
EXPECTED = HERE / "expected.json"
FEW, MANY = 1000, 5000
KEYS = 1000
TOLERANCE = 0.15  # more is a regression; repeated counts differ by up to 8 percent
PUBLISH_TOLERANCE = 0.05  # one process that never waits: repeated counts differ by less than a thousandth
ROUNDS_MAX = 4
AGAINST_MAX = 1.05
PATIENCE_S = 600
PAYLOAD = json.dumps({"customer": 4711, "total": "129.90", "currency": "EUR", "lines": ["mug", "kettle"] * 12})

RELAY = """
[[relay]]
name = "measured"
from = "orders"
to = "target"
topic = "cost"
lease = "60s"
"""


class Missing(Exception):
    """A server that this run has not; its roads are left out, aloud."""


def conninfo_of(name):
    file = STATE / f"{name}.conninfo"
    if not file.exists():
        raise Missing(f"{name} is not running")
    return file.read_text(encoding="utf-8").strip()


class Road:
    """A folder with a configuration, a backlog in its outbox, and where the events go."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder

    def configure(self, *parts):
        (self.folder / "dovetail.toml").write_text("\n".join(parts) + '\n[log]\nlevel = "warn"\n', encoding="utf-8")
        self.dovetail("init")

    def dovetail(self, *arguments):
        done = subprocess.run([self.binary, *arguments], cwd=self.folder, capture_output=True, text=True, check=False,
                              timeout=PATIENCE_S)
        if done.returncode != 0:
            raise RuntimeError(f"dovetail {' '.join(arguments)}: exit {done.returncode}: {done.stderr}")
        return done.stdout

    def fill_sqlite(self, count):
        with contextlib.closing(sqlite3.connect(self.folder / "orders.db", timeout=60)) as connection, connection:
            connection.executemany(
                "INSERT INTO dovetail_outbox (aggregate_type, aggregate_id, type, payload) VALUES ('order', ?, 'placed', ?)",
                ((str(i % KEYS), PAYLOAD) for i in range(count)))

    def is_drained(self):
        def pendings(value):
            if isinstance(value, dict):
                yield from ([value["pending"]] if "pending" in value else [])
                value = list(value.values())
            if isinstance(value, list):
                for part in value:
                    yield from pendings(part)
        found = list(pendings(json.loads(self.dovetail("status", "--json"))["stores"]))
        return bool(found) and not any(found)

    def counted(self):
        """Instructions of one run from the start until everything is delivered. It ends by a signal, because --until-idle
        looks at the stores meanwhile, the more often the longer a busy machine takes."""
        process = subprocess.Popen(["valgrind", "--tool=callgrind", "--fair-sched=try", "--callgrind-out-file=/dev/null",
                                    self.binary, "run"], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + PATIENCE_S
        try:
            while not self.is_drained():
                if process.poll() is not None or time.monotonic() > until:
                    process.kill()
                    raise RuntimeError(f"the backlog is not drained: {process.communicate()[1][-2000:]}")
                time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
            told = process.communicate(timeout=PATIENCE_S)[1]
        finally:
            process.kill()
            process.wait()
        collected = re.search(r"Collected : (\d+)", told)
        if process.returncode != 0 or not collected:
            raise RuntimeError(f"the run ended with {process.returncode}: {told[-2000:]}")
        return int(collected[1])


@contextlib.contextmanager
def postgres_database():
    conninfo = conninfo_of("postgres")
    name = f"cost_{os.getpid()}"
    postgres_server.psql(conninfo, "-c", f"CREATE DATABASE {name}")
    try:
        yield conninfo.replace("dbname=postgres", f"dbname={name}")
    finally:
        postgres_server.psql(conninfo, "-c", "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                             f"WHERE database = '{name}' AND NOT active", "-c", f"DROP DATABASE {name} WITH (FORCE)")


SQLITE_OUTBOX = '[store.orders]\nurl = "sqlite:orders.db"\n'
MAILBOX = '[store.target]\nurl = "sqlite:target.db"\n'


def publish(conninfo, count):
    postgres_server.psql(conninfo, "-c", f"SELECT count(dovetail.publish('order', (n % {KEYS})::text, 'placed', "
                         f"$json${PAYLOAD}$json$)) FROM generate_series(1, {count}) AS n")


def relay_sqlite(road, count):
    road.configure(SQLITE_OUTBOX, MAILBOX, RELAY)
    road.fill_sqlite(count)
    return road.counted()


def relay_postgres(mode):
    def run(road, count):
        with postgres_database() as conninfo:
            road.configure(f'[store.orders]\nurl = "postgres:{conninfo}"\n', MAILBOX, RELAY + f'mode = "{mode}"\n')
            if mode == "wal":  # the slot must be there before the events
                road.dovetail("run", "--until-idle")
            publish(conninfo, count)
            return road.counted()
    return run


def inbox_sql(road, count):
    with postgres_database() as conninfo:
        road.configure(f'[store.orders]\nurl = "postgres:{conninfo}"\n', """
[[consumer]]
name = "booking"
from = "orders"
to = "orders"
lease = "60s"
mode = "poll"
[[consumer.handler]]
kind = "sql"
function = "book"
""")
        postgres_server.psql(conninfo, "-c", "CREATE TABLE booked (id uuid)", "-c", """
CREATE FUNCTION book(event dovetail.event) RETURNS void LANGUAGE sql AS 'INSERT INTO booked VALUES (event.id)'""")
        publish(conninfo, count)
        return road.counted()


def publishing(statement):
    def run(road, count):
        if cost_publish.why_not():
            raise Missing(cost_publish.why_not())
        return cost_publish.road(statement, PAYLOAD)(road, count)
    return run


def sink(receiver):
    def run(road, count):
        with receiver(conninfo_of) as url:
            road.configure(SQLITE_OUTBOX, f'[store.target]\n{url}\n', RELAY)
            road.fill_sqlite(count)
            return road.counted()
    return run


ROADS = {
    "relay_sqlite": relay_sqlite,
    "relay_postgres_table": relay_postgres("poll"),
    "relay_postgres_wal": relay_postgres("wal"),
    "inbox_postgres_sql": inbox_sql,
    **{f"publish_{name}": publishing(statement) for name, statement in cost_publish.STATEMENTS.items()},
    **{f"sink_{name}": sink(receiver) for name, receiver in receivers.RECEIVERS.items()},
}


def total(name, binary, count):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dovetail-cost-"))
    try:
        return ROADS[name](Road(binary, folder), count)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def smallest(measure_round, enough):
    """The cost from the smallest total of each size, over as many rounds as it takes to fall to `enough`."""
    few, many = measure_round()
    for _ in range(1, ROUNDS_MAX):
        if many - few <= enough * (MANY - FEW):
            break
        again = measure_round()
        few, many = min(few, again[0]), min(many, again[1])
    return round((many - few) / (MANY - FEW))


def measure(name, binary, enough=float("inf")):
    """Instructions per event."""
    return smallest(lambda: (total(name, binary, FEW), total(name, binary, MANY)), enough)


def against(names, binary, other):
    figures = []
    for name in names:
        now, before = measure(name, binary), measure(name, other)
        ratio = now / before
        figures.append({"name": f"{name}, instructions per event, to the other binary", "value": round(ratio, 3),
                        "unit": "ratio", "target": AGAINST_MAX, "met": ratio <= AGAINST_MAX})
        print(f"{name:<24} {now:>8} now, {before:>8} before: {ratio:.3f}  {'' if ratio <= AGAINST_MAX else 'MISSED'}",
              flush=True)
    path = ROOT / "build/bench/cost.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return all(figure["met"] for figure in figures)


def tolerance_of(name):
    return PUBLISH_TOLERANCE if name.startswith("publish_") else TOLERANCE


def is_within(name, cost, expected):
    if name not in expected:
        print(f"{name}: {cost} instructions per event; expected.json does not have it: run cost.py --write")
        return False
    ratio, tolerance = cost / expected[name], tolerance_of(name)
    verdict = "ok" if ratio <= 1 + tolerance else f"FAILED: more than {1 + tolerance:.2f}"
    if ratio < 1 - tolerance:
        verdict = "ok, and cheaper than it was: run cost.py --write to hold it there"
    print(f"{name:<24} {cost:>8} instructions per event, {ratio:.3f} of expected: {verdict}", flush=True)
    return ratio <= 1 + tolerance


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", help="another binary")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", choices=sorted(ROADS))
    arguments = parser.parse_args()
    if not shutil.which("valgrind"):
        print("SKIPPED: valgrind is not installed")
        return 77
    binary = os.environ.get("DOVETAIL", str(ROOT / "build/release/apps/dovetail/dovetail"))
    names = [arguments.only] if arguments.only else list(ROADS)
    if arguments.against:
        return 0 if against(names, binary, arguments.against) else 1
    expected = json.loads(EXPECTED.read_text(encoding="utf-8")) if EXPECTED.exists() else {}
    fine, measured = True, {}
    for name in names:
        try:
            allowed = expected.get(name, float("inf")) * (1 + tolerance_of(name))
            measured[name] = measure(name, binary, float("inf") if arguments.write else allowed)
        except Missing as missing:
            print(f"NOTE: {name} is left out: {missing}")
            continue
        fine = (arguments.write or is_within(name, measured[name], expected)) and fine
    if arguments.write:
        EXPECTED.write_text(json.dumps(expected | measured, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
