"""Moves stock for orders that it reads in a loop of its own, once for each, with psycopg 3 and nothing of dovetail but
its SQL function.

    python3 own_loop.py postgresql://stock@localhost/stock < messages

A message is a line of JSON, in place of what the client of a broker hands out: id, product, quantity. The same message
may come any number of times, to any number of these services at once.
"""

import json
import sys

import psycopg


def move_stock(connection, order):
    with connection.transaction():
        # First of all: who comes second waits here until the first has committed, or rolled back.
        claimed, = connection.execute("SELECT dovetail.claim('stock-loop', %s)", (order["id"],)).fetchone()
        if claimed == "duplicate":
            return claimed
        connection.execute("INSERT INTO movement (order_id, product, quantity, by) VALUES (%s, %s, %s, 'Python')",
                           (order["id"], order["product"], order["quantity"]))
        connection.execute("INSERT INTO stock (product, on_hand) VALUES (%s, %s) ON CONFLICT (product) "
                           "DO UPDATE SET on_hand = stock.on_hand + excluded.on_hand",
                           (order["product"], -order["quantity"]))
    return claimed


def main():
    with psycopg.connect(sys.argv[1], autocommit=True) as connection:
        for line in sys.stdin:
            order = json.loads(line)
            claimed = move_stock(connection, order)
            # Committed, or known before: only now the message may be acknowledged.
            print(order["id"], claimed, flush=True)


if __name__ == "__main__":
    main()
