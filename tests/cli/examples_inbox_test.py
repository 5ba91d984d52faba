"""The consumers of examples/ on PostgreSQL, with the order service before them.

    examples_inbox_test.py Kafka | Rabbitmq | Python | Node

Kafka and Rabbitmq: C++ on both sides of a broker. Python and Node: nothing of dovetail but its SQL functions, once as a
queue and once in a loop of their own. A language whose interpreter or driver is not there is skipped with 77.
"""

import json
import os
import subprocess
import sys
import unittest
import uuid

import examples_postgres_test
import harness
import kafka_topics
import postgres_test
from examples_postgres_test import TEAPOT, driver, lacks

STOCK = harness.ROOT / "examples" / "inbox-stock"


class Stock(examples_postgres_test.Shop):
    """Two databases: the shop's, and that of the stock service with its login."""

    def setUp(self):
        super().setUp()
        self.stock_database = self.make_database()
        self.stock = f"{postgres_test.SERVER} dbname={self.stock_database}"
        self.write("dovetail.toml", self.config())
        self.dovetail("init", "--roles")
        self.stock_login = f"{self.stock_database}_stock"
        subprocess.run(["psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-v", f"login={self.stock_login}", "-d", self.stock, "-f",
                        STOCK / "stock.sql"], check=True)
        self.addCleanup(postgres_test.psql, f"DROP ROLE {self.stock_login}")
        self.addCleanup(postgres_test.psql, f"DROP OWNED BY {self.stock_login}", self.stock)
        self.as_stock = f"{self.stock} user={self.stock_login}"

    def place_orders(self, count):
        """As the order service does, many at once."""
        postgres_test.psql(
            "WITH placed AS (INSERT INTO orders (id, product, quantity) SELECT gen_random_uuid(), "
            f"CASE i % 3 WHEN 0 THEN 'mug' ELSE 'lamp' END, 1 + i % 4 FROM generate_series(1, {count}) i RETURNING *) "
            "SELECT count(dovetail.publish('orders', id::text, 'OrderPlaced', "
            "jsonb_build_object('product', product, 'quantity', quantity), id => id)) FROM placed", self.as_login)

    def place_order(self, product, quantity):
        self.accepted(self.run_example(harness.EXAMPLES / "postgres_orders", self.as_login, "place", uuid.uuid4(), product,
                                       quantity))

    def in_stock(self, sql):
        return json.loads(postgres_test.psql(sql, self.stock))

    def moved(self):
        return self.in_stock("SELECT coalesce(json_object_agg(product, -on_hand), '{}') FROM stock")

    def movements(self):
        return self.in_stock("SELECT count(*) FROM movement")

    def ordered(self):
        return json.loads(self.sql("SELECT json_object_agg(product, quantity) FROM (SELECT product, sum(quantity) AS quantity "
                                   "FROM orders GROUP BY product) AS of"))

    def check_books(self):
        """Each order moved its stock once."""
        self.assertEqual(self.moved(), self.ordered())
        self.assertEqual(self.in_stock("SELECT json_agg(order_id ORDER BY order_id) FROM movement"),
                         json.loads(self.sql("SELECT json_agg(id ORDER BY id) FROM orders")))


class Broker(Stock):
    """The C++ service behind a broker. Everything is sent twice, and the service is killed in the middle."""

    orders = 300

    def config(self):
        relay = '\n[[relay]]\nname = "{}"\nfrom = "orders"\nto = "bus"\ntopic = "{}"\n'
        return (f'[store.orders]\nurl = "postgres:{self.conninfo}"\n\n[store.stock]\nurl = "postgres:{self.stock}"\n\n'
                f"[store.bus]\n{self.bus()}\n" + relay.format("orders-to-bus", self.topic) + relay.format("again", self.topic))

    def setUp(self):
        self.topic = f"orders.{uuid.uuid4().hex}"
        fields = dict(word.split("=", 1) for word in postgres_test.first_line(f"{self.broker}.conninfo").split())
        self.port = int(fields["port"])
        super().setUp()
        # A consumer in C++ holds the lease of the broker's reader and the inbox, as a relay does.
        postgres_test.psql(f"GRANT dovetail_relay TO {self.stock_login}", self.stock)

    @classmethod
    def missing(cls):
        return lacks(str(harness.EXAMPLES / "postgres_stock")) or (
            "" if postgres_test.first_line(f"{cls.broker}.conninfo") else f"a server of {cls.broker}")

    def start_service(self):
        words = (harness.EXAMPLES / "postgres_stock", self.as_stock, self.broker, f"127.0.0.1:{self.port}", self.topic)
        with open(self.folder / "daemon.log", "ab") as log:
            process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=log, text=True)
        self.addCleanup(self.end, process)
        return process

    def arrived(self):
        return self.in_stock("SELECT coalesce(sum(applied + duplicates), 0) FROM dovetail.consumer_session")

    def test_stock_moves_once_for_each_order(self):
        self.place_order("mug", 2)
        self.place_order(TEAPOT, 3)
        self.place_orders(self.orders)
        self.dovetail("run", "orders-to-bus", "--until-idle")
        first = self.start_service()
        self.wait_for("some stock has moved", lambda: self.movements() > 0)
        first.kill()
        first.wait()

        self.dovetail("run", "again", "--until-idle")
        second = self.start_service()
        self.wait_for("every order has arrived twice", lambda: self.arrived() >= 2 * (self.orders + 2))
        second.terminate()
        said, _ = second.communicate(timeout=harness.PATIENCE_S)
        self.assertEqual(second.returncode, 0, self.log())
        self.assertRegex(said, r"[1-9]\d* duplicates left alone")
        self.check_books()
        self.assertEqual(self.in_stock("SELECT json_build_array(count(*), count(DISTINCT aggregate_id)) FROM dovetail.outbox "
                                       "WHERE type = 'StockMoved'"), [self.orders + 2] * 2)


class Kafka(Broker):
    broker = "kafka"

    def bus(self):
        kafka_topics.create(self.port, self.topic)
        return f'url = "kafka://127.0.0.1:{self.port}"\nsettings = {{ single_node = true }}\n'


class Rabbitmq(Broker):
    broker = "rabbitmq"

    def bus(self):
        return f'url = "amqp://127.0.0.1:{self.port}/"\nsettings = {{ declare = true, queue_type = "classic" }}\n'


class Language(Stock):
    """A service that knows nothing of dovetail but its SQL functions; run_service(file, arguments) runs the example."""

    orders = 60

    def config(self):
        return f'[store.orders]\nurl = "postgres:{self.conninfo}"\n\n[store.stock]\nurl = "postgres:{self.stock}"\n'

    @property
    def stock_url(self):
        return self.url_of(self.stock_login, self.stock_database)

    def url_of(self, login, database):
        return f"postgresql://{login}@{self.place.rsplit('/', 1)[0]}/{database}?sslmode=disable"

    def start_service(self, *words, **more):
        program, environment = self.program_of(words[0])
        process = subprocess.Popen([*program, self.stock_url, *words[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env={**os.environ, "LC_ALL": "C.UTF-8", **environment}, **more)
        self.addCleanup(self.end, process)
        self.addCleanup(process.stderr.close)
        return process

    def ended_well(self, process):
        said, complaints = process.communicate(timeout=harness.PATIENCE_S * 4)
        self.assertEqual(process.returncode, 0, complaints)
        return said

    def fill_queue(self):
        self.write("dovetail.toml", self.config() + '\n[[consumer]]\nname = "stock"\nfrom = "orders"\nto = "stock"\n\n'
                   '[[consumer.handler]]\nkind = "queue"\ntypes = ["OrderPlaced"]\n')
        self.place_order("mug", 2)
        self.place_order(TEAPOT, 3)
        self.place_orders(self.orders)
        self.dovetail("run", "--until-idle")

    def queue(self, column):
        return self.in_stock(f"SELECT coalesce(sum({column}), 0) FROM dovetail.queues WHERE consumer = 'stock'")

    def test_workers_share_the_queue_and_stock_moves_once_for_each_order(self):
        self.fill_queue()
        self.sql("DELETE FROM dovetail.relay_lane WHERE relay = 'stock'")  # so that everything is delivered again
        self.dovetail("run", "--until-idle")
        self.assertEqual(self.queue("events"), self.orders + 2)

        killed = self.start_service("work_queue", "stock")
        self.wait_for("some stock has moved", lambda: self.movements() > 0)
        killed.kill()
        killed.wait()
        # What the dead one held is free again when its lease has ended.
        postgres_test.psql("UPDATE dovetail.queue SET due = clock_timestamp() WHERE held", self.stock)
        for worker in [self.start_service("work_queue", "stock", "--until-empty") for _ in range(2)]:
            self.assertIn("events handled", self.ended_well(worker))
        # One of them may have held the last event while the other found nothing.
        self.assertEqual(self.queue("events"), 0)
        self.check_books()

    def test_an_event_that_cannot_be_handled_waits_with_its_reason_and_others_go_on(self):
        self.sql("SELECT dovetail.publish('orders', '0', 'OrderPlaced', 'this is no JSON'::bytea)")
        self.fill_queue()
        self.ended_well(self.start_service("work_queue", "stock", "--until-empty"))
        self.check_books()
        self.assertEqual(self.queue("events"), 1)
        self.assertEqual(postgres_test.psql("SELECT reason FROM dovetail.queue", self.stock), self.no_json)

    def test_a_loop_of_its_own_moves_stock_once_however_often_a_message_comes(self):
        self.place_order("mug", 2)
        self.place_order(TEAPOT, 3)
        self.place_orders(self.orders)
        messages = self.sql("SELECT row_to_json(orders) FROM orders, generate_series(1, 2) ORDER BY id") + "\n"
        loops = []
        for _ in range(2):
            with open(self.write("messages", messages), encoding="utf-8") as lines:
                loops.append(self.start_service("own_loop", stdin=lines))
        said = [line.split()[1] for loop in loops for line in self.ended_well(loop).splitlines()]
        self.assertEqual((said.count("first"), said.count("duplicate")), (self.orders + 2, 3 * (self.orders + 2)))
        self.check_books()


class Python(Language):
    # The interpreter for which Debian's drivers are made; another one may come first on the PATH.
    program, modules, no_json = "/usr/bin/python3", "usr/lib/python3/dist-packages/psycopg", "JSONDecodeError"

    @classmethod
    def missing(cls):
        return lacks(cls.program, cls.modules)

    def program_of(self, name):
        return [self.program, harness.ROOT / "examples" / "python" / f"{name}.py"], {"PYTHONPATH": str(driver(self.modules).parent)}


class Node(Language):
    module, no_json = "usr/share/nodejs/pg", "SyntaxError"

    @classmethod
    def missing(cls):
        return lacks("node", cls.module)

    def program_of(self, name):
        return ["node", harness.ROOT / "examples" / "node" / f"{name}.js"], {"NODE_PATH": str(driver(self.module).parent)}


def main():
    chosen = globals()[sys.argv[1].split(".")[0]]  # a single test may follow
    missing = chosen.missing()
    if missing:
        print(f"SKIPPED: the {sys.argv[1]} example is not tested, for want of {missing}; ./dev test provides it", file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=1)


if __name__ == "__main__":
    postgres_test.require_server()
    main()
