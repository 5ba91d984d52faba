// Takes an order and publishes an event with it, with database/sql and nothing of dovetail but its
// SQL function. The driver is lib/pq; that of pgx/stdlib takes the same statements.
//
//	go run publish.go 'postgresql://shop@localhost/shop?sslmode=disable' ORDER-ID PRODUCT QUANTITY
//
// ORDER-ID is a UUID that the customer's side chose. Without an answer it sends the order again: it
// counts once.
package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"

	_ "github.com/lib/pq"
)

type order struct {
	Product  string `json:"product"`
	Quantity int    `json:"quantity"`
}

func placeOrder(db *sql.DB, id string, o order) error {
	payload, err := json.Marshal(o)
	if err != nil {
		return err
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // neither order nor event, whichever way this ends before the commit

	// The order first: it locks its row, and events of one order go out in the order of these locks.
	if _, err := tx.Exec("INSERT INTO orders (id, product, quantity) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
		id, o.Product, o.Quantity); err != nil {
		return err
	}
	if _, err := tx.Exec(
		`SELECT dovetail.publish('orders', $1, 'OrderPlaced', $2::bytea, headers => $3::jsonb, id => $4::uuid,
		                         content_type => 'application/json')`,
		id,      // the key: order is kept along it
		payload, // bytes go out as they are
		`{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`,
		id, // the event's id: published again, it is there once
	); err != nil {
		return err
	}
	var ordered int
	if err := tx.QueryRow("SELECT sum(quantity) FROM orders WHERE product = $1", o.Product).Scan(&ordered); err != nil {
		return err
	}
	if ordered > 100 {
		return fmt.Errorf("only 100 of %s can be ordered", o.Product)
	}
	return tx.Commit() // order and event, together
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 5 {
		log.Fatal("usage: publish URL ORDER-ID PRODUCT QUANTITY")
	}
	quantity, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("postgres", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := placeOrder(db, os.Args[2], order{os.Args[3], quantity}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the order is placed")
}
