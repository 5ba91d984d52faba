"""Faults that heal by themselves: while the receiver takes nothing, nothing is parked and nothing is lost; when the cause
goes away, everything is delivered without a restart. One poison event among them is parked alone.

Part of `./dev chaos heal`; without DOVETAIL_CHAOS=1 each fault lasts for a few seconds instead of a minute.
"""

import base64
import json
import os
import signal
import socket
import time
import unittest
import urllib.request

import brokers_test
import consumer_test
import harness
import kafka_topics
import postgres_test
import receiver

CHAOS = os.environ.get("DOVETAIL_CHAOS") == "1"
FAULT_S = 60 if CHAOS else 3
HEALED_S = 30  # everything must be there after this; a sick sink is tried at least every 15 s
KEYS = 20
PER_SECOND = 20

# The long form keeps the default pauses; only the attempts of the poison event are fewer.
QUICK = "" if CHAOS else 'reconnect_cap = "500ms"\n'
ATTEMPTS = 'attempts_max = 3\nretry_base = "20ms"\nretry_cap = "%s"\n' % ("2s" if CHAOS else "200ms")

CONFIG = """
[store.shop]
url = "postgres:%s"
[store.bus]
%s
[store.inventory]
url = "sqlite:inventory.db"
[[relay]]
name = "out"
from = "shop"
to = "bus"
""" + ATTEMPTS + QUICK


def server_of(name):
    """Its conninfo as a dict; skips the test if the server is not installed."""
    line = postgres_test.first_line(f"{name}.conninfo")
    if not line:
        raise unittest.SkipTest(postgres_test.first_line(f"{name}.missing") or f"the server {name} is missing")
    return dict(one.split("=", 1) for one in line.split())


class HealCase(postgres_test.PostgresCase):
    """A case says how the fault begins and ends, and which events came through."""

    READER = "out"
    POISON_HEADER = '{"ce-id": "mine", "ce_id": "mine"}'  # names that the format needs for itself
    POISON_BYTES = 0  # of padding

    def break_it(self):
        raise NotImplementedError

    def heal_it(self):
        raise NotImplementedError

    def arrived(self):
        """Ids, in the order in which they came; an id may come twice."""
        raise NotImplementedError

    def publish_some(self, first, count, kind="orders"):
        self.sql(f"SELECT dovetail.publish('{kind}', (n % {KEYS})::text, 'placed', jsonb_build_object('n', n)) "
                 f"FROM generate_series({first}, {first + count - 1}) n")

    def publish_poison(self):
        return self.sql("SELECT dovetail.publish('orders', 'poison', 'placed', jsonb_build_object('n', 666, 'pad', "
                        f"repeat('x', {self.POISON_BYTES})), headers => '{self.POISON_HEADER}')")

    def wanted(self):
        return self.sql("SELECT id FROM dovetail.outbox WHERE aggregate_id <> 'poison' ORDER BY seq").split()

    def parked(self):
        return [(row["id"], row["state"]) for row in self.ask("parked", "list", "--limit", "100000")["parked"]]

    def pending(self):
        known = self.reader("shop", self.READER)
        return known and known["pending"]

    def misses(self):
        return set(self.wanted()) - set(self.arrived())

    def inverted(self):
        """Events that came for the first time after a later one of their key."""
        order = {}
        for n, line in enumerate(self.sql("SELECT id || ' ' || aggregate_type || aggregate_id FROM dovetail.outbox "
                                          "ORDER BY seq").splitlines()):
            event, key = line.split()
            order[event] = (key, n)
        last, count = {}, 0
        for event in dict.fromkeys(self.arrived()):
            key, n = order[event]
            count += n < last.get(key, -1)
            last[key] = max(n, last.get(key, -1))
        return count

    def run_through(self, what, before_fault=True):
        daemon = self.start("run", self.READER)
        if before_fault:
            self.publish_some(1, KEYS)
            self.wait_for("the first ones went out", lambda: self.pending() == 0)
        self.break_it()
        poison = None
        began = time.monotonic()
        n = 1000
        while time.monotonic() - began < FAULT_S:
            self.publish_some(n, PER_SECOND // 2)
            n += PER_SECOND // 2
            poison = poison or self.publish_poison()
            self.while_broken(n)
            time.sleep(0.5)
        # If neighbours pass, waiting events have moved to parking; they come back by themselves.
        parked = self.parked()
        held_back = self.pending() + sum(state == "waiting" for _, state in parked)
        parked_meanwhile = [one for one in parked if one[0] != poison and one[1] == "parked"]
        self.heal_it()
        healed = time.monotonic()
        self.wait_for("everything came", lambda: not self.misses())
        took = time.monotonic() - healed
        self.wait_for("the poison is parked alone", lambda: self.is_parked_alone(poison))
        self.wait_for("what came meanwhile is there", lambda: not self.misses())
        inverted = self.inverted()
        restarted = daemon.poll() is not None
        holds = (held_back > 0 and not parked_meanwhile and took <= HEALED_S and inverted == 0 and not restarted)
        print(f"claim {'ok    ' if holds else 'BROKEN'} {what} for {FAULT_S} s: {len(self.wanted())} events, {held_back} held "
              f"back, {len(parked_meanwhile)} parked meanwhile, 0 lost, {inverted} out of order, all there {took:.1f} s after "
              "it healed, 1 poison event parked alone")
        self.assertTrue(holds, self.log()[-5000:])
        daemon.terminate()
        self.assertEqual(daemon.wait(harness.PATIENCE_S), 0)

    def is_parked_alone(self, poison):
        """An event is at fault when it fails while others pass, so others have to come."""
        if self.parked() == [(poison, "parked")]:
            return True
        self.publish_some(100000, 2)
        time.sleep(0.2)
        return False

    def while_broken(self, n):
        pass


@unittest.skipUnless(postgres_test.SERVER, "the server of the tests is missing; run it through ctest")
class Receiver(HealCase):
    """An HTTP endpoint. Its poison is an event that always gets 500."""

    POISON_HEADER = "{}"

    def test_an_endpoint_that_answers_500(self):
        self.go_through(500)

    def test_an_endpoint_that_answers_503(self):
        self.go_through(503)

    def test_an_endpoint_that_is_not_there_under_its_path(self):
        self.go_through(404)

    def go_through(self, fault):
        self.status = 204
        self.fault = fault
        self.poison = None
        port, self.took = receiver.serve(self, lambda event: 500 if event == self.poison else self.status)
        self.write("dovetail.toml", CONFIG % (
            self.conninfo, f'url = "http://127.0.0.1:{port}/in"\nsettings = {{ allow_private = true }}'))
        self.init()
        self.run_through(f"receiver answers {fault}")

    def publish_poison(self):
        self.poison = super().publish_poison()
        return self.poison

    def break_it(self):
        self.status = self.fault

    def heal_it(self):
        self.status = 204

    def arrived(self):
        return list(self.took)


class BrokerCase(HealCase):
    """A relay reads events from the broker into a mailbox, from the moment when the broker has healed."""

    reads = False

    def configure_bus(self, text):
        self.write("dovetail.toml", CONFIG % (self.conninfo, text + f'\nread = ["{self.topic()}"]') + self.IN)
        self.init()

    IN = """
[[relay]]
name = "in"
from = "bus"
to = "inventory"
""" + QUICK

    def topic(self):
        return "orders.events"

    def arrived(self):
        """Nobody reads before it has healed, or a full queue would not stay full."""
        if not self.reads:
            self.reads = True
            self.start("run", "in")
        rows = self.rows("inventory.db", "SELECT lower(hex(id)) FROM dovetail_mailbox ORDER BY seq")
        return [f"{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:]}" for (one,) in rows]


@unittest.skipUnless(postgres_test.SERVER, "the server of the tests is missing; run it through ctest")
class Rabbitmq(BrokerCase):
    POISON_BYTES = 20000

    def setUp(self):
        super().setUp()
        server = server_of("rabbitmq")
        self.management = f"http://127.0.0.1:{server['management_port']}/api/"
        self.host = f"heal_{os.getpid()}_{next(postgres_test.COUNT)}"
        self.ask_server("PUT", f"vhosts/{self.host}", {})
        self.addCleanup(self.ask_server, "DELETE", f"vhosts/{self.host}")
        self.ask_server("PUT", f"permissions/{self.host}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        self.url = f'url = "amqp://127.0.0.1:{server["port"]}/{self.host}"\npayload_max = "10KiB"'

    def ask_server(self, method, path, body=None):
        request = urllib.request.Request(self.management + path, method=method,
                                         data=None if body is None else json.dumps(body).encode())
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=harness.PATIENCE_S) as answer:
            return answer.read()

    def make_queue(self, arguments=None):
        self.ask_server("PUT", f"queues/{self.host}/orders.events", {"durable": True, "arguments": arguments or {}})

    def test_a_queue_that_is_full(self):
        self.make_queue()
        self.configure_bus(self.url)
        self.break_it = lambda: self.ask_server("PUT", f"policies/{self.host}/full", {
            "pattern": ".*", "apply-to": "queues", "definition": {"max-length": KEYS + 3, "overflow": "reject-publish"}})
        self.heal_it = lambda: self.ask_server("DELETE", f"policies/{self.host}/full")
        self.run_through("RabbitMQ: queue full")

    def test_a_queue_that_is_not_there(self):
        self.configure_bus(self.url)
        self.break_it = lambda: None
        self.heal_it = self.make_queue
        self.run_through("RabbitMQ: queue not there", before_fault=False)

    def test_an_exchange_that_is_deleted(self):
        def bind():
            self.ask_server("PUT", f"exchanges/{self.host}/events", {"type": "fanout", "durable": True})
            self.ask_server("POST", f"bindings/{self.host}/e/events/q/orders.events", {"routing_key": ""})
        self.make_queue()
        bind()
        self.configure_bus(self.url + '\nsettings = { exchange = "events" }')
        self.break_it = lambda: self.ask_server("DELETE", f"exchanges/{self.host}/events")
        self.heal_it = bind
        self.run_through("RabbitMQ: exchange deleted")


@unittest.skipUnless(postgres_test.SERVER, "the server of the tests is missing; run it through ctest")
class Kafka(BrokerCase):
    def setUp(self):
        super().setUp()
        self.port = int(server_of("kafka")["port"])
        self.prefix = f"heal{os.getpid()}_{next(postgres_test.COUNT)}."
        self.configure_bus(f'url = "kafka://127.0.0.1:{self.port}"\nsettings = {{ topic_prefix = "{self.prefix}" }}')

    def test_a_topic_that_is_not_there(self):
        kafka_topics.create(self.port, f"{self.prefix}others.events")
        self.break_it = lambda: None
        self.heal_it = lambda: kafka_topics.create(self.port, f"{self.prefix}orders.events")
        self.run_through("Kafka: topic missing", before_fault=False)

    def while_broken(self, n):
        self.publish_some(n, 1, "others")  # neighbours whose topic is there

    def wanted(self):
        return self.sql("SELECT id FROM dovetail.outbox WHERE aggregate_id <> 'poison' AND aggregate_type = 'orders' "
                        "ORDER BY seq").split()


@unittest.skipUnless(postgres_test.SERVER, "the server of the tests is missing; run it through ctest")
class Nats(BrokerCase):
    def setUp(self):
        super().setUp()
        self.server = server_of("nats")
        self.name = f"HEAL{os.getpid()}_{next(postgres_test.COUNT)}"
        os.environ["HEAL_NATS_PASSWORD"] = self.server["password"]
        self.configure_bus(f'url = "nats://127.0.0.1:{self.server["port"]}"\nuser = "{self.server["user"]}"\n'
                           'password_env = "HEAL_NATS_PASSWORD"')

    def topic(self):
        return f"{self.name}.events"

    def jetstream(self, what, body, may_fail=False):
        """One JetStream request."""
        user = json.dumps({"verbose": False, "user": self.server["user"], "pass": self.server["password"]})
        body = json.dumps(body)
        with socket.create_connection(("127.0.0.1", int(self.server["port"])), timeout=harness.PATIENCE_S) as connection:
            connection.recv(4096)
            connection.sendall(f"CONNECT {user}\r\nSUB heal 1\r\nPUB $JS.API.{what} heal {len(body)}\r\n{body}\r\n".encode())
            answer = b""
            while answer.count(b"\r\n") < 2:
                answer += connection.recv(65536)
        self.assertTrue(may_fail or b'"error"' not in answer, answer)

    def stream(self, limit):
        return {"name": self.name, "subjects": [f"{self.name}.>"], "storage": "file", "discard": "new", "max_msgs": limit}

    def publish_some(self, first, count, kind="orders"):
        super().publish_some(first, count, self.name)

    def test_a_stream_that_is_full(self):
        self.jetstream(f"STREAM.CREATE.{self.name}", self.stream(-1))
        self.addCleanup(self.jetstream, f"STREAM.DELETE.{self.name}", {}, may_fail=True)
        self.break_it = lambda: self.jetstream(f"STREAM.UPDATE.{self.name}", self.stream(KEYS + 3))
        self.heal_it = lambda: self.jetstream(f"STREAM.UPDATE.{self.name}", self.stream(-1))
        self.run_through("NATS: stream full")

    def test_a_stream_that_is_not_there(self):
        self.addCleanup(self.jetstream, f"STREAM.DELETE.{self.name}", {}, may_fail=True)
        self.break_it = lambda: None
        self.heal_it = lambda: self.jetstream(f"STREAM.CREATE.{self.name}", self.stream(-1))
        self.run_through("NATS: no stream for the subject", before_fault=False)

    @unittest.skipUnless(CHAOS, "part of ./dev chaos heal")
    def test_a_server_that_freezes_costs_no_lease(self):
        self.jetstream(f"STREAM.CREATE.{self.name}", self.stream(-1))
        self.addCleanup(self.jetstream, f"STREAM.DELETE.{self.name}", {}, may_fail=True)
        config = (self.folder / "dovetail.toml").read_text()
        self.write("dovetail.toml", config.replace('to = "bus"\n', 'to = "bus"\nlease = "2s"\n'))
        self.start("run", "out")
        self.publish_some(1, KEYS)
        self.wait_for("all is there", lambda: self.pending() == 0)
        epoch = self.reader("shop", "out")["epoch"]
        frozen = int(postgres_test.first_line("nats.pid"))
        os.kill(frozen, signal.SIGSTOP)
        try:
            self.publish_some(KEYS + 1, KEYS)
            time.sleep(8)  # four leases
            self.assertEqual(self.reader("shop", "out")["epoch"], epoch, self.log())
        finally:
            os.kill(frozen, signal.SIGCONT)
        self.wait_for("the others are there", lambda: self.pending() == 0)
        self.assertNotIn("session_lost", self.log())
        self.assertEqual(self.parked(), [])


@unittest.skipUnless(postgres_test.SERVER, "the server of the tests is missing; run it through ctest")
class Redis(BrokerCase):
    @classmethod
    def setUpClass(cls):
        brokers_test.start_redis(cls)

    def setUp(self):
        super().setUp()
        self.server.ask("flushall")
        self.configure_bus(f'url = "{self.server.url}"')

    def test_a_server_out_of_memory(self):
        self.break_it = lambda: self.server.ask("config", "set", "maxmemory", "1")
        self.heal_it = lambda: self.server.ask("config", "set", "maxmemory", "0")
        self.run_through("Redis: out of memory")

    def test_a_key_that_is_no_stream(self):
        self.server.ask("set", "orders.events", "text")
        self.break_it = lambda: None
        self.heal_it = lambda: self.server.ask("del", "orders.events")
        self.run_through("Redis: key of another type", before_fault=False)


class Handler(consumer_test.ConsumerCase, HealCase):
    """A SQL function whose table is renamed. Its poison is an event that the function always refuses."""

    READER = "booking"
    POISON_HEADER = "{}"

    def setUp(self):
        consumer_test.ConsumerCase.setUp(self)
        self.configure()
        text = (self.folder / "dovetail.toml").read_text()
        for line in ('retry_base = "5ms"\n', 'retry_cap = "20ms"\n', 'reconnect_cap = "200ms"\n'):
            text = text.replace(line, "")
        self.write("dovetail.toml", text.replace('to = "shop"\n', 'to = "shop"\n' + ATTEMPTS + QUICK))

    def test_a_handler_whose_table_is_renamed(self):
        self.break_it = lambda: self.sql("ALTER TABLE shop.booked RENAME TO away")
        self.heal_it = lambda: self.sql("ALTER TABLE shop.away RENAME TO booked")
        self.run_through("handler's table renamed")

    def arrived(self):
        return self.sql("SELECT id FROM shop.booked ORDER BY at").split()


if __name__ == "__main__":
    harness.main()
