"""The gateway under storms of repeats, and with the service, the database or itself killed in the middle.

With DOVETAIL_CHAOS=1 the storms are longer.
"""

import asyncio
import collections
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import gateway_test
import harness
from gateway_test import CHAOS, GatewayCase, Postgres

SERVERS = harness.ROOT / "tests/servers/servers.py"


async def send_once(port, path, key, body=b"{}"):
    """(status, body, whether it was a replay); status 0: no answer."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return 0, b"", False
    try:
        writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nIdempotency-Key: \"{key}\"\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        head, _, answer = (await reader.read()).partition(b"\r\n\r\n")
        if not head:
            return 0, b"", False
        return int(head.split()[1]), answer, b"Idempotency-Replayed: true" in head
    except OSError:
        return 0, b"", False
    finally:
        writer.close()


async def all_at_once(port, path, keys):
    return await asyncio.gather(*(send_once(port, path, key) for key in keys))


class Storm(Postgres, GatewayCase):
    more = "waiting_max = 1400\nplace_timeout = \"60s\"\nstore_timeout = \"60s\""

    def test_a_thousand_repeats_of_a_hundred_keys_reach_the_service_a_hundred_times(self):
        keys = [f"key-{n % 100}" for n in range(1000)]
        random.Random(1).shuffle(keys)
        answers = asyncio.run(all_at_once(self.port, "/late/50", keys))
        self.assertLessEqual({status for status, _, _ in answers}, {201, 409}, collections.Counter(answers))
        bodies = collections.defaultdict(set)
        firsts = collections.Counter()
        for key, (status, body, is_replay) in zip(keys, answers):
            if status == 201:
                bodies[key].add(body)
                firsts[key] += not is_replay
        self.assertEqual(len(self.executed()), 100)
        self.assertEqual(set(collections.Counter(one["key"] for one in self.executed()).values()), {1})
        self.assertEqual(firsts, collections.Counter({key: 1 for key in set(keys)}))
        self.assertEqual({len(one) for one in bodies.values()}, {1}, "every answer of a key is the same")
        # And once it is over, every repeat is a replay.
        again = asyncio.run(all_at_once(self.port, "/late/50", keys))
        for key, (status, body, is_replay) in zip(keys, again):
            self.assertEqual((status, {body}, is_replay), (201, bodies[key], True))
        self.assertEqual(len(self.executed()), 100)
        counts = self.stop()
        self.assertEqual(counts["executed"], 100)
        print(f"claim ok     gateway: 1000 requests of 100 keys, {len(self.executed())} executions, "
              f"{counts['running']} told to wait, {counts['replayed']} replays")


class SlowDatabase(Postgres, GatewayCase):
    more = 'store_timeout = "1s"'

    def test_a_key_that_is_taken_after_its_client_was_refused_is_free_again(self):
        database = f"{gateway_test.SERVER} dbname={self.database}"
        gateway_test.psql("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
                          "'BEGIN PERFORM pg_sleep(4); RETURN NULL; END'; "
                          "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON dovetail.request DEFERRABLE INITIALLY DEFERRED "
                          "FOR EACH ROW EXECUTE FUNCTION slow()", database)
        refused = self.send(key="k")
        self.assertEqual((refused.status, refused.problem()), (503, "store-unavailable"), refused)
        # Waits for the transaction that takes the key.
        gateway_test.psql("DROP TRIGGER slow ON dovetail.request", database)
        self.wait_for("the key is free", lambda: self.send(key="k").status == 201)
        self.assertEqual(len(self.executed()), 1)


class ServiceKilled(GatewayCase):
    more = 'requests_max = 1'

    def test_a_service_that_dies_in_the_middle_leaves_an_unknown_outcome_that_is_held(self):
        lost = self.send(path="/die", key="k")
        self.assertEqual((lost.status, lost.problem()), (502, "outcome-unknown"), lost)
        self.service.wait()
        self.start_service()
        for _ in range(2):
            held = self.send(path="/die", key="k")
            self.assertEqual((held.status, held.problem()), (409, "outcome-unknown"), held)
            self.assertIsNone(held.header("Retry-After"))
        self.assertEqual(len(self.executed()), 1)
        self.assertEqual(self.send(path="/orders", key="k2").status, 201, "others go on")

    def test_a_service_that_cannot_be_reached_costs_no_key(self):
        self.end(self.service)
        away = self.send(key="k")
        self.assertEqual((away.status, away.problem()), (503, "service-unreachable"), away)
        self.assertEqual(away.header("Retry-After"), "1")
        self.assertEqual(self.send("GET", body=None).status, 503)
        self.start_service()
        self.assertEqual(self.send(key="k").status, 201)

    def test_a_connection_that_was_kept_and_dies_does_not_send_a_request_twice(self):
        self.assertEqual(self.send("GET", body=None).status, 201, "leaves a connection behind")
        lost = self.send(path="/drop", key="k")
        self.assertEqual((lost.status, lost.problem()), (502, "outcome-unknown"), lost)
        self.assertEqual([one["method"] for one in self.executed()], ["GET", "POST"])

    def test_an_answer_that_is_late_or_cut_is_unknown(self):
        self.restart_gateway('request_timeout = "300ms"')
        late = self.send(path="/late/3000", key="late")
        self.assertEqual((late.status, late.problem()), (504, "outcome-unknown"), late)
        cut = self.send(path="/cut", key="cut")
        self.assertEqual((cut.status, cut.problem()), (502, "outcome-unknown"), cut)
        for path, key in (("/late/3000", "late"), ("/cut", "cut")):
            self.assertEqual(self.send(path=path, key=key).problem(), "outcome-unknown")
        self.assertEqual(len(self.executed()), 2)

    def test_where_the_service_knows_its_keys_it_is_tried_again(self):
        self.restart_gateway('on_unknown = "retry"')
        self.assertEqual(self.send(path="/die", key="k").status, 502)
        self.service.wait()
        self.start_service()
        self.assertEqual(self.send(path="/die", key="k").status, 502)
        self.assertEqual([one["key"] for one in self.executed()], ["k", "k"])
        self.assertEqual(self.ask("requests")["requests"][0]["attempts"], 2)


class GatewayKilled(Postgres, GatewayCase):
    more = 'request_timeout = "1s"\nconnect_timeout = "500ms"\nplace_timeout = "500ms"\nstore_timeout = "1s"\nlease = "4s"'

    def test_a_gateway_that_dies_in_the_middle_leaves_its_key_running_and_then_unknown(self):
        def send():  # even if it takes so long that the gateway gives up before it has called the service
            while not self.executed():
                asyncio.run(send_once(self.port, "/wait", "k"))
        client = threading.Thread(target=send)
        client.start()
        self.until_executed(1)
        self.gateway.kill()
        self.gateway.wait()
        client.join()
        self.start_gateway()
        during = self.send(path="/wait", key='"k"')
        self.assertEqual(during.status, 409, during)
        self.let_go()
        self.wait_for("its lease ends", lambda: self.send(path="/wait", key="k").problem() == "outcome-unknown")
        self.assertEqual(len(self.executed()), 1)

    def test_clients_that_repeat_while_gateways_are_killed_are_never_served_twice(self):
        keys = [f"key-{n}" for n in range(400 if CHAOS else 60)]
        ends = time.monotonic() + harness.PATIENCE_S * (10 if CHAOS else 3)
        self.killing = True

        async def insist(key, places):
            while time.monotonic() < ends:
                async with places:
                    status, body, _ = await send_once(self.port, "/late/20", key)
                if status == 201 or (status == 409 and b"outcome-unknown" in body):
                    return status
                await asyncio.sleep(0.1)
            return 0

        async def clients():
            places = asyncio.Semaphore(8)
            return await asyncio.gather(*(insist(key, places) for key in keys))

        def kill():
            for _ in range(20 if CHAOS else 3):
                time.sleep(random.uniform(0.1, 0.5))
                self.gateway.kill()
                self.gateway.wait()
                self.start_gateway()
        killer = threading.Thread(target=kill)
        killer.start()
        statuses = collections.Counter(asyncio.run(clients()))
        killer.join()
        executed = collections.Counter(one["key"] for one in self.executed())
        self.assertEqual([key for key, count in executed.items() if count > 1], [])
        self.wait_for("it serves after the last of them", lambda: self.send(key="afterwards").status == 201)
        self.assertEqual(statuses[0], 0, statuses)
        self.assertGreaterEqual(len(executed), statuses[201])
        print(f"claim ok     gateway killed: {len(keys)} keys, {statuses[201]} answered, {statuses[409]} unknown, 0 twice")


class DatabaseKilled(GatewayCase):
    """A PostgreSQL server for this test, which is killed."""

    more = 'store_timeout = "1s"'

    def setUp(self):
        if not gateway_test.SERVER:
            self.skipTest("PostgreSQL is not there")
        self.folder_of_server = None
        super().setUp()

    def server(self, *command):
        return subprocess.run([sys.executable, str(SERVERS), "--state", str(self.folder / "servers"), *command, "postgres"],
                              check=True, capture_output=True, text=True).stdout.strip()

    def store_url(self):
        if self.folder_of_server is None:
            (self.folder / "servers").mkdir()
            self.addCleanup(self.server, "stop")
            self.folder_of_server = self.server("start")
        return f"postgres:{self.folder_of_server}"

    def test_answers_outlive_a_database_that_is_away(self):
        self.assertEqual(self.send(key="before").status, 201)
        first = self.in_background(path="/wait", key="during")
        self.until_executed(2)
        self.server("kill")
        since = time.monotonic()
        away = self.send(key="new")
        self.assertLess(time.monotonic() - since, 10, "store_timeout, and not by chance")
        self.assertEqual((away.status, away.problem()), (503, "store-unavailable"), away)
        self.let_go()
        self.assertEqual((first().status, first().body), (201, b"order 2\n"), "the client has its answer")
        self.server("again")
        self.wait_for("it is kept", lambda: self.send(path="/wait", key="during").header("Idempotency-Replayed"))
        self.assertEqual(self.send(key="before").header("Idempotency-Replayed"), "true")
        self.assertEqual(self.send(key="new").body, b"order 3\n")
        self.assertEqual(len(self.executed()), 3)
        self.assertIn("the store is unavailable", self.log())
        self.assertIn("the store is available again", self.log())

    def freeze(self):
        """The server hangs: it accepts connections and never answers. Returns a function that ends that."""
        postmaster = int((self.folder / "servers/postgres.pid").read_text(encoding="utf-8"))
        frozen = []

        def stop(pid):
            os.kill(pid, signal.SIGSTOP)
            frozen.append(pid)

        def go_on():
            while frozen:
                os.kill(frozen.pop(), signal.SIGCONT)
        self.addCleanup(go_on)
        stop(postmaster)  # so that it has no more children than these
        for child in pathlib.Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split():
            stop(int(child))
        return go_on

    def test_clients_of_a_database_that_hangs_wait_no_longer_than_they_should(self):
        # Were the limits of one call (10 s to connect, 30 s to answer) all that bounds it, the last of 40 requests at 4
        # connections would be told so after two minutes: 30 s and 9 times 10 s.
        keys = [f"key-{n}" for n in range(40)]
        asyncio.run(all_at_once(self.port, "/orders", [f"warm-{n}" for n in range(20)]))
        first = self.in_background(path="/wait", key="during")
        self.until_executed(21)
        go_on = self.freeze()
        since = time.monotonic()
        self.let_go()

        async def timed(key):
            return await send_once(self.port, "/late/20", key), time.monotonic() - since

        async def clients():
            return await asyncio.gather(*(timed(key) for key in keys))
        answers = asyncio.run(clients())
        self.assertEqual((first().status, first().header("Idempotency-Replayed")), (201, None), "it has its answer")
        waited = max(time.monotonic() - since, *(after for _, after in answers))
        self.assertEqual({status for (status, _, _), _ in answers}, {503}, answers)
        self.assertLess(waited, 20, answers)
        self.assertEqual(len(self.executed()), 21)
        go_on()
        self.wait_for("it is kept", lambda: self.send(path="/wait", key="during").header("Idempotency-Replayed"))
        for key in keys:
            self.wait_for(f"{key} is free", lambda key=key: self.send(path="/late/20", key=key).status == 201)
        executed = collections.Counter(one["key"].strip('"') for one in self.executed())
        self.assertEqual([key for key, count in executed.items() if count > 1], [])
        self.assertEqual(len(executed), 61)
        print(f"claim ok     gateway: 40 clients of a database that hangs are told so within {waited:.1f} s")

    def test_restarts_under_load_lose_and_double_nothing(self):
        keys = [f"key-{n}" for n in range(400 if CHAOS else 60)]
        ends = time.monotonic() + harness.PATIENCE_S * (10 if CHAOS else 3)

        async def insist(key, places):
            while time.monotonic() < ends:
                async with places:
                    status, body, _ = await send_once(self.port, "/late/20", key)
                if status == 201:
                    return key, body
                await asyncio.sleep(0.05)
            return key, b""

        async def clients():
            places = asyncio.Semaphore(4)
            return await asyncio.gather(*(insist(key, places) for key in keys))

        def crash():
            for _ in range(10 if CHAOS else 2):
                time.sleep(random.uniform(0.1, 0.4))
                self.server("crash")
        crasher = threading.Thread(target=crash)
        crasher.start()
        answers = dict(asyncio.run(clients()))
        crasher.join()
        executed = collections.Counter(one["key"] for one in self.executed())
        self.assertEqual(executed, collections.Counter({f'"{key}"': 1 for key in keys}))
        self.assertEqual([key for key in keys if not answers[key]], [])
        async def repeat(key):  # the last restart may not be over yet
            answer = await send_once(self.port, "/late/20", key)
            while answer[0] == 503 and time.monotonic() < ends:
                await asyncio.sleep(0.05)
                answer = await send_once(self.port, "/late/20", key)
            return answer
        for key in keys:
            self.assertEqual(asyncio.run(repeat(key)), (201, answers[key], True))
        print(f"claim ok     gateway: {len(keys)} keys over restarts of the database, each executed once")


if __name__ == "__main__":
    gateway_test.main()
