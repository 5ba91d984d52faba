// Takes an order and publishes an event with it, and waits for the server once, with node-postgres. It sends no statement
// before the last one is answered, so that it has no pipeline: one statement does it all.
//
//   node one_trip.js postgresql://shop@localhost/shop statement ORDER-ID PRODUCT QUANTITY
//
// ORDER-ID is a UUID that the customer's side chose. Without an answer it sends the order again: it
// counts once.
'use strict';

const { Client } = require('pg');

// The statement is the transaction. An order that is there already brings no row, hence no event.
async function inOneStatement(client, orderId, product, quantity) {
  await client.query({
    name: 'place order', // prepared once for each connection; leave it out behind a pooler in transaction mode
    text: `
      WITH placed AS (
        INSERT INTO orders (id, product, quantity) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING *)
      INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload)
      SELECT 'orders', id::text, 'OrderPlaced', convert_to($4::jsonb::text, 'UTF8') FROM placed`,
    values: [orderId, product, quantity, JSON.stringify({ product, quantity })],
  });
}

async function main() {
  const [url, , orderId, product, quantity] = process.argv.slice(2);
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await inOneStatement(client, orderId, product, Number(quantity));
  } finally {
    await client.end();
  }
  console.log('the order is placed');
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
