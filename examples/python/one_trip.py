"""Takes an order and publishes an event with it, and waits for the server once, with psycopg 3.

    python3 one_trip.py postgresql://shop@localhost/shop statement|pipeline ORDER-ID PRODUCT QUANTITY

ORDER-ID is a UUID that the customer's side chose. Without an answer it sends the order again: it counts once.
"""

import sys

import psycopg
from psycopg.types.json import Jsonb


def in_one_statement(connection, order_id, product, quantity):
    """An order that is there already brings no row, hence no event."""
    connection.autocommit = True  # the statement is the transaction
    connection.execute("""
        WITH placed AS (
          INSERT INTO orders (id, product, quantity) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING RETURNING *)
        INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload)
        SELECT 'orders', id::text, 'OrderPlaced', convert_to(%s::jsonb::text, 'UTF8') FROM placed""",
                       (order_id, product, quantity, Jsonb({"product": product, "quantity": quantity})))


def in_a_pipeline(connection, order_id, product, quantity):
    """Everything is sent before the first answer is read: BEGIN, both statements and COMMIT."""
    with connection.pipeline(), connection.transaction():
        connection.execute("INSERT INTO orders (id, product, quantity) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                           (order_id, product, quantity))
        connection.execute("SELECT dovetail.publish('orders', %s, 'OrderPlaced', %s::jsonb, id => %s::uuid)",
                           (order_id, Jsonb({"product": product, "quantity": quantity}), order_id))


def main():
    url, form, order_id, product, quantity = sys.argv[1:]
    place_order = {"statement": in_one_statement, "pipeline": in_a_pipeline}[form]
    with psycopg.connect(url) as connection:
        place_order(connection, order_id, product, int(quantity))
    print("the order is placed")


if __name__ == "__main__":
    main()
