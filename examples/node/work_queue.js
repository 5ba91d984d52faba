// Works off a queue of orders: moves stock for each, once, with node-postgres and nothing of
// dovetail but its SQL functions.
//
//   npm install pg
//   node work_queue.js postgresql://stock@localhost/stock QUEUE [--until-empty]
//
// Any number of these may run at once, and each may be killed at any moment. Events of one order
// come in their order.
'use strict';

const { setTimeout: sleep } = require('timers/promises');
const { Client } = require('pg');

async function moveStock(client, queue, event) {
  await client.query('BEGIN');
  try {
    const order = JSON.parse(event.payload.toString());
    await client.query(
      `INSERT INTO movement (order_id, product, quantity, by) VALUES ($1, $2, $3, 'Node')`,
      [event.aggregate_id, order.product, order.quantity]);
    await client.query(
      `INSERT INTO stock (product, on_hand) VALUES ($1, $2) ON CONFLICT (product)
       DO UPDATE SET on_hand = stock.on_hand + excluded.on_hand`,
      [order.product, -order.quantity]);
    // Commits with the effect, or not at all. If this was too slow and another has the event now, it
    // fails, and the effect is rolled back.
    await client.query('SELECT dovetail.complete($1, $2, $3)', [queue, event.id, event.epoch]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  }
}

// Handles what can be had now. Returns how many events that were.
async function work(client, queue) {
  const { rows } = await client.query(
    `SELECT id, epoch, aggregate_id, payload FROM dovetail.receive($1, 10, '1 minute')`, [queue]);
  for (const event of rows) {
    try {
      await moveStock(client, queue, event);
    } catch (error) {
      if (error.code === 'DT001') continue; // another has it by now
      // Comes again after a pause that grows; after some attempts it is parked, and an operator
      // decides. The reason is kept: it must not hold secrets. Where the database itself is away this
      // fails, too, and the event comes again by itself when its minute is over.
      await client.query('SELECT dovetail.fail($1, $2, $3, $4)', [queue, event.id, event.epoch, error.name]);
    }
  }
  return rows.length;
}

async function main() {
  const [url, queue, untilEmpty] = process.argv.slice(2);
  const client = new Client({ connectionString: url });
  await client.connect();
  let total = 0;
  try {
    for (;;) {
      const handled = await work(client, queue);
      total += handled;
      if (handled === 0 && untilEmpty) break;
      if (handled === 0) await sleep(500);
    }
  } finally {
    await client.end();
  }
  console.log(`${total} events handled`);
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
