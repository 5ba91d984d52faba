// Moves stock for orders that it reads in a loop of its own, once for each, with node-postgres and
// nothing of dovetail but its SQL function.
//
//   npm install pg
//   node own_loop.js postgresql://stock@localhost/stock < messages
//
// A message is a line of JSON, in place of what the client of a broker hands out: id, product,
// quantity. The same message may come any number of times, to any number of these services at once.
'use strict';

const readline = require('readline');
const { Client } = require('pg');

async function moveStock(client, order) {
  await client.query('BEGIN');
  try {
    // First of all: who comes second waits here until the first has committed, or rolled back.
    const { rows } = await client.query(`SELECT dovetail.claim('stock-loop', $1) AS claimed`, [order.id]);
    if (rows[0].claimed === 'first') {
      await client.query(
        `INSERT INTO movement (order_id, product, quantity, by) VALUES ($1, $2, $3, 'Node')`,
        [order.id, order.product, order.quantity]);
      await client.query(
        `INSERT INTO stock (product, on_hand) VALUES ($1, $2) ON CONFLICT (product)
         DO UPDATE SET on_hand = stock.on_hand + excluded.on_hand`,
        [order.product, -order.quantity]);
    }
    await client.query('COMMIT');
    return rows[0].claimed;
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  }
}

async function main() {
  const client = new Client({ connectionString: process.argv[2] });
  await client.connect();
  try {
    for await (const line of readline.createInterface({ input: process.stdin })) {
      const order = JSON.parse(line);
      const claimed = await moveStock(client, order);
      // Committed, or known before: only now the message may be acknowledged.
      console.log(order.id, claimed);
    }
  } finally {
    await client.end();
  }
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
