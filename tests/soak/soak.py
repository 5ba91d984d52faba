#!/usr/bin/env python3
"""A long run that looks for what grows: two daemons, one on PostgreSQL and one on SQLite, each with publishers, relays and a
consumer, while their receiver is killed again and again. Run it by `./dev soak [MINUTES]`.

Every two seconds it records memory, descriptors and threads of the daemons, and the sizes of the tables. After a warm-up
it compares the last third with the first, by their medians: what has grown beyond its allowance fails. At the end
everything that was published has arrived, once where that is promised. The figures are in build/bench/soak.json, and all
that was recorded in build/bench/soak.csv.
"""

import argparse
import collections
import csv
import http.server
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVERS = ROOT / "tests/servers/servers.py"
EVERY_S = 2
KEYS = 50
BATCH = 20  # events of PostgreSQL, five times a second; of SQLite a fifth of that
DRAINED_S = 90  # after the last publish and the last kill everything must have arrived within that
MIB = 1 << 20

POSTGRES = """
[store.shop]
url = "postgres:%(conninfo)s"
[store.hook]
url = "http://127.0.0.1:%(port)d/postgres"
settings = { allow_private = true, request_timeout = "2s" }
[[relay]]
name = "shop-to-hook"
from = "shop"
to = "hook"
reconnect_cap = "1s"
[[relay]]
name = "shop-to-hook-by-table"
from = "shop"
to = "again"
mode = "poll"
lanes = 2
reconnect_cap = "1s"
[store.again]
url = "http://127.0.0.1:%(port)d/again"
settings = { allow_private = true, request_timeout = "2s" }
[[consumer]]
name = "booking"
from = "shop"
to = "shop"
[[consumer.handler]]
kind = "sql"
function = "book"
"""

SQLITE = """
[store.orders]
url = "sqlite:orders.db"
[store.inventory]
url = "sqlite:inventory.db"
[store.hook]
url = "http://127.0.0.1:%(port)d/sqlite"
settings = { allow_private = true, request_timeout = "2s" }
[[relay]]
name = "orders-to-inventory"
from = "orders"
to = "inventory"
[[consumer]]
name = "mail"
from = "inventory"
to = "inventory"
reconnect_cap = "1s"
[[consumer.handler]]
kind = "http"
store = "hook"
"""

ENDING = """
[retention]
delivered = "30s"
inbox = "60s"
every = "5s"
[log]
format = "json"
"""

FUNCTION = """
CREATE TABLE booked (id uuid);
CREATE FUNCTION book(event dovetail.event) RETURNS void LANGUAGE sql AS $$ INSERT INTO booked VALUES ((event).id) $$
"""

PUBLISH = f"""SELECT count(dovetail.publish('order', (n %% {KEYS})::text, 'placed', jsonb_build_object('n', n, 'pad',
repeat('x', 200)))) FROM generate_series(%d, %d) n;
"""

# What may grow between the first and the last third: a part of it, and so much besides.
ALLOWANCES = {"rss": (0.10, 6 * MIB, "bytes"), "descriptors": (0, 8, ""), "threads": (0, 2, ""),
              "tables": (0.10, MIB // 4, "bytes"), "per_event": (0.15, 40, "bytes"), "files": (0.10, MIB, "bytes")}


def receive(port, record):
    """The receiver, a process of its own: writes down what came before it says so."""
    out = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    class Endpoint(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            os.write(out, f"{self.path} {self.headers['idempotency-key']}\n".encode())
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

        def handle(self):
            try:
                super().handle()
            except ConnectionError:
                pass

    class Server(http.server.ThreadingHTTPServer):
        allow_reuse_address = True
        request_queue_size = 256

    Server(("127.0.0.1", port), Endpoint).serve_forever()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Soak:
    def __init__(self, minutes, folder):
        self.seconds, self.folder = minutes * 60, folder
        self.chance = random.Random(7)
        self.records, self.events, self.kills = collections.defaultdict(list), {"postgres": 0, "sqlite": 0}, 0
        self.port, self.receiver, self.daemons = free_port(), None, {}
        self.dovetail = os.environ.get("DOVETAIL", ROOT / "build/release/apps/dovetail/dovetail")

    def servers(self, action):
        done = subprocess.run([sys.executable, "-B", SERVERS, "--state", self.folder / "servers", action, "postgres"], check=True,
                              stdout=subprocess.PIPE, text=True)
        return done.stdout.strip()

    def psql(self, sql):
        return subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql, self.conninfo], check=True,
                              stdout=subprocess.PIPE, text=True).stdout.strip()

    def open(self):
        self.conninfo = self.servers("start")
        if not self.conninfo:
            print((self.folder / "servers/postgres.missing").read_text())
            sys.exit(77)
        values = {"conninfo": self.conninfo, "port": self.port}
        for name, config in (("postgres", POSTGRES), ("sqlite", SQLITE)):
            (self.folder / f"{name}.toml").write_text(config % values + ENDING)
            subprocess.run([self.dovetail, "init", "-c", f"{name}.toml"], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
        self.psql(FUNCTION)
        self.start_receiver()
        for name in ("postgres", "sqlite"):
            with open(self.folder / f"{name}.log", "wb") as log:
                self.daemons[name] = subprocess.Popen([self.dovetail, "run", "-c", f"{name}.toml"], cwd=self.folder, stderr=log,
                                                      stdout=log)
        self.publisher = subprocess.Popen(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", self.conninfo], stdin=subprocess.PIPE,
                                          stdout=subprocess.DEVNULL, text=True)
        self.orders = sqlite3.connect(self.folder / "orders.db", timeout=60)

    def start_receiver(self):
        self.receiver = subprocess.Popen([sys.executable, __file__, "--receive", str(self.port), str(self.folder / "came")])

    def publish(self):
        first = self.events["postgres"] + 1
        self.publisher.stdin.write(PUBLISH % (first, first + BATCH - 1))
        self.publisher.stdin.flush()
        self.events["postgres"] += BATCH
        with self.orders:
            for _ in range(BATCH // 5):
                self.events["sqlite"] += 1
                self.orders.execute("INSERT INTO dovetail_outbox (aggregate_type, aggregate_id, type, payload) VALUES "
                                    "('order', ?, 'placed', ?)", (str(self.events["sqlite"] % KEYS), '{"n": 1}'))

    def record(self, at):
        row = {"at": round(at)}
        for name, daemon in self.daemons.items():
            proc = pathlib.Path(f"/proc/{daemon.pid}")
            status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines() if ":" in line)
            row[f"{name} rss"] = int(status["VmRSS"].split()[0]) * 1024
            row[f"{name} threads"] = int(status["Threads"])
            row[f"{name} descriptors"] = len(list((proc / "fd").iterdir()))
        sizes = dict(line.split("|") for line in self.psql(
            "SELECT c.relname, sum(pg_total_relation_size(coalesce(i.inhrelid, c.oid))) FROM pg_class c LEFT JOIN pg_inherits i ON "
            "i.inhparent = c.oid WHERE c.relnamespace = 'dovetail'::regnamespace AND c.relkind IN ('r', 'p') AND NOT "
            "c.relispartition GROUP BY 1").splitlines())
        for table, size in sizes.items():
            row[f"table {table}"] = int(size)
        for name in ("orders.db", "inventory.db"):
            row[f"file {name}"] = sum(path.stat().st_size for path in self.folder.glob(f"{name}*"))
        row["events"] = self.events["postgres"]
        for name, value in row.items():
            self.records[name].append(value)

    def run(self):
        began = time.monotonic()
        next_record, next_kill, back_at = 0, 5, None
        while (at := time.monotonic() - began) < self.seconds:
            self.publish()
            if at >= next_record:
                self.record(at)
                next_record = at + EVERY_S
            if back_at is None and at >= next_kill:
                self.receiver.kill()
                self.receiver.wait()
                self.kills, back_at = self.kills + 1, at + self.chance.uniform(0.2, 2)
            if back_at is not None and at >= back_at:
                self.start_receiver()
                back_at, next_kill = None, at + self.chance.uniform(5, 15)
            time.sleep(0.2)
        if back_at is not None:
            self.start_receiver()
        self.publisher.stdin.close()
        self.publisher.wait(60)

    def came(self):
        seen = collections.defaultdict(set)
        for line in (self.folder / "came").read_text().splitlines():
            path, event = line.split()
            seen[path].add(event)
        return seen

    def missing(self):
        came = self.came()
        booked, = self.psql("SELECT count(*) FROM booked").splitlines()
        wanted = self.events["postgres"]
        return {"/postgres": wanted - len(came["/postgres"]), "/again": wanted - len(came["/again"]),
                "booked": wanted - int(booked), "/sqlite": self.events["sqlite"] - len(came["/sqlite"])}

    def drain(self):
        began = time.monotonic()
        while any(missing := self.missing().values()) and time.monotonic() - began < DRAINED_S:
            time.sleep(0.5)
        return missing, time.monotonic() - began

    def close(self):
        codes = []
        for daemon in self.daemons.values():
            daemon.send_signal(signal.SIGTERM)
        for daemon in self.daemons.values():
            try:
                codes.append(daemon.wait(60))
            except subprocess.TimeoutExpired:
                codes.append(None)
        return codes

    def end(self):
        for process in (*self.daemons.values(), self.receiver):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        self.servers("stop")

    def growth(self):
        """(name, first third, last third, most, unit) of all that is watched."""
        at = self.records["at"]
        warm = min(60, self.seconds / 5)
        for name, values in sorted(self.records.items()):
            kind = name.split()[-1] if name.split()[0] in self.daemons else {"table": "tables", "file": "files"}.get(
                name.split()[0])
            if kind is None:
                continue
            if name in ("table outbox", "table inbox"):  # they hold a day
                kind, values = "per_event", [size / max(1, count) for size, count in zip(values, self.records["events"])]
            kept = [value for value, when in zip(values, at) if when >= warm]
            third = max(1, len(kept) // 3)
            first, last = statistics.median(kept[:third]), statistics.median(kept[-third:])
            part, besides, unit = ALLOWANCES[kind]
            if kind == "per_event":
                name += " per event"
            yield name, first, last, first * (1 + part) + besides, unit


def write(soak, figures):
    folder = ROOT / "build/bench"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "soak.json").write_text(json.dumps(figures, indent=1) + "\n")
    with open(folder / "soak.csv", "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(soak.records)
        out.writerows(zip(*soak.records.values()))
    for one in figures:
        if one["met"] and one["name"].startswith("table ") and one["value"] < MIB // 4 and "per event" not in one["name"]:
            continue  # there are many, and they stay small
        print(f"{'ok    ' if one['met'] else 'MISSED'} {one['name']}: {one['value']:.0f} {one['unit']} (at most {one['target']:.0f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", nargs="?", type=float, default=30)
    parser.add_argument("--receive", nargs=2, metavar=("PORT", "RECORD"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.receive:
        return receive(int(arguments.receive[0]), arguments.receive[1])
    if arguments.minutes < 0.5:
        parser.error("half a minute is the least")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dovetail-soak-"))
    soak = Soak(arguments.minutes, folder)
    figures = []

    def figure(name, value, unit, target):
        figures.append({"name": name, "value": value, "unit": unit, "target": target, "met": value <= target})
    try:
        soak.open()
        soak.run()
        missing, seconds = soak.drain()
        alive = sum(daemon.poll() is None for daemon in soak.daemons.values())
        figure("daemons that ended by themselves", len(soak.daemons) - alive, "", 0)
        figure("events that did not arrive", sum(max(0, one) for one in missing), "", 0)
        figure("effects that came twice", max(0, -soak.missing()["booked"]), "", 0)
        figure("until all had arrived after the last fault", seconds, "s", DRAINED_S)
        figure("daemons that did not stop cleanly", sum(code != 0 for code in soak.close()), "", 0)
        for name, _, last, most, unit in soak.growth():
            figure(f"{name}, last third", last, unit, most)
    finally:
        soak.end()
    write(soak, figures)
    good = all(one["met"] for one in figures)
    print(f"soak: {soak.events['postgres']} events on PostgreSQL, {soak.events['sqlite']} on SQLite, {soak.kills} kills of the "
          f"receiver in {arguments.minutes:g} min; {'nothing grows' if good else 'NOT every target is met'}; build/bench/soak.json")
    if good:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"the logs of the daemons are in {folder}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
