"""Publishes from Python with nothing but its sqlite3 module: an event is one INSERT in your own transaction.

    python3 publish.py orders.db        (after 'dovetail init')
"""

import json
import sqlite3
import sys


def place_order(connection, product, quantity):
    with connection:  # one transaction: order and event commit together, or not at all
        connection.execute("INSERT INTO orders (product, quantity) VALUES (?, ?)", (product, quantity))
        connection.execute(
            "INSERT INTO dovetail_outbox (aggregate_type, aggregate_id, type, payload) VALUES (?, ?, ?, ?)",
            ("orders", product, "OrderPlaced", json.dumps({"product": product, "quantity": quantity})))


def main():
    connection = sqlite3.connect(sys.argv[1], timeout=5)
    # Dovetail checkpoints by itself; see docs on SQLite's WAL for why a writer must not.
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, product TEXT, quantity INTEGER)")
    place_order(connection, "mug", 2)
    place_order(connection, "kettle", 1)
    connection.close()


if __name__ == "__main__":
    main()
