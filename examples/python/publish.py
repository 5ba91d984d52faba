"""Takes an order and publishes an event with it, with psycopg 3 and nothing of dovetail but its SQL function.

    python3 publish.py postgresql://shop@localhost/shop ORDER-ID PRODUCT QUANTITY

ORDER-ID is a UUID that the customer's side chose. Without an answer it sends the order again: it counts once.
"""

import sys

import psycopg
from psycopg.types.json import Jsonb


def place_order(connection, order_id, product, quantity):
    with connection.transaction():  # order and event commit together; whatever is raised rolls back both
        # The order first: it locks its row, and events of one order go out in the order of these locks.
        connection.execute("INSERT INTO orders (id, product, quantity) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                           (order_id, product, quantity))
        connection.execute(
            "SELECT dovetail.publish('orders', %s, 'OrderPlaced', %s::jsonb, headers => %s::jsonb, id => %s::uuid)",
            (order_id,                                          # the key: order is kept along it
             Jsonb({"product": product, "quantity": quantity}),
             Jsonb({"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}),
             order_id))                                         # the event's id: published again, it is there once
        ordered, = connection.execute("SELECT sum(quantity) FROM orders WHERE product = %s", (product,)).fetchone()
        if ordered > 100:
            raise ValueError(f"only 100 of {product} can be ordered")


def main():
    url, order_id, product, quantity = sys.argv[1:]
    with psycopg.connect(url) as connection:
        place_order(connection, order_id, product, int(quantity))
    print("the order is placed")


if __name__ == "__main__":
    main()
