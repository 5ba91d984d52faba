"""Works off a queue of orders: moves stock for each, once, with psycopg 3 and nothing of dovetail but its SQL functions.

    python3 work_queue.py postgresql://stock@localhost/stock QUEUE [--until-empty]

Any number of these may run at once, and each may be killed at any moment. Events of one order come in their order.
"""

import json
import sys
import time

import psycopg


def move_stock(connection, queue, event):
    order = json.loads(event.payload)
    with connection.transaction():
        connection.execute("INSERT INTO movement (order_id, product, quantity, by) VALUES (%s, %s, %s, 'Python')",
                           (event.aggregate_id, order["product"], order["quantity"]))
        connection.execute("INSERT INTO stock (product, on_hand) VALUES (%s, %s) ON CONFLICT (product) "
                           "DO UPDATE SET on_hand = stock.on_hand + excluded.on_hand",
                           (order["product"], -order["quantity"]))
        # Commits with the effect, or not at all. If this was too slow and another has the event now, it raises, and
        # the effect is rolled back.
        connection.execute("SELECT dovetail.complete(%s, %s, %s)", (queue, event.id, event.epoch))


def work(connection, queue):
    """Handles what can be had now. Returns how many events that were."""
    events = connection.cursor(row_factory=psycopg.rows.namedtuple_row).execute(
        "SELECT id, epoch, aggregate_id, payload FROM dovetail.receive(%s, 10, '1 minute')", (queue,)).fetchall()
    for event in events:
        try:
            move_stock(connection, queue, event)
        except psycopg.OperationalError:
            raise  # the database is away; the event comes again by itself when its minute is over
        except (psycopg.Error, ValueError, KeyError) as error:
            if getattr(error, "sqlstate", None) == "DT001":
                continue  # another has it by now
            # Comes again after a pause that grows; after some attempts it is parked, and an operator decides. The
            # reason is kept: it must not hold secrets.
            connection.execute("SELECT dovetail.fail(%s, %s, %s, %s)", (queue, event.id, event.epoch, type(error).__name__))
    return len(events)


def main():
    url, queue, *until_empty = sys.argv[1:]
    with psycopg.connect(url, autocommit=True) as connection:
        total = 0
        while True:
            handled = work(connection, queue)
            total += handled
            if not handled and until_empty:
                break
            if not handled:
                time.sleep(0.5)
    print(f"{total} events handled")


if __name__ == "__main__":
    main()
