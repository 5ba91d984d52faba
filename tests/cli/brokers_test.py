"""The binary with brokers among its stores. What needs a server uses Redis, whose server starts fastest."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

import harness
import postgres_test

SCRIPT = harness.ROOT / "tests" / "servers" / "servers.py"
CANARY = "c4n4ry-of-mine"

STORES = """\
[store.orders]
url = "sqlite:orders.db"

[store.bus]
url = "%s"
read = ["orders.events"]
%s

[store.inventory]
url = "sqlite:inventory.db"
%s
"""

OUT = """
[[relay]]
name = "orders-to-bus"
from = "orders"
to = "bus"
lease = "500ms"
retry_base = "5ms"
reconnect_cap = "100ms"
"""

IN = """
[[relay]]
name = "bus-to-inventory"
from = "bus"
to = "inventory"
lease = "500ms"
retry_base = "5ms"
reconnect_cap = "100ms"
"""

LOG = """
[log]
format = "json"
"""


class BrokerCase(harness.Case):
    def configure(self, url, bus="", inventory="", relays=OUT + IN):
        self.write("dovetail.toml", STORES % (url, bus, inventory) + relays + LOG)


class WithoutAServer(BrokerCase):
    URL = "redis://127.0.0.1:1/0"  # where nobody listens

    def test_what_is_wrong_is_refused_with_its_place_in_the_file(self):
        place = str(self.folder / "dovetail.toml")
        for bus, says in (
                ("[store.bus.settings]\nno_such = 1", ("8:1", "store.bus.settings.no_such", "unknown key")),
                ('format = "avro"', ("7:10", "store.bus.format", '"cloudevents"')),
                ('key = "{colour}"', ("7:7", "store.bus.key", "colour")),
                ('password_env = "NO_SUCH_VARIABLE"', ("NO_SUCH_VARIABLE", "not set")),
                ('ca_file = "ca.pem"', ("store.bus.ca_file", "TLS"))):
            self.configure(self.URL, bus)
            self.refused("run", "--config", place, code=3, name="config", says=("dovetail.toml", *says))

    def test_what_is_wrong_about_rabbitmq_is_refused_with_its_place_in_the_file(self):
        for url, settings, says in (
                ("amqp://127.0.0.1:1/shop", 'exchagne = "x"', ("8:", "store.bus.settings.exchagne", "exchange")),
                ("amqp://127.0.0.1:1/shop", 'queue_type = "stream"', ("store.bus.settings.queue_type", "quorum")),
                ("amqp://127.0.0.1:1/shop", 'routing_key = "{colour}"', ("routing key", "colour")),
                ("amqp://127.0.0.1:1/shop", "prefetch = 0", ("store.bus.settings.prefetch",)),
                ("amqp://127.0.0.1:1/shop", 'server_name = "x"', ("store.bus.settings.server_name", "amqps://")),
                ("amqp://127.0.0.1:1/a/b", "declare = true", ("%2f",))):
            self.configure(url, "[store.bus.settings]\n" + settings)
            done = self.run_dovetail("run", "--until-idle")
            if b"was built without" in done.err:
                self.skipTest("built without RabbitMQ")
            self.refused("run", "--until-idle", code=3, name="config", says=("dovetail.toml", *says))

    def test_a_secret_in_a_url_is_refused_and_not_repeated(self):
        for url in (f"redis://:{CANARY}@127.0.0.1/0", f"amqp://shop:{CANARY}@127.0.0.1/"):
            self.configure(url)
            for command in ("run", "status", "doctor", "init"):
                said = self.refused(command, code=3, name="config", says=("password_env",))
                self.assertNotIn(CANARY, said.err + said.out)

    def test_what_only_a_database_can_do_is_refused(self):
        self.configure(self.URL)
        self.init()
        self.publish(store="bus", code=5)
        said = self.refused("events", "--store", "bus", code=5, name="rejected", says=("bus", "is a broker"))
        self.assertIn("is a database", said.err)
        self.refused("publish", "--store", "bus", "--aggregate-type", "orders", "--key", "1", "--type", "T", "--payload",
                     "{}", code=5, name="rejected", says=("is a broker",))

    def test_init_status_and_prune_leave_the_broker_alone(self):
        self.configure(self.URL)
        self.assertIn("store bus: redis://127.0.0.1:1/0 is a broker, nothing to create", self.init().out)
        stores = {store["name"]: store for store in self.ask("status")["stores"]}
        self.assertEqual(stores["bus"], {"name": "bus", "path": self.URL, "relays": [], "consumers": [], "queues": [],
                                         "broker": "Redis"})
        self.assertNotIn("bus", [store["name"] for store in self.ask("prune", "--delivered", "1d")["stores"]])
        self.assertEqual(self.ask("parked", "list"), {"parked": []})
        event = self.publish_id()
        self.assertEqual(len(self.ask("events", "show", event)["places"]), 1)

    def test_a_script_is_told_at_once_that_the_broker_is_away(self):
        self.configure(self.URL)
        self.init()
        for relay in ("orders-to-bus", "bus-to-inventory"):
            said = self.refused("run", relay, "--until-idle", code=4, name="unavailable", says=("store bus",))
            self.assertIn("127.0.0.1", said.err)

    def test_brokers_that_never_answer_cost_no_lease_and_no_time_at_the_end(self):
        standstill = harness.Standstill()
        silent = socket.create_server(("127.0.0.1", 0), backlog=64)  # takes connections, and says nothing
        self.addCleanup(silent.close)
        port = silent.getsockname()[1]
        urls = {"kafka": f"kafka://127.0.0.1:{port}", "rabbitmq": f"amqp://127.0.0.1:{port}/",
                "nats": f"nats://127.0.0.1:{port}", "redis": f"redis://127.0.0.1:{port}/0"}
        urls = {name: url for name, url in urls.items() if self.is_built_with(url)}
        relays = ""
        for name, url in urls.items():
            relays += f'[store.{name}]\nurl = "{url}"\n' + OUT.replace('"bus"', f'"{name}"').replace("to-bus", f"to-{name}")
        self.write("dovetail.toml", '[store.orders]\nurl = "sqlite:orders.db"\n' + relays + LOG)
        self.init()
        self.publish()
        daemon = self.start("run")
        epochs = lambda: [self.reader("orders", f"orders-to-{name}")["epoch"] for name in urls]
        self.wait_for("all of them have started", lambda: self.log().count('"event":"started"') == len(urls))
        time.sleep(2)  # four leases
        if standstill.is_below(0.1):
            self.assertEqual(epochs(), [1] * len(urls), self.log())
            self.assertNotIn("session_lost", self.log())
        daemon.terminate()
        self.assertEqual(daemon.wait(harness.PATIENCE_S), 0)
        if standstill.is_below(0.1):  # a lease that ran out cannot be given back
            self.assertEqual(self.reader("orders", "orders-to-redis")["owner"], "", "the lease is given back")

    def is_built_with(self, url):
        self.configure(url)
        is_there = b"was built without" not in self.run_dovetail("status").err
        if not is_there:
            print(f"NOTE: this dovetail was built without the broker of {url}")
        return is_there

    def findings(self, **more):
        report = json.loads(self.run_dovetail("doctor", "--store", "bus", "--json", **more).out)
        return [one["code"] for one in report["stores"][0]["findings"]]

    def test_the_doctor_names_a_password_that_travels_readable(self):
        """Nobody listens at 0.0.0.0:1, which is no address of this machine alone, as far as one can read it."""
        env = {"BUS_PASSWORD": CANARY}
        for plain, safe in (("redis://%s:1/0", "rediss://%s:1/0"), ("amqp://%s:1/", "amqps://%s:1/"),
                            ("nats://%s:1", "nats+tls://%s:1"), ("kafka://%s:1", "kafka+tls://%s:1")):
            if not self.is_built_with(plain % "127.0.0.1"):
                continue
            for url, host, is_named in ((plain, "0.0.0.0", True), (plain, "127.0.0.1", False), (safe, "0.0.0.0", False)):
                with self.subTest(url=url, host=host):
                    self.configure(url % host, 'user = "shop"\npassword_env = "BUS_PASSWORD"\n'
                                               '[store.bus.settings]\nconnect_timeout = "500ms"')
                    found = self.findings(env=env)
                    self.assertIn("unavailable", found)
                    self.assertEqual("password-in-clear" in found, is_named, found)
        self.configure("amqps://127.0.0.1:1/", 'user = "shop"\npassword_env = "BUS_PASSWORD"\n'
                       '[store.bus.settings]\nconnect_timeout = "500ms"\nmanagement_url = "http://0.0.0.0:2"')
        self.assertIn("password-in-clear", self.findings(env=env))
        if self.is_built_with("kafka://127.0.0.1:1"):
            self.configure("kafka://0.0.0.0:1", 'user = "shop"\npassword_env = "BUS_PASSWORD"\n'
                           '[store.bus.settings]\nconnect_timeout = "500ms"\nsasl_mechanism = "SCRAM-SHA-256"')
            self.assertNotIn("password-in-clear", self.findings(env=env))

    def test_the_doctor_compares_the_limit_of_the_outbox_with_that_of_the_broker(self):
        self.configure(self.URL, 'payload_max = "100KiB"')
        self.assertIn("payload-limit", self.findings())
        self.configure(self.URL)
        self.assertNotIn("payload-limit", self.findings())

    def test_the_doctor_says_that_it_is_away(self):
        self.configure(self.URL)
        self.init()
        report = self.ask("doctor", "--store", "bus", code=1)
        self.assertEqual(report["stores"][0]["findings"][0]["code"], "unavailable")


class Document(BrokerCase):
    """What docs/BROKERS.md lets people copy is a config file that is accepted."""

    def test_every_config_of_the_document_is_accepted(self):
        text = (harness.ROOT / "docs" / "BROKERS.md").read_text()
        blocks = re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        self.assertGreaterEqual(len(blocks), 5)
        for name in ("ca.pem", "client.pem", "client.key"):
            self.write(name, "")
        env = {name: "secret" for name in re.findall(r'password_env = "(\w+)"', text)}
        for block in blocks:
            self.write("dovetail.toml", block)
            done = self.run_dovetail("init", env=env)
            if b"was built without" not in done.err:
                self.assertEqual(done.code, 0, f"{block}\n{done}")


class Server:
    """A Redis of one's own, which may be broken."""

    def __init__(self, folder):
        self.state = folder / "servers"
        self.run("start")
        conninfo = self.state / "redis.conninfo"
        self.missing = not conninfo.exists() and (self.state / "redis.missing").read_text()
        fields = {} if self.missing else dict(one.split("=", 1) for one in conninfo.read_text().split())
        self.port = fields.get("port")
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def run(self, action):
        subprocess.run([sys.executable, SCRIPT, "--state", self.state, action, "redis"], check=True, capture_output=True)

    def ask(self, *command):
        return subprocess.run(["redis-cli", "-p", self.port, *command], check=True, capture_output=True,
                              text=True).stdout.splitlines()


def start_redis(case):
    """One for all tests of the class."""
    folder = harness.tempfile.mkdtemp(prefix="dovetail-cli-redis-")
    case.addClassCleanup(harness.shutil.rmtree, folder, ignore_errors=True)
    case.server = Server(pathlib.Path(folder))
    if case.server.missing:
        raise unittest.SkipTest(case.server.missing)
    case.addClassCleanup(case.server.run, "stop")


@unittest.skipUnless(postgres_test.SERVER, "the server of the tests is missing; run it through ctest")
class FromPostgres(postgres_test.PostgresCase):
    @classmethod
    def setUpClass(cls):
        start_redis(cls)

    def test_lanes_of_a_postgres_outbox_fill_a_broker_in_order_along_each_key(self):
        self.write("dovetail.toml", f"""
[store.orders]
url = "postgres:{self.conninfo}"
[store.bus]
url = "{self.server.url}"
[[relay]]
name = "orders-to-bus"
from = "orders"
to = "bus"
lanes = 3
""")
        self.init()
        self.sql("SELECT dovetail.publish('orders', (n % 7)::text, 'OrderPlaced', to_jsonb(n)) FROM generate_series(1, 70) n")
        self.assertIn("delivered 70", self.dovetail("run", "--until-idle").out)
        fields = self.server.ask("--json", "xrange", "orders.events", "-", "+")
        seen = {}
        for _, pairs in json.loads("".join(fields)):
            entry = dict(zip(pairs[::2], pairs[1::2]))
            seen.setdefault(entry["key"], []).append(int(entry["data"]))
        self.assertEqual(seen, {str(key): [n for n in range(1, 71) if n % 7 == key] for key in range(7)})


class WithRedis(BrokerCase):
    @classmethod
    def setUpClass(cls):
        start_redis(cls)

    def setUp(self):
        super().setUp()
        self.server.ask("flushall")
        self.configure(self.server.url)
        self.init()

    def mailbox(self):
        return self.rows("inventory.db", "SELECT lower(hex(id)), topic, aggregate_type, aggregate_id, type, content_type, "
                                         "headers, CAST(payload AS TEXT), aggregate_version FROM dovetail_mailbox "
                                         "ORDER BY seq")

    def drain(self, *relays, code=0):
        return self.dovetail("run", *relays, "--until-idle", "--idle-after", "500ms", code=code)

    def test_an_event_comes_through_the_broker_as_it_was(self):
        event = self.publish_id("--header", "tenant=blue", "--aggregate-version", "7")
        self.drain("orders-to-bus")
        self.assertEqual(self.server.ask("xlen", "orders.events"), ["1"])
        self.assertEqual(self.mailbox(), [])
        self.drain("bus-to-inventory")
        [row] = self.mailbox()
        self.assertEqual(row[:6], (event.replace("-", ""), "orders.events", "orders", "17", "OrderPlaced",
                                   "application/json"))
        self.assertEqual(json.loads(row[6])["tenant"], "blue")
        self.assertEqual(row[7:], ('{"total": 3}', 7))
        self.assertEqual({place["store"] for place in self.ask("events", "show", event)["places"]},
                         {"orders", "inventory"})
        self.drain()
        self.assertEqual(len(self.mailbox()), 1)

    def test_the_example_moves_stock_through_the_broker(self):
        path = os.pathsep.join([str(pathlib.Path(harness.DOVETAIL).resolve().parent), str(harness.EXAMPLES),
                                os.environ["PATH"]])
        done = subprocess.run([harness.ROOT / "examples" / "brokers" / "session.sh", f"127.0.0.1:{self.server.port}"],
                              cwd=self.folder, env=os.environ | {"PATH": path}, capture_output=True, text=True,
                              timeout=harness.PATIENCE_S * 2)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        ordered = self.rows("orders.db", "SELECT product, sum(quantity) FROM orders GROUP BY product ORDER BY product")
        self.assertNotEqual(ordered, [])
        self.assertEqual(ordered, self.rows("inventory.db", "SELECT product, -on_hand FROM stock ORDER BY product"))

    def test_a_foreign_message_becomes_an_event(self):
        self.configure(self.server.url, bus='id_header = "x-id"\ntype_header = "x-type"')
        self.server.ask("xadd", "orders.events", "*", "data", "hello", "key", "k1", "x-id", "order-1", "x-type", "Placed")
        self.drain("bus-to-inventory")
        [row] = self.mailbox()
        self.assertEqual((row[1], row[3], row[4], row[7]), ("orders.events", "k1", "Placed", "hello"))

    def test_a_message_that_is_no_event_is_parked_and_can_be_read(self):
        self.server.ask("xadd", "orders.events", "*", "other", "field")
        self.drain("bus-to-inventory", code=1)
        [row] = self.ask("parked", "list")["parked"]
        self.assertEqual((row["store"], row["topic"]), ("inventory", "orders.events"))
        self.assertIn("data", row["reason"])
        [place] = self.ask("events", "show", row["id"])["places"]
        self.assertEqual((place["box"], place["state"]), ("broker", "parked"))
        self.dovetail("parked", "discard", row["id"], "--reason", "not ours")
        self.drain("bus-to-inventory")

    def test_a_topic_that_is_written_replaces_that_of_the_message(self):
        self.configure(self.server.url, relays=OUT + IN + 'topic = "in.{type}"\n')
        self.publish()
        self.drain()
        self.assertEqual(self.mailbox()[0][1], "in.OrderPlaced")

    def test_debezium_names_its_topics_itself(self):
        self.configure(self.server.url, bus='format = "debezium"', relays=OUT)
        event = self.publish_id()
        self.drain()
        fields = self.server.ask("xrange", "outbox.event.orders", "-", "+")[1:]
        found = dict(zip(fields[::2], fields[1::2]))
        self.assertEqual(found["id"], event)

    def test_what_the_mailbox_refuses_is_parked_in_the_store_that_is_filled(self):
        self.configure(self.server.url, inventory='topics = ["other.events"]')
        first, second = self.publish_id(), self.publish_id()
        self.drain(code=1)
        parked = self.ask("parked", "list")["parked"]
        self.assertEqual([(row["store"], row["relay"], row["id"], row["state"]) for row in parked],
                         [("inventory", "bus-to-inventory", first, "parked"),
                          ("inventory", "bus-to-inventory", second, "waiting")])
        places = {place["box"]: place for place in self.ask("events", "show", first)["places"]}
        self.assertEqual((places["broker"]["state"], places["broker"]["relay"]), ("parked", "bus-to-inventory"))
        reader = self.reader("inventory", "bus-to-inventory")
        self.assertEqual((reader["source"], reader["from"], reader["parked"], reader["pending"]), ("broker", "bus", 1, None))
        self.assertIn("bus > inventory", self.dovetail("status").out)
        self.configure(self.server.url)
        self.dovetail("parked", "replay", first)
        self.drain()
        self.assertEqual([row[0] for row in self.mailbox()], [one.replace("-", "") for one in (first, second)])
        self.assertEqual(self.reader("inventory", "bus-to-inventory")["parked"], 0)

    def test_a_daemon_waits_for_a_broker_that_is_away(self):
        self.publish()
        self.server.run("kill")
        try:
            daemon = self.start("run")
            self.wait_for("it says so", lambda: "sink_lost" in self.log() and "session_lost" in self.log())
            self.assertIsNone(daemon.poll())
        finally:
            self.server.run("again")
        self.wait_for("the event is there", self.mailbox)
        self.assertEqual(self.reader("orders", "orders-to-bus")["parked"], 0)
        daemon.terminate()
        self.assertEqual(daemon.wait(harness.PATIENCE_S), 0)

    def test_a_broker_that_freezes_costs_no_lease(self):
        standstill = harness.Standstill()
        self.configure(self.server.url, relays=OUT)
        daemon = self.start("run")
        self.publish()
        arrived = lambda: int(self.server.ask("xlen", "orders.events")[0])
        self.wait_for("the event is there", arrived)
        frozen = int((self.server.state / "redis.pid").read_text().split()[0])
        os.kill(frozen, signal.SIGSTOP)
        try:
            self.publish()
            time.sleep(2)  # four leases
            epoch = self.reader("orders", "orders-to-bus")["epoch"]
        finally:
            os.kill(frozen, signal.SIGCONT)
        self.wait_for("the other event is there", lambda: arrived() >= 2)
        if standstill.is_below(0.1):
            self.assertEqual(epoch, 1, self.log())
            self.assertNotIn("session_lost", self.log())
        daemon.terminate()
        self.assertEqual(daemon.wait(harness.PATIENCE_S), 0)

    def test_of_two_daemons_one_reads_and_the_other_takes_over(self):
        first = self.start("run", "bus-to-inventory")
        self.wait_for("it reads", lambda: "started" in self.log())
        second = self.start("run", "bus-to-inventory")
        self.wait_for("it stands by", lambda: "standby" in self.log())
        owner = self.reader("inventory", "bus-to-inventory")["owner"]
        self.assertIn(f":{first.pid}", owner)
        first.kill()
        self.publish()
        self.drain("orders-to-bus")
        self.wait_for("the other has it", self.mailbox)
        self.assertIn(f":{second.pid}", self.reader("inventory", "bus-to-inventory")["owner"])

    def test_a_password_is_never_shown(self):
        self.configure(self.server.url, bus='user = "full"\npassword_env = "BUS_PASSWORD"')
        for password, code in (("full-secret", 0), (CANARY, 4)):
            env = {"BUS_PASSWORD": password}
            said = [self.dovetail("run", "--until-idle", "--idle-after", "200ms", code=code, env=env)]
            for command in (("doctor", "--store", "bus"), ("status",), ("doctor", "--json")):
                said.append(self.run_dovetail(*command, env=env))
            for one in said:
                text = "".join(part if isinstance(part, str) else part.decode() for part in (one.out, one.err))
                self.assertNotIn(password, text)

    def test_the_doctor_asks_the_broker(self):
        report = {store["name"]: store for store in self.ask("doctor")["stores"]}
        self.assertEqual([one for one in report["bus"]["findings"] if one["severity"] == "error"], [])
        self.server.ask("config", "set", "appendfsync", "no")
        self.addCleanup(self.server.ask, "config", "set", "appendfsync", "always")
        found = self.run_dovetail("doctor", "--store", "bus", "--json")
        findings = json.loads(found.out)["stores"][0]["findings"]
        self.assertTrue(any("appendfsync" in one["what"] + one["what_to_do"] for one in findings), findings)


if __name__ == "__main__":
    harness.main()
