-- The tables of the stock services. After `dovetail init --roles`, by the owner of the schema "dovetail", who must have
-- CREATEROLE:
--   psql -v login=stock -f stock.sql
CREATE TABLE stock (product text PRIMARY KEY, on_hand bigint NOT NULL);
CREATE TABLE movement (order_id uuid NOT NULL, product text NOT NULL, quantity int NOT NULL, by text NOT NULL);
CREATE ROLE :"login" LOGIN;
-- It publishes, and takes events of these two consumers and of no other.
GRANT dovetail_app, dovetail_worker TO :"login";
SELECT dovetail.grant_worker(:'login', 'stock'), dovetail.grant_worker(:'login', 'stock-loop');
GRANT SELECT, INSERT, UPDATE ON stock, movement TO :"login";
