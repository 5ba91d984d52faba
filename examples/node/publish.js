// Takes an order and publishes an event with it, with node-postgres and nothing of dovetail but its
// SQL function.
//
//   npm install pg
//   node publish.js postgresql://shop@localhost/shop ORDER-ID PRODUCT QUANTITY
//
// ORDER-ID is a UUID that the customer's side chose. Without an answer it sends the order again: it
// counts once.
'use strict';

const { Client } = require('pg');

async function placeOrder(client, orderId, product, quantity) {
  await client.query('BEGIN');
  try {
    // The order first: it locks its row, and events of one order go out in the order of these locks.
    await client.query(
      'INSERT INTO orders (id, product, quantity) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING',
      [orderId, product, quantity]);
    await client.query(
      `SELECT dovetail.publish('orders', $1, 'OrderPlaced', $2::text, headers => $3::jsonb, id => $4::uuid)`,
      [
        orderId, // the key: order is kept along it
        JSON.stringify({ product, quantity }), // text goes out as it is, byte for byte
        { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' },
        orderId, // the event's id: published again, it is there once
      ]);
    const ordered = await client.query('SELECT sum(quantity) FROM orders WHERE product = $1', [product]);
    if (Number(ordered.rows[0].sum) > 100) throw new Error(`only 100 of ${product} can be ordered`);
    await client.query('COMMIT'); // order and event, together
  } catch (error) {
    await client.query('ROLLBACK'); // neither
    throw error;
  }
}

async function main() {
  const [url, orderId, product, quantity] = process.argv.slice(2);
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await placeOrder(client, orderId, product, Number(quantity));
  } finally {
    await client.end();
  }
  console.log('the order is placed');
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
