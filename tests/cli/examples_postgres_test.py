"""The order services of examples/ on PostgreSQL, each in its language and with its usual driver.

    examples_postgres_test.py Sql | Cpp | Python | Node | Java | Go

Sql is what README.md shows.

They run as a login that may publish and use its own table, and nothing else. A language whose compiler, interpreter or
driver is not there is skipped with 77, and says what it misses. Drivers are looked for in the folder into which `./dev test`
unpacks them, then in the system.
"""

import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import unittest
import uuid

import harness
import postgres_test

DRIVERS = pathlib.Path(os.environ.get("DOVETAIL_DRIVERS", "/"))
HEADERS = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
# What would go wrong if a value were pasted into a statement, or decoded in some other way than it was encoded.
TEAPOT = """Größe 'XL'", "tea\\pot"); DROP TABLE orders; -- €"""


def driver(path):
    """Where a driver lies that a package of Debian brings below this path; None when it is not there."""
    found = [root / path for root in (DRIVERS, pathlib.Path("/")) if (root / path).exists()]
    return found[0] if found else None


def lacks(program, *paths):
    """What an example cannot do without and is not there; empty when all of it is."""
    return ", ".join([program] * (not shutil.which(program)) + [path for path in paths if not driver(path)])


class Shop(postgres_test.PostgresCase):
    """A database made by `dovetail init --roles`, with the table and the login of the order services."""

    def setUp(self):
        super().setUp()
        self.dovetail("init", "--roles")
        self.login = f"{self.database}_shop"
        subprocess.run(["psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-v", f"login={self.login}", "-d", self.conninfo, "-f",
                        harness.ROOT / "examples" / "postgres-orders" / "orders.sql"], check=True)
        self.addCleanup(postgres_test.psql, f"DROP ROLE {self.login}")
        self.addCleanup(self.sql, f"DROP OWNED BY {self.login}")
        self.as_login = f"{self.conninfo} user={self.login}"
        server = dict(word.split("=", 1) for word in postgres_test.SERVER.split())
        self.place = f"127.0.0.1:{server['port']}/{self.database}"

    def run_example(self, *words, environment=None):
        return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=harness.PATIENCE_S * 4,
                              cwd=self.folder, env={**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})})

    def accepted(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused_with(self, done, text):
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn(text, done.stderr)

    def carry(self):
        """Runs the relay, and returns what is in the mailbox since the test began, in order."""
        self.dovetail("run", "--until-idle")
        rows = self.rows("inventory.db", "SELECT id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload "
                                         "FROM dovetail_mailbox ORDER BY seq")
        return [(str(uuid.UUID(bytes=id)), *middle, json.loads(headers or "{}"), payload)
                for id, *middle, headers, payload in rows]

    def orders(self):
        """The table of the service: the truth to which its events are compared."""
        found = json.loads(self.sql("SELECT coalesce(json_object_agg(id, json_build_array(product, quantity)), '{}') FROM orders"))
        return {id: tuple(order) for id, order in found.items()}

    def new_ids(self, count):
        """Of the kind that dovetail makes, of which the login may ask for some, and of any other."""
        made = postgres_test.psql("SELECT dovetail.uuid7()", self.as_login)
        return [made] + [str(uuid.uuid4()) for _ in range(count - 1)]

    def check_rights(self):
        with self.assertRaises(subprocess.CalledProcessError) as refusal:
            postgres_test.psql("SELECT FROM dovetail.outbox", self.as_login)
        self.assertIn("permission denied", refusal.exception.stderr)


class Sql(Shop):
    @staticmethod
    def missing():
        return ""

    def test_what_the_readme_shows_works_as_it_stands(self):
        statements = re.findall(r"^```sql\n(.*?)^```", (harness.ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
        self.assertTrue(statements)
        for statement in statements:
            postgres_test.psql(statement, self.as_login)
        self.assertEqual([(id, product, quantity) for id, (product, quantity) in self.orders().items()],
                         [(id, *json.loads(payload).values()) for id, *_, payload in self.carry()])


class Cpp(Shop):
    @staticmethod
    def missing():
        return lacks(str(harness.EXAMPLES / "postgres_orders"))

    def test_many_orders_are_placed_at_once_without_waiting(self):
        places = [harness.EXAMPLES / "postgres_async_orders", self.as_login, "mug", 2]
        orders = self.new_ids(20)
        for _ in range(2):  # the second time as a service that heard no answer
            self.assertEqual(self.accepted(self.run_example(*places, *orders)), "".join(f"{id}: placed\n" for id in orders))
        self.assertEqual(self.orders(), {id: ("mug", 2) for id in orders})
        self.assertCountEqual([(id, key) for id, _, _, key, *_ in self.carry()], [(id, id) for id in orders])

        # The event of one order is refused: neither it nor its order stays, and the others do.
        good, bad, last = self.new_ids(3)
        self.sql(f"SELECT dovetail.publish('orders', 'x', 'Other', '{{}}', id => '{bad}')")
        done = self.run_example(*places, good, bad, last)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, f"{good}: placed\n{bad}: .*other content.*\n{last}: placed\n")
        self.assertEqual(set(self.orders()), {*orders, good, last})

    def service(self, *words):
        return self.run_example(harness.EXAMPLES / "postgres_orders", self.as_login, *words)

    def test_orders_are_placed_and_shipped_and_their_events_arrive_once(self):
        self.check_rights()
        mug, teapot, too_many = self.new_ids(3)
        wanted = {mug: ("mug", 2), teapot: (TEAPOT, 3)}
        for _ in range(2):  # the second time as a customer who heard no answer
            for order, (product, quantity) in wanted.items():
                self.assertIn("placed", self.accepted(self.service("place", order, product, quantity)))
            self.refused_with(self.service("place", too_many, "mug", 99), "only 100")
            self.refused_with(self.service("place", "17", "mug", 1), "UUID")
            self.assertEqual(self.orders(), wanted)
        placed = [(order, "orders.events", "orders", order, "OrderPlaced", "application/json", HEADERS,
                   json.dumps({"product": product, "quantity": quantity}, ensure_ascii=False).encode())
                  for order, (product, quantity) in wanted.items()]
        self.assertCountEqual(self.carry(), placed)

        for _ in range(2):
            self.accepted(self.service("ship"))
        shipped = [("orders.events", "orders", order, "OrderShipped", "application/json", {}, b"{}") for order in wanted]
        self.assertCountEqual([event[1:] for event in self.carry()[len(placed):]], shipped)

        # Tomorrow comes.
        self.assertEqual(self.sql("SELECT bool_and(deliver_at - created_at BETWEEN '23:59' AND '24:01') FROM dovetail.delayed"), "t")
        self.sql("UPDATE dovetail.delayed SET deliver_at = clock_timestamp()")
        due = [("orders.events", "orders", event[3], "OrderDue", "application/json", {}, event[7]) for event in placed]
        self.assertCountEqual([event[1:] for event in self.carry()[len(placed) + len(shipped):]], due)

        self.accepted(self.run_example(harness.EXAMPLES / "inventory_service", "inventory.db", "--until-quiet"))
        self.assertCountEqual(self.rows("inventory.db", "SELECT product, -on_hand FROM stock"), wanted.values())


class Language(Shop):
    """What is the same in every language; place_order(id, product, quantity) runs the example."""

    content_type = "application/json"

    def payload(self, product, quantity):
        return json.dumps({"product": product, "quantity": quantity}, ensure_ascii=False, separators=(",", ":")).encode()

    def test_orders_and_their_events_arrive_once(self):
        self.check_rights()
        mug, teapot, too_many = self.new_ids(3)
        wanted = {mug: ("mug", 2), teapot: (TEAPOT, 3)}
        events = [(order, "orders.events", "orders", order, "OrderPlaced", self.content_type, HEADERS,
                   self.payload(product, quantity)) for order, (product, quantity) in wanted.items()]
        for _ in range(2):  # the second time as a customer who heard no answer
            for order, (product, quantity) in wanted.items():
                self.assertIn("placed", self.accepted(self.place_order(order, product, quantity)))
            self.refused_with(self.place_order(too_many, "mug", 99), "only 100")
            self.assertEqual(self.orders(), wanted)
            self.assertCountEqual(self.carry(), events)
        self.refused_with(self.place_order(mug, "mug", 3), "already with other content")
        self.assertCountEqual(self.carry(), events)

    one_trip_forms = ()

    def test_with_one_wait_orders_and_their_events_arrive_once(self):
        if not self.one_trip_forms:
            self.skipTest("this language has no such example")
        wanted, events = {}, []
        for form in self.one_trip_forms:
            mug, teapot, refused = self.new_ids(3)
            wanted |= {mug: ("mug", 2), teapot: (TEAPOT, 3)}
            events += [("orders.events", "orders", order, "OrderPlaced", {}, {"product": product, "quantity": quantity})
                       for order, (product, quantity) in list(wanted.items())[-2:]]
            for _ in range(2):  # the second time as a customer who heard no answer
                for order, (product, quantity) in list(wanted.items())[-2:]:
                    self.assertIn("placed", self.accepted(self.one_trip(form, order, product, quantity)))
            # What refuses the event refuses the order, too.
            self.sql("SELECT dovetail.set_backlog_limit(1)")
            self.refused_with(self.one_trip(form, refused, "mug", 2), "the outbox is full")
            self.sql("SELECT dovetail.set_backlog_limit(NULL)")
            self.assertEqual(self.orders(), wanted)
        arrived = [(topic, kind, key, type, headers, json.loads(payload))
                   for _, topic, kind, key, type, _, headers, payload in self.carry()]
        self.assertCountEqual(arrived, events)

    @property
    def url(self):
        return f"postgresql://{self.login}@{self.place}?sslmode=disable"


class Python(Language):
    # The interpreter for which Debian's drivers are made; another one may come first on the PATH.
    program, modules = "/usr/bin/python3", "usr/lib/python3/dist-packages/psycopg"

    @classmethod
    def missing(cls):
        return lacks(cls.program, cls.modules)

    def payload(self, product, quantity):  # as jsonb writes it
        return json.dumps({"product": product, "quantity": quantity}, ensure_ascii=False).encode()

    one_trip_forms = ("statement", "pipeline")

    def example(self, name, *words):
        return self.run_example(self.program, harness.ROOT / "examples" / "python" / name, self.url, *words,
                                environment={"PYTHONPATH": str(driver(self.modules).parent)})

    def place_order(self, *order):
        return self.example("publish.py", *order)

    def one_trip(self, *words):
        return self.example("one_trip.py", *words)


class Node(Language):
    module = "usr/share/nodejs/pg"

    @classmethod
    def missing(cls):
        return lacks("node", cls.module)

    one_trip_forms = ("statement",)

    def example(self, name, *words):
        return self.run_example("node", harness.ROOT / "examples" / "node" / name, self.url, *words,
                                environment={"NODE_PATH": str(driver(self.module).parent)})

    def place_order(self, *order):
        return self.example("publish.js", *order)

    def one_trip(self, *words):
        return self.example("one_trip.js", *words)


class Java(Language):
    jar, content_type = "usr/share/java/postgresql.jar", "application/x-order"

    @classmethod
    def missing(cls):
        return lacks("javac", cls.jar)

    def payload(self, product, quantity):
        text = product.encode()
        return struct.pack(f">H{len(text)}si", len(text), text, quantity)

    def setUp(self):
        super().setUp()
        sources = [harness.ROOT / "examples" / "java" / name for name in ("Publish.java", "OneTrip.java")]
        self.accepted(self.run_example("javac", "-d", self.folder, *sources))

    one_trip_forms = ("statement", "pipeline")

    def example(self, name, *words):
        return self.run_example("java", "-cp", f"{driver(self.jar)}:{self.folder}", name,
                                f"jdbc:postgresql://{self.place}?user={self.login}&sslmode=disable", *words)

    def place_order(self, *order):
        return self.example("Publish", *order)

    def one_trip(self, *words):
        return self.example("OneTrip", *words)


class Go(Language):
    source = "usr/share/gocode/src/github.com/lib/pq"

    @classmethod
    def missing(cls):
        return lacks("go", cls.source)

    def setUp(self):
        super().setUp()
        # Debian's packages have sources as they were found before there were modules.
        self.accepted(self.run_example(
            "go", "build", "-o", self.folder / "publish", harness.ROOT / "examples" / "go" / "publish.go",
            environment={"GO111MODULE": "off", "GOFLAGS": "", "GOPATH": str(driver("usr/share/gocode")), "CGO_ENABLED": "0"}))

    def place_order(self, *order):
        return self.run_example(self.folder / "publish", self.url, *order)


def main():
    language = globals()[sys.argv[1]]
    missing = language.missing()
    if missing:
        print(f"SKIPPED: the {sys.argv[1]} example is not tested, for want of {missing}; ./dev test provides it", file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=1)


if __name__ == "__main__":
    postgres_test.require_server()
    main()
